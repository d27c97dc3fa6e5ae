"""Sets of field paths, in the format of ``managedFields`` (FieldsV1).

A set is the decoded nested dict itself, so reading and writing it costs nothing: ``{"f:spec": {"f:replicas": {}}}``
contains the path ``.spec.replicas``. A key is a path element: ``f:`` a field, ``k:`` the keys of an item in a list
of maps, ``v:`` a value in a set, ``i:`` an index. A path is in the set when its dict is empty or contains ``.``;
the latter only where longer paths start with it. So an empty dict is the empty set at the root, and a single path
elsewhere.

Sets are immutable and share their parts.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from kubehub import go_format
from kubehub.go_format import json_text
from kubehub.slicing import checkpoint

FieldSet = dict[str, Any]

EMPTY: Final[FieldSet] = {}
SELF: Final = "."
LEAF: Final[FieldSet] = {}


class Malformed(ValueError):
    """Invalid: clients may send anything as ``fieldsV1``."""


def of(*paths: tuple[str, ...]) -> FieldSet:
    """Return a set of paths of field names."""
    united: FieldSet = {}
    for path in paths:
        one: FieldSet = LEAF
        for name in reversed(path):
            one = {field(name): one}
        united = union(united, one)
    return united


def field(name: str) -> str:
    return "f:" + name


def key(values: Mapping[str, Any]) -> str:
    """Return the path element of an item in a list of maps; ``values`` are its keys."""
    if len(values) == 1:
        ((name, value),) = values.items()
        return f"k:{{{json_text(name)}:{json_text(value)}}}"
    inner = ",".join(f"{json_text(name)}:{json_text(values[name])}" for name in sorted(values))
    return f"k:{{{inner}}}"


def value(item: Any) -> str:
    """Return the path element of an item in a set."""
    return "v:" + json_text(item)


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left or left is right:
        return right
    if not right:
        return left
    return _join(left, right)


def _join(left: FieldSet, right: FieldSet) -> FieldSet:
    joined = dict(left)
    for name, other in right.items():
        one = joined.get(name)
        if one is None:
            joined[name] = other
        elif one is not other and name != SELF:
            # An empty dictionary is a path of the set. Joined with longer paths it needs the dot, or it would be
            # lost.
            if not one:
                joined[name] = other if not other or SELF in other else {SELF: LEAF, **other}
            elif not other:
                joined[name] = one if SELF in one else {SELF: LEAF, **one}
            else:
                joined[name] = _join(one, other)
    return joined


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Remove exactly the paths of ``right``: neither their children nor their parents."""
    if not left or not right:
        return left
    return _minus(left, right, False) or EMPTY


def prune(left: FieldSet, right: FieldSet) -> FieldSet:
    """Remove the paths of ``right`` and all that start with them."""
    if not left or not right:
        return left
    return _minus(left, right, True) or EMPTY


def _minus(left: FieldSet, right: FieldSet, deep: bool) -> FieldSet | None:
    """Return what remains of inner sets, None if nothing."""
    remaining: FieldSet = {}
    for name, one in left.items():
        other = right.get(name)
        if other is None:
            remaining[name] = one
        elif name == SELF:
            continue
        elif not other or SELF in other:
            if deep or not one:
                continue
            rest = _minus(one, other, deep) if other else {n: x for n, x in one.items() if n != SELF}
            if rest:
                remaining[name] = rest
        elif not one:
            remaining[name] = one
        else:
            rest = _minus(one, other, deep)
            if rest:
                # A path without longer ones is an empty dictionary, so that equal sets are equal.
                remaining[name] = LEAF if len(rest) == 1 and SELF in rest else rest
    return remaining


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    shared: FieldSet = {}
    for name, one in left.items():
        other = right.get(name)
        if other is None or name == SELF:
            continue
        both = (not one or SELF in one) and (not other or SELF in other)
        inner = intersection(one, other) if one and other else EMPTY
        if inner:
            shared[name] = {SELF: LEAF, **inner} if both else inner
        elif both:
            shared[name] = LEAF
    return shared


def contains(fields: FieldSet, *path: str) -> bool:
    """Return whether the path of these elements is in the set."""
    if not path:
        return False
    inner: FieldSet | None = fields
    for element in path:
        if inner is None:
            return False
        inner = inner.get(element)
    return inner is not None and (not inner or SELF in inner)


def subset(left: FieldSet, right: FieldSet) -> bool:
    return not difference(left, right)


def paths(fields: FieldSet) -> Iterator[tuple[str, ...]]:
    """Yield every path, as elements, in Kubernetes' order: at each level first the set's own paths, then longer
    ones."""
    names = _sorted(fields)
    for name in names:
        inner = fields[name]
        if not inner or SELF in inner:
            yield (name,)
    for name in names:
        if fields[name]:
            for rest in paths(fields[name]):
                yield (name, *rest)


def format_path(path: Iterable[str]) -> str:
    """Print a path as Kubernetes does: ``.spec.ports[port=80,protocol="TCP"].name``."""
    return "".join(map(_format_element, path))


def _format_element(element: str) -> str:
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return "." + rest
    if kind == "i:":
        return f"[{rest}]"
    if kind == "v:":
        return f"[={go_format.format_value(msgspec.json.decode(rest))}]"
    pairs = sorted(msgspec.json.decode(rest).items())
    return f"[{','.join(f'{name}={go_format.format_value(item)}' for name, item in pairs)}]"


def sort(fields: FieldSet) -> FieldSet:
    """Return the same set with its keys in Kubernetes' order."""
    checkpoint()
    if not fields:
        return LEAF
    ordered: FieldSet = {SELF: LEAF} if SELF in fields else {}
    for name in _sorted(fields):
        ordered[name] = sort(fields[name])
    return ordered


def _sorted(fields: FieldSet) -> list[str]:
    names = sorted(fields)
    if names and names[0] == SELF:
        del names[0]
    if len(names) > 1 and names[-1][0] != "f":  # field names sort as text, keys and values by their content
        names.sort(key=_rank)
    return names


def _rank(element: str) -> tuple[Any, ...]:
    kind, rest = element[0], element[2:]
    if kind == "f":
        return (0, rest)
    if kind == "k":
        pairs = sorted(msgspec.json.decode(rest).items())
        return (1, tuple((name, *_value_rank(item)) for name, item in pairs))
    if kind == "v":
        return (2, *_value_rank(msgspec.json.decode(rest)))
    return (3, int(rest))


def _value_rank(item: Any) -> tuple[Any, ...]:
    """Sort numbers before strings, strings before booleans."""
    match item:
        case bool():
            return (2, item)
        case int() | float():
            return (0, item)
        case str():
            return (1, item)
        case None:
            return (5,)
        case _:
            return (3, json_text(item))


def read(sent: Any) -> FieldSet:
    """Return a client's set in canonical form. Raises Malformed."""
    return _read(sent)[0]


def _read(sent: Any) -> tuple[FieldSet, bool]:
    """Return the paths below, and whether the place itself is in the set."""
    if sent is None:
        return {}, True
    if not isinstance(sent, dict):
        raise Malformed("expected an object")
    member, result = SELF in sent, {}
    for name, inner in sent.items():
        if name == SELF:
            continue
        element = _element(name)
        if element is None:
            continue
        children, itself = _read(inner)
        result[element] = {SELF: LEAF, **children} if children and itself else children
    return result, member or not result


def _element(name: str) -> str | None:
    """Return the canonical path element; None for unknown types of element."""
    if len(name) < 2 or name[1] != ":":
        raise Malformed(f"not a path element: {name}")
    kind, rest = name[0], name[2:]
    try:
        match kind:
            case "f":
                return name
            case "i":
                return f"i:{int(rest)}"
            case "v":
                return value(msgspec.json.decode(rest))
            case "k":
                return key(msgspec.json.decode(rest, type=dict[str, Any]))
            case _:
                return None
    except (ValueError, msgspec.MsgspecError) as error:
        raise Malformed(f"not a path element: {name}") from error
