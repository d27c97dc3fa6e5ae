"""DefaultPreemption: finds a node that would take the pod if pods of lower priority were evicted from it.

It changes nothing: the plan is a nomination in the cycle state (``Preemption.of``), for a controller that evicts the
victims and keeps the room for the pod.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from zlib import crc32

from fairway.api.pod import NEVER, Pod
from fairway.api.pod_disruption_budget import PodDisruptionBudget
from fairway.api.selector import SelectorError, compile_selector
from fairway.engine.outcome import Outcome
from fairway.engine.points import NOMINATION, Context, Nomination
from fairway.engine.rejections import Rejections
from fairway.engine.status import Code, Status
from fairway.fleet import bitmap
from fairway.nodes.hypothesis import HypotheticalSnapshot
from fairway.nodes.pod_template import PodInfo
from fairway.nodes.pods import PodKey
from fairway.plugins.pods.workload import info_of_workload, nodes_of

NAME = "DefaultPreemption"
NEVER_PREEMPTS = "preemption: not eligible due to preemptionPolicy=Never."
VICTIMS_TERMINATE = "preemption: not eligible due to a terminating pod on the nominated node."
NO_CANDIDATES = "preemption: 0/{nodes} nodes are available: {reasons}."
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
PLANNED = "preemption: {victims} pods of lower priority on {node} make room"
NO_PROBE = "plugin {name} needs the rejections of a cycle; got {kind}"
BAD_COUNT = "{field} must be from {low} to {high}; got {given!r}"

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTED: Final = "PreemptionByScheduler"
_LATEST = datetime.max.replace(tzinfo=UTC)
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
        found = outcome.context.state.find(NOMINATION, Nomination)
        return found.plan if found is not None and isinstance(found.plan, Preemption) else None


@dataclass(frozen=True, slots=True)
class _Candidate:
    order: int
    row: int
    node: str
    victims: tuple[PodInfo, ...]
    violations: int

    def rank(self) -> tuple[int, int, int, int, float, int]:
        """Return the key by which the best candidate is the lowest."""
        highest = max(each.priority for each in self.victims)
        started = min(_started(each) for each in self.victims if each.priority == highest)
        return (
            self.violations,
            highest,
            sum(each.priority + _PRIORITY_OFFSET for each in self.victims),
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
        best = search.best(wanted=self._wanted(bitmap.count(context.snapshot.live)))
        if best is None:
            reason = NO_CANDIDATES.format(nodes=bitmap.count(context.snapshot.live), reasons=search.reasons())
            return Status(Code.UNSCHEDULABLE, (reason,), plugin=NAME)
        plan = Preemption(best.node, tuple(each.pod for each in best.victims), best.violations)
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
            for each in nodes_of(context).pods.on(nominated).pods.values():
                if each.priority < incoming.priority and _is_preempted(each.pod):
                    return VICTIMS_TERMINATE
    return None


def _is_preempted(pod: Pod) -> bool:
    return pod.terminating and any(
        each.type == DISRUPTION_TARGET and each.status == "True" and each.reason == PREEMPTED
        for each in pod.status.conditions
    )


class _Search:
    """The search for a node, with the reasons why others are no candidates."""

    def __init__(self, context: Context, incoming: PodInfo, rejections: Rejections) -> None:
        self._incoming, self._rejections = incoming, rejections
        self._snapshot = nodes_of(context)
        self._what_if = HypotheticalSnapshot(self._snapshot)
        self._budgets = list(self._snapshot.budgets.values())
        self._reasons: Counter[str] = Counter()
        self._key = str(context.workload.namespace) + "/" + context.workload.name

    def reasons(self) -> str:
        return ", ".join(sorted(f"{count} {reason}" for reason, count in self._reasons.items() if count))

    def best(self, *, wanted: int) -> _Candidate | None:
        candidates: list[_Candidate] = []
        lowest = self._snapshot.pods.lowest_priority
        if lowest is None or lowest >= self._incoming.priority:
            self._count_nodes()
            return None
        for order, row in enumerate(self._rows()):
            candidate = self._evaluate(order, row)
            if candidate is not None:
                candidates.append(candidate)
                if len(candidates) >= wanted and any(not each.violations for each in candidates):
                    break
        return min(candidates, key=_Candidate.rank, default=None)

    def _count_nodes(self) -> None:
        """Count why each node is no candidate, if no pod has a lower priority."""
        helpful = 0
        for status, rows in self._rejections.groups:
            helpful += len(rows) if status.code is Code.UNSCHEDULABLE else 0
        others = bitmap.count(self._snapshot.live) - helpful
        self._reasons.update({NO_VICTIMS: helpful, NOT_HELPFUL: others})

    def _rows(self) -> list[int]:
        """Return the nodes, from one that depends on the pod: not every pod looks at the same nodes first."""
        rows: list[int] = bitmap.rows_of(self._snapshot.live).tolist()
        start = crc32(self._key.encode()) % len(rows) if rows else 0
        return rows[start:] + rows[:start]

    def _evaluate(self, order: int, row: int) -> _Candidate | None:
        status = self._rejections.get(row)
        if status is None or status.code is not Code.UNSCHEDULABLE:
            self._reasons[NOT_HELPFUL] += 1
            return None
        node = self._snapshot.hosts.names[row]
        lower = {
            key: info
            for key, info in self._snapshot.pods.on(node).pods.items()
            if info.priority < self._incoming.priority
        }
        if not lower:
            self._reasons[NO_VICTIMS] += 1
            return None
        for key in lower:
            self._what_if.remove_pod(node, key)
        removed = dict(lower)
        try:
            status = self._rejections.probe(self._what_if, row)
            if status is not None:
                self._reasons.update(status.reasons)
                return None
            violations = self._reprieve(node, row, removed)
            victims = sorted(removed.values(), key=_importance)
            return _Candidate(order, row, node, tuple(victims), violations)
        finally:
            for key, info in removed.items():
                self._what_if.add_pod(node, key, info)

    def _reprieve(self, node: str, row: int, removed: dict[PodKey, PodInfo]) -> int:
        """Put back the pods without which the incoming one still fits, those with a budget and important ones first.
        Return how many victims violate a budget."""
        ordered = sorted(removed.items(), key=lambda each: _importance(each[1]))
        violating = set(violating_pods((info.pod for _, info in ordered), self._budgets))
        violations = 0
        for violates in (True, False):
            for key, info in ordered:
                if (key in violating) is not violates:
                    continue
                self._what_if.add_pod(node, key, info)
                if self._rejections.probe(self._what_if, row) is None:
                    del removed[key]
                else:
                    self._what_if.remove_pod(node, key)
                    violations += violates
        return violations


def violating_pods(pods: Iterable[Pod], budgets: Iterable[PodDisruptionBudget]) -> Iterator[PodKey]:
    """Yield the pods whose eviction, one after the other, violates a PodDisruptionBudget."""
    left: list[tuple[PodDisruptionBudget, int]] = [(each, each.status.disruptionsAllowed) for each in budgets]
    for pod in pods:
        violates = False
        for at, (budget, allowed) in enumerate(left):
            if _protects(budget, pod):
                left[at] = (budget, allowed - 1)
                violates = violates or allowed <= 0
        if violates:
            yield pod.metadata.namespace, pod.metadata.name


def _protects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    meta = pod.metadata
    if (
        budget.metadata.namespace != meta.namespace
        or not meta.labels
        or meta.name in budget.status.disruptedPods
    ):
        return False
    try:
        selector = compile_selector(budget.spec.selector)
    except SelectorError:
        return False
    return bool(selector.requirements) and selector.matches(meta.labels)


def _importance(info: PodInfo) -> tuple[int, datetime]:
    """Return a key by which more important pods come first."""
    return -info.priority, _started(info)


def _started(info: PodInfo) -> datetime:
    """Return when the pod started; a pod that did not is the least important."""
    return info.pod.status.startTime or _LATEST
