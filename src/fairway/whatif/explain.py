"""Why a placement got these clusters, why it did not get the others, and why not that one.

An explanation looks and changes nothing. Everything in it comes from the cycle that decides and from the plugins'
own words; grouping them is all that is added.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairway.api.meta import find_condition
from fairway.engine.outcome import Outcome
from fairway.engine.trace import LEFT_OUT, NOT_CHOSEN, Contribution, HostTrace, Trace
from fairway.fleet.instant import Micros
from fairway.plugins.conditions import SATISFIED
from fairway.plugins.placement import PlacementWorkload
from fairway.plugins.spread import Spread
from fairway.plugins.verdict import Verdict
from fairway.whatif.advice import Advice, advise, left_alone, satisfied
from fairway.whatif.counterfactual import Counterfactual, counterfactual
from fairway.whatif.world import Key, World


@dataclass(frozen=True, slots=True)
class Rejection:
    """Clusters that the same plugin turned away in the same words, by name."""

    plugin: str
    reason: str
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """What one filter says of one cluster, asked by itself."""

    plugin: str
    passed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A feasible cluster beside the last one chosen. ``gap``: how many points it is behind, 0 for a tie by name."""

    other: HostTrace
    gap: int


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    trace: HostTrace
    checks: tuple[Check, ...]
    comparison: Comparison | None
    """None for clusters that are chosen or turned away, and where nobody is chosen."""
    counterfactual: Counterfactual


@dataclass(frozen=True, slots=True)
class Explanation:
    placement: Key
    wanted: int | None
    clusters: int
    """In the fleet."""
    satisfied: bool
    reason: str
    message: str
    left_alone: str
    """Why the placement is not looked at; empty when it is."""
    advice: tuple[Advice, ...]
    chosen: tuple[HostTrace, ...]
    """In the order they were taken."""
    passed_over: tuple[HostTrace, ...]
    """Feasible but not chosen, by rank."""
    rejected: tuple[Rejection, ...]
    """In the order of the filters, the most frequent reason first."""
    cluster: ClusterAnswer | None = None


def explain(world: World, key: Key, *, now: Micros, cluster: str | None = None) -> Explanation:
    """KeyError when there is no such placement or cluster."""
    workload = world.workload(key)
    found = world.look(key, now=now)
    answer = None
    if cluster is not None:
        answer = _about(found.outcome, cluster, counterfactual(world, key, cluster, now=now))
    good, reason = satisfied(found)
    standings = list(_standings(found.outcome, workload))
    chosen = {name: at for at, name in enumerate(found.outcome.selected)}
    return Explanation(
        placement=key,
        wanted=workload.wanted,
        clusters=len(found.outcome.snapshot.hosts),
        satisfied=good,
        reason=reason,
        message=_message(found),
        left_alone=left_alone(workload.placement) if workload.idle else "",
        advice=advise(workload.placement, found),
        chosen=tuple(
            sorted((each for each in standings if each.selected), key=lambda each: chosen[each.host])
        ),
        passed_over=tuple(each for each in standings if not each.selected),
        rejected=tuple(_rejections(found.outcome)),
        cluster=answer,
    )


def _message(found: Verdict) -> str:
    condition = find_condition(found.conditions, SATISFIED)
    return found.status.message if condition is None else condition.message


def _standings(outcome: Outcome, workload: PlacementWorkload) -> Iterator[HostTrace]:
    """What ``Trace`` says of every feasible cluster, by rank, with the spread policy asked once per topology."""
    details, snapshot = outcome.details, outcome.snapshot
    selected = np.isin(details.rows, outcome.selected_rows).tolist()
    order = np.lexsort((snapshot.hosts.rank[details.rows], -details.totals))
    spread = Spread(constraints=workload.placement.spec.spreadPolicy.spreadConstraints)
    columns = [snapshot.codes(each.column).codes for each in spread.constraints]
    objections: dict[tuple[int, ...], str | None] = {}
    for rank, at in enumerate(order.tolist(), 1):
        row = int(details.rows[at])
        reason = ""
        if not selected[at]:
            topology = tuple(int(codes[row]) for codes in columns)
            if topology not in objections:
                objections[topology] = _objection(outcome, row)
            reason = objections[topology] or _lower(rank, workload.wanted)
        yield HostTrace(
            host=snapshot.hosts.names[row],
            selected=selected[at],
            reason=reason,
            rank=rank,
            total=int(details.totals[at]),
            contributions=tuple(
                Contribution(
                    plugin=each.plugin,
                    score=int(each.scores[at]),
                    weight=each.weight,
                    known=each.present is None or bool(each.present[at]),
                )
                for each in details.scored
            ),
        )


def _objection(outcome: Outcome, row: int) -> str | None:
    ask = outcome.profile.explain_choice
    return None if ask is None else ask(outcome.context, row, outcome.selected_rows, outcome.details.rows)


def _lower(rank: int, wanted: int | None) -> str:
    return LEFT_OUT if wanted is None or rank <= wanted else NOT_CHOSEN.format(better=rank - 1, wanted=wanted)


def _rejections(outcome: Outcome) -> Iterator[Rejection]:
    trace, hosts = Trace(outcome), outcome.snapshot.hosts
    feasible = set(outcome.details.rows.tolist())
    groups: dict[tuple[str, str], list[str]] = {}
    for name in hosts.in_name_order():
        row = hosts.row_of[name]
        if row not in feasible:
            status = trace.verdict(row)
            groups.setdefault((status.plugin, status.message), []).append(name)
    profile = outcome.profile
    order = [each.name for each in (*profile.pre_filters, *profile.filters)]
    place = {name: at for at, name in enumerate(order)}
    for (plugin, reason), names in sorted(
        groups.items(), key=lambda item: (place.get(item[0][0], len(place)), -len(item[1]), item[0])
    ):
        yield Rejection(plugin=plugin, reason=reason, clusters=tuple(names))


def _about(outcome: Outcome, cluster: str, what_if: Counterfactual) -> ClusterAnswer:
    trace = Trace(outcome)
    mine = trace.host(cluster)
    comparison = None
    if mine.total is not None and not mine.selected and outcome.selected:
        last = max((trace.host(name) for name in outcome.selected), key=lambda each: each.rank or 0)
        comparison = Comparison(other=last, gap=(last.total or 0) - mine.total)
    row = outcome.snapshot.hosts.row_of[cluster]
    return ClusterAnswer(
        trace=mine, checks=tuple(_checks(outcome, row)), comparison=comparison, counterfactual=what_if
    )


def _checks(outcome: Outcome, row: int) -> Iterator[Check]:
    for plugin in outcome.profile.pre_filters:
        status = plugin.admits(outcome.context, row)
        bad = status.rejects or status.aborts
        yield Check(plugin.name, not bad, status.message if bad else "")
    for each in outcome.profile.filters:
        status = each.filter(outcome.context, row)
        bad = status.rejects or status.aborts
        yield Check(each.name, not bad, status.message if bad else "")
