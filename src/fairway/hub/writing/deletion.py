"""Deleting objects: at once, or marked and waiting for finalizers, dependents or a grace period."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fairway.hub.kind import Kind
from fairway.hub.options import BACKGROUND, FOREGROUND, ORPHAN, Deletion
from fairway.hub.resource import Resource
from fairway.hub.timestamps import timestamp
from fairway.hub.user import User
from fairway.hub.write_request import Admit
from fairway.hub.writing.commit import Committer
from fairway.hub.writing.intake import Intake, clone
from fairway.hub.writing.preconditions import check_deletion

FOREGROUND_FINALIZER: Final = "foregroundDeletion"
ORPHAN_FINALIZER: Final = "orphan"

_LONGEST_GRACE: Final = 1_000_000_000
"""Some thirty years: more can be asked for than calendars have."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a deletion left: the object as it now stands, and whether it is gone."""

    raw: bytes
    gone: bool


class Deletions:
    def __init__(self, *, intake: Intake, committer: Committer, clock: Callable[[], datetime]) -> None:
        self._intake, self._committer, self._clock = intake, committer, clock

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        options: Deletion,
        *,
        user: User,
        admit: Admit | None = None,
    ) -> Deleted:
        item, old = self._committer.head(resource, namespace, name)
        metadata = old["metadata"]
        check_deletion(resource, metadata, options)
        kind = self._intake.kind(resource)
        kind.admit_deletion(old, user)
        if admit is not None:
            admit(None, {key: value for key, value in old.items() if key not in ("apiVersion", "kind")})
        document = clone(old)
        metadata = document["metadata"]
        finalizers = _finalizers(metadata.get("finalizers") or [], options, kind)
        grace = kind.grace(document, options.grace)
        if not finalizers and not grace and kind.finished(document):
            raw = await self._committer.erase(resource, document, item, dry_run=options.dry_run)
            return Deleted(raw, gone=True)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        ends = timestamp(self._clock() + timedelta(seconds=min(grace, _LONGEST_GRACE)))
        pending = metadata.get("deletionTimestamp")
        if pending is None or grace < metadata.get("deletionGracePeriodSeconds", 0):
            metadata["deletionTimestamp"] = ends
            metadata["deletionGracePeriodSeconds"] = grace
            if pending is None and "generation" in metadata:
                metadata["generation"] += 1
        kind.deleting(document)
        if document == old:
            return Deleted(await self._committer.unchanged(item), gone=False)
        raw = await self._committer.commit(resource, document, expect=item.revision, dry_run=options.dry_run)
        return Deleted(raw, gone=False)


def _finalizers(present: Sequence[str], options: Deletion, kind: Kind) -> list[str]:
    """A policy that the client names replaces what an earlier deletion asked for."""
    kept = list(present)
    if options.propagation in (ORPHAN, FOREGROUND, BACKGROUND):
        kept = [f for f in kept if f not in (ORPHAN_FINALIZER, FOREGROUND_FINALIZER)]
    if kind.collected:
        if options.propagation == FOREGROUND:
            kept.append(FOREGROUND_FINALIZER)
        elif options.propagation == ORPHAN:
            kept.append(ORPHAN_FINALIZER)
    return kept
