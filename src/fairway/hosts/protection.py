"""Read-only views of snapshots, for code that must not be able to damage the fleet.

A protected snapshot shares all memory with the original. Its columns, bitmaps and arrays raise ValueError on a write,
its lists and mappings TypeError. Hosts are returned with read-only mappings. Objects that index the fleet, such as
decisions, are shallow copies whose contents are protected likewise, so that their own methods cannot write either.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from fairway.hosts.bitmap import Bits
from fairway.hosts.column import CodeColumn, Column, Key
from fairway.hosts.journal import Journal

Array = TypeVar("Array", bound=npt.NDArray[Any])
SnapshotT = TypeVar("SnapshotT", bound=Any)

_OWN: Final = frozenset({"_columns", "_derived", "_keep", "_schema", "hosts", "journal"})
"""Attributes of snapshots that ``protect`` sets itself, or that have no state."""
_PLAIN: Final = (str, int, float, bytes, bool, type(None))


def read_only(array: Array) -> Array:
    """Return the array without the right to write, which it cannot regain: the memory is exported read-only."""
    if not array.flags.c_contiguous or not array.size:
        view = array.view()
        view.flags.writeable = False
        return view
    return cast("Array", np.asarray(memoryview(cast("Any", array)).toreadonly()))


class ReadOnlyList(Sequence[Any]):
    __slots__ = ("_get", "_length")

    def __init__(self, values: Sequence[Any]) -> None:
        self._get: Callable[[Any], Any] = values.__getitem__
        self._length = len(values)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, at: int, /) -> Any: ...
    @overload
    def __getitem__(self, at: slice, /) -> Sequence[Any]: ...
    def __getitem__(self, at: int | slice, /) -> Any:
        value = self._get(at)
        return value if type(value) is str else shield(value)


class ReadOnlyMapping(Mapping[Any, Any]):
    __slots__ = ("_values",)

    def __init__(self, values: Mapping[Any, Any]) -> None:
        self._values = MappingProxyType(values)

    def __getitem__(self, key: Any, /) -> Any:
        return shield(self._values[key])

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def shield(value: Any) -> Any:
    """Return a value that cannot be used to modify what it belongs to."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, np.ndarray):
        return read_only(value)
    if isinstance(value, dict):
        return ReadOnlyMapping(value)
    if isinstance(value, list):
        return ReadOnlyList(value)
    if isinstance(value, set):
        return frozenset(value)
    if isinstance(value, Struct):
        return _frozen(value)
    if isinstance(value, tuple) and kind is tuple:
        return (
            tuple(map(shield, value))
            if any(isinstance(item, (Struct, dict, list)) for item in value)
            else value
        )
    return value


def _frozen(value: Struct) -> Struct:
    """Return the object with read-only mappings; itself if it has none."""
    changed: dict[str, Any] = {}
    for name in _open_fields(type(value)):
        old = getattr(value, name)
        if type(old) is dict:
            changed[name] = MappingProxyType(old)
        elif (new := shield(old)) is not old:
            changed[name] = new
    return structs.replace(value, **changed) if changed else value


@cache
def _open_fields(kind: Any) -> tuple[str, ...]:
    """Return the fields of a Struct in which a mapping may be: a fleet has as many objects as hosts, and few types."""
    return tuple(
        name for name, hint in get_type_hints(kind).items() if _may_hold_mapping(hint, frozenset({kind}))
    )


def _may_hold_mapping(hint: Any, above: frozenset[Any]) -> bool:
    if hint in above:
        return False
    origin = get_origin(hint) or hint
    if isinstance(origin, type):
        if issubclass(origin, Struct):
            return any(
                _may_hold_mapping(inner, above | {origin}) for inner in get_type_hints(origin).values()
            )
        if issubclass(origin, (Mapping, list, set)) or origin is object:
            return True
    elif hint is Any:
        return True
    return any(_may_hold_mapping(inner, above) for inner in get_args(hint))


class _ReadOnlyCodes(CodeColumn):
    __slots__ = ()

    def bitmap(self, code: int) -> Bits:
        bits = self._bitmaps.get(code)
        return read_only(super().bitmap(code)) if bits is None else bits


def protect(snapshot: SnapshotT) -> SnapshotT:
    """Return the snapshot with read-only contents. It keeps the original alive, which the fleet must not write to."""
    view = copy.copy(snapshot)
    for name in _slots(cast("Any", type(snapshot))):
        if name not in _OWN:
            setattr(view, name, _part(getattr(snapshot, name)))
    view.hosts = _part(snapshot.hosts)
    view._derived, view._keep = {}, lambda _view, _key: None
    view.journal = Journal(limit=snapshot.journal.limit)
    view.journal.generation = snapshot.journal.generation
    view._columns = _ProtectedColumns(snapshot)
    return view


def _part(value: Any) -> Any:
    """Protect a part of a snapshot: an index is copied, so that its caches and methods change only the copy."""
    if type(value) in _PLAIN or isinstance(value, (dict, list, set, np.ndarray, Struct, tuple)):
        return shield(value)
    names = _slots(cast("Any", type(value)))
    if not names or isinstance(value, Callable):  # type: ignore[arg-type]
        return value
    part = copy.copy(value)
    for name in names:
        inner = getattr(part, name, None)
        if isinstance(inner, (dict, list, set, np.ndarray, Struct)):
            object.__setattr__(part, name, shield(inner))
    return part


@cache
def _slots(kind: Any) -> tuple[str, ...]:
    names: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        names += (slots,) if isinstance(slots, str) else slots
    return tuple(name for name in names if name != "__weakref__")


class _ProtectedColumns(dict[Key, Column]):
    """The columns of a snapshot, wrapped when they are first read."""

    def __init__(self, snapshot: Any) -> None:
        super().__init__()
        self._snapshot = snapshot

    def get(self, key: Key, _default: Any = None, /) -> Any:
        column = super().get(key)
        if column is None:
            column = self[key] = _protected(self._snapshot._column(key))
        return column

    def __contains__(self, key: object) -> bool:
        return key in self._snapshot._columns

    def __iter__(self) -> Any:
        return iter(self._snapshot._columns)


def _protected(column: Any) -> Any:
    view: Any = copy.copy(column)
    if type(column) is CodeColumn:
        view = _ReadOnlyCodes.__new__(_ReadOnlyCodes)
        for name in CodeColumn.__slots__:
            setattr(view, name, getattr(column, name))
        # New bitmaps belong to the view: one of the plugin's must not become the column's.
        view._bitmaps = {code: read_only(bits) for code, bits in column._bitmaps.items()}
        view.values, view._code_of = ReadOnlyList(column.values), MappingProxyType(column._code_of)
        view._uses, view._free = ReadOnlyList(column._uses), ReadOnlyList(column._free)
    for name in type(column).__slots__:
        value = getattr(view, name)
        if isinstance(value, np.ndarray):
            setattr(view, name, read_only(value))
    return view
