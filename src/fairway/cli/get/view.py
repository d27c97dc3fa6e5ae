"""The rows of a `get` command, and how they change while it watches.

A view keeps the objects of its rows and knows which rows depend on an object, so that a change in a large fleet costs
only the affected rows.
"""

import abc
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final

from fairway.cli.client.session import IN_NAMESPACE, unknown
from fairway.cli.client.watch import Feed
from fairway.cli.output import Row, cell
from fairway.kube import Added, Deleted, Resource, Updated
from fairway.kube.change import Change
from fairway.kube.resource import Key, key_of

NOTHING: Final = "No {nouns}{where}."
_GAP: Final = "  "

Lot = Hashable
"""Key of the rows that come from one object, or from the objects of one placement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The requested objects. Names may be ``namespace/name``; without a namespace, all namespaces match."""

    names: tuple[str, ...] = ()
    namespace: str | None = None
    labels: str = ""
    keys: tuple[tuple[str | None, str], ...] = field(init=False)

    def __post_init__(self) -> None:
        parts = (name.rpartition("/") for name in self.names)
        keys = tuple((space or self.namespace, name) for space, _, name in parts)
        object.__setattr__(self, "keys", keys)

    def has(self, namespace: str, name: str) -> bool:
        return not self.keys or any(
            known == name and space in (None, namespace) for space, known in self.keys
        )

    @property
    def where(self) -> str | None:
        """The namespace to list; None for all."""
        spaces = {space for space, _ in self.keys} or {self.namespace}
        return spaces.pop() if len(spaces) == 1 else None


class View(abc.ABC):
    noun: ClassVar[str]
    nouns: ClassVar[str]
    timed: ClassVar[bool] = False
    """Whether a watch shows the time of each change."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted

    @property
    @abc.abstractmethod
    def shown(self) -> tuple[Resource[Any], ...]:
        """The kinds that `-o yaml` prints."""

    @property
    def beside(self) -> tuple[Resource[Any], ...]:
        """Further kinds that the table needs."""
        return ()

    @property
    @abc.abstractmethod
    def columns(self) -> Mapping[str, str]: ...

    def feeds(self) -> tuple[Feed, ...]:
        """Return the feeds of shown kinds, then those of further kinds."""
        return tuple(self.feed(each) for each in self.shown) + tuple(
            Feed(resource=each, namespace=self.wanted.where if each.namespaced else None)
            for each in self.beside
        )

    def feed(self, resource: Resource[Any]) -> Feed:
        """Return the feed of a shown kind."""
        where = self.wanted.where if resource.namespaced else None
        return Feed(resource=resource, namespace=where, labels=self.wanted.labels)

    @abc.abstractmethod
    def put(self, thing: Any) -> Iterable[Lot]:
        """Store an object and return the lots it changes."""

    @abc.abstractmethod
    def drop(self, thing: Any) -> Iterable[Lot]: ...

    @abc.abstractmethod
    def lots(self) -> Iterable[Lot]:
        """Return all lots in display order."""

    @abc.abstractmethod
    def rows(self, lot: Lot, *, now: datetime) -> Mapping[str, Row]:
        """Return the rows of a lot by a key that identifies them, in order."""

    def apply_change(self, change: Change[Any]) -> Iterable[Lot]:
        match change:
            case Added(new) | Updated(_, new):
                return self.put(new)
            case Deleted(old):
                return self.drop(old)

    def due(self, *, now: datetime) -> tuple[float | None, Iterable[Lot]]:
        """Return the seconds until a row changes by time alone, and the lots that have changed so."""
        del now
        return None, ()

    def names_of(self, thing: Any) -> tuple[Key, ...]:
        """Return the names by which an object can be requested."""
        return (key_of(thing),)

    def matches(self, thing: Any) -> bool:
        return any(self.wanted.has(*key) for key in self.names_of(thing))

    def check(self, known: Collection[Key]) -> None:
        """Raises BadInputError for a requested name that is not among ``known``, all existing names."""
        for space, name in self.wanted.keys:
            if any(name == each and space in (None, "", where) for where, each in known):
                continue
            near = (each for where, each in known if space in (None, "", where))
            raise unknown(self.noun, name, near, namespace=space or "")

    def deleted(self, row: Row, rows: Mapping[str, Row], before: Mapping[str, Row]) -> Row:
        """Return a deleted row as a watch shows it. ``rows`` are those of its lot now, ``before`` those it had."""
        del rows, before
        return row

    def nothing(self) -> str:
        where = IN_NAMESPACE.format(namespace=self.wanted.where) if self.wanted.where else ""
        return NOTHING.format(nouns=self.nouns, where=where)


class Lines:
    """Formats a table line by line. Columns are as wide as the widest cell so far; cells are never cut."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns
        self._widths = [len(title) for title in columns.values()]

    def fit(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._widths = [
                max(width, len(cell(row.get(key))))
                for width, key in zip(self._widths, self._columns, strict=True)
            ]

    def header(self) -> str:
        return self._line([title.upper() for title in self._columns.values()])

    def line(self, row: Row, *, note: str = "") -> str:
        cells = [cell(row.get(key)) for key in self._columns]
        return self._line([*cells, note])

    def _line(self, cells: Sequence[str]) -> str:
        widths = [*self._widths, 0]
        parts = (text.ljust(width) for text, width in zip(cells, widths, strict=False))
        return _GAP.join(parts).rstrip()


Make = Callable[[Wanted], View]
