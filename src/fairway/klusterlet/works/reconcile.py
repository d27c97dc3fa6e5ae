"""What is done about one work: apply it, keep it applied, or undo it. Knows nothing of queues and watches."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final

from fairway.api.kinds import encode
from fairway.api.meta import find_condition, unreadable_within
from fairway.api.work import (
    MANIFEST_WORK_FINALIZER,
    READ_ONLY,
    WORK_COMPLETE,
    AppliedManifestWork,
    AppliedResource,
    DeleteOption,
    ManifestWork,
    ManifestWorkStatus,
)
from fairway.klusterlet.works import manifest, messages, status
from fairway.klusterlet.works.applied_works import MANAGER, AppliedWorks
from fairway.klusterlet.works.applier import Applier
from fairway.klusterlet.works.conflicts import ConflictIndex
from fairway.klusterlet.works.discovery import Discovery
from fairway.klusterlet.works.executor import Executors
from fairway.klusterlet.works.manifest import DesiredObject, InvalidManifest, Reading
from fairway.klusterlet.works.messages import ManifestError
from fairway.klusterlet.works.objects import ObjectId, Objects, Target
from fairway.klusterlet.works.ownership import (
    HeirNotReady,
    Reference,
    Removal,
    entry_of,
    identity_of,
    reference,
    target_of,
)
from fairway.klusterlet.works.status import Outcome
from fairway.kube import (
    MANIFEST_WORKS,
    AlreadyExists,
    Client,
    Clock,
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    Patch,
)

log: Final = logging.getLogger(__name__)

PATIENCE: Final = 3
"""Attempts that may fail for want of a connection before a work's status speaks of it."""

TTL_FORBIDDEN: Final = (
    "ManifestWork %s has outlived its ttlSecondsAfterFinished; the agent may not delete it, so the hub has to: "
    "%s"
)


@dataclass(slots=True, kw_only=True)
class ReconcileResult:
    """What came of looking at a work once."""

    again: float | None = None
    """Seconds until it must be looked at again, whatever happens."""
    failed: bool = False
    """Something did not work or is not finished: to be tried again, later each time."""
    repaired: bool = False
    targets: list[Target] = field(default_factory=list)
    """The objects to keep an eye on."""
    versions: dict[ObjectId, str] = field(default_factory=dict)
    """Those as they were seen."""
    written: str = ""
    """The resource version in which the work was left, if it was written."""

    def sooner(self, seconds: float) -> None:
        self.again = seconds if self.again is None else min(self.again, seconds)


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

    async def apply(self, work: ManifestWork, *, attempt: int) -> ReconcileResult:
        """``attempt`` counts the failures before. Raises KubeError for what only waiting helps against."""
        done = ReconcileResult()
        if status.is_complete(work.status.conditions):
            await self._expire(work, done)
            return done
        if (unreadable := unreadable_within(work, "spec")) is not None:
            # What is applied stays: a manifest that cannot be read is not one that was removed.
            await self._write(work, status.unreadable(work, unreadable, now=self._clock.wall()), done)
            return done
        if MANIFEST_WORK_FINALIZER not in work.metadata.finalizers:
            work = await self._finalized(work, [*work.metadata.finalizers, MANIFEST_WORK_FINALIZER])
        record = await self._applied.ensure(work)
        if record.metadata.deletionTimestamp is not None:
            # Somebody on the managed cluster wants everything gone: first that, then anew.
            await self._undo(record, work, done)
            done.failed = True
            return done
        readings = await manifest.read(work, self._discovery)
        wanted = manifest.in_order(readings)
        record = await self._applied.written(record, _foreseen(record, wanted))
        results = {
            each.meta.ordinal: await self._apply_one(work, each, record, attempt, done) for each in wanted
        }
        outcomes = [_outcome(each, results) for each in readings]
        record = await self._prune(work, record, readings, outcomes, done)
        for each in outcomes:
            if each.refusal is not None and each.refusal.retry is not None:
                done.sooner(each.refusal.retry)
            elif each.refusal is not None and not each.refusal.final:
                done.failed = True
        await self._report(work, outcomes, done)
        return done

    async def undo(self, work: ManifestWork) -> ReconcileResult:
        """The work is being deleted."""
        done = ReconcileResult()
        if MANIFEST_WORK_FINALIZER not in work.metadata.finalizers:
            return done
        record = await self._applied.get(work.metadata.name)
        if record is not None:
            conditions = status.deleting(work, now=self._clock.wall())
            if conditions != work.status.conditions:
                work = await self._patched(work, {"status": {"conditions": encoded(conditions)}}, status=True)
            record = await self._applied.delete(record)
        if record is not None and not await self._undo(record, work, done):
            done.failed = True
            return done
        rest = [each for each in work.metadata.finalizers if each != MANIFEST_WORK_FINALIZER]
        with suppress(NotFound):  # somebody else may have removed the last finalizer
            await self._finalized(work, rest)
        return done

    async def evict(self, record: AppliedManifestWork, *, grace: float) -> ReconcileResult:
        """Its work is not on the hub any more, and nobody waited for us: after a while, what is left of it goes."""
        done = ReconcileResult()
        fresh = await self._applied.get(record.spec.manifestWorkName)
        if fresh is None:
            return done
        if fresh.metadata.deletionTimestamp is None:
            now = self._clock.wall()
            since = fresh.status.evictionStartTime
            if since is None:
                fresh, since = await self._applied.evicting(fresh, now), now
            left = (min(since, now) + timedelta(seconds=grace) - now).total_seconds()
            if left > 0:
                done.sooner(left)
                return done
            deleted = await self._applied.delete(fresh)
            if deleted is None:
                return done
            fresh = deleted
        done.failed = not await self._undo(fresh, None, done)
        return done

    async def _undo(
        self, record: AppliedManifestWork, work: ManifestWork | None, done: ReconcileResult
    ) -> bool:
        """Whether nothing is left of it."""
        entries = record.status.appliedResources
        option = work.spec.deleteOption if work else None
        left = await self._leave(record, work, entries, option)
        record = await self._applied.written(record, left)
        if left:
            done.targets += [target_of(each) for each in left]
            return False
        await self._applied.finish(record)
        return True

    async def _leave(
        self,
        record: AppliedManifestWork,
        work: ManifestWork | None,
        entries: Sequence[AppliedResource],
        option: DeleteOption | None,
    ) -> list[AppliedResource]:
        """Those that are still there."""
        uid = record.metadata.uid
        left: list[AppliedResource] = []
        for entry in entries:
            identity = identity_of(entry)
            leaving = Removal(
                objects=self._objects,
                record=record,
                orphaned=not manifest.owned(identity, option),
                heir=partial(self._heir, work),
            )
            if await leaving.leave(entry):
                self._applier.forget(identity, uid)
            else:
                left.append(entry)
        return left

    async def _heir(self, work: ManifestWork | None, identity: ObjectId, /) -> Reference | None:
        waiting = False
        for other in await self._conflicts.claimants(work, identity):
            record = await self._applied.get(other.metadata.name)
            if record is None:
                waiting = True
            elif record.metadata.deletionTimestamp is None:
                if any(identity_of(each) == identity for each in record.status.appliedResources):
                    return reference(record)
                waiting = True
        if waiting:
            raise HeirNotReady
        return None

    async def _apply_one(
        self,
        work: ManifestWork,
        wanted: DesiredObject,
        record: AppliedManifestWork,
        attempt: int,
        done: ReconcileResult,
    ) -> Outcome:
        done.targets.append(wanted.target)
        live: Mapping[str, Any] | None = None
        refusal: ManifestError | None = None
        try:
            if status.completed(work, wanted.meta):
                live = await self._objects.get(wanted.target)
            else:
                await self._executors.check(work, wanted)
                await self._conflicts.check(work, wanted)
                result = await self._applier.apply(wanted, reference(record))
                live = result.live
                done.repaired |= result.repaired
        except ManifestError as error:
            refusal = error
        except KubeError as error:
            if isinstance(error, NotFound) and error.details.kind != "namespaces":
                self._discovery.forget(wanted.target.resource.api_version)
            if _passes(error) and attempt < PATIENCE:
                raise
            refusal = messages.manifest_error(error, namespace=wanted.target.namespace)
        unread = ""
        if live is None and refusal is not None:
            try:
                live = await self._objects.get(wanted.target)
            except KubeError as error:
                unread = str(error)
        if live is not None:
            done.versions[wanted.identity] = live["metadata"]["resourceVersion"]
        return Outcome(meta=wanted.meta, config=wanted.config, live=live, refusal=refusal, unread=unread)

    async def _prune(
        self,
        work: ManifestWork,
        record: AppliedManifestWork,
        readings: Sequence[Reading],
        outcomes: Sequence[Outcome],
        done: ReconcileResult,
    ) -> AppliedManifestWork:
        """Deletes what the work no longer says, and writes down what is there then."""
        kept: dict[ObjectId, AppliedResource] = {}
        for reading, outcome in zip(readings, outcomes, strict=True):
            if isinstance(reading, DesiredObject) and reading.strategy.type != READ_ONLY:
                uid = outcome.live["metadata"]["uid"] if outcome.live is not None else ""
                kept[reading.identity] = entry_of(reading.target, uid=uid)
        gone: list[AppliedResource] = []
        for entry in record.status.appliedResources:
            if identity_of(entry) in kept:
                continue
            if any(_may_be(entry, each) for each in readings if isinstance(each, InvalidManifest)):
                kept[identity_of(entry)] = entry
            else:
                gone.append(entry)
        left = await self._leave(record, work, gone, work.spec.deleteOption)
        done.targets += [target_of(each) for each in left]
        done.failed |= bool(left)
        return await self._applied.written(record, [*kept.values(), *left])

    async def _report(self, work: ManifestWork, outcomes: Sequence[Outcome], done: ReconcileResult) -> None:
        work = await self._write(work, status.status_of(work, outcomes, now=self._clock.wall()), done)
        if status.is_complete(work.status.conditions):
            await self._expire(work, done)

    async def _write(
        self, work: ManifestWork, found: ManifestWorkStatus, done: ReconcileResult
    ) -> ManifestWork:
        """The work as it is afterwards."""
        if found == work.status:
            return work
        body: dict[str, Any] = {
            "conditions": encoded(found.conditions),
            "resourceStatus": {"manifests": [encode(each) for each in found.resourceStatus.manifests]},
        }
        written = await self._patched(work, {"status": body}, status=True)
        done.written = written.metadata.resourceVersion
        return written

    async def _expire(self, work: ManifestWork, done: ReconcileResult) -> None:
        option = work.spec.deleteOption
        complete = find_condition(work.status.conditions, WORK_COMPLETE)
        if option is None or option.ttlSecondsAfterFinished is None or complete is None:
            return
        since = complete.lastTransitionTime or self._clock.wall()
        left = option.ttlSecondsAfterFinished - (self._clock.wall() - since).total_seconds()
        if left > 0:
            done.sooner(left)
            return
        meta = work.metadata
        try:
            await self._hub.delete(MANIFEST_WORKS, meta.name, namespace=meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            pass
        except Forbidden as error:
            log.info(TTL_FORBIDDEN, meta.name, error)

    async def _finalized(self, work: ManifestWork, finalizers: list[str]) -> ManifestWork:
        return await self._patched(work, {"metadata": {"finalizers": finalizers}})

    async def _patched(
        self, work: ManifestWork, body: dict[str, dict[str, Any]], *, status: bool = False
    ) -> ManifestWork:
        """Of the very work that was seen: Conflict if it is another by now."""
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


def _foreseen(record: AppliedManifestWork, wanted: Sequence[DesiredObject]) -> list[AppliedResource]:
    """What is on record, and what is about to be made."""
    known = {identity_of(each): each for each in record.status.appliedResources}
    for each in wanted:
        if each.strategy.type != READ_ONLY:
            known.setdefault(each.identity, entry_of(each.target))
    return list(known.values())


def _outcome(reading: Reading, results: Mapping[int, Outcome]) -> Outcome:
    if isinstance(reading, InvalidManifest):
        return Outcome(meta=reading.meta, refusal=reading.refusal)
    return results[reading.meta.ordinal]


def _may_be(entry: AppliedResource, failed: InvalidManifest) -> bool:
    """Whether this is the object a manifest means whose kind is not served at the moment."""
    meta = failed.meta
    return (entry.group, entry.name) == (meta.group, meta.name) and entry.namespace in ("", meta.namespace)


def _passes(error: KubeError) -> bool:
    """Whether it is likely to be over at the next attempt: a broken connection, or somebody who was quicker."""
    match error:
        case Conflict():
            return not error.has_cause("FieldManagerConflict")
        case NotFound():
            return error.details.kind != "namespaces"
        case _:
            return error.retryable or isinstance(error, AlreadyExists)


def encoded(conditions: Sequence[Any]) -> list[dict[str, Any]]:
    return [encode(each) for each in conditions]
