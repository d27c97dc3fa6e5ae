"""Explain an outcome: for every host, which plugin rejected it and why, or the score of each prioritizer.

A trace is computed on demand from an outcome, by calling the plugins host by host. The cycle itself stores nothing for
it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fairway.engine.cycle import rejection
from fairway.engine.outcome import Outcome
from fairway.engine.points import Remarks
from fairway.engine.status import Status

NOT_CHOSEN = "passed every filter, but {better} {hosts} ranked higher, and {wanted} {are} wanted"
LEFT_OUT = "passed every filter, but was not chosen"
NONE_WANTED = "passed every filter, but the workload wants 0 hosts"


@dataclass(frozen=True, slots=True)
class Contribution:
    """score × weight = points; ``known`` is False where the prioritizer has no score for the host.

    ``note`` is the prioritizer's annotation of the score.
    """

    plugin: str
    score: int
    weight: int
    known: bool = True
    note: str = ""

    @property
    def points(self) -> int:
        return self.score * self.weight


@dataclass(frozen=True, slots=True)
class HostTrace:
    """``rejected_by`` is empty for hosts that passed every filter; those have a total and a rank from 1."""

    host: str
    selected: bool = False
    rejected_by: str = ""
    reason: str = ""
    rank: int | None = None
    total: int | None = None
    contributions: tuple[Contribution, ...] = ()


class Trace:
    """The traces of all hosts of the fleet, or of one."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._selected = frozenset(outcome.selected_rows.tolist())
        self._ranks: dict[int, int] | None = None
        self._objection: Callable[[int], str | None] | None = None

    def __iter__(self) -> Iterator[HostTrace]:
        """Selected hosts by rank, then other feasible ones by rank, then rejected ones by name."""
        outcome = self._outcome
        ranks = self._rank_by_row()
        for row in outcome.selected_rows.tolist():
            yield self._feasible(row)
        for row in ranks:
            if row not in self._selected:
                yield self._feasible(row)
        hosts = outcome.snapshot.hosts
        for name in hosts.in_name_order():
            row = hosts.row_of[name]
            if row not in ranks:
                yield self._rejected(row)

    def host(self, name: str) -> HostTrace:
        """Return the trace of a host. Raise KeyError if the fleet has no such host."""
        row = self._outcome.snapshot.hosts.row_of[name]
        return self._feasible(row) if row in self._rank_by_row() else self._rejected(row)

    def _rank_by_row(self) -> dict[int, int]:
        """In the order of the ranks."""
        if self._ranks is None:
            details = self._outcome.details
            ranks = self._outcome.snapshot.hosts.rank[details.rows]
            order = np.lexsort((ranks, -details.totals))
            self._ranks = {row: at for at, row in enumerate(details.rows[order].tolist(), 1)}
        return self._ranks

    def _feasible(self, row: int) -> HostTrace:
        outcome, details = self._outcome, self._outcome.details
        at = int(np.searchsorted(details.rows, row))
        selected = row in self._selected
        rank = self._rank_by_row()[row]
        return HostTrace(
            host=outcome.snapshot.hosts.names[row],
            selected=selected,
            reason="" if selected else self._why_not(row, rank),
            rank=rank,
            total=int(details.totals[at]),
            contributions=tuple(
                Contribution(
                    plugin=scored.plugin,
                    score=int(scored.scores[at]),
                    weight=scored.weight,
                    known=bool(outcome.knows(number, np.array([row]))[0]),
                    note=self._note(scorer.remarks, row),
                )
                for number, (scored, scorer) in enumerate(
                    zip(details.scored, outcome.plugins.scores, strict=True)
                )
            ),
        )

    def _note(self, remarks: Remarks | None, row: int) -> str:
        return "" if remarks is None else remarks.remark(self._outcome.context, row)

    def _why_not(self, row: int, rank: int) -> str:
        outcome = self._outcome
        chooser = outcome.chooser
        if chooser is not None and chooser.explainer is not None:
            if self._objection is None:
                details = outcome.details
                self._objection = chooser.explainer.explain_choice(
                    outcome.context, outcome.selected_rows, details.rows, details.totals
                )
            words = self._objection(row)
            if words is not None:
                return words
        wanted = outcome.context.workload.wanted
        if wanted == 0:
            return NONE_WANTED
        better = rank - 1
        if chooser is not None and not chooser.by_rank:
            # The choice may have skipped better hosts, too.
            ranks = self._rank_by_row()
            better = sum(ranks[chosen] < rank for chosen in self._selected)
        if wanted is None or better < wanted:
            return LEFT_OUT
        hosts, are = "host" if better == 1 else "hosts", "is" if wanted == 1 else "are"
        return NOT_CHOSEN.format(better=better, hosts=hosts, wanted=wanted, are=are)

    def _rejected(self, row: int) -> HostTrace:
        status = self.verdict(row)
        return HostTrace(
            host=self._outcome.snapshot.hosts.names[row], rejected_by=status.plugin, reason=status.message
        )

    def verdict(self, row: int) -> Status:
        """Return the status of the first plugin that rejects the row; the cycle's own status if there is none."""
        outcome = self._outcome
        return rejection(outcome.context, outcome.plugins, row) or outcome.status
