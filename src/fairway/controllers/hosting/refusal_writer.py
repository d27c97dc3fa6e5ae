"""Write refusals into the statuses of requests, after everything else.

A tenant may have thousands of requests that find no room, and each place that is given back may change why. No consumer
waits for these writes as it waits for a ManifestWork. So they have a queue of their own: tenants take turns, one write
runs at a time, and the rate is bounded; the bound is lower while other work waits. Requests that are refused for the
same reasons share their what-ifs, which run in slices.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

from fairway.controllers.hosting.binding import host_of
from fairway.controllers.hosting.hub_access import HubAccess
from fairway.controllers.runtime.reconciler import BACKOFF, Key, work_on
from fairway.controllers.runtime.slicing import in_slices
from fairway.engine.workload import Workload
from fairway.hosts.instant import SECOND, Micros, to_micros
from fairway.workloads.hosting import Decision, HostingState
from fairway.workloads.hosting.planning.fit import changes_in_steps
from fairway.workloads.hosting.requests.refusal_groups import content_of, group_of
from fairway.workloads.hosting.requests.request_status import unscheduled
from fairway.workloads.hosting.workload import HostingSpec, key_of
from kubewire.api.event import WARNING
from kubewire.client import TokenBucket, WorkQueue

FAILED_SCHEDULING: Final = "FailedScheduling"
"""Reason of the event."""
WRITES_AT_ONCE: Final = 100
WRITE_SECONDS: Final = 0.01
"""Between two writes, once a burst is used up."""
BUSY_SECONDS: Final = 0.1
"""Between two writes while other work waits."""
WHAT_IFS_KEPT: Final = 256
WHAT_IF_LASTS: Final[Micros] = 60 * SECOND
"""A change that was enough may not be enough later, although the reasons are equal."""


class RefusalWriter:
    """``tenant_of`` returns who takes turns, ``is_busy`` whether more urgent work waits."""

    def __init__(
        self,
        hub: HubAccess,
        state: HostingState,
        *,
        tenant_of: Callable[[Key], Hashable],
        is_busy: Callable[[], bool],
    ) -> None:
        self._hub, self._state, self._is_busy = hub, state, is_busy
        self._refused: dict[Key, tuple[Workload[HostingSpec], Decision]] = {}
        self._what_ifs: OrderedDict[Hashable, tuple[Micros, tuple[str, ...]]] = OrderedDict()
        self._pace = TokenBucket(burst=WRITES_AT_ONCE, every=WRITE_SECONDS)
        self.queue: WorkQueue[Key] = WorkQueue(
            backoff=BACKOFF, bucket=TokenBucket(burst=WRITES_AT_ONCE, every=WRITE_SECONDS), owner_of=tenant_of
        )

    def put(self, workload: Workload[HostingSpec], decision: Decision) -> None:
        """Write a refusal, or another one than the last."""
        key = (workload.namespace, workload.name)
        self._refused[key] = (workload, decision)
        self.queue.add(key)

    def discard(self, key: Key) -> None:
        """Write no refusal: the request was deleted, or has a place."""
        if self._refused.pop(key, None) is not None:
            self.queue.discard(key)

    async def run(self, *, controller: str) -> None:
        """Run until cancelled. Raises Lost when the term ends."""

        async def write(key: Key) -> None:
            if key in self._refused:
                await self._wait_for_turn()
                async with self._hub.writer.batch():
                    await self._write(key)

        await work_on(self.queue, write, controller=controller)

    async def _wait_for_turn(self) -> None:
        now = asyncio.get_running_loop().time()
        delay = self._pace.reserve(now)
        if self._is_busy():
            delay = max(delay, BUSY_SECONDS)
        if delay > 0:
            await asyncio.sleep(delay)

    async def _write(self, key: Key) -> None:
        refused = self._refused.get(key)
        request = self._hub.requests.get(key[1], namespace=key[0])
        if refused is None or request is None:
            return
        workload, decision = refused
        if key_of(request) != workload.key or host_of(request) is not None:
            self._forget(key, decision)
            return
        old = request.status
        would_fit = old.wouldFit
        if decision.rejections != old.rejections or not old.conditions:
            would_fit = await self._what_ifs_of(workload, decision)
        status = unscheduled(request, decision, would_fit=would_fit, now=self._hub.clock.wall())
        if status != old:
            written = await self._hub.write_status(request, status)
            message = decision.message[:1000]
            self._hub.recorder.event(written, reason=FAILED_SCHEDULING, message=message, type_=WARNING)
        self._forget(key, decision)

    def _forget(self, key: Key, decision: Decision) -> None:
        """Forget what is written, unless the request was decided again meanwhile."""
        refused = self._refused.get(key)
        if refused is not None and refused[1] is decision:
            del self._refused[key]

    async def _what_ifs_of(self, workload: Workload[HostingSpec], decision: Decision) -> tuple[str, ...]:
        """Return what would make a request fit, once for all that are refused for the same reasons."""
        now = to_micros(self._hub.clock.wall())
        key = (group_of(workload), content_of(workload), decision.rejections)
        known = self._what_ifs.get(key)
        if known is not None and known[0] > now:
            return known[1]
        steps = changes_in_steps(self._state, workload, now=now)
        changes = await in_slices(steps, clock=self._hub.clock)
        self._what_ifs.pop(key, None)
        self._what_ifs[key] = (now + WHAT_IF_LASTS, changes)
        if len(self._what_ifs) > WHAT_IFS_KEPT:
            self._what_ifs.popitem(last=False)
        return changes
