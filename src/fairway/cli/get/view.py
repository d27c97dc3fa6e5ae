"""The rows of a `get` command, and how they change while it watches.

A view keeps the objects of its rows and knows which rows depend on an object, so that a change in a large fleet costs
only the affected rows.
"""

import abc
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from typing import Any, ClassVar, Final

from fairway.cli.client.session import IN_NAMESPACE, unknown
from fairway.cli.client.watch import Feed
from fairway.cli.layout import GAP, Column, Layout, fit, fold, terminal_width
from fairway.cli.output import Row
from fairway.cli.text import cell
from kubewire.api.resource import Key, key_of
from kubewire.client import Added, Deleted, Resource, Updated
from kubewire.client.change import Change

NOTHING: Final = "No {nouns}{where}."

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
    less: ClassVar[tuple[str, ...]] = ()
    """Columns that a narrow terminal leaves out first, in order."""
    gather: ClassVar[float] = 0.0
    """Seconds for which a watch collects changes before it prints them."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.names_causes = True
        """Whether a watch reads ``cause_feeds``."""

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
        return tuple(self.feed(resource) for resource in self.shown) + tuple(
            Feed(resource=resource, namespace=self.wanted.where if resource.namespaced else None)
            for resource in self.beside
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
            if any(name == known_name and space in (None, "", where) for where, known_name in known):
                continue
            near = (name for where, name in known if space in (None, "", where))
            raise unknown(self.noun, name, near, namespace=space or "")

    def cause_feeds(self) -> tuple[Feed, ...]:
        """Return the feeds that a watch needs to name causes, and does without if the user may not read them."""
        return ()

    def deleted(self, lot: Lot, rows: Sequence[Row], *, now: datetime) -> Sequence[Row]:
        """Return deleted rows of a lot as a watch shows them."""
        del lot, now
        return rows

    def nothing(self) -> str:
        where = IN_NAMESPACE.format(namespace=self.wanted.where) if self.wanted.where else ""
        return NOTHING.format(nouns=self.nouns, where=where)


class Lines:
    """Formats a table line by line. Columns are as wide as the widest cell so far.

    On a terminal, the first rows decide which columns fit, and wide cells are folded; elsewhere nothing is cut.
    """

    def __init__(self, columns: Mapping[str, str], *, less: Collection[str] = ()) -> None:
        self._columns, self._less = columns, less
        self._widths = [len(title) for title in columns.values()]
        self._limit = terminal_width()
        self._layout = Layout(tuple(range(len(columns))), tuple(self._widths))

    def fit(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._widths = [
                max(width, len(cell(row.get(key))))
                for width, key in zip(self._widths, self._columns, strict=True)
            ]
        measured = [
            Column(key=key, title=title, width=width)
            for (key, title), width in zip(self._columns.items(), self._widths, strict=True)
        ]
        self._layout = fit(measured, width=self._limit, less=self._less)

    def header(self) -> str:
        line = self._line([title.upper() for title in self._columns.values()])
        return f"{self._layout.note}\n{line}" if self._layout.note else line

    def line(self, row: Row, *, note: str = "") -> str:
        return self._line([cell(row.get(key)) for key in self._columns], note=note)

    def _line(self, cells: Sequence[str], *, note: str = "") -> str:
        if self._limit is None:
            texts = [text.ljust(width) for text, width in zip(cells, self._layout.widths, strict=True)]
            return GAP.join((*texts, note)).rstrip()
        folded = [
            fold(cells[at], width) for at, width in zip(self._layout.shown, self._layout.widths, strict=True)
        ]
        lines = [
            GAP.join(
                part.ljust(width) for part, width in zip(parts, self._layout.widths, strict=True)
            ).rstrip()
            for parts in zip_longest(*folded, fillvalue="")
        ]
        return "\n".join((*lines, *((f"{GAP}{note}",) if note else ())))


Make = Callable[[Wanted], View]
