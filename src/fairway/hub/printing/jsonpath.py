"""The subset of JSONPath that CRDs use: names, indices, wildcards and filters."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

Step = Callable[[list[Any]], list[Any]]

_PART: Final = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\]\\])+)          # .name, dots inside escaped
      | \[\s*(?P<index>-?\d+)\s*\]
      | \[\s*(?P<star>\*)\s*\]
      | \[\s*'(?P<single>[^']*)'\s*\]
      | \[\s*"(?P<double>[^"]*)"\s*\]
      | \[\?\(\s*@(?P<path>(?:\.[^\s=!<>\]).]+)+)\s*(?:(?P<op>==|!=)\s*(?P<value>"[^"]*"|'[^']*'|[^)\s]+))?\s*\)\]
    """,
    re.VERBOSE,
)


_LONGEST: Final = 4096
"""Characters; longer than any legitimate path."""


class PathError(ValueError):
    """The path is invalid."""


def _named(name: str) -> Step:
    if name == "*":
        return _every
    return lambda values: [v[name] for v in values if isinstance(v, dict) and name in v]


def _indexed(index: int) -> Step:
    return lambda values: [v[index] for v in values if isinstance(v, list) and -len(v) <= index < len(v)]


def _every(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, list):
            found += value
        elif isinstance(value, dict):
            found += value.values()
    return found


def _filtered(path: str, operator: str | None, literal: str | None) -> Step:
    inner = compiled(path)
    wanted: Any = None
    if literal is not None:
        if literal[0] in "\"'":
            wanted = literal[1:-1]
        else:
            try:
                wanted = msgspec.json.decode(literal)
            except msgspec.DecodeError as error:
                raise PathError(f"cannot read {literal!r}") from error

    def accepts(value: Any) -> bool:
        found = inner(value)
        if operator is None:
            return bool(found)
        return bool(found) and (found[0] == wanted) is (operator == "==")

    return lambda values: [e for v in values if isinstance(v, list) for e in v if accepts(e)]


@lru_cache(maxsize=4096)
def compiled(path: str) -> Callable[[Any], list[Any]]:
    """Return a function that finds all values at the path. Raises PathError."""
    if len(path) > _LONGEST:
        raise PathError("too long")
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    text = text.removeprefix("$").removeprefix("@")
    if not text.startswith((".", "[")):
        text = "." + text
    steps: list[Step] = []
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            raise PathError(f"cannot read {text[position:]!r}")
        position = part.end()
        if part["name"] is not None:
            steps.append(_named(re.sub(r"\\(.)", r"\1", part["name"])))
        elif part["index"] is not None:
            steps.append(_indexed(int(part["index"])))
        elif part["star"] is not None:
            steps.append(_every)
        elif part["path"] is not None:
            steps.append(_filtered(part["path"], part["op"], part["value"]))
        else:
            steps.append(_named(part["single"] if part["single"] is not None else part["double"]))

    def run(document: Any) -> list[Any]:
        values = [document]
        for step in steps:
            values = step(values)
        return values

    return run
