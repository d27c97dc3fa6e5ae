"""Publish scores as AddOnPlacementScores: create the object, then apply its status.

The hub drops a status that is sent with a creation. An object without our labels belongs to another client, also one of
another Fairway provider, and is not changed: two writers would overwrite each other forever. ``--adopt`` takes it over.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fairway.api.resources import ADD_ON_PLACEMENT_SCORES
from fairway.api.score import AddOnPlacementScore
from fairway.providers.publication import CONDITION, Publication
from fairway.providers.sink import (
    SILENT,
    ForeignObject,
    SinkError,
    StoredPublication,
    as_sink_errors,
    describe_owner,
    field_manager,
    is_owned_by,
    labels_of,
)
from kubewire.api.meta import FALSE, TRUE, find_condition, format_time
from kubewire.client import AlreadyExists, Client, Conflict, NotFound, Patch

ATTEMPTS: Final = 4
"""Attempts of one write, if other clients change or delete the object meanwhile."""

FOREIGN: Final = (
    "AddOnPlacementScore {namespace}/{name} {whose}; not changed. Publish under another resource, delete it, "
    "or take it over with --adopt"
)
SILENCED: Final = "AddOnPlacementScore {namespace}/{name} was marked silent; there is no newer reading"
DISTURBED: Final = "other clients keep changing AddOnPlacementScore {namespace}/{name}"

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


class AddOnPlacementScores:
    """One object ``resource`` in the namespace of each cluster."""

    def __init__(self, client: Client, *, provider: str, resource: str, adopt: bool = False) -> None:
        self.resource = resource
        self._client, self._provider, self._adopt = client, provider, adopt
        self._manager = field_manager(provider)

    @property
    def selector(self) -> str:
        """Field selector for all objects of this name, of any owner."""
        return f"metadata.name={self.resource}"

    async def find(self, cluster: str, /) -> StoredPublication | None:
        score = await as_sink_errors(self._get(cluster), cluster=cluster)
        return None if score is None else await as_sink_errors(self._own_or_adopt(score), cluster=cluster)

    async def write(
        self, cluster: str, publication: Publication, /, *, stored: StoredPublication | None
    ) -> StoredPublication:
        return await as_sink_errors(self._write(cluster, publication, stored), cluster=cluster)

    async def remove(self, cluster: str, /) -> bool:
        return await as_sink_errors(self._remove(cluster), cluster=cluster)

    def own_publication(self, score: AddOnPlacementScore) -> StoredPublication | None:
        """Return the content of ``score`` if this provider owns it; None otherwise."""
        return stored_publication(score) if self._is_ours(score) else None

    def _is_ours(self, score: AddOnPlacementScore) -> bool:
        return is_owned_by(self._provider, score.metadata.labels)

    async def _get(self, cluster: str) -> AddOnPlacementScore | None:
        try:
            return await self._client.get(ADD_ON_PLACEMENT_SCORES, self.resource, namespace=cluster)
        except NotFound:
            return None

    async def _own_or_adopt(self, score: AddOnPlacementScore) -> StoredPublication:
        """Return the content of an own object; adopt a foreign one, or raise ForeignObject."""
        if self._is_ours(score):
            return stored_publication(score)
        meta = score.metadata
        if not self._adopt:
            message = FOREIGN.format(
                namespace=meta.namespace, name=meta.name, whose=describe_owner(meta.labels)
            )
            raise ForeignObject(message)
        # Clear the status first: fields applied by other managers would remain beside ours.
        version = {"uid": meta.uid, "resourceVersion": meta.resourceVersion}
        cleared = {"metadata": version, "status": {"scores": None, "conditions": None, "validUntil": None}}
        score = await self._patch(meta.namespace, cleared, kind=Patch.MERGE, subresource="status")
        labels = {"uid": meta.uid, "labels": labels_of(self._provider)}
        score = await self._patch(meta.namespace, {"metadata": labels}, kind=Patch.MERGE)
        return stored_publication(score)

    async def _write(
        self, cluster: str, publication: Publication, stored: StoredPublication | None
    ) -> StoredPublication:
        for _ in range(ATTEMPTS):
            if stored is None:
                # In two requests, because a create ignores the status of a kind with a status subresource.
                stored = await self._create(cluster)
            try:
                return await self._apply(cluster, publication, version=stored.version)
            except NotFound:
                stored = None  #  deleted; a missing namespace is reported when the object is created again
            except Conflict:
                # Another client changed or replaced the object; the labels show which.
                score = await self._get(cluster)
                stored = None if score is None else await self._own_or_adopt(score)
                if stored is not None and stored.publication.silenced and publication.read_at is None:
                    # The publication is not newer than the score that was marked silent.
                    message = SILENCED.format(namespace=cluster, name=self.resource)
                    raise SinkError(message, reason="Silent") from None
        raise SinkError(DISTURBED.format(namespace=cluster, name=self.resource), reason="Conflict", race=True)

    async def _create(self, cluster: str) -> StoredPublication:
        body = {"metadata": {"name": self.resource, "labels": labels_of(self._provider)}}
        try:
            made = await self._client.create(
                ADD_ON_PLACEMENT_SCORES, body, namespace=cluster, field_manager=self._manager
            )
            return stored_publication(made)
        except AlreadyExists:
            score = await self._get(cluster)
            if score is None:
                raise
            return await self._own_or_adopt(score)

    async def _apply(self, cluster: str, publication: Publication, *, version: int) -> StoredPublication:
        metadata: dict[str, Any] = {"name": self.resource, "namespace": cluster}
        if version:
            # Without the uid, which hubs ignore when a status is applied.
            metadata["resourceVersion"] = str(version)
        body = {"metadata": metadata, "status": status_of(publication)}
        answer = await self._patch(cluster, body, kind=Patch.APPLY, subresource="status", force=True)
        if stored_publication(answer).publication.scores != publication.scores:
            # Other managers own some scores, and apply removes only fields that no other manager owns.
            seen = {"uid": answer.metadata.uid, "resourceVersion": answer.metadata.resourceVersion}
            exact = {"metadata": seen, "status": {"scores": body["status"]["scores"]}}
            answer = await self._patch(cluster, exact, kind=Patch.MERGE, subresource="status")
        return stored_publication(answer)

    async def _patch(
        self,
        cluster: str,
        body: Mapping[str, Any],
        *,
        kind: Patch,
        subresource: str | None = None,
        force: bool = False,
    ) -> AddOnPlacementScore:
        return await self._client.patch(
            ADD_ON_PLACEMENT_SCORES,
            self.resource,
            body,
            kind=kind,
            namespace=cluster,
            subresource=subresource,
            field_manager=self._manager,
            force=force,
        )

    async def _remove(self, cluster: str) -> bool:
        score = await self._get(cluster)
        if score is None or not self._is_ours(score):
            return False
        try:
            # With the uid: an object that another provider created since is not ours to delete.
            await self._client.delete(
                ADD_ON_PLACEMENT_SCORES, self.resource, namespace=cluster, uid=score.metadata.uid
            )
        except NotFound:
            return False
        return True


def status_of(publication: Publication) -> dict[str, Any]:
    assert publication.valid_until is not None
    return {
        "conditions": [
            {
                "type": CONDITION,
                "status": TRUE if publication.ok else FALSE,
                "reason": publication.reason,
                "message": publication.message,
                "lastTransitionTime": format_time(publication.changed_at),
            }
        ],
        "scores": [{"name": name, "value": value} for name, value in publication.scores],
        "validUntil": format_time(publication.valid_until),
    }


def stored_publication(score: AddOnPlacementScore) -> StoredPublication:
    status, meta = score.status, score.metadata
    condition = find_condition(status.conditions, CONDITION)
    publication = Publication(
        scores=tuple(sorted((value.name, value.value) for value in status.scores)),
        # Dates in year 1 would underflow in later arithmetic.
        valid_until=None if status.validUntil is None else max(status.validUntil, _LONG_AGO),
        ok=condition is not None and condition.status == TRUE,
        reason="" if condition is None else condition.reason,
        message="" if condition is None else condition.message,
        changed_at=(None if condition is None else condition.lastTransitionTime) or _LONG_AGO,
        silenced=any(
            condition.type == SILENT and condition.status == TRUE for condition in status.conditions
        ),
    )
    return StoredPublication(publication=publication, version=version_of(meta.resourceVersion), uid=meta.uid)


def version_of(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
