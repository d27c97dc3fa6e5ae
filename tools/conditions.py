"""Collect the conditions that the modules of Fairway define, and find constants without a definition.

A module that writes conditions has ``CONDITIONS``, beside the constants of types and reasons: the meaning of each
reason, by kind and condition type. Several modules may define reasons of the same type.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

import fairway

SOURCE: Final = Path(fairway.__file__).parent
PAGES: Final = tuple((Path(__file__).parent.parent / "docs").rglob("*.md"))
OTHERS: Final = ("api", "lint", "simulation", "whatif")
"""Packages whose conditions are the input of Fairway, or Kubernetes' own."""
MORE: Final = ("controllers/recovery/decision.py",)
"""Modules with reasons of conditions that other modules build."""
NOT_REASONS: Final = frozenset({"ConditionRule", "HostingManifestApplied"})
"""Constants of such modules that are neither types nor reasons of ours; add-on managers write the last."""
_NAME: Final = re.compile(r"(fairway\.dev/)?[A-Z][a-z]+([A-Z][A-Za-z]+)*")
_DEFINITION: Final = re.compile(r"^CONDITIONS\b", re.MULTILINE)
_USE: Final = re.compile(r"\bCondition\(|^CONDITIONS\b", re.MULTILINE)


@cache
def conditions() -> Mapping[tuple[str, str], Mapping[str, str]]:
    """The meaning of each reason, by kind and condition type."""
    reasons_of: dict[tuple[str, str], dict[str, str]] = {}
    for path, text in _modules():
        if not _DEFINITION.search(text):
            continue
        name = ".".join(("fairway", *path.relative_to(SOURCE).with_suffix("").parts))
        for condition, reasons in import_module(name).CONDITIONS.items():
            reasons_of.setdefault(condition, {}).update(reasons)
    return dict(sorted(reasons_of.items()))


def undefined() -> set[str]:
    """Return the types and reasons among the constants of modules with conditions that no definition lists."""
    listed = {name for (_, kind), reasons in conditions().items() for name in (kind, *reasons)}
    return (
        {value for _, text in _modules() for value in _strings(text) if _NAME.fullmatch(value)}
        - listed
        - NOT_REASONS
    )


def _modules() -> Iterator[tuple[Path, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        place = path.relative_to(SOURCE)
        if place.as_posix() in MORE or (place.parts[0] not in OTHERS and _USE.search(text)):
            yield path, text


def _strings(text: str) -> Iterator[str]:
    """Yield the string constants of a module, and the literal types and reasons of its conditions."""
    tree = ast.parse(text)
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            yield from _literal(node.value)
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Condition":
            for keyword in call.keywords:
                if keyword.arg in ("type", "reason"):
                    yield from _literal(keyword.value)


def _literal(node: ast.expr | None) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
