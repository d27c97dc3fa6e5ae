"""What follows a reservation: the ManifestWork, what the hosting cluster reports, and the release.

All of it is derived from what the hub shows, so that it continues after a crash. The order of writes keeps two
invariants: a ManifestWork exists only while the request has its place, and a place ends only when the ManifestWork is
deleted.
"""

from typing import Final

from fairway.api.hosted_request import RELEASING, HostedClusterRequest
from fairway.api.resources import MANIFEST_WORKS
from fairway.api.work import ManifestWork
from fairway.controllers.hosting.binding import host_of, reason_of
from fairway.controllers.hosting.hub_access import HubAccess
from fairway.controllers.hosting.metrics import (
    DEADLINE,
    DELETED,
    LOST,
    MOVE,
    RECOVERED,
    REFUSED,
    HostingMetrics,
)
from fairway.controllers.runtime.reconciler import Outdated
from fairway.engine.workload import HostKey
from fairway.hosts.instant import SECOND, to_micros
from fairway.workloads.hosting.fleet.outages import Outage
from fairway.workloads.hosting.fleet.residents import Residents
from fairway.workloads.hosting.requests import conditions, request_status
from fairway.workloads.hosting.requests.work import (
    WorkError,
    is_owned,
    with_current_feedback,
    work_name,
    work_of,
)
from fairway.workloads.hosting.rules.edits import check_edit
from fairway.workloads.hosting.rules.permits import NotPermitted
from fairway.workloads.hosting.rules.policy import Policy, PolicyError, find_policy
from fairway.workloads.hosting.rules.refusals import Refusal, refusal_of
from fairway.workloads.hosting.rules.template import as_accepted
from fairway.workloads.hosting.workload import (
    approved_target,
    is_adopted,
    is_recovery_approved,
    policy_name,
    was_confirmed,
)
from kubewire.api.encoding import encode
from kubewire.api.event import NORMAL, WARNING
from kubewire.api.meta import TRUE, find_condition
from kubewire.client import AlreadyExists

RETRY_SECONDS: Final = 10.0
"""Until a missing Secret is read again."""
CHANGED: Final = "the request has changed; waiting for its watch"

EXPIRED: Final = "ReservationExpired"
CONFIRMED: Final = "Confirmed"
RELEASED: Final = "Released"
MOVED: Final = "Moved"
REFUSAL: Final = "Refused"
"""Reasons of events."""
DELETED_WORK: Final = "the hosted cluster is deleted from {host}"


class Residence:
    """``counted``: requests that the published load of their host is known to include, to be recorded."""

    def __init__(self, hub: HubAccess, *, residents: Residents, metrics: HostingMetrics) -> None:
        self._hub, self._residents, self._metrics = hub, residents, metrics

    async def reconcile(
        self, request: HostedClusterRequest, *, outage: Outage | None, counted: bool
    ) -> float | None:
        """Bring a request with a place one step further. Return the seconds after which to look again.

        ``outage``: of its hosting cluster.
        """
        host = host_of(request)
        assert host is not None
        after = self._policy(request).lost_after
        now = self._hub.clock.wall()
        request = await self._report_outage(request, host, outage)
        delays = []
        if outage is not None and (lost_at := outage.lost_at(after)) is not None and lost_at > to_micros(now):
            delays.append((lost_at - to_micros(now)) / SECOND)
        delay = await self._advance(request, host, outage, counted=counted)
        if delay is not None:
            delays.append(delay)
        return min(delays, default=None)

    async def _advance(
        self, request: HostedClusterRequest, host: HostKey, outage: Outage | None, *, counted: bool
    ) -> float | None:
        now, policy = self._hub.clock.wall(), self._policy(request)
        if is_adopted(request):
            await self._follow(request, host, counted=counted)
            return None
        if request.metadata.deletionTimestamp is not None or request.status.phase == RELEASING:
            await self._release(request, host, outage)
            return None
        if outage is not None and outage.is_lost(policy.lost_after, now=to_micros(now)):
            if not was_confirmed(request):
                words = request_status.LOST_EARLY.format(host=host.name)
                await self._leave(request, host, outage, conditions.HOST_LOST, words)
                return None
            if policy.recreates and is_recovery_approved(request):
                words = request_status.RECOVERY.format(host=host.name)
                await self._leave(request, host, outage, conditions.RECOVERY_APPROVED, words)
                return None
            if outage.is_deleted:
                await self._hub.write_status(request, request_status.host_gone(request, now=now))
                return None
        if request_status.is_overdue(request, now=now):
            await self._give_up(request, host, outage)
            return None
        target = approved_target(request)
        if target not in ("", host.name) and not was_confirmed(request):
            await self._move(request, host, target, outage)
            return None
        if outage is not None and outage.is_deleting:
            # The clean-up of the cluster deletes its works: one that is written again would keep it from ending.
            return None
        return await self._keep(request, host, counted=counted)

    async def _follow(self, request: HostedClusterRequest, host: HostKey, *, counted: bool) -> None:
        """Follow a hosted cluster that existed before its request. Only the status of the request is written."""
        if request.metadata.deletionTimestamp is not None:
            await self._hub.set_finalizer(request, present=False)
            return
        now, name = self._hub.clock.wall(), request.status.manifestWork
        work = self._hub.works.get(name, namespace=host.name) if name else None
        status = request_status.adopted_followed(request, work, counted=counted, now=now)
        status = request_status.move_waits(request, status, target=approved_target(request), now=now)
        await self._hub.write_status(request, status)

    def _policy(self, request: HostedClusterRequest) -> Policy:
        """Return the policy that reserved the place; the defaults if it was deleted."""
        try:
            return find_policy(self._hub.policies, policy_name(request))
        except PolicyError:
            return Policy(name=policy_name(request))

    async def _report_outage(
        self, request: HostedClusterRequest, host: HostKey, outage: Outage | None
    ) -> HostedClusterRequest:
        """Write the condition HostAvailable if it changes."""
        work = self._hub.works.get(work_name(request), namespace=host.name)
        held = work is not None and is_owned(work, request) and work.metadata.deletionTimestamp is not None
        status = request_status.with_host(
            request, outage, policy=self._policy(request), held=held, now=self._hub.clock.wall()
        )
        if status == request.status:
            return request
        before = find_condition(request.status.conditions, conditions.HOST_AVAILABLE)
        written = await self._hub.write_status(request, status)
        condition = find_condition(status.conditions, conditions.HOST_AVAILABLE)
        if condition is not None and (before is None or before.reason != condition.reason):
            kind = NORMAL if condition.status == TRUE else WARNING
            self._hub.recorder.event(
                written, reason=condition.reason, message=condition.message[:1000], type_=kind
            )
        return written

    async def _leave(
        self, request: HostedClusterRequest, host: HostKey, outage: Outage, reason: str, message: str
    ) -> None:
        """Give up a place on a lost host."""
        status = request_status.releasing(request, reason=reason, message=message, now=self._hub.clock.wall())
        written = await self._hub.write_status(request, status)
        self._hub.recorder.event(written, reason=reason, message=message, type_=WARNING)
        self._metrics.released(LOST if reason == conditions.HOST_LOST else RECOVERED)
        await self._release(written, host, outage)

    async def _keep(self, request: HostedClusterRequest, host: HostKey, *, counted: bool) -> float | None:
        work = self._hub.works.get(work_name(request), namespace=host.name)
        changed = request.metadata.generation != request.status.observedGeneration
        now = self._hub.clock.wall()
        if work is None or (changed and is_owned(work, request)):
            try:
                work = await self._write_work(request, host, work)
            except (WorkError, NotPermitted, PolicyError) as error:
                status = request_status.waiting(request, reason=reason_of(error), message=str(error), now=now)
                await self._hub.write_status(request, status)
                return RETRY_SECONDS
        elif is_owned(work, request) and (configs := with_current_feedback(work)) is not None:
            # An earlier version asked for values that no agent could report.
            body = {"spec": {"manifestConfigs": [encode(config) for config in configs]}}
            work = await self._hub.writer.patch(MANIFEST_WORKS, work.metadata, body)
            self._hub.works.observe(work)
        if not is_owned(work, request):
            words = request_status.WORK_OF_OTHERS.format(namespace=host.name, name=work_name(request))
            status = request_status.waiting(
                request, reason=conditions.MANIFEST_WORK_REFUSED, message=words, now=now
            )
            await self._hub.write_status(request, status)
            return self._until_deadline(request)
        if work.metadata.deletionTimestamp is not None:
            # It ends what was created here before; what it reports says nothing about the present place.
            if not was_confirmed(request):
                words = request_status.WORK_DELETING.format(namespace=host.name, name=work_name(request))
                status = request_status.waiting(
                    request, reason=conditions.MANIFEST_WORK_PENDING, message=words, now=now
                )
                await self._hub.write_status(request, status)
            return self._until_deadline(request)
        before = was_confirmed(request)
        if not before and not changed and (refusal := refusal_of(work)) is not None:
            await self._refuse(request, host, refusal)
            return None
        status = request_status.followed(request, work, counted=counted, now=now)
        status = request_status.move_waits(request, status, target=approved_target(request), now=now)
        written = await self._hub.write_status(request, status)
        if not before and was_confirmed(written):
            message = request_status.APPLIED.format(host=host.name)
            self._hub.recorder.event(written, reason=CONFIRMED, message=message, type_=NORMAL)
        return self._until_deadline(written)

    async def _write_work(
        self, request: HostedClusterRequest, host: HostKey, seen: ManifestWork | None
    ) -> ManifestWork:
        """Create or update the ManifestWork.

        Raises WorkError if a Secret is missing, and NotPermitted or PolicyError for an edit that the policy does not
        permit.
        """
        current = await self._hub.read_request(request)
        if current is None or host_of(current) != host or current.metadata.deletionTimestamp is not None:
            # A place that was given up must not get a ManifestWork from an old view.
            raise Outdated(CHANGED)
        current = as_accepted(current)
        if current.metadata.generation != current.status.observedGeneration:
            policy = find_policy(self._hub.policies, policy_name(current))
            check_edit(current, host, written=seen, policy=policy, residents=self._residents)
        wanted = work_of(current, host=host.name, secrets=await self._hub.read_secrets(current))
        body = {
            "apiVersion": wanted.apiVersion,
            "kind": wanted.kind,
            "metadata": encode(wanted.metadata),
            "spec": encode(wanted.spec),
        }
        if seen is not None:
            if seen.spec.workload == wanted.spec.workload and with_current_feedback(seen) is None:
                return seen
            made = await self._hub.writer.patch(MANIFEST_WORKS, seen.metadata, {"spec": body["spec"]})
        else:
            try:
                made = await self._hub.writer.create(MANIFEST_WORKS, body, namespace=host.name)
            except AlreadyExists:
                existing = await self._hub.read_work(work_name(request), namespace=host.name)
                if existing is None:
                    raise
                made = existing
        self._hub.works.observe(made)
        return made

    async def _give_up(self, request: HostedClusterRequest, host: HostKey, outage: Outage | None) -> None:
        reservation = request.status.reservation
        assert reservation is not None
        assert reservation.since is not None
        assert reservation.deadline is not None
        seconds = int((reservation.deadline - reservation.since).total_seconds())
        message = request_status.TOO_LATE.format(host=host.name, seconds=seconds)
        status = request_status.releasing(
            request, reason=conditions.DEADLINE_EXCEEDED, message=message, now=self._hub.clock.wall()
        )
        written = await self._hub.write_status(request, status)
        self._hub.recorder.event(written, reason=EXPIRED, message=message, type_=WARNING)
        self._metrics.released(DEADLINE)
        await self._release(written, host, outage)

    async def _refuse(self, request: HostedClusterRequest, host: HostKey, refusal: Refusal) -> None:
        """Give up a place at once where nothing will be created, so that others get it."""
        status = request_status.refused_on_host(request, refusal, host=host, now=self._hub.clock.wall())
        written = await self._hub.write_status(request, status)
        message = request_status.REFUSED.format(host=host.name, message=refusal.message)
        self._hub.recorder.event(written, reason=REFUSAL, message=message, type_=WARNING)
        self._metrics.released(REFUSED)
        await self._release(written, host, None)

    async def _move(
        self, request: HostedClusterRequest, host: HostKey, target: str, outage: Outage | None
    ) -> None:
        """Give up a place for an approved one. The hosted cluster was not reported, so it has no data to lose."""
        message = request_status.MOVE.format(host=host.name, target=target)
        status = request_status.releasing(
            request, reason=conditions.MOVE_APPROVED, message=message, now=self._hub.clock.wall()
        )
        written = await self._hub.write_status(request, status)
        self._hub.recorder.event(written, reason=MOVED, message=message, type_=NORMAL)
        self._metrics.released(MOVE)
        await self._release(written, host, outage)

    async def _release(self, request: HostedClusterRequest, host: HostKey, outage: Outage | None) -> None:
        """Delete the ManifestWork; after that release the place, or remove the request's finalizer."""
        now = self._hub.clock.wall()
        # The phase before the deletion: a leader that died in between would otherwise find a request with a place and
        # without a ManifestWork, and create that again.
        if request.status.phase != RELEASING:
            request = await self._hub.write_status(request, request_status.releasing(request, now=now))
            self._metrics.released(DELETED)
        after = self._policy(request).lost_after
        is_lost = outage is not None and outage.is_lost(after, now=to_micros(now))
        work = await self._hub.read_work(work_name(request), namespace=host.name)
        if work is not None and is_owned(work, request):
            if work.metadata.deletionTimestamp is None:
                await self._hub.writer.delete(MANIFEST_WORKS, work.metadata)
                message = DELETED_WORK.format(host=host.name)
                self._hub.recorder.event(request, reason=RELEASED, message=message, type_=NORMAL)
            # A work that a person approved to leave behind keeps its finalizer: should the host return, its agent finds
            # the work being deleted, and removes the hosted cluster at once. Without it, an agent waits for an hour.
            is_left = (
                outage is not None
                and outage.is_abandoned(after, now=to_micros(now))
                and is_recovery_approved(request)
            )
            if not is_left and await self._hub.read_work(work_name(request), namespace=host.name) is not None:
                return  # its deletion is observed
        if request.metadata.deletionTimestamp is not None:
            await self._hub.set_finalizer(request, present=False)
            return
        if is_lost and approved_target(request) == host.name:
            request = await self._hub.withdraw_approval(request)
        await self._hub.write_status(request, request_status.released(request, now=now))

    def _until_deadline(self, request: HostedClusterRequest) -> float | None:
        deadline = request_status.deadline_of(request)
        if deadline is None:
            return None
        return max(0.0, (deadline - self._hub.clock.wall()).total_seconds())
