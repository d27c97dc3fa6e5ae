"""Explain a decision: why clusters were selected, why others were not, and why not a given one.

An explanation changes nothing. It groups the results of the cycle and the messages of the plugins.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fairway.engine import cycle
from fairway.engine.fault import FaultError
from fairway.engine.outcome import Outcome
from fairway.engine.points import Filter
from fairway.engine.status import Status
from fairway.engine.trace import HostTrace, Trace
from fairway.hosts.instant import Micros
from fairway.whatif.advice import Advice, advise, disabled_reason, satisfied
from fairway.whatif.counterfactual import Counterfactual, counterfactual
from fairway.whatif.world import Key, World
from fairway.workloads.placement.conditions import SATISFIED
from fairway.workloads.placement.verdict import Verdict
from kubewire.api.meta import find_condition


@dataclass(frozen=True, slots=True)
class Rejection:
    """Clusters that the same plugin rejected with the same message, by name."""

    plugin: str
    reason: str
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one filter for one cluster."""

    plugin: str
    passed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A feasible cluster compared with the last selected one. ``gap`` is the difference in points, 0 for a tie."""

    other: HostTrace
    gap: int


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    trace: HostTrace
    checks: tuple[Check, ...]
    comparison: Comparison | None
    """None for selected and rejected clusters, and if no cluster is selected."""
    counterfactual: Counterfactual


@dataclass(frozen=True, slots=True)
class Explanation:
    placement: Key
    wanted: int | None
    clusters: int
    """Number of clusters in the fleet."""
    satisfied: bool
    reason: str
    message: str
    disabled_reason: str
    """Why scheduling of the placement is disabled; empty if it is not."""
    advice: tuple[Advice, ...]
    chosen: tuple[HostTrace, ...]
    """In the order of the selection."""
    passed_over: tuple[HostTrace, ...]
    """Feasible but not selected, by rank."""
    rejected: tuple[Rejection, ...]
    """In the order of the filters, the most frequent reason first."""
    cluster: ClusterAnswer | None = None


def explain(world: World, key: Key, *, now: Micros, cluster: str | None = None) -> Explanation:
    """Explain the decision of a prepared world (``World.prepare``). Raise KeyError if the placement or cluster does not
    exist."""
    workload = world.workload(key)
    verdict = world.decide(key, now=now)
    answer = None
    if cluster is not None:
        answer = _about(verdict.outcome, cluster, counterfactual(world, key, cluster, now=now))
    good, reason = satisfied(verdict)
    hosts = list(Trace(verdict.outcome))
    return Explanation(
        placement=key,
        wanted=workload.wanted,
        clusters=len(verdict.outcome.snapshot.hosts),
        satisfied=good,
        reason=reason,
        message=_message(verdict),
        disabled_reason=disabled_reason(workload.placement) if workload.idle else "",
        advice=advise(workload.placement, verdict),
        chosen=tuple(host for host in hosts if host.selected),
        passed_over=tuple(host for host in hosts if host.rank is not None and not host.selected),
        rejected=tuple(_rejections(verdict.outcome, (host for host in hosts if host.rank is None))),
        cluster=answer,
    )


def _message(verdict: Verdict) -> str:
    condition = find_condition(verdict.conditions, SATISFIED)
    return verdict.status.message if condition is None else condition.message


def _rejections(outcome: Outcome, rejected: Iterable[HostTrace]) -> Iterator[Rejection]:
    groups: dict[tuple[str, str], list[str]] = {}
    for trace in rejected:
        groups.setdefault((trace.rejected_by, trace.reason), []).append(trace.host)
    names = [calls.plugin.name for calls in outcome.plugins.pre_filters]
    names += [calls.plugin.name for calls in outcome.plugins.filters]
    place = {name: at for at, name in enumerate(names)}
    for (plugin, reason), names in sorted(
        groups.items(), key=lambda item: (place.get(item[0][0], len(place)), -len(item[1]), item[0])
    ):
        yield Rejection(plugin=plugin, reason=reason, clusters=tuple(names))


def _about(outcome: Outcome, cluster: str, what_if: Counterfactual) -> ClusterAnswer:
    trace = Trace(outcome)
    host_trace = trace.host(cluster)
    comparison = None
    if host_trace.total is not None and not host_trace.selected and outcome.selected:
        last = max((trace.host(name) for name in outcome.selected), key=lambda host: host.rank or 0)
        comparison = Comparison(other=last, gap=(last.total or 0) - host_trace.total)
    row = outcome.snapshot.hosts.row_of[cluster]
    return ClusterAnswer(
        trace=host_trace, checks=tuple(_checks(outcome, row)), comparison=comparison, counterfactual=what_if
    )


def _checks(outcome: Outcome, row: int) -> Iterator[Check]:
    """Yield the answer of each plugin, once: one at PreFilter that passes may still reject at Filter."""
    plugins = outcome.plugins
    filters = {calls.plugin.name for calls in plugins.filters}
    for calls, admitted in zip(plugins.pre_filters, plugins.admitted, strict=True):
        check = _check(calls.plugin.name, cycle.admission(outcome.context, calls, admitted, row))
        if not check.passed or check.plugin not in filters:
            yield check
    for filtering in plugins.filters:
        yield _filter_check(outcome, filtering.plugin, row)


def _filter_check(outcome: Outcome, plugin: Filter, row: int) -> Check:
    try:
        return _check(plugin.name, plugin.filter(outcome.context, row))
    except FaultError as error:
        return Check(plugin.name, passed=False, reason=str(error.fault))


def _check(plugin: str, status: Status) -> Check:
    bad = status.rejects or status.aborts
    return Check(plugin, not bad, status.message if bad else "")
