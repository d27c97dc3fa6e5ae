"""Which placements depend on which columns of the fleet, to requeue them when a column changes.

There are two degrees. Columns that a filter reads, and columns shared by all clusters, always concern a placement: a
change may make another cluster feasible. Columns that only a prioritizer reads concern it if the changed cluster is
feasible.

Balance reads how often other placements selected a cluster, but that requeues no placement, as in OCM: each decision
would requeue all others, endlessly.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from fairway.api.placement import Placement
from fairway.api.selector import LabelSelector
from fairway.clusters import cells
from fairway.engine.outcome import Outcome
from fairway.fleet.column import Key
from fairway.fleet.journal import Change

Owner = tuple[str, str]
"""(namespace, name) of a placement."""

NOBODY: Final[frozenset[Owner]] = frozenset()


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Columns a placement depends on."""

    wide: frozenset[Key]
    narrow: frozenset[Key]
    """Only for clusters that are in the running."""
    anything: bool
    """Whether any change of any cluster may matter."""


def dependencies_of(outcome: Outcome, placement: Placement) -> Dependencies:
    context, plugins = outcome.context, outcome.plugins
    wide: set[Key] = set(_told(placement))
    narrow: set[Key] = set()
    anything = False
    admitting = len(plugins.pre_filters) + len(plugins.filters)
    for reader in plugins.readers[:admitting]:
        if reader is not None:
            reads = reader.reads(context)
            wide |= reads.cells | reads.shared
            anything = anything or reads.anything
    for scorer in plugins.scores:
        if scorer.reader is not None:
            reads = scorer.reader.reads(context)
            narrow |= reads.cells
            wide |= reads.shared
            anything = anything or reads.anything
    narrow.discard(cells.DECISIONS)
    return Dependencies(frozenset(wide), frozenset(narrow - wide), anything)


def _told(placement: Placement) -> Iterator[Key]:
    """What the choice and the division of the chosen read."""
    spec = placement.spec
    for constraint in spec.spreadPolicy.spreadConstraints:
        column = cells.claim if constraint.topologyKeyType == "Claim" else cells.label
        yield column(constraint.topologyKey)
    for group in spec.decisionStrategy.groupStrategy.decisionGroups:
        selector = group.groupClusterSelector
        yield from (cells.label(key) for key in _keys(selector.labelSelector))
        yield from (cells.claim(each.key) for each in selector.claimSelector.matchExpressions)


def _keys(selector: LabelSelector) -> Iterator[str]:
    yield from selector.matchLabels
    yield from (each.key for each in selector.matchExpressions)


class DependencyIndex:
    def __init__(self) -> None:
        self._wide: dict[Key, set[Owner]] = {}
        self._narrow: dict[Key, set[Owner]] = {}
        self._anything: set[Owner] = set()
        self._concerns: dict[Owner, Dependencies] = {}

    def put(self, owner: Owner, concern: Dependencies) -> None:
        old = self._concerns.get(owner)
        if old == concern:
            return
        if old is not None:
            self._remove(owner, old)
        self._concerns[owner] = concern
        for index, keys in ((self._wide, concern.wide), (self._narrow, concern.narrow)):
            for key in keys:
                index.setdefault(key, set()).add(owner)
        if concern.anything:
            self._anything.add(owner)

    def forget(self, owner: Owner) -> None:
        old = self._concerns.pop(owner, None)
        if old is not None:
            self._remove(owner, old)

    def _remove(self, owner: Owner, concern: Dependencies) -> None:
        for index, keys in ((self._wide, concern.wide), (self._narrow, concern.narrow)):
            for key in keys:
                index[key].discard(owner)
                if not index[key]:
                    del index[key]
        self._anything.discard(owner)

    def concerned(
        self, change: Change
    ) -> tuple[frozenset[Owner] | set[Owner], frozenset[Owner] | set[Owner]]:
        """Who is in any case, and who is if the rows that changed are in the running for him. Not to be written to."""
        surely = _union(self._wide, change.columns)
        if change.rows and self._anything:
            surely = surely | self._anything
        perhaps = _union(self._narrow, change.columns)
        return surely, perhaps - surely if surely and perhaps else perhaps


def _union(index: dict[Key, set[Owner]], keys: Iterable[Key]) -> frozenset[Owner] | set[Owner]:
    """Mostly there is one, which need not be copied."""
    found = [index[key] for key in keys if key in index]
    return NOBODY if not found else found[0] if len(found) == 1 else set().union(*found)
