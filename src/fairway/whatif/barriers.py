"""The barrier between a cluster and a decision, and the single edits that might remove it.

A cluster has one barrier at a time: the first filter that rejects it, or else its rank. Any change that selects the
cluster must remove that barrier, so a search along barriers finds every small answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from fairway.api.cluster import CLUSTER_SET_LABEL, NO_SELECT, NO_SELECT_IF_NEW, PREFER_NO_SELECT
from fairway.api.selector import DOES_NOT_EXIST, EXISTS, IN, Requirement, Selector
from fairway.clusters import cells, clusters_of
from fairway.engine.outcome import Outcome
from fairway.engine.trace import Trace
from fairway.fleet.bitmap import Mask
from fairway.fleet.column import Key as ColumnKey
from fairway.plugins import clustersets, missing_score, predicate, spread, taints
from fairway.plugins.addon_score import AddOnScore
from fairway.plugins.allocatable import RESOURCES, Allocatable
from fairway.plugins.calculator import Calculator
from fairway.plugins.clustersets import find_sets
from fairway.plugins.expressions import Expressions
from fairway.plugins.missing_score import AddOn, wanted_scores
from fairway.plugins.placement_workload import PlacementWorkload
from fairway.plugins.predicate import PlacementPredicates
from fairway.plugins.spread import spread_constraints
from fairway.plugins.taint_preference import TaintPreference
from fairway.plugins.trust import Missing
from fairway.whatif.edits import (
    Bind,
    Edit,
    JoinClusterSet,
    NameClusterSet,
    NumericEdit,
    RaiseMaxSkew,
    RemoveTaint,
    SetClaim,
    SetLabel,
    Tolerate,
    WantMore,
)
from fairway.whatif.expression_edits import PLAIN_VALUE, candidate_edits, common_values
from fairway.whatif.number_edits import PublishClusterScore, allocate_edit, score_edit
from fairway.whatif.world import World

RANKING: Final = "ranking"
MOST_SETS: Final = 12
MOST_HINTS: Final = 24
MOST_VALUES: Final = 8
FARTHEST: Final = 4
"""Amounts are raised to at most this many times the largest among the candidates."""
LARGEST: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class NumericCandidate:
    """A numeric edit at its bound, and numbers of steps that may be just enough."""

    edit: NumericEdit
    guesses: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Barrier:
    """``final`` is true if no edit can remove it."""

    plugin: str
    words: str
    edits: tuple[Edit, ...] = ()
    candidates: tuple[NumericCandidate, ...] = ()
    final: bool = False


def barrier_of(outcome: Outcome, world: World, workload: PlacementWorkload, cluster: str) -> Barrier:
    """Return the barrier of a cluster that was not selected."""
    row = outcome.snapshot.hosts.row_of[cluster]
    asked = _BarrierFinder(outcome, world, workload, cluster, row)
    if bool((outcome.details.rows == row).any()):
        return asked.ranking()
    status = Trace(outcome).verdict(row)
    if not status.rejects:
        return Barrier(plugin=status.plugin, words=status.message, final=True)
    match status.plugin:
        case clustersets.NAME:
            edits = asked.membership()
        case predicate.NAME:
            edits = asked.predicates()
        case taints.NAME:
            edits = asked.taints(status.message)
        case spread.NAME:
            edits = asked.topologies()
        case missing_score.NAME:
            return asked.unknown(status.message)
        case _:
            edits = iter(())
    return Barrier(plugin=status.plugin, words=status.message, edits=tuple(dict.fromkeys(edits)))


class _BarrierFinder:
    """The barrier of one cluster in one outcome."""

    def __init__(
        self, outcome: Outcome, world: World, workload: PlacementWorkload, cluster: str, row: int
    ) -> None:
        self._outcome = outcome
        self._snapshot = clusters_of(outcome.snapshot)
        self._world = world
        self._workload = workload
        self._key = (workload.namespace, workload.name)
        self._spec = workload.placement.spec
        self._cluster = cluster
        self._row = row
        self._source = self._snapshot.cluster(row)

    def membership(self) -> Iterator[Edit]:
        """Yield edits that make sets with the cluster eligible, or add the cluster to eligible sets."""
        snapshot, labels = self._snapshot, self._source.metadata.labels
        bound = snapshot.bindings.get(self._workload.namespace, frozenset())
        wanted = frozenset(self._spec.clusterSets)
        eligible = frozenset(find_sets(snapshot, self._workload.namespace, wanted).eligible)
        mine = [
            name
            for name, each in sorted(snapshot.sets.items())
            if each.error is None and each.selector.matches(labels)
        ]
        for name in mine[:MOST_SETS]:
            if name not in bound:
                yield Bind(namespace=self._workload.namespace, set=name)
            elif wanted and name not in wanted:
                yield NameClusterSet(placement=self._key, set=name)
        for name in sorted(eligible)[:MOST_SETS]:
            if name not in mine:
                yield from self._selected_by(snapshot.sets[name].selector, cells.LABEL)
        if not eligible:
            # No set is eligible: a set must be bound or named first, whatever its members.
            for name in sorted(set(snapshot.sets) - set(mine))[:MOST_SETS]:
                if name not in bound and (not wanted or name in wanted):
                    yield Bind(namespace=self._workload.namespace, set=name)
                elif name in bound and wanted and name not in wanted:
                    yield NameClusterSet(placement=self._key, set=name)

    def predicates(self) -> Iterator[Edit]:
        """Yield edits for the first mismatch of each predicate."""
        found = self._workload.derive(PlacementPredicates).compiled
        for source, compiled in zip(self._spec.predicates, found, strict=True):
            if not compiled.labels.matches(self._source.metadata.labels):
                yield from self._selected_by(compiled.labels, cells.LABEL)
            elif not compiled.claims.matches(cells.claims_of(self._source)):
                yield from self._selected_by(compiled.claims, cells.CLAIM)
            else:
                expressions = source.requiredClusterSelector.celSelector.celExpressions
                yield from islice(self._expressed(expressions), MOST_HINTS)

    def _expressed(self, expressions: tuple[str, ...]) -> Iterator[Edit]:
        now = self._outcome.context.now
        wary = self._workload.trust.hides_expired
        for text in expressions:
            if not Expressions((text,)).matches(self._snapshot, self._row, now=now if wary else None):
                yield from candidate_edits(
                    text, self._snapshot, self._world, self._cluster, now=now, wary=wary
                )
                return

    def _selected_by(self, selector: Selector, kind: str) -> Iterator[Edit]:
        """Yield edits for the first unmet requirement."""
        held = self._source.metadata.labels if kind == cells.LABEL else cells.claims_of(self._source)
        unmet = next((each for each in selector.requirements if not each.matches(held)), None)
        if unmet is not None:
            yield from (self._value(kind, unmet.key, value) for value in self._meeting(unmet, kind))

    def _meeting(self, unmet: Requirement, kind: str) -> Iterator[str | None]:
        column: ColumnKey = (kind, unmet.key)
        if unmet.operator == IN:
            yield from sorted(unmet.values)[:MOST_VALUES]
        elif unmet.operator == EXISTS:
            yield from common_values(self._snapshot, column) or [PLAIN_VALUE]
        else:
            yield None
            if unmet.operator != DOES_NOT_EXIST:
                found = common_values(self._snapshot, column, MOST_VALUES + len(unmet.values))
                yield from [value for value in found if value not in unmet.values][:MOST_VALUES]

    def _value(self, kind: str, key: str, value: str | None) -> Edit:
        if kind == cells.CLAIM:
            old = cells.claims_of(self._source).get(key)
            return SetClaim(cluster=self._cluster, key=key, value=value, old=old)
        old = self._source.metadata.labels.get(key)
        if key == CLUSTER_SET_LABEL and value is not None:
            return JoinClusterSet(cluster=self._cluster, set=value, old=old)
        return SetLabel(cluster=self._cluster, key=key, value=value, old=old)

    def taints(self, words: str) -> Iterator[Edit]:
        for each in self._source.spec.taints:
            if each.effect in (NO_SELECT, NO_SELECT_IF_NEW) and taints.describe(each) in words:
                yield from self._free_of(each.key, each.value, each.effect)
                return

    def _free_of(self, key: str, value: str, effect: str) -> Iterator[Edit]:
        yield Tolerate(placement=self._key, key=key, value=value, effect=effect)
        yield RemoveTaint(cluster=self._cluster, key=key, value=value, effect=effect)

    def topologies(self) -> Iterator[Edit]:
        """Yield topologies for a cluster without one, those with the fewest clusters first.

        A cluster keeps its topology, because its location cannot be changed.
        """
        for each in self._workload.derive(spread_constraints):
            codes = self._snapshot.codes(each.column)
            if codes.value(self._row):
                continue
            known = sorted((codes.uses(code), str(value)) for value, code in codes.items() if value)
            values = [value for _, value in known[:MOST_VALUES]]
            yield from (self._value(each.kind, each.key, value) for value in values or [PLAIN_VALUE])

    def _skews(self) -> Iterator[NumericCandidate]:
        """Yield edits that relax spread constraints."""
        most = len(self._outcome.details.rows)
        for at, each in enumerate(self._spec.spreadPolicy.spreadConstraints):
            if max(1, each.maxSkew) < most:
                edit = RaiseMaxSkew(
                    placement=self._key, constraint=at, key=each.topologyKey, old=each.maxSkew, value=most
                )
                yield NumericCandidate(edit=edit, guesses=(1, 2))

    def unknown(self, words: str) -> Barrier:
        """Yield edits that publish the first missing score; the value depends on the other clusters."""
        weights: dict[str, int] = {}
        for each in self._outcome.plugins.scores:
            weights[each.plugin.name] = weights.get(each.plugin.name, 0) + each.weight
        context = self._outcome.context
        wanted = next(each for each in wanted_scores(context) if each.why_not(context, self._row))
        edit: NumericEdit
        if isinstance(wanted, AddOn):
            name = f"AddOn/{wanted.resource}/{wanted.score}"
            edit, _ = self._score(name, list(weights), up=weights[name] >= 0)
        else:
            edit, _ = self._calculator(wanted.resource, up=weights[wanted.resource] >= 0)
        return Barrier(
            plugin=missing_score.NAME,
            words=words,
            edits=(edit.with_steps(0),),
            candidates=(NumericCandidate(edit=edit, guesses=()),) if edit.steps else (),
        )

    def ranking(self) -> Barrier:
        details, wanted = self._outcome.details, self._workload.wanted
        at = int(np.searchsorted(details.rows, self._row))
        mine = int(details.totals[at])
        ranks = self._snapshot.hosts.rank[details.rows]
        better = (details.totals > mine) | ((details.totals == mine) & (ranks < ranks[at]))
        chosen = self._outcome.selected_rows
        gap = 0
        if len(chosen):
            gap = int(details.totals[np.searchsorted(details.rows, chosen)].min()) - mine
        trace = Trace(self._outcome).host(self._cluster)
        edits = list(self._wanted_taints())
        if self._spec.spreadPolicy.spreadConstraints:
            edits.extend(self.topologies())
        candidates = list(self._numeric_candidates(gap))
        candidates.extend(self._skews())
        if wanted is not None and wanted < len(details.rows):
            given = self._spec.numberOfClusters or 0
            more = WantMore(placement=self._key, old=given, value=len(details.rows))
            candidates.append(
                NumericCandidate(edit=more, guesses=tuple(each - wanted for each in self._enough(better)))
            )
        return Barrier(RANKING, trace.reason, edits=tuple(dict.fromkeys(edits)), candidates=tuple(candidates))

    def _enough(self, better: Mask) -> tuple[int, ...]:
        """Estimate the necessary number of clusters.

        A spread policy selects about the same number from every topology, so a cluster is selected when each topology
        has as many selected clusters, if it has them, as there are better clusters in its own.
        """
        place = int(better.sum())
        rows = self._outcome.details.rows
        constraints = self._workload.derive(spread_constraints)
        if not constraints:
            return (place + 1,)
        columns = [self._snapshot.codes(each.column).codes for each in constraints]
        topologies = np.stack([codes[rows] for codes in columns])
        _, sizes = np.unique(topologies, axis=1, return_counts=True)
        own = (topologies == np.array([[codes[self._row]] for codes in columns])).all(axis=0)
        turn = int((better & own).sum())
        return (place + 1, int(np.minimum(sizes, turn).sum()), int(np.minimum(sizes, turn + 1).sum()))

    def _wanted_taints(self) -> Iterator[Edit]:
        """Yield edits that remove taints which cost points."""
        for each in self._outcome.plugins.scores:
            if isinstance(each.plugin, TaintPreference) and each.weight > 0:
                for taint in self._source.spec.taints:
                    if taint.effect == PREFER_NO_SELECT:
                        yield from self._free_of(taint.key, taint.value, taint.effect)

    def _numeric_candidates(self, gap: int) -> Iterator[NumericCandidate]:
        weights: dict[str, int] = {}
        plugins = {each.plugin.name: each.plugin for each in self._outcome.plugins.scores}
        for each in self._outcome.plugins.scores:
            weights[each.plugin.name] = weights.get(each.plugin.name, 0) + each.weight
        for name, weight in weights.items():
            plugin = plugins[name]
            found: tuple[NumericEdit, int] | None = None
            if weight == 0:
                continue
            if isinstance(plugin, AddOnScore):
                found = self._score(name, list(plugins), up=weight > 0)
            elif isinstance(plugin, Allocatable):
                resource = RESOURCES[name]
                amounts = self._snapshot.numbers((cells.ALLOCATABLE, resource)).values
                most = float(np.nan_to_num(amounts[self._outcome.details.rows]).max(initial=0.0))
                found = allocate_edit(self._source, resource, up=weight > 0, most=most * FARTHEST)
            elif isinstance(plugin, Calculator):
                found = self._calculator(name, up=weight > 0)
            if found is not None and found[1] > 0:
                # Ties are decided by name, so one more point may be needed to pass the last selected cluster.
                enough = -(-gap // abs(weight))
                yield NumericCandidate(edit=found[0], guesses=(enough, enough + 1))

    def _score(self, name: str, plugins: list[str], *, up: bool) -> tuple[NumericEdit, int]:
        _, resource, score = name.split("/", 2)
        prefix = f"AddOn/{resource}/"
        weighed = tuple(sorted(each.removeprefix(prefix) for each in plugins if each.startswith(prefix)))
        scorers = (each for each in self._outcome.plugins.scores if each.plugin.name == name)
        return score_edit(
            self._world,
            self._cluster,
            resource,
            score,
            up=up,
            now=self._outcome.context.now,
            weighed=weighed,
            missing=next(each.missing for each in scorers),
            wary=self._workload.trust.addon(resource, score) is not Missing.ZERO,
        )

    def _calculator(self, name: str, *, up: bool) -> tuple[NumericEdit, int]:
        column = self._snapshot.score_column((cells.CALCULATOR, name.lower()))
        present = bool(column.present[self._row])
        scorers = (each for each in self._outcome.plugins.scores if each.plugin.name == name)
        base = int(column.values[self._row]) if present else next(each.missing for each in scorers)
        values = np.abs(column.values[self._outcome.details.rows].astype(np.float64))
        farthest = min(FARTHEST * max(100, int(values.max(initial=0.0))), LARGEST)
        edit = PublishClusterScore(
            cluster=self._cluster,
            calculator=name,
            base=base,
            value=max(base, farthest) if up else min(base, -farthest),
            missing=not present,
        )
        return edit, edit.steps
