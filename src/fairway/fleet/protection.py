"""Read-only views of snapshots, for code that must not be able to damage the fleet by accident.

A protected snapshot shares all memory with the original. Its columns, bitmaps and arrays raise ValueError on a write.
"""

import copy
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fairway.fleet.bitmap import Bits
from fairway.fleet.column import CodeColumn, Column, Key

Array = TypeVar("Array", bound=npt.NDArray[Any])
SnapshotT = TypeVar("SnapshotT", bound=Any)


def read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


class _ReadOnlyCodes(CodeColumn):
    __slots__ = ()

    def bitmap(self, code: int) -> Bits:
        return read_only(super().bitmap(code))


def protect(snapshot: SnapshotT) -> SnapshotT:
    """Return the snapshot with read-only columns. It keeps the original alive, which the fleet must not write to."""
    view = copy.copy(snapshot)
    view.hosts = copy.copy(snapshot.hosts)
    for name in ("live", "rank"):
        setattr(view.hosts, name, read_only(getattr(snapshot.hosts, name)))
    view._columns = _ProtectedColumns(snapshot)
    return view


class _ProtectedColumns(dict[Key, Column]):
    """The columns of a snapshot, wrapped when they are first read."""

    def __init__(self, snapshot: Any) -> None:
        super().__init__()
        self._snapshot = snapshot

    def get(self, key: Key, _default: Any = None, /) -> Any:
        found = super().get(key)
        if found is None:
            found = self[key] = _protected(self._snapshot._column(key))
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._snapshot._columns

    def __iter__(self) -> Any:
        return iter(self._snapshot._columns)


def _protected(column: Any) -> Any:
    view = copy.copy(column)
    if type(column) is CodeColumn:
        view = _ReadOnlyCodes.__new__(_ReadOnlyCodes)
        for name in CodeColumn.__slots__:
            setattr(view, name, getattr(column, name))
    for name in type(column).__slots__:
        value = getattr(view, name)
        if isinstance(value, np.ndarray):
            setattr(view, name, read_only(value))
    return view
