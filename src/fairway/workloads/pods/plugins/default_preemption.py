"""DefaultPreemption: finds a node that would take the pod if pods of lower priority were evicted from it.

It changes nothing: the plan is a nomination in the cycle state (``Preemption.of``), for a controller that evicts the
victims and keeps the room for the pod.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate
from typing import Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from fairway.api.pod import NEVER, Pod
from fairway.api.pod_disruption_budget import PodDisruptionBudget
from fairway.api.pod_requests import PODS
from fairway.engine.outcome import Outcome
from fairway.engine.points import NOMINATION, Context, Nomination
from fairway.engine.rejections import Rejections
from fairway.engine.status import Code, Status
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.nodes.hypothesis import HypotheticalSnapshot, SeparatelyWithout
from fairway.hosts.nodes.pod_columns import of_lower_priority
from fairway.hosts.nodes.pod_template import PodInfo
from fairway.hosts.nodes.pods import PodKey
from fairway.hosts.resources import allocatable, requested
from fairway.workloads.pods.plugins import node_resources_fit
from fairway.workloads.pods.workload import info_of_workload, nodes_of
from kubewire.api.selector import Selector, SelectorError, compile_selector

NAME = "DefaultPreemption"
NEVER_PREEMPTS = "preemption: not eligible due to preemptionPolicy=Never."
VICTIMS_TERMINATE = "preemption: not eligible due to a terminating pod on the nominated node."
NO_CANDIDATES = "preemption: 0/{nodes} nodes are available: {reasons}."
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NOT_EXAMINED = "node(s) not examined for preemption"
PLANNED = "preemption: {victims} pods of lower priority on {node} make room"
NO_PROBE = "plugin {name} needs the rejections of a cycle; got {kind}"
BAD_COUNT = "{field} must be from {low} to {high}; got {given!r}"

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTED: Final = "PreemptionByScheduler"
_LATEST = datetime.max.replace(tzinfo=UTC)
MOST_PROBES: Final = 100
"""How often one search filters a single node: some 30 ms. Only searches need more whose filters cannot tell many nodes
at once, such as those of required affinity."""
MOST_OPTIONS: Final = 1000
"""Nodes that one search compares while all violate a PodDisruptionBudget."""
_PRIORITY_OFFSET = 1 << 31
"""Makes priorities positive, so that a sum grows with each victim."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """A plan: evict these pods, and the pod will fit on the node."""

    node: str
    victims: tuple[Pod, ...]
    """Most important first."""
    violations: int
    """Number of victims whose eviction violates a PodDisruptionBudget."""

    @staticmethod
    def of(outcome: Outcome) -> "Preemption | None":
        """Return the plan of a cycle; None if there is none."""
        nomination = outcome.context.state.find(NOMINATION, Nomination)
        return nomination.plan if nomination is not None and isinstance(nomination.plan, Preemption) else None


Rank = tuple[int, int, int, int, float, int]
"""The lowest is the best."""


@dataclass(frozen=True, slots=True)
class _Option:
    """A node on which the pod may fit without the pods of lower priority."""

    order: int
    row: int
    node: str
    lower: Mapping[PodKey, PodInfo]

    def bound(self, *, fewest: int, harmless: int) -> Rank:
        """Return a rank that is not higher than that of the candidate, which has at least ``fewest`` victims.
        ``harmless`` is how many pods may be evicted without violating a budget."""
        priorities = sorted([info.priority for info in self.lower.values()])[:fewest]
        highest = priorities[-1]
        # If no more than these are evicted, so many of them have the highest priority: the oldest of the youngest ones.
        youngest = sorted([_started(info) for info in self.lower.values() if info.priority == highest])
        started = youngest[-priorities.count(highest)]
        total = sum(priorities) + _PRIORITY_OFFSET * fewest
        violations = max(0, fewest - harmless)
        return violations, highest, total, fewest, -started.timestamp(), self.order


@dataclass(frozen=True, slots=True)
class _Candidate:
    order: int
    row: int
    node: str
    victims: tuple[PodInfo, ...]
    violations: int

    def rank(self) -> Rank:
        highest = max(victim.priority for victim in self.victims)
        started = min(_started(victim) for victim in self.victims if victim.priority == highest)
        return (
            self.violations,
            highest,
            sum(victim.priority + _PRIORITY_OFFSET for victim in self.victims),
            len(self.victims),
            -started.timestamp(),
            self.order,
        )


class DefaultPreemption:
    name = NAME

    def __init__(
        self, *, min_candidate_nodes_percentage: int = 10, min_candidate_nodes_absolute: int = 100
    ) -> None:
        if not 0 <= min_candidate_nodes_percentage <= 100:
            raise ValueError(
                BAD_COUNT.format(
                    field="minCandidateNodesPercentage", low=0, high=100, given=min_candidate_nodes_percentage
                )
            )
        self._percentage = min_candidate_nodes_percentage
        self._absolute = min_candidate_nodes_absolute

    def post_filter(self, context: Context, rejections: Mapping[int, Status], /) -> Status:
        if not isinstance(rejections, Rejections):
            raise TypeError(NO_PROBE.format(name=NAME, kind=type(rejections).__name__))
        incoming = info_of_workload(context.workload)
        objection = _objection(context, incoming, rejections)
        if objection is not None:
            return Status(Code.UNSCHEDULABLE, (objection,), plugin=NAME)
        search = _Search(context, incoming, rejections)
        best = search.best(wanted=max(1, self._wanted(bitmap.count(context.snapshot.live))))
        if best is None:
            reason = NO_CANDIDATES.format(nodes=bitmap.count(context.snapshot.live), reasons=search.reasons())
            return Status(Code.UNSCHEDULABLE, (reason,), plugin=NAME)
        plan = Preemption(best.node, tuple(victim.pod for victim in best.victims), best.violations)
        context.state.write(NOMINATION, Nomination(rows=(best.row,), plan=plan))
        words = PLANNED.format(victims=len(best.victims), node=best.node)
        return Status(Code.SUCCESS, (words,), plugin=NAME)

    def _wanted(self, nodes: int) -> int:
        """Return the number of candidates among which to choose: more take longer."""
        return min(nodes, max(nodes * self._percentage // 100, self._absolute))


def _objection(context: Context, incoming: PodInfo, rejections: Rejections) -> str | None:
    """Return why the pod must not preempt others."""
    if incoming.pod.spec.preemptionPolicy == NEVER:
        return NEVER_PREEMPTS
    meta = incoming.pod.metadata
    known = nodes_of(context).nominations.get((meta.namespace, meta.name))
    nominated = known or incoming.pod.status.nominatedNodeName
    row = context.snapshot.hosts.row_of.get(nominated)
    if row is not None:
        status = rejections.get(row)
        if status is None or status.code is not Code.UNRESOLVABLE:
            evicting = nodes_of(context).evicting
            for key, info in nodes_of(context).pods.on(nominated).pods.items():
                # Until the hub shows that they terminate, another plan would evict more pods than it takes.
                if info.priority < incoming.priority and (key in evicting or _is_preempted(info.pod)):
                    return VICTIMS_TERMINATE
    return None


def _is_preempted(pod: Pod) -> bool:
    return pod.terminating and any(
        condition.type == DISRUPTION_TARGET and condition.status == "True" and condition.reason == PREEMPTED
        for condition in pod.status.conditions
    )


class _Search:
    """The search for a node, with the reasons why others are no candidates.

    All nodes are filtered at once, each as if its pods of lower priority did not exist. Of those that pass, the one
    whose bound is best is evaluated pod by pod, until no bound is better than a candidate.
    """

    def __init__(self, context: Context, incoming: PodInfo, rejections: Rejections) -> None:
        self._incoming, self._rejections = incoming, rejections
        self._snapshot = nodes_of(context)
        self._budgets = _Budgets(self._snapshot.budgets.values())
        self._reasons: Counter[str] = Counter()
        self._unexplained: list[int] = []
        """Rows that are no candidates for a reason that is not known yet."""
        self._key = str(context.workload.namespace) + "/" + context.workload.name
        self._probes = MOST_PROBES
        """How many are left."""

    @cached_property
    def _what_if(self) -> HypotheticalSnapshot:
        return HypotheticalSnapshot(self._snapshot)

    def reasons(self) -> str:
        for at, row in enumerate(self._unexplained):
            if self._probes <= 0:
                self._reasons[NOT_EXAMINED] += len(self._unexplained) - at
                break
            self._fits(self._option(0, row))
        return ", ".join(sorted(f"{count} {reason}" for reason, count in self._reasons.items() if count))

    def best(self, *, wanted: int) -> _Candidate | None:
        """Return the best of the first ``wanted`` candidates, or of more, if all of them violate a budget."""
        lowest, helpful = self._snapshot.pods.lowest_priority, self._helpful()
        if lowest is None or lowest >= self._incoming.priority:
            self._count_nodes(bitmap.count(helpful), 0)
            return None
        without = SeparatelyWithout(self._snapshot, self._incoming.priority)
        has_victims = self._snapshot.counts(
            of_lower_priority(self._incoming.priority, requested(PODS))
        ).values
        rows = self._rotated(helpful & bitmap.pack(has_victims > 0))
        self._count_nodes(bitmap.count(helpful), len(rows))
        screened = self._rejections.screen(without, bitmap.from_rows(rows, self._snapshot.capacity))
        passed = bitmap.unpack(screened.passed)[rows]
        if screened.exact:
            for status, rejected in screened.group():
                self._reasons.update(dict.fromkeys(status.reasons, len(rejected)))
        else:
            self._unexplained += rows[~passed].tolist()
        orders, best = np.flatnonzero(passed), None
        if not screened.exact and len(orders) > wanted:
            # Not all of them can be examined: others are, when the fleet has changed.
            orders = np.roll(orders, -(self._snapshot.generation % len(orders)))
        for first in range(0, min(len(orders), MOST_OPTIONS), wanted):
            some = orders[first : first + wanted].tolist()
            options = [self._option(order, rows.item(order)) for order in some]
            best = self._better(best, options, exact=screened.exact)
            if best is not None and not best.violations:
                break
            if self._probes <= 0:
                self._reasons[NOT_EXAMINED] += max(0, len(orders) - first - wanted)
                break
        return best

    def _better(
        self, best: _Candidate | None, options: Iterable[_Option], *, exact: bool
    ) -> _Candidate | None:
        """Return the best of a candidate and these options. Most need not be evaluated: even a bound of their rank is
        worse."""
        rank = None if best is None else best.rank()
        bounded = sorted((self._bound(option), option.order, option) for option in options)
        for bound, _, option in bounded:
            if rank is not None and (rank <= bound or self._probes <= 0):
                break
            if not exact:
                if self._probes <= 0:
                    self._reasons[NOT_EXAMINED] += 1
                    continue
                if not self._fits(option):
                    continue
            candidate = self._evaluate(option)
            if rank is None or candidate.rank() < rank:
                best, rank = candidate, candidate.rank()
        return best

    def _option(self, order: int, row: int) -> _Option:
        node, priority = self._snapshot.hosts.names[row], self._incoming.priority
        pods = self._snapshot.pods.on(node).pods
        return _Option(
            order, row, node, {key: info for key, info in pods.items() if info.priority < priority}
        )

    def _bound(self, option: _Option) -> Rank:
        harmless = len(option.lower)
        if self._budgets:
            harmless -= len(self._budgets.violating(sorted(option.lower.values(), key=_importance)))
        return option.bound(fewest=self._fewest(option), harmless=harmless)

    @cached_property
    def _short(self) -> list[tuple[str, npt.NDArray[np.int64]]]:
        """Return how much of each resource each node lacks that was rejected for it."""
        requests, snapshot = self._incoming.template.requests, self._snapshot
        shortages: dict[str, npt.NDArray[np.int64]] = {}
        for status, rows in self._rejections.groups:
            if status.plugin != node_resources_fit.NAME:
                continue
            for resource, asked in requests.items():
                if node_resources_fit.INSUFFICIENT.format(resource=resource) in status.reasons:
                    short = shortages.setdefault(resource, np.zeros(snapshot.capacity, dtype=np.int64))
                    have = snapshot.counts(allocatable(resource)).values[rows]
                    short[rows] = asked - (have - snapshot.counts(requested(resource)).values[rows])
        return list(shortages.items())

    def _fewest(self, option: _Option) -> int:
        """Return how many victims it takes at least, given the resources for which the node was rejected."""
        fewest = 1
        for resource, amounts in self._short:
            short = amounts.item(option.row)
            if short > 0:
                freed = [info.template.requests.get(resource, 0) for info in option.lower.values()]
                left = list(accumulate(sorted(freed, reverse=True)))
                fewest = max(fewest, min(bisect_left(left, short) + 1, len(left)))
        return fewest

    def _helpful(self) -> Bits:
        """Return the nodes where evictions may help."""
        helpful = self._snapshot.none()
        for status, rows in self._rejections.groups:
            if status.code is Code.UNSCHEDULABLE:
                helpful |= bitmap.from_rows(rows, self._snapshot.capacity)
        return helpful & self._snapshot.live

    def _count_nodes(self, helpful: int, with_victims: int) -> None:
        """Count why nodes are no candidates: no pod there has a lower priority, or evictions do not help."""
        self._reasons[NO_VICTIMS] += helpful - with_victims
        self._reasons[NOT_HELPFUL] += bitmap.count(self._snapshot.live) - helpful

    def _rotated(self, nodes: Bits) -> Rows:
        """Return the rows, from one that depends on the pod: not every pod looks at the same nodes first."""
        rows = bitmap.rows_of(nodes)
        live = bitmap.rows_of(self._snapshot.live)
        # kube-scheduler starts at a random node. A hash of the name spreads pods as well, and a cycle stays
        # repeatable.
        first = live[crc32(self._key.encode()) % len(live)] if len(live) else 0
        return np.roll(rows, -int(np.searchsorted(rows, first)))

    def _fits(self, option: _Option) -> bool:
        """Return whether the pod fits without the pods of lower priority, and count why not."""
        with self._removed(option):
            status = self._probe(option.row)
        if status is not None:
            self._reasons.update(status.reasons)
        return status is None

    def _probe(self, row: int) -> Status | None:
        self._probes -= 1
        return self._rejections.probe(self._what_if, row)

    def _evaluate(self, option: _Option) -> _Candidate:
        with self._removed(option) as removed:
            violations = self._reprieve(option.node, option.row, removed)
            victims = sorted(removed.values(), key=_importance)
        return _Candidate(option.order, option.row, option.node, tuple(victims), violations)

    @contextmanager
    def _removed(self, option: _Option) -> Iterator[dict[PodKey, PodInfo]]:
        """Remove the pods of lower priority; those that are left in the yielded dictionary come back."""
        for key in option.lower:
            self._what_if.remove_pod(option.node, key)
        removed = dict(option.lower)
        try:
            yield removed
        finally:
            for key, info in removed.items():
                self._what_if.add_pod(option.node, key, info)

    def _reprieve(self, node: str, row: int, removed: dict[PodKey, PodInfo]) -> int:
        """Put back the pods without which the incoming one still fits, those with a budget and important ones first.
        Return how many victims violate a budget."""
        ordered = sorted(removed.items(), key=lambda item: _importance(item[1]))
        violating = self._budgets.violating([info for _, info in ordered])
        violations = 0
        for violates in (True, False):
            for key, info in ordered:
                if (key in violating) is not violates:
                    continue
                self._what_if.add_pod(node, key, info)
                if self._probe(row) is None:
                    del removed[key]
                else:
                    self._what_if.remove_pod(node, key)
                    violations += violates
        return violations


class _Budgets:
    """The PodDisruptionBudgets. Which of them protect pods that are alike is computed once."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._of_namespace: dict[str, list[tuple[PodDisruptionBudget, Selector]]] = {}
        for budget in budgets:
            try:
                selector = compile_selector(budget.spec.selector)
            except SelectorError:
                continue
            if selector.requirements:  # an empty selector protects nothing, as in kube-scheduler
                self._of_namespace.setdefault(budget.metadata.namespace, []).append((budget, selector))
        # By identity: the snapshot keeps the templates alive as long as this search.
        self._of_template: dict[int, list[PodDisruptionBudget]] = {}

    def __bool__(self) -> bool:
        return bool(self._of_namespace)

    def violating(self, pods: Iterable[PodInfo]) -> set[PodKey]:
        """Return the pods whose eviction, one after the other, violates a budget."""
        left: dict[int, int] = {}
        violating: set[PodKey] = set()
        for info in pods:
            meta = info.pod.metadata
            for budget in self._protecting(info):
                if meta.name not in budget.status.disruptedPods:
                    allowed = left.get(id(budget), budget.status.disruptionsAllowed)
                    left[id(budget)] = allowed - 1
                    if allowed <= 0:
                        violating.add((meta.namespace, meta.name))
        return violating

    def _protecting(self, info: PodInfo) -> list[PodDisruptionBudget]:
        template = info.template
        budgets = self._of_template.get(id(template))
        if budgets is None:
            labels = template.labels
            budgets = self._of_template[id(template)] = [
                budget
                for budget, selector in self._of_namespace.get(template.namespace, ())
                if labels and selector.matches(labels)
            ]
        return budgets


def _importance(info: PodInfo) -> tuple[int, datetime]:
    """Return a key by which more important pods come first."""
    return -info.priority, _started(info)


def _started(info: PodInfo) -> datetime:
    """Return when the pod started; a pod that did not is the least important."""
    return info.pod.status.startTime or _LATEST
