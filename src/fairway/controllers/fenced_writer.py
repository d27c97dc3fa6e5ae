"""Writes of a controller: only while it leads, only of the version it read, and counted in the metrics."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from fairway.api.kinds import encode
from fairway.api.meta import Condition, ObjectMeta, set_condition
from fairway.controllers.leadership import Leadership
from fairway.kube import ApiError, Client, Clock, Conflict, Invalid, KubeError, Patch, Resource
from fairway.kube.resource import T
from fairway.observe.meters import Meters

CHANGED: Final = "the object has changed since it was read"

LONGEST_MESSAGE: Final = 2000
"""Characters. A condition may hold more, but a selector in it can be as long as an object."""


def with_condition(
    conditions: Sequence[Condition] | None, condition: Condition, *, clock: Clock
) -> tuple[Condition, ...]:
    """Return the conditions with this one set, once: in a plain list, another client may have added a second."""
    kept: list[Condition] = []
    for each in conditions or ():
        if each.type != condition.type or all(other.type != each.type for other in kept):
            kept.append(each)
    return set_condition(tuple(kept), condition, now=clock.wall())


def truncate(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 1]}…"


class FencedWriter:
    """Writes of one controller. Patches and deletions apply to the version that was read; otherwise Conflict."""

    def __init__(self, client: Client, *, meters: Meters, controller: str) -> None:
        self._client, self._meters, self._controller = client, meters, controller
        self._manager = f"fairway-{controller}"

    async def create(
        self, resource: Resource[T], body: Mapping[str, Any], *, leadership: Leadership, namespace: str = ""
    ) -> T:
        leadership.ensure()
        with self._counted(resource, "create"):
            return await self._client.create(
                resource, body, namespace=namespace or None, field_manager=self._manager
            )

    async def patch(
        self,
        resource: Resource[T],
        seen: ObjectMeta,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        leadership: Leadership,
        subresource: str | None = None,
    ) -> T:
        """A mapping is a merge patch, a sequence a JSON patch."""
        leadership.ensure()
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
        with self._counted(resource, "patch"):
            try:
                return await self._client.patch(
                    resource,
                    seen.name,
                    content,
                    kind=kind,
                    namespace=seen.namespace or None,
                    subresource=subresource,
                    field_manager=self._manager,
                )
            except Invalid as error:
                if kind is Patch.JSON and not error.details.causes:
                    # The hub applies the operations before it compares versions. They fit the object that was read, so
                    # it has
                    # changed since.
                    raise Conflict(CHANGED, code=409, reason="Conflict", request=error.request) from error
                raise

    async def conditions(
        self,
        resource: Resource[T],
        seen: ObjectMeta,
        conditions: Sequence[Condition],
        *,
        leadership: Leadership,
    ) -> T:
        body = {"status": {"conditions": [encode(each) for each in conditions]}}
        return await self.patch(resource, seen, body, leadership=leadership, subresource="status")

    async def apply(self, resource: Resource[T], body: Mapping[str, Any], *, leadership: Leadership) -> T:
        """Take these fields by force, and leave all others unchanged."""
        leadership.ensure()
        meta = body["metadata"]
        with self._counted(resource, "apply"):
            return await self._client.patch(
                resource,
                meta["name"],
                body,
                kind=Patch.APPLY,
                namespace=meta.get("namespace"),
                field_manager=self._manager,
                force=True,
            )

    async def delete(self, resource: Resource[T], seen: ObjectMeta, *, leadership: Leadership) -> None:
        leadership.ensure()
        with self._counted(resource, "delete"):
            await self._client.delete(
                resource,
                seen.name,
                namespace=seen.namespace or None,
                uid=seen.uid,
                resource_version=seen.resourceVersion,
            )

    @contextmanager
    def _counted(self, resource: Resource[T], verb: str) -> Iterator[None]:
        error = ""
        try:
            yield
        except KubeError as failure:
            error = (failure.reason if isinstance(failure, ApiError) else "") or type(failure).__name__
            raise
        finally:
            self._meters.write(controller=self._controller, resource=resource.plural, verb=verb, error=error)
