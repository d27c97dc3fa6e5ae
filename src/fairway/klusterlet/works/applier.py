"""Carry out the plan for one object on the managed cluster: read it, plan, write it, under the object's lock.

``Update`` is a server-side apply that takes its fields by force: the manifest's fields hold, fields removed from the
manifest are removed, and fields of other managers remain, except in objects that only contain data. OCM's agent
replaces the whole object instead, which removes fields that the cluster sets, again and again.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from fairway.api.work import SERVER_SIDE_APPLY, AppliedManifestWork, AppliedResource
from fairway.klusterlet.works import drift
from fairway.klusterlet.works.manifest import DesiredObject, digest
from fairway.klusterlet.works.objects import Object, ObjectId, Objects, Target
from fairway.klusterlet.works.ownership import Reference, reference, target_of
from fairway.klusterlet.works.plan import (
    AppliedObject,
    Apply,
    Create,
    Delete,
    FindHeir,
    NoChange,
    Released,
    SetOwners,
    plan_apply,
    plan_hand_over,
    plan_owners,
    plan_release,
)
from fairway.klusterlet.works.repair_backoff import RepairBackoff
from kubewire.client import Conflict, NotFound

Check = Callable[[Object | None], Awaitable[None]]
"""Raises ManifestError if the object, as it is now, must not be applied."""
FindHeirs = Callable[[ObjectId], Awaitable[Reference | None]]
"""Returns the reference of the work that takes an object over. Raises HeirNotReady."""


class HeirNotReady(Exception):
    """Another work wants the object but has not recorded it: the object must keep its owner."""


@dataclass(slots=True)
class WorkState:
    """State of one work between reconciles. It is a cache: losing it only costs requests."""

    written: str = ""
    """Resource version of the last status write; its watch event needs no reconcile."""
    repairs: RepairBackoff = field(default_factory=RepairBackoff)
    record_uid: str = ""
    applied: dict[ObjectId, AppliedObject] = field(default_factory=dict)

    def bind(self, record: AppliedManifestWork) -> None:
        """Forget the objects if the AppliedManifestWork is another one than before."""
        if self.record_uid != record.metadata.uid:
            self.record_uid = record.metadata.uid
            self.applied.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    live: Object | None
    """The object after applying; None if it does not exist."""
    repaired: bool = False
    """Whether the object had been applied before, and another client changed it."""


class Applier:
    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def apply(
        self, desired: DesiredObject, record: AppliedManifestWork, state: WorkState, *, check: Check
    ) -> Result:
        """Raises ManifestError, and KubeError for failed requests."""
        mine, target = reference(record), desired.target
        async with self._objects.locks.of(desired.identity):
            # Read, check and write under one lock: of two works with the same object, the second must see the first
            # one's reference, or both would conclude that they take precedence. A cached object would be older than the
            # lock.
            live = await self._objects.get(target)
            await check(live)
            applied = state.applied.get(desired.identity)
            match plan_apply(desired, live, mine, applied):
                case NoChange():
                    return Result(live=live)
                case Create(body):
                    return Result(live=await self._objects.create(target, body))
                case SetOwners(owners):
                    assert live is not None
                    return Result(live=await self._set_owners(target, live, owners))
                case Apply(body, force):
                    # An Apply creates missing objects, too, so there is no race between a read that found none and a
                    # create.
                    after = await self._objects.apply(target, body, manager=desired.manager, force=force)
            # A mutating webhook or an older field manager may have kept a reference that the apply left out, or removed
            # ours.
            match plan_owners(after, mine, owned=desired.owned):
                case SetOwners(owners):
                    after = await self._set_owners(target, after, owners)
            # Server-side apply never removes fields of other managers, and Update promises it; this is the second write
            # it needs.
            if desired.strategy.type != SERVER_SIDE_APPLY and (surplus := drift.removals(body, after)):
                after = await self._objects.merge(target, after, surplus)
            # Only after all writes: the cache must describe an object that needs none.
            state.applied[desired.identity] = AppliedObject.of(desired, after)
            before = None if live is None else live["metadata"]["resourceVersion"]
            wrote = before != after["metadata"]["resourceVersion"]
            again = applied is not None and applied.digest == digest(desired)
            return Result(live=after, repaired=wrote and again)

    async def release(
        self, entry: AppliedResource, record: AppliedManifestWork, *, orphaned: bool, find_heir: FindHeirs
    ) -> bool:
        """Delete the object, or remove our reference from it. Return whether that is done; finalizers take time."""
        target = target_of(entry)
        async with self._objects.locks.of(target.identity):
            try:
                return await self._release(target, record, orphaned=orphaned, find_heir=find_heir)
            except NotFound:
                return True
            # Not an error of this work: the object changed since it was read, and the next attempt reads it again.
            except (Conflict, HeirNotReady):
                return False

    async def hand_over(
        self, entry: AppliedResource, former: AppliedManifestWork, record: AppliedManifestWork
    ) -> bool:
        """Replace the owner ``former`` of an object by ``record``. Return whether that is done."""
        target, heir = target_of(entry), reference(record)
        async with self._objects.locks.of(target.identity):
            live = await self._objects.get(target)
            match plan_hand_over(former, live, heir=heir):
                case SetOwners(owners):
                    assert live is not None
                    try:
                        await self._set_owners(target, live, owners)
                    except NotFound:
                        return True
                    except Conflict:
                        return False
            return True

    async def _release(
        self, target: Target, record: AppliedManifestWork, *, orphaned: bool, find_heir: FindHeirs
    ) -> bool:
        live = await self._objects.get(target)
        action = plan_release(record, live, orphaned=orphaned)
        if isinstance(action, FindHeir):
            heir = await find_heir(target.identity)
            action = plan_release(record, live, orphaned=orphaned, heir=heir, heir_known=True)
        match action:
            case SetOwners(owners):
                assert live is not None
                await self._set_owners(target, live, owners)
                return True
            case Delete(uid):
                await self._objects.delete(target, uid=uid)
                # An object with finalizers or a grace period outlives the request; its entry must stay on record until
                # it is deleted.
                return await self._objects.get(target) is None
            case _:
                return isinstance(action, Released)

    async def _set_owners(self, target: Target, live: Object, owners: tuple[object, ...]) -> Object:
        return await self._objects.merge(target, live, {"metadata": {"ownerReferences": list(owners)}})
