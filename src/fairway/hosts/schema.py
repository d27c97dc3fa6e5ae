"""What a kind of host means as columns: the part of a table that its kind supplies."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from fairway.hosts.column import Column, Key

HostT_contra = TypeVar("HostT_contra", contravariant=True)


class Schema(Protocol[HostT_contra]):
    """Usually a module with these functions."""

    def new_column(self, key: Key, *, capacity: int, stamp: int) -> Column:
        """Return an empty column of the right type."""

    def cell_reader(self, key: Key) -> Callable[[HostT_contra], Any]:
        """Return the function that reads this column's cell from a host. Raise KeyError for columns that other objects
        fill."""

    def changed_columns(self, old: HostT_contra, new: HostT_contra) -> set[Key]:
        """Return the columns, existing or not, whose cells differ, except compared ones."""

    def all_columns(self, host: HostT_contra) -> set[Key]:
        """Return the columns in which a host differs from a missing one."""

    def is_compared(self, key: Key) -> bool:
        """Return whether the table finds changes of this column by reading the cell of both versions. Every such column
        makes each update of a host slower."""
