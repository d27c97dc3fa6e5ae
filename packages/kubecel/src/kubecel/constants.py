"""Checks of literals in some dialects: valid where they are used, and of one type within a list or map."""

from __future__ import annotations

from kubecel.checker import TYPE_MISMATCH, Checked
from kubecel.errors import Failure
from kubecel.instants import parse_duration, parse_timestamp
from kubecel.regex import compile_pattern
from kubecel.source import Issue
from kubecel.syntax import Call, CreateList, CreateMap, Expr, Literal, children
from kubecel.types import describe


def check_constants(checked: Checked) -> list[Issue]:
    issues: list[Issue] = []
    pending: list[Expr] = [checked.root]
    while pending:
        node = pending.pop()
        if isinstance(node, Call) and len(node.args) == 1:
            argument = node.args[0]
            if (
                isinstance(argument, Literal)
                and isinstance(argument.value, str)
                and not _usable(node.function, argument.value)
            ):
                issues.append(Issue(argument.offset, f"invalid {node.function} argument"))
        pending.extend(children(node))
    return issues


def check_uniformity(checked: Checked) -> list[Issue]:
    issues: list[Issue] = []
    pending: list[Expr] = [checked.root]
    while pending:
        node = pending.pop()
        if isinstance(node, Call) and node.function == "format":
            continue
        if isinstance(node, CreateList):
            elements = [(element, index in node.optional) for index, element in enumerate(node.elements)]
            issues += _different(checked, elements)[:1]
        elif isinstance(node, CreateMap):
            issues += _different(checked, [(entry.key, False) for entry in node.entries])
            issues += _different(checked, [(entry.value, entry.optional) for entry in node.entries])
        pending.extend(children(node))
    return issues


def _different(checked: Checked, parts: list[tuple[Expr, bool]]) -> list[Issue]:
    types = [
        checked.types[part.id].params[0] if optional else checked.types[part.id] for part, optional in parts
    ]
    return [
        Issue(part.offset, TYPE_MISMATCH.format(describe(types[0]), describe(type_)))
        for (part, _), type_ in zip(parts, types, strict=True)
        if type_ != types[0]
    ]


def _usable(function: str, text: str) -> bool:
    try:
        match function:
            case "duration":
                return parse_duration(text) is not None
            case "timestamp":
                return parse_timestamp(text) is not None
            case "matches":
                compile_pattern(text)
    except Failure:
        return False
    return True
