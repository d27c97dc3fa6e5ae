"""Which columns of the fleet the decision of a placement depends on.

There are two degrees. Columns that a filter reads, and columns shared by all clusters, always concern a placement: a
change may make another cluster feasible. Columns that only a prioritizer reads concern it if the changed cluster is
feasible.

Balance reads how often other placements selected a cluster, and debits count their decisions and HostedClusterRequests,
but that requeues no placement, as in OCM: each decision would requeue all others, endlessly.
"""

from collections.abc import Container, Hashable, Iterator

from fairway.api.placement import Placement
from fairway.engine.dependencies import Dependencies
from fairway.engine.outcome import Outcome
from fairway.hosts.clusters import cells
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from kubewire.api.selector import LabelSelector


def dependencies_of(outcome: Outcome, placement: Placement, *, feasible: Container[Hashable]) -> Dependencies:
    """``feasible``: the rows of clusters that are feasible at the time of an event."""
    context, plugins = outcome.context, outcome.plugins
    always: set[Key] = set(_of_choice(placement))
    if_feasible: set[Key] = set()
    anything = False
    admitting = len(plugins.pre_filters) + len(plugins.filters)
    # A PreFilter plugin that ended the cycle is not among those that applied.
    ended_by = [
        calls.reader
        for calls in outcome.profile.pre_filters
        if calls not in plugins.pre_filters and calls.plugin.name == outcome.status.plugin
    ]
    for reader in (*plugins.readers[:admitting], *ended_by):
        if reader is None:
            anything = True  # the plugin does not declare what it reads
        else:
            reads = reader.reads(context)
            always |= reads.cells | reads.shared
            anything = anything or reads.anything
    for scorer in plugins.scores:
        if scorer.reader is None:
            anything = True
        else:
            reads = scorer.reader.reads(context)
            if_feasible |= reads.cells
            always |= reads.shared
            anything = anything or reads.anything
    if_feasible = {
        key for key in if_feasible if key not in (cells.DECISIONS, cells.PROMISED) and key[0] != cells.DEBIT
    }
    return Dependencies(
        columns=dict.fromkeys(always, Direction.ANY),
        of_hosts=dict.fromkeys(if_feasible - always, Direction.ANY),
        hosts=feasible,
        anything=anything,
    )


def _of_choice(placement: Placement) -> Iterator[Key]:
    """Columns that the choice and the division into groups read."""
    spec = placement.spec
    for constraint in spec.spreadPolicy.spreadConstraints:
        column = cells.claim if constraint.topologyKeyType == "Claim" else cells.label
        yield column(constraint.topologyKey)
    for group in spec.decisionStrategy.groupStrategy.decisionGroups:
        selector = group.groupClusterSelector
        yield from (cells.label(key) for key in _keys(selector.labelSelector))
        yield from (cells.claim(expression.key) for expression in selector.claimSelector.matchExpressions)


def _keys(selector: LabelSelector) -> Iterator[str]:
    yield from selector.matchLabels
    yield from (expression.key for expression in selector.matchExpressions)
