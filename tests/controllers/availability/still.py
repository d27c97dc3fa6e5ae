"""A hub without a wire, for virtual time: objects in a dict, patched as a hub does it, watched as an informer does."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

import msgspec

from fairway.api.lease import format_micro_time
from fairway.controllers.informer_factory import InformerFactory
from fairway.hub.patches import jsonpatch, mergepatch
from fairway.kube import (
    MANAGED_CLUSTERS,
    Added,
    Batch,
    Change,
    Client,
    Conflict,
    Patch,
    Resource,
)
from fairway.kube.change import difference
from fairway.kube.lease import LEASES


@dataclass
class Shelf:
    """The part of an informer that controllers use."""

    store: dict[tuple[str, str], Any] = field(default_factory=dict)
    handlers: list[Callable[[Batch[Any]], object]] = field(default_factory=list)
    cut_at: float | None = None
    """When its watch broke, while it is broken."""
    missed: list[tuple[tuple[str, str], Any]] = field(default_factory=list)

    @property
    def lag(self) -> float:
        return 0.0 if self.cut_at is None else asyncio.get_running_loop().time() - self.cut_at

    def cut(self) -> None:
        self.cut_at = asyncio.get_running_loop().time()

    def mend(self) -> None:
        self.cut_at = None
        missed, self.missed = self.missed, []
        for key, new in missed:
            self.tell(key, new)

    def tell(self, key: tuple[str, str], new: Any) -> None:
        """Takes the object, or None for a deletion, once the watch works."""
        if self.cut_at is not None:
            self.missed.append((key, new))
            return
        changes: tuple[Change[Any], ...] = tuple(difference(self.store.get(key), new))
        if new is None:
            del self.store[key]
        else:
            self.store[key] = new
        for handler in self.handlers:
            handler(Batch(changes=changes, epoch=0, listed=False, resource_version="1"))

    def get(self, name: str, *, namespace: str = "") -> Any:
        return self.store.get((namespace, name))

    def subscribe(self, handler: Callable[[Batch[Any]], object]) -> None:
        self.handlers.append(handler)
        there = tuple(Added(each) for each in self.store.values())
        handler(Batch(changes=there, epoch=0, listed=True, resource_version="1"))


class StillHub:
    """Also the client and the sources of a controller. ``refuse`` may raise instead of a patch."""

    def __init__(self) -> None:
        self.documents: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.shelves: defaultdict[str, Shelf] = defaultdict(Shelf)
        self.writes: list[tuple[str, str]] = []
        self.refuse: Callable[[Any], None] = lambda _: None
        self._versions: Iterator[int] = itertools.count(1)

    @property
    def client(self) -> Client:
        return cast("Client", self)

    @property
    def informers(self) -> InformerFactory:
        return cast("InformerFactory", self)

    def of(self, resource: Resource[Any], *, fields: str = "") -> Shelf:
        assert fields in ("", "metadata.name=managed-cluster-lease")
        return self.shelves[resource.plural]

    def put(self, resource: Resource[Any], document: dict[str, Any], *, namespace: str = "") -> None:
        """By somebody else."""
        meta = document["metadata"]
        key = (resource.plural, namespace, meta["name"])
        before = self.documents.get(key, {"metadata": {}})["metadata"]
        number = next(self._versions)
        known = {"uid": before.get("uid", f"uid-{number}"), "namespace": namespace}
        document = {**document, "metadata": {**meta, **known, "resourceVersion": str(number)}}
        self.documents[key] = document
        self.shelves[resource.plural].tell((namespace, meta["name"]), self.read(resource, *key[1:]))

    def read(self, resource: Resource[Any], namespace: str, name: str) -> Any:
        """The object as the hub has it, whatever the watch delivered so far."""
        return msgspec.convert(self.documents[resource.plural, namespace, name], resource.type)

    def drop(self, resource: Resource[Any], name: str, *, namespace: str = "") -> None:
        del self.documents[resource.plural, namespace, name]
        self.shelves[resource.plural].tell((namespace, name), None)

    async def create(
        self, resource: Resource[Any], body: dict[str, Any], *, namespace: str | None, **_: Any
    ) -> Any:
        self.writes.append(("create", f"{resource.plural} {namespace}"))
        self.put(resource, body, namespace=namespace or "")
        return self.read(resource, namespace or "", body["metadata"]["name"])

    async def patch(
        self,
        resource: Resource[Any],
        name: str,
        body: Mapping[str, Any] | Sequence[Any],
        *,
        kind: Patch,
        subresource: str | None,
        **_: Any,
    ) -> Any:
        self.writes.append(("patch", "/".join(filter(None, (resource.plural, subresource)))))
        self.refuse(body)
        old = self.documents[resource.plural, "", name]
        new = (mergepatch if kind is Patch.MERGE else jsonpatch).apply(old, body)
        for each in ("uid", "resourceVersion"):
            if new["metadata"][each] != old["metadata"][each]:
                raise Conflict("changed meanwhile")
        self.put(resource, new)
        return self.read(resource, "", name)

    # What tests do

    def cluster(self, name: str = "c", **spec: Any) -> None:
        document = {"metadata": {"name": name}, "spec": {"hubAcceptsClient": True, **spec}, "status": {}}
        self.put(MANAGED_CLUSTERS, document)

    def edit(self, name: str = "c", **parts: Any) -> None:
        old = self.documents["managedclusters", "", name]
        self.put(MANAGED_CLUSTERS, mergepatch.apply(old, parts))

    def say(self, type_: str, status: str, *, name: str = "c") -> None:
        """A condition, in the place of any other of its type."""
        old = self.documents["managedclusters", "", name]["status"].get("conditions", [])
        new = {
            "type": type_,
            "status": status,
            "reason": "Said",
            "message": "",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        }
        kept = [each for each in old if each["type"] != type_]
        self.edit(name, status={"conditions": [*kept, new]})

    def renew(self, moment: datetime, *, name: str = "c") -> None:
        spec = {"holderIdentity": "agent", "renewTime": format_micro_time(moment)}
        self.put(LEASES, {"metadata": {"name": "managed-cluster-lease"}, "spec": spec}, namespace=name)
