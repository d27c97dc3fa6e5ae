"""A hub that is made to hold the objects of one scenario after the other, through its API and in few requests.

Clusters, sets, bindings and scores are changed into those of the next scenario where there is one of the same name;
placements, decisions and events are always new ones.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.controllers.controller_factory import REPORTER
from kubewire.api.event import Event
from kubewire.client import AlreadyExists, ApiError, Client, Patch, Resource
from kubewire.client.events import EVENTS
from rigs.cleanup import delete_all

Document = dict[str, Any]

AT_ONCE: Final = 16
"""Requests."""
NAMESPACES: Final = ("ns1", "ns2")
"""Where placements are."""
UNPROCESSABLE: Final = 422

KINDS: Final[Mapping[str, Resource[Any]]] = {
    resource.kind: resource
    for resource in (
        PLACEMENTS,
        MANAGED_CLUSTER_SETS,
        MANAGED_CLUSTER_SET_BINDINGS,
        MANAGED_CLUSTERS,
        ADD_ON_PLACEMENT_SCORES,
        PLACEMENT_DECISIONS,
    )
}
"""In the order in which they are made: what the hub may refuse first."""
FRESH: Final[tuple[Resource[Any], ...]] = (PLACEMENTS, PLACEMENT_DECISIONS, EVENTS)


class Refused(Exception):
    """By the hub, for what is written in it."""


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """Where an object is."""

    kind: str
    namespace: str
    name: str

    @property
    def resource(self) -> Resource[Any]:
        return KINDS[self.kind]

    @property
    def inside(self) -> str | None:
        return self.namespace if self.resource.namespaced else None


@dataclass(frozen=True, slots=True)
class Kept:
    """What was sent, and the version it became."""

    body: Document
    status: Document | None
    version: str

    @property
    def stays(self) -> bool:
        """Whether it is not only kept from going by a finalizer."""
        return "finalizers" not in self.body["metadata"]


class HubState:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._there: dict[ObjectKey, Kept] = {}
        self._namespaces: set[str] = set()
        self._counts: dict[str, int] = {}
        """How often an event happened, by its uid."""

    async def set_up(self, objects: Iterable[Document]) -> list[Document]:
        """All there is afterwards, as the hub has it. Raises Refused."""
        wanted = {_place(obj): obj for obj in objects}
        rooms = {*NAMESPACES, *(place.namespace for place in wanted if place.namespace)}
        await self._together(self._room(room) for room in sorted(rooms - self._namespaces))
        await self._together(
            delete_all(self._client, resource, namespace=namespace)
            for resource in FRESH
            for namespace in NAMESPACES
        )
        for place in [place for place in self._there if place.resource in FRESH]:
            del self._there[place]
        await self._together(self._remove(place) for place in list(self._there) if place not in wanted)
        for kind in KINDS:
            await self._together(self._put(place, obj) for place, obj in wanted.items() if place.kind == kind)
        return await self.everything()

    async def everything(self) -> list[Document]:
        return [item for resource in KINDS.values() for item in await self.all_of(resource)]

    async def all_of(self, resource: Resource[Any]) -> list[Document]:
        answer = await self._client.request("GET", resource.path(), large=True)
        items: list[Document] = msgspec.json.decode(answer.body)["items"]
        return items

    async def new_events(self) -> list[Event]:
        """Events since the last call, in order, with repetitions."""
        events = [
            event
            for event in (await self._client.list(EVENTS)).items
            if event.reportingController == REPORTER
        ]
        new: list[Event] = []
        for event in sorted(events, key=lambda event: int(event.metadata.resourceVersion)):
            count = event.series.count if event.series is not None else 1
            uid = event.metadata.uid
            new += [event] * (count - self._counts.get(uid, 0))
            self._counts[uid] = count
        return new

    async def _room(self, name: str) -> None:
        with suppress(AlreadyExists):
            await self._client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        self._namespaces.add(name)

    async def _put(self, place: ObjectKey, wanted: Document) -> None:
        body, status, dying = _parts(wanted)
        old = self._there.get(place)
        if old is not None and (dying or not old.stays or (status is None) != (old.status is None)):
            await self._remove(place)
            old = None
        resource, inside = place.resource, place.inside
        version = "" if old is None else old.version
        try:
            if old is None:
                made = await self._client.create(resource, body, namespace=inside)
                version = made.metadata.resourceVersion
            elif old.body != body:
                made = await self._client.update(resource, place.name, _at(body, version), namespace=inside)
                version = made.metadata.resourceVersion
            if status is not None and (old is None or old.status != status):
                whole = _at({**body, "status": status}, version)
                made = await self._client.update(
                    resource, place.name, whole, namespace=inside, subresource="status"
                )
                version = made.metadata.resourceVersion
        except ApiError as error:
            if version:  # delete the incomplete one before another is created
                self._there[place] = Kept(body, None, version)
            if error.code == UNPROCESSABLE:
                raise Refused(f"{place.kind} {place.name}: {error}") from error
            raise
        self._there[place] = Kept(body, status, version)
        if dying:
            await self._client.delete(resource, place.name, namespace=inside)

    async def _remove(self, place: ObjectKey) -> None:
        old = self._there.pop(place)
        if not old.stays:
            release = {"metadata": {"finalizers": None}}
            await self._client.patch(
                place.resource, place.name, release, kind=Patch.MERGE, namespace=place.inside
            )
        else:
            await self._client.delete(place.resource, place.name, namespace=place.inside)

    async def _together(self, todo: Iterable[Awaitable[None]]) -> None:
        """Await all, then raise the first error."""
        free = asyncio.Semaphore(AT_ONCE)

        async def one(awaitable: Awaitable[None]) -> None:
            async with free:
                await awaitable

        results = await asyncio.gather(*(one(awaitable) for awaitable in todo), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result


def _place(document: Document) -> ObjectKey:
    metadata = document["metadata"]
    return ObjectKey(document["kind"], metadata.get("namespace", ""), metadata["name"])


def _parts(document: Document) -> tuple[Document, Document | None, bool]:
    """The object to create, its status, and whether it is terminating."""
    metadata = {
        key: value for key, value in document["metadata"].items() if key not in ("uid", "deletionTimestamp")
    }
    body = {key: value for key, value in document.items() if key != "status"}
    return {**body, "metadata": metadata}, document.get("status"), "deletionTimestamp" in document["metadata"]


def _at(body: Document, version: str) -> Document:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
