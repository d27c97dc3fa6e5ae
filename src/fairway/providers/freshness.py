"""The state of a provider's scores for each cluster, and the most severe problem."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from fairway.api.score import AddOnPlacementScore

MORE: Final = "{first} (and {count:,} more)"
WITHOUT: Final = "none for {names}"
WITHOUT_END: Final = "{count:,} of {all:,} have no validUntil: a dead publisher would go unnoticed"
MAX_NAMES: Final = 3


class State(StrEnum):
    """States, the most severe first."""

    SILENT = "silent"
    EXPIRED = "expired"
    FAILING = "failing"
    EMPTY = "empty"
    MISSING = "missing"
    ENDLESS = "endless"
    FRESH = "fresh"

    @property
    def bad(self) -> bool:
        return self not in (State.ENDLESS, State.FRESH)


SEVERITY: Final = {state: at for at, state in enumerate(State)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The scores of one provider for one cluster.

    ``stray``: no such cluster exists. ``expected``: an installed add-on should publish them.
    """

    cluster: str
    state: State
    why: str
    valid_until: datetime | None = None
    written: datetime | None = None
    writer: str = ""
    scores: tuple[str, ...] = ()
    stray: bool = False
    expected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The scores of one provider for the whole fleet."""

    provider: str
    resource: str
    kind: str
    fleet: int
    entries: tuple[Entry, ...]
    """Sorted by severity, then by cluster."""

    @property
    def counts(self) -> Counter[State]:
        return Counter(entry.state for entry in self.entries)

    @property
    def published(self) -> int:
        """The number of clusters with a score."""
        return sum(entry.state is not State.MISSING and not entry.stray for entry in self.entries)

    @property
    def oldest(self) -> datetime | None:
        return min((entry.written for entry in self.entries if entry.written is not None), default=None)

    @property
    def scores(self) -> tuple[str, ...]:
        return tuple(sorted({name for entry in self.entries for name in entry.scores}))

    @property
    def writers(self) -> tuple[str, ...]:
        return tuple(sorted({entry.writer for entry in self.entries if entry.writer}))

    @property
    def problem(self) -> str:
        """The most severe problem; empty if there is none. A missing score counts only where one is expected."""
        bad = [
            entry
            for entry in self.entries
            if entry.state.bad and (entry.state is not State.MISSING or entry.expected)
        ]
        without = [entry.cluster for entry in self.entries if entry.state is State.MISSING]
        worst = bad or [entry for entry in self.entries if entry.stray]
        if worst:
            first = f"{worst[0].cluster}: {worst[0].why}"
            return MORE.format(first=first, count=len(worst) - 1) if len(worst) > 1 else first
        return "; ".join(self._remarks(without))

    def _remarks(self, without: list[str]) -> Iterator[str]:
        if without:
            listed = ", ".join(without[:MAX_NAMES])
            more = len(without) - MAX_NAMES
            yield WITHOUT.format(names=MORE.format(first=listed, count=more) if more > 0 else listed)
        endless = self.counts[State.ENDLESS]
        if (
            endless and self.kind == AddOnPlacementScore().kind
        ):  # a ManagedClusterScore never has a validUntil
            yield WITHOUT_END.format(count=endless, all=self.published)
