"""Field paths: Kubernetes JSONPath, JSON pointers, and simple jq paths.

All three are parsed into the same steps. A step leads from one place to any number of places, and a place is a list of
keys and indices, so that a result can be read and replaced.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

Place = tuple[str | int, ...]
Step = Callable[[Any], Iterator[tuple[str | int, Any]]]
Path = tuple[Step, ...]

LONGEST: Final = 4096
"""Characters; more than any path has that somebody wrote."""

NOT_A_PATH: Final = "{path!r} cannot be read as {notation}"
NO_SUCH_PATH: Final = "{path!r} cannot be read as {notation}: {near!r} is not understood"


class PathError(ValueError):
    """The path cannot be read."""


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


def find(path: Path, value: Any) -> list[tuple[Place, Any]]:
    found: list[tuple[Place, Any]] = [((), value)]
    for step in path:
        found = [((*place, key), child) for place, each in found for key, child in step(each)]
    return found


@lru_cache(maxsize=1024)
def json_path(text: str) -> Path:
    """``.status.conditions[?(@.type=="Ready")].status``, in braces or not. Raises PathError."""
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    inner = inner.removeprefix("$")
    if inner and inner[0] not in ".[":
        inner = f".{inner}"
    return _parsed(inner, _JSONPATH, text=text, notation="JSONPath")


@lru_cache(maxsize=1024)
def json_pointer(text: str) -> Path:
    """``/spec/replicas``. Raises PathError."""
    if not text.startswith("/") or len(text) > LONGEST:
        raise PathError(NOT_A_PATH.format(path=text, notation="a JSON pointer"))
    keys = (part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))
    return tuple(_pointed(key) for key in keys)


@lru_cache(maxsize=1024)
def jq_path(text: str) -> Path:
    """``.spec.containers[] | select(.name == "a") | .image``. Raises PathError for anything jq can do beyond that."""
    return _parsed(text.strip(), _JQ, text=text, notation="a path of jq")


def _parsed(inner: str, parts: re.Pattern[str], *, text: str, notation: str) -> Path:
    if not inner or len(inner) > LONGEST:
        raise PathError(NOT_A_PATH.format(path=text[:80], notation=notation))
    steps: list[Step] = []
    at = 0
    while at < len(inner):
        part = parts.match(inner, at)
        if part is None:
            near = inner[at : at + 20]
            raise PathError(NO_SUCH_PATH.format(path=text, notation=notation, near=near))
        at = part.end()
        found = part.groupdict()
        if found.get("pipe") is not None:
            continue
        steps.append(_step(found))
        if found["key"] is not None and parts is _JQ:
            # select() keeps the place it is at; in JSONPath the filter goes into the list.
            steps[-2:] = [_both(steps[-2], steps[-1])] if len(steps) > 1 else steps
    return tuple(steps)


def _step(found: Mapping[str, str | None]) -> Step:
    if found["star"] is not None or found["name"] == "*":
        return _every
    if found["index"] is not None:
        return _indexed(int(found["index"]))
    if found["key"] is not None:
        return _filtered(found["key"], found["op"], found["value"])
    name = found["name"]
    if name is not None:
        return _named(re.sub(r"\\(.)", r"\1", name))
    return _named(found["single"] if found["single"] is not None else found["double"] or "")


def _named(name: str) -> Step:
    def step(value: Any) -> Iterator[tuple[str | int, Any]]:
        if isinstance(value, Mapping) and name in value:
            yield name, value[name]

    return step


def _indexed(index: int) -> Step:
    def step(value: Any) -> Iterator[tuple[str | int, Any]]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield index % len(value), value[index]

    return step


def _pointed(key: str) -> Step:
    def step(value: Any) -> Iterator[tuple[str | int, Any]]:
        if isinstance(value, Mapping):
            yield from _named(key)(value)
        elif key.isascii() and key.isdigit():
            yield from _indexed(int(key[:9]))(value)

    return step


def _every(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, list):
        yield from enumerate(value)
    elif isinstance(value, Mapping):
        yield from value.items()


def _filtered(path: str, operator: str | None, literal: str | None) -> Step:
    inner = tuple(_named(name) for name in path.split(".")[1:])
    wanted = None if literal is None else _literal(literal)

    def accepts(value: Any) -> bool:
        found = find(inner, value)
        if operator is None:
            return bool(found)
        return bool(found) and (found[0][1] == wanted) is (operator == "==")

    def step(value: Any) -> Iterator[tuple[str | int, Any]]:
        if isinstance(value, list):
            yield from ((index, each) for index, each in enumerate(value) if accepts(each))

    return step


def _literal(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise PathError(NOT_A_PATH.format(path=text, notation="a value")) from None


def _both(first: Step, second: Step) -> Step:
    """What the first finds, as far as the second, given a list of it, would keep it."""

    def step(value: Any) -> Iterator[tuple[str | int, Any]]:
        for key, child in first(value):
            if any(True for _ in second([child])):
                yield key, child

    return step


def left_alone(desired: Any, live: Any, paths: Iterable[Path]) -> None:
    """Puts what is on the cluster in place of what ``desired`` says at these paths; changes ``desired``.

    Fields are not left out: who applies without a field it has applied before asks for its removal.
    """
    places = {place for path in paths for place, _ in find(path, desired)}
    # Deepest and last first, so that removing from a list does not move the places still to come.
    for place in sorted(places, key=_position, reverse=True):
        if place:
            _leave(desired, live, place)


def _position(place: Place) -> list[tuple[int, str]]:
    return [(each, "") if isinstance(each, int) else (-1, each) for each in place]


def _leave(desired: Any, live: Any, place: Place) -> None:
    for key in place[:-1]:
        desired, live = desired[key], _beside(desired, live, key)
    last = place[-1]
    there = _beside(desired, live, last)
    if there is None:
        del desired[last]
    else:
        desired[last] = there


def _beside(desired: Any, live: Any, key: str | int) -> Any:
    """The same place on the cluster. Items with a name keep it when they move."""
    if isinstance(key, str):
        return live.get(key) if isinstance(live, Mapping) else None
    if not isinstance(live, list):
        return None
    item = desired[key]
    if isinstance(item, Mapping) and "name" in item:
        return next(
            (each for each in live if isinstance(each, Mapping) and each.get("name") == item["name"]), None
        )
    return live[key] if key < len(live) else None
