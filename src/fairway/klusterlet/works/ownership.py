"""Whose an object is: the AppliedManifestWorks among its owners say for which works it is there.

Kubernetes' garbage collector goes by the same references, so what was applied goes with the AppliedManifestWork even if
no agent is left to see to it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fairway.api.work import AppliedManifestWork, AppliedResource
from fairway.klusterlet.works.objects import ObjectId, Objects, ObjectVersion, Target, owners_of
from fairway.kube import APPLIED_MANIFEST_WORKS, Conflict, NotFound, Resource

Reference = dict[str, Any]

_KIND: Final = (APPLIED_MANIFEST_WORKS.api_version, APPLIED_MANIFEST_WORKS.kind)


def reference(record: AppliedManifestWork) -> Reference:
    api_version, kind = _KIND
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": record.metadata.name,
        "uid": record.metadata.uid,
    }


def works_among(owners: Iterable[Mapping[str, Any]]) -> list[Reference]:
    """The references that are to AppliedManifestWorks, of any hub."""
    return [dict(each) for each in owners if (each.get("apiVersion"), each.get("kind")) == _KIND]


def has(live: Mapping[str, Any], uid: str) -> bool:
    return any(each.get("uid") == uid for each in owners_of(live))


async def settled(
    objects: Objects, target: Target, live: dict[str, Any], mine: Reference, *, owned: bool
) -> dict[str, Any]:
    """The object with this reference among its owners, or without it."""
    if has(live, mine["uid"]) is owned:
        return live
    others = [each for each in owners_of(live) if each.get("uid") != mine["uid"]]
    owners = [*others, mine] if owned else others
    return await objects.merge(target, live, {"metadata": {"ownerReferences": owners}})


class Heir(Protocol):
    async def __call__(self, identity: ObjectId, /) -> Reference | None:
        """Who is to have an object next; None for nobody. Raises NotYet if that cannot be said at the moment."""


class HeirNotReady(Exception):
    """Somebody wants the object, and has not written that down: it must neither be deleted nor be nobody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What becomes of an object that a work no longer wants. ``orphaned``: it stays, and is nobody's."""

    objects: Objects
    record: AppliedManifestWork
    orphaned: bool
    heir: Heir

    async def leave(self, entry: AppliedResource) -> bool:
        """Deletes the object, or lets go of it. Whether it is done with: one with finalizers takes its time.

        The reference decides, not the UID on record: an object that was made anew just before an agent died is ours
        though nobody wrote it down, and one that lost the reference was taken over by whoever removed it. An object
        that another work waits for gets that one's reference in the same write that removes ours; in between it would
        be nobody's, and if the other work went at that moment, it would stay for ever.
        """
        target = target_of(entry)
        async with self.objects.turns.of(target.identity):
            try:
                return await self._leave(target)
            except NotFound:
                return True
            except (Conflict, HeirNotReady):
                return False  # looked at again

    async def _leave(self, target: Target) -> bool:
        live = await self.objects.get(target)
        mine = reference(self.record)
        if live is None or not has(live, mine["uid"]):
            return True
        others = [each for each in works_among(owners_of(live)) if each["uid"] != mine["uid"]]
        if others or self.orphaned:
            await settled(self.objects, target, live, mine, owned=False)
            return True
        heir = await self.heir(target.identity)
        if heir is not None:
            kept = [each for each in owners_of(live) if each.get("uid") != mine["uid"]]
            await self.objects.merge(target, live, {"metadata": {"ownerReferences": [*kept, heir]}})
            return True
        if not live["metadata"].get("deletionTimestamp"):
            await self.objects.delete(target, uid=live["metadata"]["uid"])
        return await self.objects.get(target) is None


def target_of(entry: AppliedResource) -> Target:
    resource: Resource[ObjectVersion] = Resource(
        group=entry.group,
        version=entry.version,
        plural=entry.resource,
        kind=entry.resource,
        namespaced=bool(entry.namespace),
        type=ObjectVersion,
    )
    return Target(resource=resource, namespace=entry.namespace, name=entry.name)


def entry_of(target: Target, *, uid: str = "") -> AppliedResource:
    return AppliedResource(
        group=target.resource.group,
        version=target.resource.version,
        resource=target.resource.plural,
        namespace=target.namespace,
        name=target.name,
        uid=uid,
    )


def identity_of(entry: AppliedResource) -> ObjectId:
    return ObjectId(group=entry.group, resource=entry.resource, namespace=entry.namespace, name=entry.name)


def sorted_entries(entries: Iterable[AppliedResource]) -> tuple[AppliedResource, ...]:
    return tuple(
        sorted(
            entries,
            key=lambda each: (each.group, each.version, each.resource, each.namespace, each.name),
        )
    )
