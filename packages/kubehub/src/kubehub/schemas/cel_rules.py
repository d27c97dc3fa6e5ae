"""Compile the ``x-kubernetes-validations`` of a schema node."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubecel import CompileError, InstantiationError, Program, rule_environment
from kubecel.checker import Checked
from kubecel.estimate import estimate
from kubecel.types import BOOL, STRING, Type, optional_of
from kubehub.schema import Node
from kubehub.schemas.cel_types import Declared, structs
from kubehub.schemas.field_path import PathError, resolve

SELF: Final = "self"
OLD_SELF: Final = "oldSelf"

COMPILE_WORK: Final = 200_000
"""Units of work to compile a rule, about 50 milliseconds (see ``kubecel.frame``)."""

COMPILATION: Final = "compilation failed: {}"
INSTANTIATION: Final = "program instantiation failed: {}"
NOT_BOOL: Final = "cel expression must evaluate to a bool"
MESSAGE_COMPILATION: Final = "messageExpression compilation failed: {}"
MESSAGE_INSTANTIATION: Final = "messageExpression instantiation failed: {}"
MESSAGE_NOT_STRING: Final = "messageExpression must evaluate to a string"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """``program`` is None for an empty rule or one that doesn't compile; then ``error`` is the reason.

    ``cost`` and ``message_cost`` are worst-case estimates.
    """

    raw: Mapping[str, Any]
    program: Program | None = None
    error: str = ""
    cost: int = 0
    uses_old: bool = False
    message: Program | None = None
    message_error: str = ""
    message_cost: int = 0
    path: str = ""

    @property
    def compile_work(self) -> int:
        """Units of work that compiling took; an estimate if it failed."""
        programs = (self.program, self.message)
        return sum(
            len(self.raw.get("rule") or "") if program is None else program.compile_work
            for program in programs
        )

    @property
    def optional_old(self) -> bool:
        return bool(self.raw.get("optionalOldSelf"))


def rules_of(node: Node) -> Sequence[Mapping[str, Any]]:
    return node.raw.get("x-kubernetes-validations") or ()


def compile_rules(node: Node, declared: Declared) -> tuple[Rule, ...]:
    return tuple(compile_lazily(node, declared))


def compile_lazily(node: Node, declared: Declared) -> Iterator[Rule]:
    """Compile lazily, so that the caller may stop."""
    known = structs(declared)
    for rule in rules_of(node):
        yield _compile(rule, node, declared, known)


def _compile(
    raw: Mapping[str, Any], node: Node, declared: Declared, known: Mapping[str, Mapping[str, Type]]
) -> Rule:
    text = raw.get("rule") or ""
    if not text.strip():
        return Rule(raw=raw)
    old = optional_of(declared.type) if raw.get("optionalOldSelf") else declared.type
    environment = rule_environment().extended(variables={SELF: declared.type, OLD_SELF: old}, structs=known)
    try:
        program, checked = environment.compile_checked(text, work_limit=COMPILE_WORK)
    except InstantiationError as error:
        return Rule(raw=raw, error=INSTANTIATION.format(error))
    except CompileError as error:
        return Rule(raw=raw, error=COMPILATION.format(error))
    if checked.result_type != BOOL:
        return Rule(raw=raw, error=NOT_BOOL)
    message, message_cost, message_error = None, 0, ""
    if raw.get("messageExpression"):
        try:
            message, message_checked = environment.compile_checked(
                raw["messageExpression"], work_limit=COMPILE_WORK
            )
            message_cost = estimate(message_checked, declared.find)
            if message_checked.result_type != STRING:
                message, message_error = None, MESSAGE_NOT_STRING
        except InstantiationError as error:
            message_error = MESSAGE_INSTANTIATION.format(error)
        except CompileError as error:
            message_error = MESSAGE_COMPILATION.format(error)
    return Rule(
        raw=raw,
        program=program,
        cost=estimate(checked, declared.find),
        uses_old=_mentions(checked, OLD_SELF),
        message=message,
        message_error=message_error,
        message_cost=message_cost,
        path=_path(raw.get("fieldPath") or "", node),
    )


def _mentions(checked: Checked, name: str) -> bool:
    return name in checked.names.values()


def _path(text: str, node: Node) -> str:
    try:
        return resolve(text, node)[0] if text else ""
    except PathError:
        return ""
