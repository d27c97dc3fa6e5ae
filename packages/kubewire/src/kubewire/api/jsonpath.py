"""Field paths: Kubernetes' JSONPath, JSON pointers, and simple jq paths.

All three are parsed into the same steps. A step maps a value to its selected children, each with its key or index. So
``values`` returns the selected values, and ``find`` also their places in the document.
"""

import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

Place = tuple[str | int, ...]
Children = Collection[tuple[str | int, Any]]
Step = Callable[[Any], Children]
Path = tuple[Step, ...]

LONGEST: Final = 4096
"""Characters; longer than any legitimate path."""

NOT_A_PATH: Final = "{path!r} is not {notation}"


class PathError(ValueError):
    """The path is invalid."""


_NAME: Final = r"(?P<name>(?:\\.|[^.\[\]\\\s|])+)"
_JSONPATH: Final = re.compile(
    rf"""\.{_NAME}
      | \[\s*(?P<index>-?\d+)\s*\]
      | \[\s*(?P<star>\*)\s*\]
      | \[\s*(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)")\s*\]
      | \[\?\(\s*@(?P<key>(?:\.[^\s=!<>\]).]+)+)\s*(?:(?P<op>==|!=)\s*(?P<value>"[^"]*"|'[^']*'|[^)\s]+))?\s*\)\]
    """,
    re.VERBOSE,
)
_JQ: Final = re.compile(
    r"""\.(?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | \.?\[\s*(?P<index>-?\d+)\s*\]
      | \.?(?P<star>\[\s*\])
      | \.?\[\s*"(?P<double>[^"\\]*)"\s*\]
      | \."(?P<single>[^"\\]*)"
      | \s*\|\s*select\(\s*(?P<key>(?:\.[A-Za-z_][A-Za-z0-9_]*)+)
          \s*(?:(?P<op>==|!=)\s*(?P<value>"[^"\\]*"|[^)\s]+))?\s*\)
      | (?P<pipe>\s*\|\s*(?=\.))
    """,
    re.VERBOSE,
)


def values(path: Path, document: Any) -> list[Any]:
    selected = [document]
    for step in path:
        selected = [child for parent in selected for _, child in step(parent)]
    return selected


def find(path: Path, value: Any) -> list[tuple[Place, Any]]:
    """Return the selected values, each with its place."""
    selected: list[tuple[Place, Any]] = [((), value)]
    for step in path:
        selected = [((*place, key), child) for place, parent in selected for key, child in step(parent)]
    return selected


@lru_cache(maxsize=1024)
def json_path(text: str) -> Path:
    """``.status.conditions[?(@.type=="Ready")].status``, in braces or not. Raises PathError."""
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    inner = inner.removeprefix("$").removeprefix("@")
    if inner and inner[0] not in ".[":
        inner = f".{inner}"
    return _parsed(inner, _JSONPATH, text=text, notation="a JSONPath")


@lru_cache(maxsize=1024)
def json_pointer(text: str) -> Path:
    """``/spec/replicas``. Raises PathError."""
    if not text.startswith("/") or len(text) > LONGEST:
        raise PathError(NOT_A_PATH.format(path=text, notation="a JSON pointer"))
    keys = (part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))
    return tuple(_pointed(key) for key in keys)


@lru_cache(maxsize=1024)
def jq_path(text: str) -> Path:
    """``.spec.containers[] | select(.name == "a") | .image``. Raises PathError for the rest of jq's language."""
    return _parsed(text.strip(), _JQ, text=text, notation="a jq path")


def _parsed(inner: str, parts: re.Pattern[str], *, text: str, notation: str) -> Path:
    if not inner or len(inner) > LONGEST:
        raise PathError(NOT_A_PATH.format(path=text[:80], notation=notation))
    steps: list[Step] = []
    at = 0
    while at < len(inner):
        part = parts.match(inner, at)
        if part is None:
            near = inner[at : at + 20]
            raise PathError(f"{text!r} is not {notation}: cannot parse {near!r}")
        at = part.end()
        groups = part.groupdict()
        if groups.get("pipe") is not None:
            continue
        steps.append(_step(groups))
        if groups["key"] is not None and parts is _JQ:
            # select() filters the values found so far; a JSONPath filter selects items of a list.
            steps[-2:] = [_both(steps[-2], steps[-1])] if len(steps) > 1 else steps
    return tuple(steps)


def _step(groups: Mapping[str, str | None]) -> Step:
    if groups["star"] is not None or groups["name"] == "*":
        return _every
    if groups["index"] is not None:
        return _indexed(int(groups["index"]))
    if groups["key"] is not None:
        return _filtered(groups["key"], groups["op"], groups["value"])
    name = groups["name"]
    if name is not None:
        return _named(re.sub(r"\\(.)", r"\1", name))
    return _named(groups["single"] if groups["single"] is not None else groups["double"] or "")


def _named(name: str) -> Step:
    return lambda value: ((name, value[name]),) if isinstance(value, dict) and name in value else ()


def _indexed(index: int) -> Step:
    def step(value: Any) -> Children:
        if isinstance(value, list) and -len(value) <= index < len(value):
            return ((index % len(value), value[index]),)
        return ()

    return step


def _pointed(key: str) -> Step:
    named = _named(key)
    indexed = _indexed(int(key[:9])) if key.isascii() and key.isdigit() else named
    return lambda value: indexed(value) if isinstance(value, list) else named(value)


def _every(value: Any) -> Children:
    if isinstance(value, list):
        return list(enumerate(value))
    return value.items() if isinstance(value, dict) else ()


def _filtered(path: str, operator: str | None, literal: str | None) -> Step:
    inner = tuple(_named(name) for name in path.split(".")[1:])
    wanted = None if literal is None else _literal(literal)

    def accepts(value: Any) -> bool:
        selected = values(inner, value)
        return bool(selected) and (operator is None or (selected[0] == wanted) is (operator == "=="))

    def step(value: Any) -> Children:
        if not isinstance(value, list):
            return ()
        return [(index, item) for index, item in enumerate(value) if accepts(item)]

    return step


def _literal(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise PathError(NOT_A_PATH.format(path=text, notation="a value")) from None


def _both(first: Step, second: Step) -> Step:
    """Return the children of ``first`` that pass the filter ``second``."""
    return lambda value: [(key, child) for key, child in first(value) if second([child])]
