"""Works that contain the same object: which of them decides its content.

If their manifests are equal, all of them own the object, and it stays until the last one is deleted; that is how an
object moves from one work to another. If they differ, applying them in turn would never end. So one takes precedence: a
work that owns the object before one that would orphan it, then the older one. The others report the conflict.
"""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Final

from fairway.api.work import READ_ONLY, SERVER_SIDE_APPLY, UPDATE, ManifestWork
from fairway.klusterlet.works import messages
from fairway.klusterlet.works.discovery import Discovery
from fairway.klusterlet.works.manifest import DesiredObject, desired_object, resource_meta
from fairway.klusterlet.works.messages import ManifestError
from fairway.klusterlet.works.objects import ObjectId
from fairway.klusterlet.works.status import is_complete
from fairway.kube import Added, Batch, Deleted, Updated
from fairway.kube.resource import Key

_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)

Claim = tuple[str, str, str]
"""(group, kind, name), as far as known without discovery."""


class ConflictIndex:
    """Maps objects to works. ``store`` is an informer's."""

    def __init__(self, store: Mapping[Key, ManifestWork], discovery: Discovery) -> None:
        self._store, self._discovery = store, discovery
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

    async def check(self, work: ManifestWork, wanted: DesiredObject) -> None:
        """Raises ManifestError if another work with different content takes precedence."""
        if wanted.strategy.type not in (UPDATE, SERVER_SIDE_APPLY):
            return
        mine = _precedence(work, keeps=wanted.owned)
        async for other, theirs in self._others(work, wanted.identity, kind=wanted.meta.kind):
            if is_complete(other.status.conditions) or theirs.strategy.type not in (
                UPDATE,
                SERVER_SIDE_APPLY,
            ):
                continue
            if theirs.manager != wanted.manager or theirs.body == wanted.body:
                continue
            if _precedence(other, keeps=theirs.owned) < mine:
                why = messages.WAS_FIRST if theirs.owned is wanted.owned else messages.KEEPS
                message = messages.CONFLICT.format(work=other.metadata.name, why=why)
                raise ManifestError(message, remedy=messages.CONFLICT_REMEDY, final=True)

    async def claimants(self, work: ManifestWork | None, identity: ObjectId) -> list[ManifestWork]:
        """Return the other works that contain the object, in order of precedence."""
        claims = [each for each in self._works if (each[0], each[2]) == (identity.group, identity.name)]
        found: list[tuple[tuple[bool, datetime, str], ManifestWork]] = []
        for _, kind, _ in claims:
            async for other, theirs in self._others(work, identity, kind=kind):
                if theirs.strategy.type != READ_ONLY:
                    found.append((_precedence(other, keeps=theirs.owned), other))
        return [other for _, other in sorted(found, key=lambda each: each[0])]

    async def _others(
        self, work: ManifestWork | None, identity: ObjectId, *, kind: str
    ) -> AsyncIterator[tuple[ManifestWork, DesiredObject]]:
        for key in sorted(self._works.get((identity.group, kind, identity.name), ())):
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
    found: set[Claim] = set()
    for ordinal, manifest in enumerate(work.spec.workload.manifests):
        meta = resource_meta(ordinal, manifest)
        found.add((meta.group, meta.kind, meta.name))
    return found


def _key(work: ManifestWork) -> Key:
    return (work.metadata.namespace, work.metadata.name)


def _precedence(work: ManifestWork, *, keeps: bool) -> tuple[bool, datetime, str]:
    return (not keeps, work.metadata.creationTimestamp or _LONG_AGO, work.metadata.name)
