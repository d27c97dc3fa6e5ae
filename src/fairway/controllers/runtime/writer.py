"""Writes of a controller: only in the term of the task that writes, counted in the metrics, and in turns if limited."""

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from fairway.controllers.runtime.leadership import current_leadership
from fairway.controllers.runtime.write_limiter import Lane, Owner, WriteLimiter
from fairway.observe.meters import Meters
from kubewire.api.encoding import encode
from kubewire.api.meta import Condition, ObjectMeta, set_condition
from kubewire.api.resource import KubeStruct, T
from kubewire.client import ApiError, Client, Clock, Conflict, Invalid, Patch, Resource

CHANGED: Final = "the object has changed since it was read"

LONGEST_MESSAGE: Final = 2000
"""Characters. A condition may hold more, but a selector in it can be as long as an object."""


def with_condition(
    conditions: Sequence[Condition] | None, condition: Condition, *, clock: Clock
) -> tuple[Condition, ...]:
    """Return the conditions with this one set, once: in a plain list, another client may have added a second."""
    kept: list[Condition] = []
    for old in conditions or ():
        if old.type != condition.type or all(other.type != old.type for other in kept):
            kept.append(old)
    return set_condition(tuple(kept), condition, now=clock.wall())


def truncate(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 1]}…"


class Writer:
    """Writes of one controller.

    Every write raises Lost, and sends nothing, if the term of the running task is over. ``patch`` and ``delete`` apply
    to the version that was read; otherwise they raise Conflict.

    ``field_manager`` is ``fairway-`` and the controller by default; None is that of the client. ``limiter`` is what
    ``turn`` takes slots of. ``count_subresources``: the metrics show ``pods/status``, not ``pods``.
    """

    def __init__(
        self,
        client: Client,
        *,
        meters: Meters,
        controller: str,
        field_manager: str | None = "",
        limiter: WriteLimiter | None = None,
        count_subresources: bool = False,
    ) -> None:
        self._client, self._meters, self._controller = client, meters, controller
        self._manager = f"fairway-{controller}" if field_manager == "" else field_manager
        self._limiter = limiter or WriteLimiter()
        self._count_subresources = count_subresources

    def batch(self) -> AbstractAsyncContextManager[object]:
        """Wrap writes that belong together. Raises Lost if the term is over, also if it ends within the block, and
        Unconfirmed if the hub cannot confirm it."""
        return current_leadership().batch()

    def ensure(self) -> None:
        """Raises Lost if the term is over. Every write checks it itself: this is for what has to precede a write."""
        current_leadership().ensure()

    def turn(
        self, lane: Lane, *, owner: Owner | None = None, droppable: bool = False
    ) -> AbstractAsyncContextManager[None]:
        """Take a slot for a write. See ``move_to_front`` for ``owner`` and ``droppable``."""
        return self._limiter.turn(lane, owner=owner, droppable=droppable)

    def move_to_front(self, owner: Owner) -> None:
        self._limiter.move_to_front(owner)

    async def create(
        self,
        resource: Resource[T],
        body: Mapping[str, Any] | KubeStruct,
        *,
        namespace: str = "",
        subresource: str | None = None,
    ) -> T:
        with self._write(resource, "create", subresource):
            return await self._client.create(
                resource,
                body,
                namespace=namespace or None,
                subresource=subresource,
                field_manager=self._manager,
            )

    async def patch(
        self,
        resource: Resource[T],
        seen: ObjectMeta,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        subresource: str | None = None,
    ) -> T:
        """A mapping is a merge patch, a sequence a JSON patch."""
        content: Mapping[str, Any] | Sequence[Mapping[str, Any]]
        if isinstance(body, Mapping):
            meta = {**body.get("metadata", {}), "uid": seen.uid, "resourceVersion": seen.resourceVersion}
            kind, content = Patch.MERGE, {**body, "metadata": meta}
        else:
            # Replaced, not tested: a failed test is an invalid request, another version a conflict.
            first = [
                {"op": "replace", "path": "/metadata/uid", "value": seen.uid},
                {"op": "replace", "path": "/metadata/resourceVersion", "value": seen.resourceVersion},
            ]
            kind, content = Patch.JSON, [*first, *body]
        with self._write(resource, "patch", subresource):
            try:
                return await self._send_patch(resource, seen.name, content, kind, seen.namespace, subresource)
            except Invalid as error:
                if kind is Patch.JSON and not error.details.causes:
                    # The hub applies the operations before it compares versions. They fit the object that was read, so
                    # it has changed since.
                    raise Conflict(CHANGED, code=409, reason="Conflict", request=error.request) from error
                raise

    async def patch_any_version(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        kind: Patch,
        namespace: str = "",
        subresource: str | None = None,
    ) -> T:
        """Patch whatever the hub has under the name, unless the body itself names what it applies to."""
        with self._write(resource, "patch", subresource):
            return await self._send_patch(resource, name, body, kind, namespace, subresource)

    def _send_patch(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        kind: Patch,
        namespace: str,
        subresource: str | None,
    ) -> Awaitable[T]:
        return self._client.patch(
            resource,
            name,
            body,
            kind=kind,
            namespace=namespace or None,
            subresource=subresource,
            field_manager=self._manager,
        )

    async def conditions(self, resource: Resource[T], seen: ObjectMeta, conditions: Sequence[Condition]) -> T:
        body = {"status": {"conditions": [encode(condition) for condition in conditions]}}
        return await self.patch(resource, seen, body, subresource="status")

    async def apply(self, resource: Resource[T], body: Mapping[str, Any]) -> T:
        """Take these fields by force, and leave all others unchanged."""
        meta = body["metadata"]
        with self._write(resource, "apply"):
            return await self._client.patch(
                resource,
                meta["name"],
                body,
                kind=Patch.APPLY,
                namespace=meta.get("namespace"),
                field_manager=self._manager,
                force=True,
            )

    async def delete(self, resource: Resource[T], seen: ObjectMeta, *, any_version: bool = False) -> None:
        """``any_version``: delete the object also if it has changed since it was read, but not one that replaced it,
        unless ``seen`` has no uid."""
        with self._write(resource, "delete"):
            await self._client.delete(
                resource,
                seen.name,
                namespace=seen.namespace or None,
                uid=seen.uid or None,
                resource_version=None if any_version else seen.resourceVersion,
            )

    def _write(self, resource: Resource[T], verb: str, subresource: str | None = None) -> "_Write":
        name = resource.plural
        if subresource and self._count_subresources:
            name = f"{name}/{subresource}"
        return _Write(self._meters, self._controller, name, verb)


class _Write:
    """Check the term right before a write, and count the write with the reason of its failure."""

    __slots__ = ("_labels", "_meters")

    def __init__(self, meters: Meters, controller: str, resource: str, verb: str) -> None:
        self._meters = meters
        self._labels = {"controller": controller, "resource": resource, "verb": verb}

    def __enter__(self) -> None:
        # Not counted: without the term, no request is sent.
        current_leadership().ensure()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        reason = ""
        if error is not None:
            # Also that of a cancelled write, which the hub may have carried out or not.
            reason = (error.reason if isinstance(error, ApiError) else "") or type(error).__name__
        self._meters.write(**self._labels, error=reason)
