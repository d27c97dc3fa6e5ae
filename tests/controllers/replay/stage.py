"""A hub and the live placement controller, on which recorded scenarios are played one after the other.

Their objects are created through the API, as people create them. The controller follows the hub with its informers and
writes over the wire; only when it looks at which placement is the scenario's decision, for in the recording each step
is one look. It knows nothing of scenarios: what one leaves behind is deleted, and the controller sees that too.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, Final, cast

import msgspec

from controllers.clocks import Stopped
from fairway.api.event import NORMAL, ObjectReference
from fairway.api.placement import PLACEMENT_LABEL
from fairway.controllers.leadership import ALONE
from fairway.controllers.placement import PlacementController
from fairway.controllers.sources import Sources
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
    AlreadyExists,
    Client,
    Connection,
    HubEvents,
    Invalid,
    NotFound,
    Patch,
    Recorder,
    Resource,
    WorkQueue,
)
from fairway.kube.events import Api
from fairway.kube.resource import KubeStruct
from fairway.observe.meters import Meters

Document = dict[str, Any]
Key = tuple[str, str]

RESOURCES: Final[Mapping[str, Resource[Any]]] = {
    each.kind: each
    for each in (
        MANAGED_CLUSTER_SETS,
        MANAGED_CLUSTER_SET_BINDINGS,
        MANAGED_CLUSTERS,
        ADD_ON_PLACEMENT_SCORES,
        PLACEMENT_DECISIONS,
        PLACEMENTS,
    )
}
AT_ONCE: Final = 16
"""Requests."""
DEADLINE: Final = 60.0
HOLD: Final = "fairway.dev/hold"
"""A finalizer: what is being deleted in a scenario stays for as long as the scenario lasts."""


class Refused(Exception):
    """By the hub: the scenario has an object that no API server would take."""


class Heard(Recorder):
    """Also remembers what was recorded, in order."""

    def __init__(self, client: Client, *, clock: Stopped) -> None:
        super().__init__(HubEvents(client), component="placement-controller", api=Api.EVENTS, clock=clock)
        self.events: list[Document] = []

    def event(
        self,
        about: ObjectReference | KubeStruct,
        *,
        reason: str,
        message: str,
        type_: str = NORMAL,
        action: str = "",
        related: ObjectReference | None = None,
    ) -> bool:
        told = {"type": type_, "reason": reason, "action": action, "message": message.rstrip(" ")}
        self.events.append(told)
        return super().event(
            about, reason=reason, message=message, type_=type_, action=action, related=related
        )


class Timers:
    """In the place of the queue: nothing is looked at unless the scenario says so."""

    def __init__(self) -> None:
        self.soonest: dict[Key, float] = {}

    def add(self, _key: Key) -> None: ...

    def add_after(self, key: Key, *, delay: float) -> None:
        self.soonest[key] = min(delay, self.soonest.get(key, delay))


class Stage:
    """Open with ``staged``."""

    def __init__(self, client: Client, *, recorder: Heard, clock: Stopped) -> None:
        self.client, self.recorder, self.clock = client, recorder, clock
        self.sources = Sources(client)
        self.timers = Timers()
        self._controller = PlacementController(
            client, meters=Meters(), recorder=recorder, calculators=False, resync=0, clock=clock
        )
        self._controller.queue = cast("WorkQueue[Key]", self.timers)
        self._controller.watch(self.sources)
        self._namespaces: set[str] = set()
        self._there: dict[str, set[Key]] = {kind: set() for kind in RESOURCES}

    async def set_up(self, scenario: Document) -> None:
        """All its objects are on the hub, and the controller knows of them, when this returns. Raises Refused."""
        self.clock.now = datetime.fromisoformat(scenario["now"])
        self.timers.soonest.clear()
        await self._create_namespaces(scenario["objects"])
        try:
            for kind in RESOURCES:  # placements last
                await self._all(self._create(each) for each in scenario["objects"] if each["kind"] == kind)
        except* Invalid as group:
            raise Refused(str(group.exceptions[0])) from None
        await self.caught_up()

    async def _create_namespaces(self, objects: Iterable[Document]) -> None:
        wanted = {each["metadata"].get("namespace", "") for each in objects} - {""} - self._namespaces
        self._namespaces |= wanted
        await self._all(self._create_namespace(name) for name in wanted)

    async def _create_namespace(self, name: str) -> None:
        with suppress(AlreadyExists):
            await self.client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})

    async def _create(self, document: Document) -> None:
        resource = RESOURCES[document["kind"]]
        metadata = dict(document["metadata"])
        name, namespace = metadata["name"], metadata.get("namespace")
        metadata.pop("uid", None)
        deleting = metadata.pop("deletionTimestamp", None)
        if deleting is not None:
            metadata["finalizers"] = [HOLD]
        body = {**document, "metadata": metadata}
        status = body.pop("status", None)
        await self.client.create(resource, body, namespace=namespace)
        self._there[resource.kind].add((namespace or "", name))
        if status:
            await self.client.patch(
                resource,
                name,
                {"status": status},
                kind=Patch.MERGE,
                namespace=namespace,
                subresource="status",
            )
        if deleting is not None:
            await self.client.delete(resource, name, namespace=namespace)

    async def clear(self) -> None:
        """As if nothing had been there; namespaces stay."""
        for kind in reversed(list(RESOURCES)):
            resource = RESOURCES[kind]
            if resource is PLACEMENT_DECISIONS:  # the controller made some as well
                found = (await self.client.list(resource)).items
                self._there[kind] = {(each.metadata.namespace, each.metadata.name) for each in found}
            await self._all(self._delete(resource, *key) for key in self._there[kind])
            self._there[kind].clear()
        await self.caught_up()
        self.recorder.events.clear()

    async def _delete(self, resource: Resource[Any], namespace: str, name: str) -> None:
        where = namespace or None
        with suppress(NotFound):
            if resource is MANAGED_CLUSTERS:
                body: Document = {"metadata": {"finalizers": None}}
                await self.client.patch(resource, name, body, kind=Patch.MERGE, namespace=where)
            await self.client.delete(resource, name, namespace=where)

    async def caught_up(self) -> None:
        """Until the controller has seen all there is."""
        async with asyncio.timeout(DEADLINE):
            for resource in RESOURCES.values():
                listed = await self.client.list(resource)
                there = {
                    (each.metadata.namespace, each.metadata.name): each.metadata.resourceVersion
                    for each in listed.items
                }
                informer = self.sources.of(resource)
                async with aclosing(informer.changes()) as changes:
                    async for _ in changes:
                        if {
                            key: each.metadata.resourceVersion for key, each in informer.store.items()
                        } == there:
                            break

    async def objects(self) -> list[Document]:
        """As the hub has them: with the defaults of its schemas."""
        found: list[Document] = []
        for resource in RESOURCES.values():
            answer = await self.client.request("GET", resource.path())
            listed = msgspec.json.decode(answer.body)
            found += [
                {"apiVersion": resource.api_version, "kind": resource.kind, **each}
                for each in listed["items"]
            ]
        return found

    async def look(self, key: Key) -> Document:
        """The controller looks once; what is on the hub then, in the form of the recording."""
        told = len(self.recorder.events)
        self.timers.soonest.pop(key, None)
        await self._controller.reconcile(key, ALONE)
        namespace, name = key
        try:
            status = (await self.client.get(PLACEMENTS, name, namespace=namespace)).status
        except NotFound:
            return {"placement": f"{namespace}/{name}", "numberOfSelectedClusters": 0}
        decisions = (
            await self.client.list(
                PLACEMENT_DECISIONS, namespace=namespace, labels=f"{PLACEMENT_LABEL}={name}"
            )
        ).items
        return {
            "placement": f"{namespace}/{name}",
            "numberOfSelectedClusters": status.numberOfSelectedClusters,
            "conditions": [
                {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
                for each in sorted(status.conditions, key=lambda each: each.type)
            ],
            "decisionGroups": [
                {
                    "decisionGroupIndex": each.decisionGroupIndex,
                    "decisionGroupName": each.decisionGroupName,
                    "decisions": list(each.decisions),
                    "clusterCount": each.clusterCount,
                }
                for each in status.decisionGroups
            ],
            "decisions": [
                {
                    "name": each.metadata.name,
                    "labels": dict(each.metadata.labels),
                    "clusters": [one.clusterName for one in each.status.decisions],
                    "scores": {one.clusterName: one.score for one in each.status.decisions},
                }
                for each in sorted(decisions, key=lambda each: each.metadata.name)
            ],
            "events": self.recorder.events[told:],
            "again": self.timers.soonest.get(key),
        }

    async def _all(self, requests: Iterable[Any]) -> None:
        limit = asyncio.Semaphore(AT_ONCE)

        async def limited(request: Any) -> None:
            async with limit:
                await request

        async with asyncio.TaskGroup() as group:
            for request in requests:
                group.create_task(limited(request))


@asynccontextmanager
async def staged(connection: Connection) -> AsyncIterator[Stage]:
    clock = Stopped()
    async with Client(connection) as client, (recorder := Heard(client, clock=clock)):
        stage = Stage(client, recorder=recorder, clock=clock)
        async with stage.sources:
            await stage.sources.synced()
            yield stage


def seconds_until(moment: str, *, now: datetime) -> float:
    return (datetime.fromisoformat(moment) - now) / timedelta(seconds=1)
