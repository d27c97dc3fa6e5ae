"""DefaultPreemption: finds a node that would take the pod if pods of lower priority were evicted from it.

It changes nothing: the plan is a nomination in the cycle state (``Preemption.of``), for a controller that evicts the
victims and keeps the room for the pod.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate, islice
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
from fairway.fleet.resources import allocatable, requested
from fairway.nodes.hypothesis import HypotheticalSnapshot, SeparatelyWithout
from fairway.nodes.pod_template import PodInfo
from fairway.nodes.pods import PodKey
from fairway.plugins.pods import node_resources_fit
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
CHUNK: Final = 512
"""Nodes that are filtered at once."""
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


Rank = tuple[int, int, int, int, float, int]
"""The lowest is the best."""


@dataclass(frozen=True, slots=True)
class _Option:
    """A node on which the pod would fit without the pods of lower priority."""

    order: int
    row: int
    node: str
    lower: Mapping[PodKey, PodInfo]

    def bound(self, *, fewest: int) -> Rank:
        """Return a rank that is not higher than that of the candidate, which has at least ``fewest`` victims."""
        priorities = sorted([each.priority for each in self.lower.values()])[:fewest]
        highest = priorities[-1]
        # If no more than these are evicted, so many of them have the highest priority: the oldest of the youngest ones.
        youngest = sorted([_started(each) for each in self.lower.values() if each.priority == highest])
        started = youngest[-priorities.count(highest)]
        total = sum(priorities) + _PRIORITY_OFFSET * fewest
        return 0, highest, total, fewest, -started.timestamp(), self.order


@dataclass(frozen=True, slots=True)
class _Candidate:
    order: int
    row: int
    node: str
    victims: tuple[PodInfo, ...]
    violations: int

    def rank(self) -> Rank:
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
        self._unexplained: list[_Option] = []
        """Nodes that are no candidates for a reason that is not known yet."""
        self._key = str(context.workload.namespace) + "/" + context.workload.name

    def reasons(self) -> str:
        for each in self._unexplained:
            self._fits(each)
        return ", ".join(sorted(f"{count} {reason}" for reason, count in self._reasons.items() if count))

    def best(self, *, wanted: int) -> _Candidate | None:
        """Return the best of the first ``wanted`` candidates, or more, if all of them violate a budget."""
        lowest = self._snapshot.pods.lowest_priority
        if lowest is None or lowest >= self._incoming.priority:
            self._count_nodes()
            return None
        options = self._options()
        best = self._best_of(islice(options, max(1, wanted)))
        if best is not None and best.violations:
            for each in options:
                candidate = self._evaluate(each)
                best = min(best, candidate, key=_Candidate.rank)
                if not best.violations:
                    break
        return best

    def _best_of(self, options: Iterable[_Option]) -> _Candidate | None:
        """Return the best candidate. Most need not be evaluated: even a bound of their rank is worse."""
        best: _Candidate | None = None
        rank: Rank | None = None
        bounded = sorted((each.bound(fewest=self._fewest(each)), each.order, each) for each in options)
        for bound, _, option in bounded:
            if rank is not None and rank <= bound:
                break
            candidate = self._evaluate(option)
            if rank is None or candidate.rank() < rank:
                best, rank = candidate, candidate.rank()
        return best

    def _fewest(self, option: _Option) -> int:
        """Return how many victims it takes at least, given the resources for which the node was rejected."""
        status, requests = self._rejections[option.row], self._incoming.template.requests
        fewest = 1
        if status.plugin == node_resources_fit.NAME:
            for resource, asked in requests.items():
                if node_resources_fit.INSUFFICIENT.format(resource=resource) in status.reasons:
                    have = self._snapshot.counts(allocatable(resource)).values.item(option.row)
                    used = self._snapshot.counts(requested(resource)).values.item(option.row)
                    short = asked - (have - used)
                    amounts = [each.template.requests.get(resource, 0) for each in option.lower.values()]
                    left = list(accumulate(sorted(amounts, reverse=True)))
                    fewest = max(fewest, min(bisect_left(left, short) + 1, len(left)))
        return fewest

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

    def _options(self) -> Iterator[_Option]:
        """Yield the nodes on which the pod would fit without pods of lower priority, in order."""
        found = self._with_victims()
        while chunk := list(islice(found, CHUNK)):
            yield from self._screen(chunk)

    def _with_victims(self) -> Iterator[_Option]:
        names, pods, priority = self._snapshot.hosts.names, self._snapshot.pods, self._incoming.priority
        for order, row in enumerate(self._rows()):
            status = self._rejections.get(row)
            if status is None or status.code is not Code.UNSCHEDULABLE:
                self._reasons[NOT_HELPFUL] += 1
                continue
            lower = {key: info for key, info in pods.on(names[row]).pods.items() if info.priority < priority}
            if lower:
                yield _Option(order, row, names[row], lower)
            else:
                self._reasons[NO_VICTIMS] += 1

    def _screen(self, chunk: Sequence[_Option]) -> Iterator[_Option]:
        """Yield the options that pass all filters."""
        nominated = self._snapshot.nominated
        plain = [each for each in chunk if each.node not in nominated]
        without = SeparatelyWithout(self._snapshot, {each.node: each.lower.values() for each in plain})
        rows = bitmap.from_rows([each.row for each in plain], self._snapshot.capacity)
        screened = self._rejections.screen(without, rows)
        if screened.exact:
            for status, rejected in screened.group():
                self._reasons.update(dict.fromkeys(status.reasons, len(rejected)))
        for each in chunk:
            if each.node in nominated:
                passed = self._fits(each)
            elif not bitmap.test(screened.passed, each.row):
                passed = False
                if not screened.exact:
                    self._unexplained.append(each)
            else:
                passed = screened.exact or self._fits(each)
            if passed:
                yield each

    def _fits(self, option: _Option) -> bool:
        """Return whether the pod fits without the pods of lower priority, and count why not."""
        with self._removed(option):
            status = self._rejections.probe(self._what_if, option.row)
        if status is not None:
            self._reasons.update(status.reasons)
        return status is None

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
