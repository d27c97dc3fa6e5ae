"""Compare the decisions that another controller writes with Fairway's. Never writes.

The other controller may be slower, so a difference counts only if it lasts. What OCM's controller never writes (scores,
reasons, times of recorded scores) is not compared.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, ClassVar, Final

from fairway.api.decision import PlacementDecision
from fairway.api.placement import DecisionGroupStatus, Placement, PlacementStatus
from fairway.controllers.placement.queue import BACKOFF, NEW_TERM, Owner, PlacementQueue
from fairway.controllers.placement.shard import Shard
from fairway.controllers.placement.slow_lane import SHORTEST_REST, SLICE_WORK, Budget, inspect
from fairway.controllers.placement.state import PlacementState
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.machine_memory import memo_limit
from fairway.controllers.runtime.reconciler import BROKE, Controller
from fairway.engine.dependencies import Dependencies
from fairway.engine.outcome import Outcome
from fairway.engine.pending import PendingAnswer
from fairway.engine.points import NEVER_CHANGES
from fairway.engine.profile import Profile
from fairway.engine.queue import Backoff
from fairway.hosts.instant import from_micros
from fairway.observe.meters import Meters
from fairway.workloads.placement import conditions, default_profile
from fairway.workloads.placement.reconcile_plan import ReconcilePlan
from fairway.workloads.placement.steps import Create, Delete, Fill, Relabel
from kubewire.api.meta import Condition, find_condition
from kubewire.client import SYSTEM_CLOCK, Clock, Resource

log: Final = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 10.0
NAMED: Final = 10

DIFFERS: Final = "placement %s/%s: %s"
AGREES: Final = "placement %s/%s: no difference left"
MISSING: Final = "decision {page} is missing; expected {clusters}"
SURPLUS: Final = "decision {page} should not exist"
OTHER_CLUSTERS: Final = "decision {page}: {changes}"
OTHER_ORDER: Final = "decision {page} names the clusters in another order"
OTHER_LABELS: Final = "decision {page} has labels {got}, expected {want}"
OTHER_CONDITION: Final = "condition {type} is {got}, expected {want}"
UNNAMED: Final = "a group without a name"
OTHER_STATUS: Final = "status.{field} is {got}, expected {want}"


class Shadow(Controller):
    name: ClassVar[str] = "placement"
    queue: PlacementQueue

    def __init__(
        self,
        *,
        meters: Meters,
        profile: Profile | None = None,
        backoff: Backoff = BACKOFF,
        shard: Shard | None = None,
        calculators: bool = True,
        requests: bool = False,
        settle: float = SETTLE_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.meters, self.clock = meters, clock
        profile = profile or default_profile()
        self.queue = PlacementQueue(clock, profile=profile, backoff=backoff, observer=meters.queue(self.name))
        self.state = PlacementState(
            self.queue,
            meters=meters,
            profile=profile,
            shard=shard,
            memo_limit=memo_limit(),
            lost=self._lost,
        )
        self.differences: dict[Owner, tuple[str, ...]] = {}
        """Differences that lasted, by placement."""
        self.compared = 0
        """Placements that were compared, and have not changed for long enough."""
        self._calculators, self._requests, self._settle = calculators, requests, settle
        self._since: dict[Owner, float] = {}
        self._budget = Budget(clock, clusters=lambda: len(self.state.fleet))

    def watch(self, informers: InformerFactory) -> None:
        self.state.follow(informers, calculators=self._calculators, requests=self._requests)

    def watch_late(self, informers: InformerFactory, kind: Resource[Any]) -> None:
        self.state.follow_kind(informers, kind)

    def _lost(self, owner: Owner) -> None:
        """Forget the differences of a deleted placement."""
        self._since.pop(owner, None)
        self._report(owner, ())

    async def work(self) -> None:
        changed = asyncio.Event()
        self.queue.on_change = changed.set
        self.queue.wake(self.state.records, trigger=NEW_TERM)
        while True:
            changed.clear()
            while (owner := self.queue.pop()) is not None:
                await self.attempt(owner)
                await asyncio.sleep(0)
            with suppress(TimeoutError):
                async with asyncio.timeout(self.queue.next_wait()):
                    await changed.wait()

    async def attempt(self, owner: Owner) -> None:
        """Compare a placement that was taken from the queue, and return it."""
        try:
            after = await self._compare(owner)
        except Exception as error:
            log.exception(BROKE, self.name, "/".join(owner))
            self.queue.fail(owner, str(error) or type(error).__name__)
        # A placement that a cancelled comparison had taken must be in the queue again for the next one.
        except BaseException:
            self.queue.release(owner)
            raise
        else:
            record = self.state.records.get(owner)
            dependencies = Dependencies() if record is None else record.dependencies
            self.queue.settle(owner, dependencies, after=after)

    async def _compare(self, owner: Owner) -> float | None:
        """Return in how many seconds to compare again, even if nothing changes."""
        now = self.clock.wall()
        while not self.state.advance(owner, now=now, work=SLICE_WORK):
            await asyncio.sleep(SHORTEST_REST)
        plan = await self._decide(owner, now)
        lasting = () if plan is None else tuple(differences(plan, self.state.decisions_of(owner)))
        after = None
        if plan is not None and plan.until not in (None, NEVER_CHANGES):
            after = max(0.0, (from_micros(plan.until or 0) - now).total_seconds())
        if lasting:
            since = self._since.setdefault(owner, self.clock.monotonic())
            left = since + self._settle - self.clock.monotonic()
            if left > 0:
                return left if after is None else min(left, after)
        else:
            self._since.pop(owner, None)
        self.compared += 1
        self._report(owner, lasting)
        return after

    async def _decide(self, owner: Owner, now: datetime) -> ReconcilePlan | None:
        snapshot = self.state.fleet.snapshot()
        while True:
            try:
                return self.state.decide(owner, now=now, snapshot=snapshot)
            except PendingAnswer as pending:
                await pending.fetch()

    def _report(self, key: Owner, lasting: tuple[str, ...]) -> None:
        known = self.differences.get(key, ())
        if lasting:
            self.differences[key] = lasting
        else:
            self.differences.pop(key, None)
        if lasting != known:
            text = "; ".join(lasting)
            log.warning(DIFFERS, *key, text) if lasting else log.info(AGREES, *key)
        self.meters.differences(len(self.differences))

    def find(self, namespace: str, name: str) -> Placement | None:
        return self.state.find(namespace, name)

    def describe_queue(self, namespace: str, name: str) -> dict[str, Any] | None:
        described = self.queue.describe((namespace, name))
        return None if described is None else {**described, "leading": False}

    async def inspect(self, placement: Placement) -> Outcome:
        return await inspect(self.state, placement, self.clock, self._budget)


def differences(plan: ReconcilePlan, own: Mapping[str, PlacementDecision]) -> Iterator[str]:
    """Describe the differences. ``own``: the placement's decisions on the hub."""
    for step in plan.steps:
        match step:
            case Create(page):
                yield MISSING.format(page=page.name, clusters=_some(page.clusters))
            case Delete(page):
                yield SURPLUS.format(page=page)
            case Fill(page, decisions, changed=True, temporary=False) if page in own:
                got = [decided.clusterName for decided in own[page].status.decisions]
                want = [decided.clusterName for decided in decisions]
                changes = _changes(got, want)
                yield (OTHER_CLUSTERS if changes else OTHER_ORDER).format(page=page, changes=changes)
            case Relabel(page) if page.name in own and own[page.name].metadata.labels != page.labels:
                labels = own[page.name].metadata.labels
                yield OTHER_LABELS.format(page=page.name, got=_pairs(labels), want=_pairs(page.labels))
    if plan.status is not None and plan.pages is not None:
        yield from _status_differences(plan.placement.status, plan.status)


def _status_differences(got: PlacementStatus, want: PlacementStatus) -> Iterator[str]:
    for kind in (conditions.SATISFIED, conditions.MISCONFIGURED):
        pair = [_describe_condition(find_condition(status.conditions, kind)) for status in (got, want)]
        if pair[0] != pair[1]:
            yield OTHER_CONDITION.format(type=kind, got=pair[0], want=pair[1])
    if got.numberOfSelectedClusters != want.numberOfSelectedClusters:
        yield OTHER_STATUS.format(
            field="numberOfSelectedClusters",
            got=got.numberOfSelectedClusters,
            want=want.numberOfSelectedClusters,
        )
    if got.decisionGroups != want.decisionGroups:
        yield OTHER_STATUS.format(
            field="decisionGroups",
            got=_groups(got.decisionGroups, but=want.decisionGroups),
            want=_groups(want.decisionGroups, but=got.decisionGroups),
        )


def _groups(groups: Sequence[DecisionGroupStatus], *, but: Sequence[DecisionGroupStatus]) -> str:
    """Describe groups by name; with all details if the names are equal."""
    names = [group.decisionGroupName or UNNAMED for group in groups]
    if names == [group.decisionGroupName or UNNAMED for group in but]:
        pages = (f"{group.clusterCount} on {_some(group.decisions)}" for group in groups)
        names = [f"{name} ({page})" for name, page in zip(names, pages, strict=True)]
    return _some(names)


def _describe_condition(condition: Condition | None) -> str:
    return "not set" if condition is None else f"{condition.status}/{condition.reason} ({condition.message})"


def _changes(got: Sequence[str], want: Sequence[str]) -> str:
    missing, surplus = sorted(set(want) - set(got)), sorted(set(got) - set(want))
    parts = ((missing, "lacks {names}"), (surplus, "should not name {names}"))
    return ", ".join(text.format(names=_some(names)) for names, text in parts if names)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMED]) or "nothing"
    return f"{shown} and {len(names) - NAMED} more" if len(names) > NAMED else shown


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
