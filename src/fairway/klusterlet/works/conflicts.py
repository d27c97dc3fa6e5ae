"""Works that contain the same object: which of them decides its content.

If their manifests are equal, all of them own the object, and it stays until the last one is deleted; that is how an
object moves from one work to another. If they differ, applying them in turn would never end. So one takes precedence: a
work that keeps the object before one that would orphan it, then one that owns the object, then the older one. The
others report the conflict.

Ownership counts before age, because works can have the same age: creation times are in seconds, and then names decide.
A work that is created later must never replace what an earlier one has applied, whatever its name is.
"""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Final

from fairway.api.work import READ_ONLY, SERVER_SIDE_APPLY, UPDATE, ManifestWork
from fairway.klusterlet.works import messages
from fairway.klusterlet.works.applied_works import AppliedWorks
from fairway.klusterlet.works.discovery import Discovery
from fairway.klusterlet.works.manifest import DesiredObject, desired_object, resource_meta
from fairway.klusterlet.works.messages import ManifestError
from fairway.klusterlet.works.objects import Object, ObjectId, owners_of
from fairway.klusterlet.works.ownership import work_references
from fairway.klusterlet.works.status import is_complete
from kubewire.api.resource import Key
from kubewire.client import Added, Batch, Deleted, Updated

_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)

Precedence = tuple[bool, bool, datetime, str]
"""Whether a work would orphan the object, and whether it does not own it; then its age. The least comes first."""

Claim = tuple[str, str, str]
"""(group, kind, name), as far as known without discovery."""


class ConflictIndex:
    """Maps objects to works. ``store`` is an informer's."""

    def __init__(
        self, store: Mapping[Key, ManifestWork], discovery: Discovery, applied: AppliedWorks
    ) -> None:
        self._store, self._discovery, self._applied = store, discovery, applied
        self._works: dict[Claim, set[Key]] = {}

    def update(self, batch: Batch[ManifestWork]) -> set[str]:
        """Update the index. Return the names of works that share an object with a changed one."""
        touched: set[Claim] = set()
        for change in batch.changes:
            match change:
                case Added(new):
                    touched |= self._add(new)
                case Updated(old, new):
                    touched |= self._remove(old) | self._add(new)
                case Deleted(old):
                    touched |= self._remove(old)
        return {name for claim in touched for _, name in self._works.get(claim, ())}

    def _add(self, work: ManifestWork) -> set[Claim]:
        claims = claims_of(work)
        for claim in claims:
            self._works.setdefault(claim, set()).add(_key(work))
        return claims

    def _remove(self, work: ManifestWork) -> set[Claim]:
        claims = claims_of(work)
        for claim in claims:
            holders = self._works.get(claim, set())
            holders.discard(_key(work))
            if not holders:
                self._works.pop(claim, None)
        return claims

    async def check(self, work: ManifestWork, wanted: DesiredObject, live: Object | None) -> None:
        """Raises ManifestError if another work with different content takes precedence.

        The caller holds the object's lock, so that the owners of ``live`` include a work that applied it just before.
        """
        if wanted.strategy.type not in (UPDATE, SERVER_SIDE_APPLY):
            return
        owners = frozenset() if live is None else _owner_names(live)
        mine = self._precedence(work, keeps=wanted.owned, owners=owners)
        async for other, theirs in self._others(work, wanted.identity, kind=wanted.meta.kind):
            # A work that is complete or only creates does not write again, so it cannot fight over the content.
            if is_complete(other.status.conditions) or theirs.strategy.type not in (
                UPDATE,
                SERVER_SIDE_APPLY,
            ):
                continue
            # Different field managers may share an object field by field; the API server reports what they really
            # contend for.
            if theirs.manager != wanted.manager or theirs.body == wanted.body:
                continue
            precedence = self._precedence(other, keeps=theirs.owned, owners=owners)
            if precedence < mine:
                message = messages.CONFLICT.format(work=other.metadata.name, why=_why(precedence, mine))
                raise ManifestError(message, remedy=messages.CONFLICT_REMEDY, final=True)

    async def claimants(self, work: ManifestWork | None, identity: ObjectId) -> list[ManifestWork]:
        """Return the other works that contain the object, in order of precedence."""
        # Of a released object only the plural is recorded, and manifests name a kind. So all kinds of the group with
        # this name count, and discovery decides below.
        claims = [claim for claim in self._works if (claim[0], claim[2]) == (identity.group, identity.name)]
        rivals: list[tuple[tuple[bool, datetime, str], ManifestWork]] = []
        for _, kind, _ in claims:
            async for other, theirs in self._others(work, identity, kind=kind):
                if theirs.strategy.type != READ_ONLY:
                    rivals.append(((not theirs.owned, *_age(other)), other))
        return [other for _, other in sorted(rivals, key=lambda rival: rival[0])]

    def _precedence(self, work: ManifestWork, *, keeps: bool, owners: frozenset[str]) -> Precedence:
        owns = self._applied.name_of(work.metadata.name) in owners
        return (not keeps, not owns, *_age(work))

    async def _others(
        self, work: ManifestWork | None, identity: ObjectId, *, kind: str
    ) -> AsyncIterator[tuple[ManifestWork, DesiredObject]]:
        for key in sorted(self._works.get((identity.group, kind, identity.name), ())):
            # The index is updated with the store in one batch, but this coroutine waits for discovery in between: a
            # work may be deleted meanwhile.
            other = self._store.get(key)
            if other is None or other.metadata.deletionTimestamp is not None:
                continue
            if work is not None and key == _key(work):
                continue
            async for wanted in self._find_manifest(other, identity, kind):
                yield other, wanted

    async def _find_manifest(
        self, work: ManifestWork, identity: ObjectId, kind: str
    ) -> AsyncIterator[DesiredObject]:
        for ordinal, manifest in enumerate(work.spec.workload.manifests):
            meta = resource_meta(ordinal, manifest)
            if (meta.group, meta.kind, meta.name) != (identity.group, kind, identity.name):
                continue
            version = f"{meta.group}/{meta.version}" if meta.group else meta.version
            resource = await self._discovery.find(version, kind)
            if resource is None or resource.plural != identity.resource:
                continue
            wanted = desired_object(work, meta, manifest, resource)
            if wanted.identity == identity:
                yield wanted
                return


def claims_of(work: ManifestWork) -> set[Claim]:
    claims: set[Claim] = set()
    for ordinal, manifest in enumerate(work.spec.workload.manifests):
        meta = resource_meta(ordinal, manifest)
        claims.add((meta.group, meta.kind, meta.name))
    return claims


def _key(work: ManifestWork) -> Key:
    return (work.metadata.namespace, work.metadata.name)


def _age(work: ManifestWork) -> tuple[datetime, str]:
    return work.metadata.creationTimestamp or _LONG_AGO, work.metadata.name


def _owner_names(live: Object) -> frozenset[str]:
    """Return the names of the AppliedManifestWorks that own an object."""
    return frozenset(str(owner.get("name")) for owner in work_references(owners_of(live)))


def _why(theirs: Precedence, mine: Precedence) -> str:
    if theirs[0] != mine[0]:
        return messages.KEEPS
    return messages.OWNS if theirs[1] != mine[1] else messages.WAS_FIRST
