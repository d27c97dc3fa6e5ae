"""What follows a reservation: the ManifestWork, what the hosting cluster reports, and the release.

All of it is derived from what the hub shows, so that it continues after a crash. The order of writes keeps two
invariants: a ManifestWork exists only while the request has its place, and a place ends only when the ManifestWork is
deleted.
"""

from typing import Final

from fairway.api.event import NORMAL, WARNING
from fairway.api.hosted_request import RELEASING, RESERVED, HostedClusterRequest
from fairway.api.kinds import encode
from fairway.api.meta import TRUE, find_condition
from fairway.api.work import ManifestWork
from fairway.controllers.hosting.binding import host_of
from fairway.controllers.hosting.hub_access import HubAccess
from fairway.controllers.hosting.metrics import DEADLINE, DELETED, HOST, MOVE, HostingMetrics
from fairway.controllers.leadership import Leadership
from fairway.controllers.reconciler import Outdated
from fairway.engine.workload import HostKey
from fairway.hosting import conditions as reasons
from fairway.hosting import status as statuses
from fairway.hosting.work import WorkError, is_owned, work_name, work_of
from fairway.hosting.workload import approved_target
from fairway.kube import MANIFEST_WORKS, AlreadyExists

RETRY_SECONDS: Final = 10.0
"""Until a missing Secret is read again."""
CHANGED: Final = "the request has changed; waiting for its watch"

EXPIRED: Final = "ReservationExpired"
CONFIRMED: Final = "Confirmed"
RELEASED: Final = "Released"
LOST: Final = "HostingClusterGone"
MOVED: Final = "Moved"
"""Reasons of events."""
DELETED_WORK: Final = "the hosted cluster is deleted from {host}"


class Residence:
    """``counted``: requests that the published load of their host is known to include, to be recorded."""

    def __init__(self, hub: HubAccess, *, metrics: HostingMetrics) -> None:
        self._hub, self._metrics = hub, metrics

    async def reconcile(
        self, request: HostedClusterRequest, *, exists: bool, counted: bool, leadership: Leadership
    ) -> float | None:
        """Bring a request with a place one step further. Return the seconds after which to look again.

        ``exists``: whether the hub still has the hosting cluster.
        """
        host = host_of(request)
        assert host is not None
        if request.metadata.deletionTimestamp is not None or request.status.phase == RELEASING:
            await self._release(request, host, leadership)
            return None
        if not exists:
            await self._lose_host(request, host, leadership)
            return None
        now = self._hub.clock.wall()
        if statuses.is_overdue(request, now=now):
            await self._give_up(request, host, leadership)
            return None
        target = approved_target(request)
        if target not in ("", host.name) and not _is_confirmed(request):
            await self._move(request, host, target, leadership)
            return None
        return await self._keep(request, host, counted=counted, leadership=leadership)

    async def _keep(
        self, request: HostedClusterRequest, host: HostKey, *, counted: bool, leadership: Leadership
    ) -> float | None:
        work = self._hub.works.get(work_name(request), namespace=host.name)
        changed = request.metadata.generation != request.status.observedGeneration
        now = self._hub.clock.wall()
        if work is None or (changed and is_owned(work, request)):
            try:
                work = await self._write_work(request, host, work, leadership)
            except WorkError as error:
                status = statuses.waiting(
                    request, reason=reasons.SECRET_UNREADABLE, message=str(error), now=now
                )
                await self._hub.write_status(request, status, leadership)
                return RETRY_SECONDS
        if not is_owned(work, request):
            words = statuses.WORK_OF_OTHERS.format(namespace=host.name, name=work_name(request))
            status = statuses.waiting(request, reason=reasons.MANIFEST_WORK_REFUSED, message=words, now=now)
            await self._hub.write_status(request, status, leadership)
            return self._until_deadline(request)
        before = _is_confirmed(request)
        status = statuses.followed(request, work, counted=counted, now=now)
        status = statuses.move_waits(request, status, target=approved_target(request), now=now)
        written = await self._hub.write_status(request, status, leadership)
        if not before and _is_confirmed(written):
            message = statuses.APPLIED.format(host=host.name)
            self._hub.recorder.event(written, reason=CONFIRMED, message=message, type_=NORMAL)
        return self._until_deadline(written)

    async def _write_work(
        self,
        request: HostedClusterRequest,
        host: HostKey,
        seen: ManifestWork | None,
        leadership: Leadership,
    ) -> ManifestWork:
        """Create or update the ManifestWork. Raises WorkError if a Secret is missing."""
        current = await self._hub.read_request(request)
        if current is None or host_of(current) != host or current.metadata.deletionTimestamp is not None:
            # A place that was given up must not get a ManifestWork from an old view.
            raise Outdated(CHANGED)
        wanted = work_of(current, host=host.name, secrets=await self._hub.read_secrets(current))
        body = {
            "apiVersion": wanted.apiVersion,
            "kind": wanted.kind,
            "metadata": encode(wanted.metadata),
            "spec": encode(wanted.spec),
        }
        if seen is not None:
            if seen.spec.workload == wanted.spec.workload:
                return seen
            made = await self._hub.writer.patch(
                MANIFEST_WORKS, seen.metadata, {"spec": body["spec"]}, leadership=leadership
            )
        else:
            try:
                made = await self._hub.writer.create(
                    MANIFEST_WORKS, body, namespace=host.name, leadership=leadership
                )
            except AlreadyExists:
                found = await self._hub.read_work(work_name(request), namespace=host.name)
                if found is None:
                    raise
                made = found
        self._hub.works.observe(made)
        return made

    async def _give_up(self, request: HostedClusterRequest, host: HostKey, leadership: Leadership) -> None:
        reservation = request.status.reservation
        assert reservation is not None
        assert reservation.since is not None
        assert reservation.deadline is not None
        seconds = int((reservation.deadline - reservation.since).total_seconds())
        message = statuses.TOO_LATE.format(host=host.name, seconds=seconds)
        status = statuses.releasing(
            request, reason=reasons.DEADLINE_EXCEEDED, message=message, now=self._hub.clock.wall()
        )
        written = await self._hub.write_status(request, status, leadership)
        self._hub.recorder.event(written, reason=EXPIRED, message=message, type_=WARNING)
        self._metrics.released(DEADLINE)
        await self._release(written, host, leadership)

    async def _move(
        self, request: HostedClusterRequest, host: HostKey, target: str, leadership: Leadership
    ) -> None:
        """Give up a place for an approved one. The hosted cluster was not reported, so it has no data to lose."""
        message = statuses.MOVE.format(host=host.name, target=target)
        status = statuses.releasing(
            request, reason=reasons.MOVE_APPROVED, message=message, now=self._hub.clock.wall()
        )
        written = await self._hub.write_status(request, status, leadership)
        self._hub.recorder.event(written, reason=MOVED, message=message, type_=NORMAL)
        self._metrics.released(MOVE)
        await self._release(written, host, leadership)

    async def _release(self, request: HostedClusterRequest, host: HostKey, leadership: Leadership) -> None:
        """Delete the ManifestWork; after that release the place, or remove the request's finalizer."""
        now = self._hub.clock.wall()
        if request.status.phase != RELEASING:
            request = await self._hub.write_status(request, statuses.releasing(request, now=now), leadership)
            self._metrics.released(DELETED)
        work = await self._hub.read_work(work_name(request), namespace=host.name)
        if work is not None and is_owned(work, request):
            if work.metadata.deletionTimestamp is None:
                await self._hub.writer.delete(MANIFEST_WORKS, work.metadata, leadership=leadership)
                message = DELETED_WORK.format(host=host.name)
                self._hub.recorder.event(request, reason=RELEASED, message=message, type_=NORMAL)
            if await self._hub.read_work(work_name(request), namespace=host.name) is not None:
                return  # its deletion is observed
        if request.metadata.deletionTimestamp is not None:
            await self._hub.set_finalizer(request, present=False, leadership=leadership)
        else:
            await self._hub.write_status(request, statuses.released(request, now=now), leadership)

    async def _lose_host(self, request: HostedClusterRequest, host: HostKey, leadership: Leadership) -> None:
        """A place without ManifestWork moves on; a hosted cluster stays pinned, because its data is on that host."""
        now = self._hub.clock.wall()
        work = await self._hub.read_work(work_name(request), namespace=host.name)
        if request.status.phase == RESERVED and (work is None or not is_owned(work, request)):
            await self._hub.write_status(request, statuses.released(request, now=now), leadership)
            self._metrics.released(HOST)
            return
        status = statuses.host_gone(request, now=now)
        if status != request.status:
            written = await self._hub.write_status(request, status, leadership)
            message = statuses.GONE.format(host=host.name)
            self._hub.recorder.event(written, reason=LOST, message=message, type_=WARNING)

    def _until_deadline(self, request: HostedClusterRequest) -> float | None:
        deadline = statuses.deadline_of(request)
        if deadline is None:
            return None
        return max(0.0, (deadline - self._hub.clock.wall()).total_seconds())


def _is_confirmed(request: HostedClusterRequest) -> bool:
    found = find_condition(request.status.conditions, reasons.CONFIRMED_CONDITION)
    return found is not None and found.status == TRUE
