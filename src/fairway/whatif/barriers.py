"""The barrier between a cluster and a decision, and the single edits that might remove it.

A cluster has one barrier at a time: the first filter that rejects it, or else its rank. Any change that selects the
cluster must remove that barrier, so a search along barriers finds every small answer. The edits are those that the
plugins propose as remedies (``fairway.engine.remedies``); for a plugin without remedies, a note names the columns that
it reads.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from fairway.engine.fault import FaultError
from fairway.engine.forms import ChooseCalls, FilterCalls, PreFilterCalls, ScoreCalls
from fairway.engine.outcome import Outcome
from fairway.engine.points import Reader
from fairway.engine.ranking import better_than
from fairway.engine.remedies import Remedy, WantMore
from fairway.engine.trace import Trace
from fairway.hosts.clusters import cells
from fairway.hosts.column import MEMBERSHIP
from fairway.whatif.edits import Edit
from fairway.whatif.proposals import NumericCandidate, Proposals, Proposer
from fairway.whatif.world import World

RANKING: Final = "ranking"
NO_REMEDY: Final = "plugin {plugin} gives no remedy"
DEPENDS_ON: Final = "plugin {plugin} gives no remedy; its result depends on {columns}"
COLUMNS_SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class Barrier:
    """``final`` is true if no edit can remove it."""

    plugin: str
    words: str
    edits: tuple[Edit, ...] = ()
    candidates: tuple[NumericCandidate, ...] = ()
    final: bool = False
    notes: tuple[str, ...] = ()
    """Plugins that propose nothing, and why."""


def barrier_of(outcome: Outcome, world: World, cluster: str) -> Barrier:
    """Return the barrier of a cluster that was not selected."""
    row = outcome.snapshot.hosts.row_of[cluster]
    finder = _BarrierFinder(outcome, world, cluster, row)
    if bool((outcome.details.rows == row).any()):
        return finder.ranking()
    status = Trace(outcome).verdict(row)
    if not status.rejects:
        return Barrier(plugin=status.plugin, words=status.message, final=True)
    return finder.rejection(status.plugin, status.message)


class _BarrierFinder:
    """The barrier of one cluster in one outcome."""

    def __init__(self, outcome: Outcome, world: World, cluster: str, row: int) -> None:
        self._outcome = outcome
        self._context = outcome.context
        self._cluster = cluster
        self._row = row
        self._proposer = Proposer(outcome, world, cluster)
        self._proposals = Proposals()
        self._notes: list[str] = []

    def rejection(self, plugin: str, words: str) -> Barrier:
        calls = self._rejecting(plugin)
        if calls is not None and calls.remedies is not None:
            remedies = self._ask(partial(calls.remedies.filter_remedies, self._context, self._row))
            self._proposer.propose(remedies, self._proposals, publish=True)
        if not self._proposals.remedies and not self._notes:
            self._note(plugin, None if calls is None else calls.reader)
        return self._barrier(plugin, words)

    def _rejecting(self, plugin: str) -> PreFilterCalls | FilterCalls | None:
        plugins = self._outcome.plugins
        calls: tuple[PreFilterCalls | FilterCalls, ...] = (*plugins.pre_filters, *plugins.filters)
        return next((call for call in calls if call.plugin.name == plugin), None)

    def ranking(self) -> Barrier:
        details, chosen = self._outcome.details, self._outcome.selected_rows
        gap = 0
        if len(chosen):
            mine = int(details.totals[np.searchsorted(details.rows, self._row)])
            gap = int(details.totals[np.searchsorted(details.rows, chosen)].min()) - mine
        weights: dict[str, int] = {}
        for scorer in self._outcome.plugins.scores:
            weights[scorer.plugin.name] = weights.get(scorer.plugin.name, 0) + scorer.weight
        scorers = {scorer.plugin.name: scorer for scorer in self._outcome.plugins.scores}
        for name, weight in weights.items():
            if weight != 0:
                self._improve(scorers[name], weight, gap)
        if self._outcome.chooser is not None:
            self._choose(self._outcome.chooser)
        return self._barrier(RANKING, Trace(self._outcome).host(self._cluster).reason)

    def _improve(self, scorer: ScoreCalls, weight: int, gap: int) -> None:
        if scorer.remedies is None:
            self._note(scorer.plugin.name, scorer.reader)
            return
        remedies = self._ask(partial(scorer.remedies.score_remedies, self._context, self._row, weight))
        # Ties are decided by name, so one more point may be needed to pass the last selected cluster.
        enough = -(-gap // abs(weight))
        self._proposer.propose(remedies, self._proposals, guesses=(enough, enough + 1))

    def _choose(self, chooser: ChooseCalls) -> None:
        details = self._outcome.details
        remedies: Iterable[Remedy]
        if chooser.remedies is None:
            self._note(chooser.plugin.name, None)
            ranks = self._outcome.snapshot.hosts.rank[details.rows]
            better = better_than(self._row, details.rows, details.totals, ranks)
            remedies = (WantMore(guesses=(int(better.sum()) + 1,)),)
        else:
            propose = chooser.remedies.choice_remedies
            remedies = self._ask(partial(propose, self._context, self._row, details.rows, details.totals))
        self._proposer.propose(remedies, self._proposals)

    def _ask(self, propose: Callable[[], Iterable[Remedy]]) -> tuple[Remedy, ...]:
        """Return the remedies of a plugin; none if it fails."""
        try:
            return tuple(propose())
        except FaultError as error:
            self._notes.append(str(error.fault))
            return ()

    def _note(self, plugin: str, reader: Reader | None) -> None:
        columns = "" if reader is None else self._display_reads(reader)
        words = DEPENDS_ON if columns else NO_REMEDY
        self._notes.append(words.format(plugin=plugin or "?", columns=columns))

    def _display_reads(self, reader: Reader) -> str:
        try:
            reads = reader.reads(self._context)
        except FaultError:
            return ""
        columns = sorted({*reads.cells, *reads.shared} - {MEMBERSHIP})
        shown = [cells.describe(column) for column in columns[:COLUMNS_SHOWN]]
        if len(columns) > COLUMNS_SHOWN:
            shown.append(f"{len(columns) - COLUMNS_SHOWN} more")
        return ", ".join(shown)

    def _barrier(self, plugin: str, words: str) -> Barrier:
        proposals = self._proposals
        return Barrier(
            plugin=plugin,
            words=words,
            edits=tuple(dict.fromkeys(proposals.edits)),
            candidates=tuple(proposals.candidates),
            notes=(*self._notes, *proposals.unusable),
        )
