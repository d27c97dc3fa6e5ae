"""Delete objects: at once, or after finalizers, dependents or a grace period."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from kubehub.kind import Kind, Kinds
from kubehub.options import BACKGROUND, FOREGROUND, ORPHAN, Deletion
from kubehub.resource import Resource
from kubehub.user import User
from kubehub.write_request import Admit
from kubehub.writing.commit import Committer
from kubehub.writing.decoding import clone
from kubehub.writing.preconditions import check_deletion
from kubewire.api.meta import format_time

FOREGROUND_FINALIZER: Final = "foregroundDeletion"
ORPHAN_FINALIZER: Final = "orphan"

_LONGEST_GRACE: Final = 1_000_000_000
"""About thirty years. The API accepts values that a datetime can't hold."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The object after a delete request, and whether it was removed."""

    raw: bytes
    gone: bool


class Deletions:
    def __init__(self, *, kinds: Kinds, committer: Committer, clock: Callable[[], datetime]) -> None:
        self._kinds, self._committer, self._clock = kinds, committer, clock

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
        kind = self._kinds.of(resource)
        kind.check_deletion(old, user)
        if admit is not None:
            admit(None, {key: value for key, value in old.items() if key not in ("apiVersion", "kind")})
        document = clone(old)
        metadata = document["metadata"]
        finalizers = _finalizers(metadata.get("finalizers") or [], options, kind)
        grace = kind.grace_seconds(document, options.grace)
        if not finalizers and not grace and kind.is_removable(document):
            raw = await self._committer.delete(resource, document, item, dry_run=options.dry_run)
            return Deleted(raw, gone=True)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        ends = format_time(self._clock() + timedelta(seconds=min(grace, _LONGEST_GRACE)))
        pending = metadata.get("deletionTimestamp")
        # As in Kubernetes, a second deletion may shorten the grace period, and never extends it.
        if pending is None or grace < metadata.get("deletionGracePeriodSeconds", 0):
            metadata["deletionTimestamp"] = ends
            metadata["deletionGracePeriodSeconds"] = grace
            if pending is None and "generation" in metadata:
                metadata["generation"] += 1
        kind.begin_deletion(document)
        if document == old:
            return Deleted(await self._committer.return_unchanged(item), gone=False)
        raw = await self._committer.commit(resource, document, expect=item.revision, dry_run=options.dry_run)
        return Deleted(raw, gone=False)


def _finalizers(present: Sequence[str], options: Deletion, kind: Kind) -> list[str]:
    """Return the finalizers that the propagation policy asks for; a new policy replaces an earlier one."""
    kept = list(present)
    if options.propagation in (ORPHAN, FOREGROUND, BACKGROUND):
        kept = [f for f in kept if f not in (ORPHAN_FINALIZER, FOREGROUND_FINALIZER)]
    if kind.allow_propagation_policy:
        if options.propagation == FOREGROUND:
            kept.append(FOREGROUND_FINALIZER)
        elif options.propagation == ORPHAN:
            kept.append(ORPHAN_FINALIZER)
    return kept
