"""Reconcile one work: apply it, keep it applied, or remove it. The agent does queues and watches.

work + AppliedManifestWork ──▶ plan ──▶ applier, one object at a time ──▶ record ──▶ status
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final

from fairway.api.resources import MANIFEST_WORKS
from fairway.api.work import (
    MANIFEST_WORK_FINALIZER,
    WORK_COMPLETE,
    AppliedManifestWork,
    AppliedResource,
    ManifestWork,
    ManifestWorkStatus,
)
from fairway.klusterlet.works import manifest, messages, status
from fairway.klusterlet.works.applied_works import MANAGER, AppliedWorks
from fairway.klusterlet.works.applier import Applier, HeirNotReady, WorkState
from fairway.klusterlet.works.conflicts import ConflictIndex
from fairway.klusterlet.works.discovery import Discovery
from fairway.klusterlet.works.executor import Executors
from fairway.klusterlet.works.manifest import DesiredObject, InvalidManifest, Reading
from fairway.klusterlet.works.messages import ManifestError
from fairway.klusterlet.works.objects import ObjectId, Objects, Target
from fairway.klusterlet.works.ownership import Reference, identity_of, reference, target_of
from fairway.klusterlet.works.plan import plan
from fairway.klusterlet.works.status import Outcome
from kubewire.api.encoding import encode
from kubewire.api.meta import find_condition, unreadable_within
from kubewire.client import AlreadyExists, Client, Clock, Conflict, Forbidden, KubeError, NotFound, Patch

log: Final = logging.getLogger(__name__)

UNREPORTED_ATTEMPTS: Final = 3
"""Attempts that may fail for want of a connection before the work's status reports it."""

REPLICA_SET_LABEL: Final = "work.open-cluster-management.io/manifestworkreplicaset"
"""Label of the works of a ManifestWorkReplicaSet, whatever its value. OCM's hub exempts these from their TTL, too."""

TTL_FORBIDDEN: Final = (
    "ttlSecondsAfterFinished has passed, but the agent may not delete the work; the hub has to  "
    "manifestwork=%s error=%s"
)


@dataclass(slots=True, kw_only=True)
class ReconcileResult:
    again: float | None = None
    """Seconds until the work must be reconciled again, whatever happens."""
    failed: bool = False
    """Something failed or is not finished: retry with backoff."""
    repaired: bool = False
    targets: list[Target] = field(default_factory=list)
    """The objects to watch."""
    versions: dict[ObjectId, str] = field(default_factory=dict)
    """Their resource versions as they were read."""

    def limit_delay(self, seconds: float) -> None:
        self.again = seconds if self.again is None else min(self.again, seconds)

    def add(self, other: "ReconcileResult") -> None:
        """Add the result of another step for the same work."""
        if other.again is not None:
            self.limit_delay(other.again)
        self.failed |= other.failed
        self.targets += other.targets


class WorkReconciler:
    def __init__(
        self,
        *,
        hub: Client,
        cluster: Client,
        applied: AppliedWorks,
        conflicts: ConflictIndex,
        discovery: Discovery,
        clock: Clock,
    ) -> None:
        self._hub, self._applied, self._conflicts, self._clock = hub, applied, conflicts, clock
        self._objects = Objects(cluster)
        self._discovery = discovery
        self._applier = Applier(self._objects)
        self._executors = Executors(cluster)

    async def apply(self, work: ManifestWork, state: WorkState, *, attempt: int) -> ReconcileResult:
        """``attempt`` counts the failures before. Raises KubeError for failures that only a retry can fix."""
        result = ReconcileResult()
        # A complete work is not applied again: that would start its Jobs again after a user has cleaned them up.
        if status.is_complete(work.status.conditions):
            await self._expire(work, result)
            return result
        if (unreadable := unreadable_within(work, "spec")) is not None:
            # Applied objects stay: a manifest that cannot be decoded is not one that was removed.
            await self._write(work, status.unreadable_status(work, unreadable, now=self._clock.wall()), state)
            return result
        # The finalizer precedes the first object: without it, a work that is deleted in between would leave objects
        # behind.
        if MANIFEST_WORK_FINALIZER not in work.metadata.finalizers:
            work = await self._set_finalizers(work, [*work.metadata.finalizers, MANIFEST_WORK_FINALIZER])
        record = await self._applied.ensure(work)
        # A record with another uid has been deleted and created again, so its objects may not exist although they are
        # cached.
        state.bind(record)
        if record.metadata.deletionTimestamp is not None:
            # A user deleted the AppliedManifestWork: finish that, then apply everything again.
            await self._remove(record, work, state, result)
            result.failed = True
            return result
        readings = await manifest.read(work, self._discovery)
        planned = plan(readings, record)
        # Record first, apply second: an agent that dies in between has entries without objects, which cost one read
        # each. The other order leaves objects that no record names, and nothing would ever delete them.
        record = await self._applied.write_entries(record, planned.record)
        outcomes = {
            # One after the other, in the order of their kinds: a namespace must exist before what is in it.
            desired.meta.ordinal: await self._apply_one(work, desired, record, state, attempt, result)
            for desired in planned.apply
        }
        # Release after applying, so that an object which moved to another name is replaced before the old one is
        # deleted.
        left = await self._release(record, work, planned.release, state)
        result.targets += [target_of(entry) for entry in left]
        result.failed |= bool(left)
        uids = {
            desired.identity: live["metadata"]["uid"]
            for desired in planned.apply
            if (live := outcomes[desired.meta.ordinal].live) is not None
        }
        # What is not released yet stays on record; without its entry the next reconcile would not try again.
        await self._applied.write_entries(record, planned.record_after(uids, unreleased=left))
        await self._report(work, [_outcome(reading, outcomes) for reading in readings], state, result)
        return result

    async def remove(
        self, work: ManifestWork, state: WorkState, *, former: Sequence[AppliedManifestWork] = ()
    ) -> ReconcileResult:
        """Remove what was applied for a work that is being deleted, also at ``former`` addresses of the hub."""
        result = ReconcileResult()
        if MANIFEST_WORK_FINALIZER not in work.metadata.finalizers:
            return result
        for former_record in former:
            # Before the work is released: without it, a record that has another agent's ID is a stranger's.
            result = await self.evict(former_record, grace=0)
            if result.failed:
                return result
        record = await self._applied.get(work.metadata.name)
        if record is not None:
            conditions = status.deleting_conditions(work, now=self._clock.wall())
            # The status is written before the record is deleted: the hub shows why a work with slow finalizers is still
            # there.
            if conditions != work.status.conditions:
                work = await self._patch(work, {"status": {"conditions": _encode(conditions)}}, status=True)
            record = await self._applied.delete(record)
        if record is not None and not await self._remove(record, work, state, result):
            result.failed = True
            return result
        rest = [finalizer for finalizer in work.metadata.finalizers if finalizer != MANIFEST_WORK_FINALIZER]
        with suppress(NotFound):  # another client may have removed the last finalizer
            await self._set_finalizers(work, rest)
        return result

    async def evict(
        self, record: AppliedManifestWork, *, grace: float, successor: ManifestWork | None = None
    ) -> ReconcileResult:
        """Remove what was applied for a work that was deleted without waiting for its finalizer, after ``grace``.

        ``successor`` is the work of a record of a former address: its objects go to the work's present record.
        """
        result = ReconcileResult()
        # The informer may lag behind: a work of the same name that was created meanwhile has reset the start of the
        # eviction.
        fresh = await self._applied.read(record.metadata.name)
        if fresh is None:
            return result
        if fresh.metadata.deletionTimestamp is None:
            now = self._clock.wall()
            since = fresh.status.evictionStartTime
            if since is None:
                if successor is not None:
                    # The work may be deleted by force before the grace period has passed.
                    fresh = await self._applied.claim(fresh)
                fresh, since = await self._applied.set_eviction_start(fresh, now), now
            # A start in the future, from a clock that was set back since, would postpone the eviction by as much.
            left = (min(since, now) + timedelta(seconds=grace) - now).total_seconds()
            if left > 0:
                result.limit_delay(left)
                return result
            deleted = await self._applied.delete(fresh)
            if deleted is None:
                return result
            fresh = deleted
        if successor is not None:
            result.failed = not await self._hand_over(fresh, successor)
            result.limit_delay(0)
        else:
            result.failed = not await self._remove(fresh, None, WorkState(), result)
        return result

    async def _hand_over(self, former: AppliedManifestWork, work: ManifestWork) -> bool:
        """Let the work's present record own the objects of a former one. Return whether that is done.

        Objects that the work no longer contains go along, and are released when the work is reconciled: only then is it
        known whether the work can be read, and what it orphans.
        """
        record = await self._applied.ensure(work)
        if record.metadata.deletionTimestamp is not None:
            return False
        known = {identity_of(entry): entry for entry in former.status.appliedResources}
        known.update((identity_of(entry), entry) for entry in record.status.appliedResources)
        # The new record names the objects before their owner changes. In the other order an agent that dies in between
        # leaves objects whose owner does not know them.
        record = await self._applied.write_entries(record, known.values())
        left = [
            entry
            for entry in former.status.appliedResources
            if not await self._applier.hand_over(entry, former, record)
        ]
        former = await self._applied.write_entries(former, left)
        if not left:
            await self._applied.finish(former)
        return not left

    async def _remove(
        self,
        record: AppliedManifestWork,
        work: ManifestWork | None,
        state: WorkState,
        result: ReconcileResult,
    ) -> bool:
        """Release all objects on record, and the record. Return whether nothing is left."""
        left = await self._release(record, work, record.status.appliedResources, state)
        record = await self._applied.write_entries(record, left)
        if left:
            result.targets += [target_of(entry) for entry in left]
            return False
        await self._applied.finish(record)
        return True

    async def _release(
        self,
        record: AppliedManifestWork,
        work: ManifestWork | None,
        entries: Sequence[AppliedResource],
        state: WorkState,
    ) -> list[AppliedResource]:
        """Return the entries that are not released yet."""
        option = work.spec.deleteOption if work else None
        left: list[AppliedResource] = []
        for entry in entries:
            identity = identity_of(entry)
            released = await self._applier.release(
                entry,
                record,
                orphaned=not manifest.is_owned(identity, option),
                find_heir=partial(self._find_heir, work),
            )
            if released:
                state.applied.pop(identity, None)
            else:
                left.append(entry)
        return left

    async def _find_heir(self, work: ManifestWork | None, identity: ObjectId, /) -> Reference | None:
        waiting = False
        # Only a work that has recorded the object can take it over: nothing releases an object that its owner does not
        # have on record.
        for other in await self._conflicts.claimants(work, identity):
            record = await self._applied.get(other.metadata.name)
            if record is None:
                waiting = True
            elif record.metadata.deletionTimestamp is None:
                if any(identity_of(entry) == identity for entry in record.status.appliedResources):
                    return reference(record)
                waiting = True
        if waiting:
            raise HeirNotReady
        return None

    async def _apply_one(
        self,
        work: ManifestWork,
        desired: DesiredObject,
        record: AppliedManifestWork,
        state: WorkState,
        attempt: int,
        result: ReconcileResult,
    ) -> Outcome:
        result.targets.append(desired.target)
        live: Mapping[str, Any] | None = None
        refusal: ManifestError | None = None
        try:
            if status.is_completed(work, desired.meta):
                live = await self._objects.get(desired.target)
            else:
                await self._executors.check(work, desired)
                check = partial(self._conflicts.check, work, desired)
                applied = await self._applier.apply(desired, record, state, check=check)
                live = applied.live
                result.repaired |= applied.repaired
        except ManifestError as error:
            refusal = error
        except KubeError as error:
            # Discovery is cached. If the kind was removed or moved to another version, the next attempt must ask again.
            if isinstance(error, NotFound) and error.details.kind != "namespaces":
                self._discovery.forget(desired.target.resource.api_version)
            # A broken connection would otherwise flap the conditions of every work, with two writes each, although the
            # next attempt succeeds.
            if _is_transient(error) and attempt < UNREPORTED_ATTEMPTS:
                raise
            refusal = messages.manifest_error(error, namespace=desired.target.namespace)
        unread = ""
        if live is None and refusal is not None:
            try:
                live = await self._objects.get(desired.target)
            except KubeError as error:
                unread = str(error)
        if live is not None:
            result.versions[desired.identity] = live["metadata"]["resourceVersion"]
        return Outcome(meta=desired.meta, config=desired.config, live=live, refusal=refusal, unread=unread)

    async def _report(
        self, work: ManifestWork, outcomes: Sequence[Outcome], state: WorkState, result: ReconcileResult
    ) -> None:
        for outcome in outcomes:
            if outcome.refusal is not None and outcome.refusal.retry is not None:
                result.limit_delay(outcome.refusal.retry)
            elif outcome.refusal is not None and not outcome.refusal.final:
                result.failed = True
        work = await self._write(work, status.status_of(work, outcomes, now=self._clock.wall()), state)
        if status.is_complete(work.status.conditions):
            await self._expire(work, result)

    async def _write(
        self, work: ManifestWork, new_status: ManifestWorkStatus, state: WorkState
    ) -> ManifestWork:
        """Write the status if it differs. Return the work as it is afterwards."""
        if new_status == work.status:
            return work
        body: dict[str, Any] = {
            "conditions": _encode(new_status.conditions),
            "resourceStatus": {
                "manifests": [encode(manifest) for manifest in new_status.resourceStatus.manifests]
            },
        }
        written = await self._patch(work, {"status": body}, status=True)
        state.written = written.metadata.resourceVersion
        return written

    async def _expire(self, work: ManifestWork, result: ReconcileResult) -> None:
        option = work.spec.deleteOption
        if REPLICA_SET_LABEL in work.metadata.labels:
            # The controller of the ManifestWorkReplicaSet would create the work again, which would run again.
            return
        complete = find_condition(work.status.conditions, WORK_COMPLETE)
        if option is None or option.ttlSecondsAfterFinished is None or complete is None:
            return
        since = complete.lastTransitionTime or self._clock.wall()
        left = option.ttlSecondsAfterFinished - (self._clock.wall() - since).total_seconds()
        if left > 0:
            result.limit_delay(left)
            return
        meta = work.metadata
        try:
            await self._hub.delete(MANIFEST_WORKS, meta.name, namespace=meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            pass
        except Forbidden as error:
            log.info(TTL_FORBIDDEN, meta.name, error)

    async def _set_finalizers(self, work: ManifestWork, finalizers: list[str]) -> ManifestWork:
        return await self._patch(work, {"metadata": {"finalizers": finalizers}})

    async def _patch(
        self, work: ManifestWork, body: dict[str, dict[str, Any]], *, status: bool = False
    ) -> ManifestWork:
        """Patch the work that was read. Raises Conflict if it has changed since."""
        # Merge patches carry the version that was read. Conditions are one list for all writers, so a patch of a stale
        # list would drop what another controller wrote meanwhile.
        seen = {"uid": work.metadata.uid, "resourceVersion": work.metadata.resourceVersion}
        return await self._hub.patch(
            MANIFEST_WORKS,
            work.metadata.name,
            {**body, "metadata": {**body.get("metadata", {}), **seen}},
            kind=Patch.MERGE,
            namespace=work.metadata.namespace,
            subresource="status" if status else None,
            field_manager=MANAGER,
        )


def _outcome(reading: Reading, results: Mapping[int, Outcome]) -> Outcome:
    if isinstance(reading, InvalidManifest):
        return Outcome(meta=reading.meta, refusal=reading.refusal)
    return results[reading.meta.ordinal]


def _is_transient(error: KubeError) -> bool:
    """Whether the next attempt is likely to succeed: a broken connection, or a concurrent write."""
    match error:
        case Conflict():
            return not error.has_cause("FieldManagerConflict")
        case NotFound():
            return error.details.kind != "namespaces"
        case _:
            return error.retryable or isinstance(error, AlreadyExists)


def _encode(conditions: Sequence[Any]) -> list[dict[str, Any]]:
    return [encode(condition) for condition in conditions]
