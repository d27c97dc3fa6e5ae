"""Remedies: what a plugin proposes to change, so that the workload is placed on a given host.

A plugin knows why it rejects a host or scores it low, and therefore which change might help. It describes the change as
data, in terms of the host's columns and the workload's fields. A what-if converts remedies to edits of objects, applies
them to a copy of the fleet and repeats the cycle, so only verified changes reach the user: a remedy may be optimistic,
and a plugin need not consider what other plugins do with it.

The protocols are optional. For a plugin without them, an explanation names the columns that the plugin reads.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fairway.engine.points import Choose, Context, Plugin, Scores
from fairway.hosts.bitmap import Rows
from fairway.hosts.column import Key

FieldPath = tuple[str | int, ...]
"""Names of fields, keys of maps and places in lists, from the top of the object:
``("metadata", "annotations", "example.com/tier")``."""


# Of the host


@dataclass(frozen=True, slots=True)
class SetCell:
    """Set a text of the host, such as a label or a claim; None removes it."""

    column: Key
    value: str | None


@dataclass(frozen=True, slots=True)
class SetNumber:
    """Set a number of the host to this value, such as a published score."""

    column: Key
    value: int
    silent_is_missing: bool = False
    """Whether a score that its publisher no longer renews counts as missing, so that publishing it again matters."""


@dataclass(frozen=True, slots=True)
class MoveNumber:
    """Raise or lower a number of the host: a score, an amount, or a label with a whole number.

    The what-if finds the smallest change that is sufficient.
    """

    column: Key
    up: bool
    bound: int | None = None
    """The farthest value to try, in units of the column; by default it depends on the values of the other hosts."""
    title: str = ""
    """How users write the name of the number, if the column has it in lower case."""
    silent_is_missing: bool = False
    """As in ``SetNumber``."""


@dataclass(frozen=True, slots=True)
class RemoveTaint:
    key: str
    value: str
    effect: str


# Of the workload


@dataclass(frozen=True, slots=True)
class Tolerate:
    """Let the workload tolerate a taint."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class BindSet:
    """Let the workload's namespace use a set of hosts."""

    set: str


@dataclass(frozen=True, slots=True)
class SetField:
    """Set a field of the workload's object; None removes a key of a map, such as an annotation."""

    path: FieldPath
    value: str | int | bool | None


@dataclass(frozen=True, slots=True)
class AddToList:
    """Append a value to a list of the workload's object."""

    path: FieldPath
    value: str | int


@dataclass(frozen=True, slots=True)
class RaiseField:
    """Raise a whole number of the workload's object, to at most ``most``. The what-if finds the smallest value."""

    path: FieldPath
    most: int


@dataclass(frozen=True, slots=True)
class WantMore:
    """Let the workload want more hosts. ``guesses`` are numbers of hosts that may be just enough."""

    guesses: tuple[int, ...]


Remedy = (
    SetCell
    | SetNumber
    | MoveNumber
    | RemoveTaint
    | Tolerate
    | BindSet
    | SetField
    | AddToList
    | RaiseField
    | WantMore
)


@runtime_checkable
class FilterRemedies(Plugin, Protocol):
    """A PreFilter or Filter plugin that proposes changes for hosts that it rejects."""

    def filter_remedies(self, context: Context, row: int, /) -> Iterable[Remedy]:
        """Return changes that might make the plugin accept this row, which it rejects; the best first."""


@runtime_checkable
class ScoreRemedies(Plugin, Protocol):
    """A Score plugin that proposes changes for hosts that rank too low."""

    def score_remedies(self, context: Context, row: int, weight: int, /) -> Iterable[Remedy]:
        """Return changes that might give the row more points. With a negative weight, a lower score gives more."""


@runtime_checkable
class ChoiceRemedies(Choose, Protocol):
    """A Choose plugin that proposes changes for feasible hosts that it did not choose."""

    def choice_remedies(self, context: Context, row: int, rows: Rows, totals: Scores, /) -> Iterable[Remedy]:
        """Return changes that might make ``choose``, with these rows and totals, choose this row."""
