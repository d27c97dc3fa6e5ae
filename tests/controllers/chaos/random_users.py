"""A client that makes random changes through the hub's API."""

import random
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import structs

from controllers.chaos.expected_decisions import KINDS
from controllers.chaos.inventor import CLUSTERS, NAMESPACES, SETS, Inventor
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.testing import builders
from kubewire.client import AlreadyExists, Client, Conflict, NotFound, Patch, Resource

Document = dict[str, Any]

SOON: Final = (-60, -1, 1, 2, 3, 600)
"""Seconds between now and when a taint was added or a score expires."""
OFTEN: Final = {
    "cluster": 14, "score": 14, "cluster_score": 3, "cluster_set": 2, "binding": 2, "placement": 12, "remove": 6,
    "decision": 2, "meddle": 6, "unsettle": 2,
}  # fmt: skip
"""Weight of each change."""


class RandomUsers:
    """``balance``: whether placements may use the prioritizer Balance."""

    def __init__(self, client: Client, chance: random.Random, *, balance: bool = True) -> None:
        self._client, self._chance, self._balance = client, chance, balance

    async def create_fleet(self) -> None:
        """Create namespaces, bound sets and clusters."""
        for name in (*NAMESPACES, *CLUSTERS):
            with suppress(AlreadyExists):
                await self._client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        for name in SETS:
            selector = builders.selector(labels={"gpu": "true"}) if name == "gpus" else None
            await self.put(MANAGED_CLUSTER_SETS, builders.cluster_set(name, selector=selector))
            await self.put(MANAGED_CLUSTER_SET_BINDINGS, builders.binding(name, namespace=NAMESPACES[0]))
        for _ in CLUSTERS:
            await self.put(MANAGED_CLUSTERS, self._inventor.cluster())

    @property
    def _inventor(self) -> Inventor:
        return Inventor(self._chance, now=datetime.now(UTC), balance=self._balance, ages=SOON)

    async def stir(self, count: int) -> None:
        """Make this number of changes."""
        for _ in range(count):
            (what,) = self._chance.choices(tuple(OFTEN), tuple(OFTEN.values()))
            with suppress(Conflict, NotFound, AlreadyExists):  # another client was faster
                await self._do(what)

    async def _do(self, what: str) -> None:
        invent = self._inventor
        match what:
            case "cluster":
                await self.put(MANAGED_CLUSTERS, invent.cluster())
            case "score":
                await self.put(ADD_ON_PLACEMENT_SCORES, invent.score())
            case "cluster_score":
                await self.put(MANAGED_CLUSTER_SCORES, invent.cluster_score())
            case "cluster_set":
                await self.put(MANAGED_CLUSTER_SETS, invent.cluster_set())
            case "binding":
                await self.put(MANAGED_CLUSTER_SET_BINDINGS, invent.binding())
            case "placement":
                await self.put(PLACEMENTS, invent.placement())
            case "remove":
                await self._remove()
            case "decision":
                await self.put(PLACEMENT_DECISIONS, invent.decision())
            case "meddle":
                await self._meddle()
            case _:
                await self._unsettle()

    async def _some(self, resource: Resource[Any]) -> Any:
        items = (await self._client.list(resource)).items
        return self._chance.choice(items) if items else None

    async def _remove(self) -> None:
        resource = self._chance.choice(KINDS)
        obj = await self._some(resource)
        if obj is not None:
            meta = obj.metadata
            await self._client.delete(resource, meta.name, namespace=meta.namespace or None)

    async def _meddle(self) -> None:
        """Create one with a decision that the controller may have made."""
        decision = await self._some(PLACEMENT_DECISIONS)
        if decision is not None:
            await self.put(PLACEMENT_DECISIONS, self._inventor.externally_modified(decision))

    async def _unsettle(self) -> None:
        """Write a wrong status to a placement."""
        placement = await self._some(PLACEMENTS)
        if placement is not None:
            status = structs.replace(placement.status, numberOfSelectedClusters=99)
            await self._put_status(PLACEMENTS, structs.replace(placement, status=status))

    async def put(self, resource: Resource[Any], thing: Any) -> None:
        """Create or replace the object; without a status, that is kept."""
        document = msgspec.to_builtins(thing)
        document.pop("status", None)
        meta = thing.metadata
        where = meta.namespace or None
        path = resource.path(namespace=where, name=meta.name)
        metadata = {
            key: document["metadata"][key]
            for key in ("name", "namespace", "labels", "annotations", "ownerReferences")
            if key in document["metadata"]
        }
        try:
            await self._client.create(resource, {**document, "metadata": metadata}, namespace=where)
        except AlreadyExists:
            there: Document = msgspec.json.decode((await self._client.request("GET", path)).body)
            metadata["resourceVersion"] = there["metadata"]["resourceVersion"]
            body = {**there, **document, "metadata": metadata}
            await self._client.request("PUT", path, body=body)
        if resource is not PLACEMENTS and hasattr(thing, "status"):
            await self._put_status(resource, thing)

    async def _put_status(self, resource: Resource[Any], thing: Any) -> None:
        """Replace all fields, so that missing ones are removed."""
        known = msgspec.to_builtins(thing.status)
        status = {name: known.get(name) for name in thing.status.__struct_fields__}
        if status.get("conditions", ...) is None:
            status.pop("conditions")
        meta = thing.metadata
        await self._client.patch(
            resource,
            meta.name,
            {"status": status},
            kind=Patch.MERGE,
            namespace=meta.namespace or None,
            subresource="status",
        )
