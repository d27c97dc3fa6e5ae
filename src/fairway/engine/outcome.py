"""What a cycle concluded."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairway.engine.points import Context, Extent, Rows, Scores
from fairway.engine.profile import Profile
from fairway.engine.status import Status
from fairway.fleet import bitmap
from fairway.fleet.bitmap import Bits, Mask
from fairway.fleet.instant import Micros
from fairway.fleet.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Stage:
    """Who was left after a filter."""

    plugin: str
    survivors: Bits


@dataclass(frozen=True, slots=True)
class Scored:
    """One prioritizer's final scores, in the order of the outcome's rows."""

    plugin: str
    weight: int
    scores: Scores
    present: Mask | None
    """False where the prioritizer knows nothing of the host, which then counts 0. None: it knows all."""
    extent: Extent | None


class Outcome:
    """Selected rows, best first, and what led there. Names are looked up only when asked for."""

    def __init__(
        self,
        *,
        context: Context,
        profile: Profile,
        status: Status,
        eligible: Bits,
        stages: tuple[Stage, ...] = (),
        rows: Rows | None = None,
        totals: Scores | None = None,
        scored: tuple[Scored, ...] = (),
        selected: Rows | None = None,
        wake: Micros | None = None,
    ) -> None:
        nobody = np.zeros(0, dtype=np.int64)
        self.context = context
        self.profile = profile
        self.status = status
        self.eligible = eligible
        """Rows the PreFilter plugins let in."""
        self.stages = stages
        self.rows = nobody if rows is None else rows
        """Rows that passed every filter, ascending; empty when the cycle was aborted."""
        self.totals = nobody if totals is None else totals
        self.scored = scored
        self.selected_rows = nobody if selected is None else selected
        self.wake = wake
        """When a selected host's right to be selected runs out by time alone."""

    @property
    def snapshot(self) -> Snapshot:
        return self.context.snapshot

    @cached_property
    def selected(self) -> list[str]:
        """Best first."""
        names = self.snapshot.hosts.names
        return [names[row] for row in self.selected_rows.tolist()]

    def total(self, row: int) -> int:
        at = int(np.searchsorted(self.rows, row))
        return int(self.totals[at])

    def totals_by_name(self) -> dict[str, int]:
        """Of every host that passed the filters."""
        names = self.snapshot.hosts.names
        return {
            names[row]: total
            for row, total in zip(self.rows.tolist(), self.totals.tolist(), strict=True)
        }

    def reasons(self) -> Iterator[tuple[str, str, int]]:
        """For each selected host, best first: its name, why it was chosen, and its total."""
        rows = self.selected_rows
        at = np.searchsorted(self.rows, rows)
        totals = self.totals[at].tolist()
        parts = [(each, each.scores[at].tolist()) for each in self.scored]
        for place, (name, total) in enumerate(zip(self.selected, totals, strict=True)):
            terms = ", ".join(term(each.plugin, each.weight, scores[place]) for each, scores in parts)
            ranked = f"Rank {place + 1} of {len(self.rows)} with {total} points"
            yield name, f"{ranked}: {terms}" if terms else ranked, total

    @property
    def unscheduled(self) -> int:
        """How many hosts are still wanted."""
        wanted = self.context.workload.wanted
        if wanted is None or self.status.aborts:
            return 0
        return max(0, wanted - len(self.selected_rows))

    def names(self, bits: Bits) -> list[str]:
        """In name order."""
        names = self.snapshot.hosts.names
        return sorted(names[row] for row in bitmap.rows_of(bits).tolist())


def term(plugin: str, weight: int, score: int) -> str:
    """One prioritizer's part of a total, in words."""
    return f"{plugin} {score}" if weight == 1 else f"{plugin} {score} x {weight}"
