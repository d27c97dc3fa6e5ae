"""A hub in memory for tests: stores objects, checks preconditions, and delivers watch events when the test says so.

A controller uses it as its client (``hub.client``) and as its informers (``hub.informers``), without a connection, so
tests run in virtual time. ``served`` offers the same objects over HTTP. ``reject`` may raise in place of a write, and
the watch of an informer can be cut.
"""

import asyncio
import itertools
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast

import msgspec
from aiohttp import web

from fairway.controllers.informer_factory import InformerFactory
from fairway.hub.patches import jsonpatch, mergepatch
from fairway.kube import Added, AlreadyExists, ApiError, Batch, Client, Conflict, NotFound, Patch, Resource
from fairway.kube.change import difference

Document = dict[str, Any]
Key = tuple[str, str, str]
"""Plural, namespace and name."""

PRECONDITIONS: Final = ("uid", "resourceVersion")


@dataclass
class FakeInformer:
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
            self.deliver(key, new)

    def deliver(self, key: tuple[str, str], new: Any) -> None:
        """Store the object, or delete it if ``new`` is None; while the watch is cut, do so later."""
        if self.cut_at is not None:
            self.missed.append((key, new))
            return
        changes = tuple(difference(self.store.get(key), new))
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
        known = tuple(Added(each) for each in self.store.values())
        handler(Batch(changes=known, epoch=0, listed=True, resource_version="1"))


class FakeHub:
    def __init__(self) -> None:
        self.documents: dict[Key, Document] = {}
        self.shelves: defaultdict[str, FakeInformer] = defaultdict(FakeInformer)
        self.writes: list[tuple[str, str]] = []
        """Verb and target of every write of the client."""
        self.bodies: list[tuple[str, str, Document]] = []
        """Method, path and body of every write over HTTP."""
        self.reject: Callable[[Any], None] = lambda _: None
        self._versions = itertools.count(100)
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def client(self) -> Client:
        return cast("Client", self)

    @property
    def informers(self) -> InformerFactory:
        return cast("InformerFactory", self)

    def of(self, resource: Resource[Any], *, fields: str = "") -> FakeInformer:
        assert fields in ("", "metadata.name=managed-cluster-lease")
        return self.shelves[resource.plural]

    # Waiting

    def notify(self) -> None:
        waiters, self._waiters = self._waiters, []
        for each in waiters:
            if not each.done():
                each.set_result(None)

    async def until(self, true: Callable[[], bool], *, seconds: float = 100_000) -> float:
        """Wait until the condition holds, and return the loop's time. It is checked after every change."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(seconds):
            while not true():
                waiter = loop.create_future()
                self._waiters.append(waiter)
                await waiter
        return loop.time()

    # Objects, as other clients change them

    def put(self, resource: Resource[Any], document: Document, *, namespace: str = "") -> None:
        key = (resource.plural, namespace, document["metadata"]["name"])
        self._store(key, document)
        self.shelves[resource.plural].deliver(key[1:], self.read(resource, *key[1:]))
        self.notify()

    def _store(self, key: Key, document: Document) -> Document:
        before = self.documents.get(key, {"metadata": {}})["metadata"]
        version = next(self._versions)
        uid = before.get("uid", f"uid-{version}")
        metadata = {**document["metadata"], "uid": uid, "resourceVersion": str(version)}
        if key[1]:
            metadata["namespace"] = key[1]
        self.documents[key] = {**document, "metadata": metadata}
        return self.documents[key]

    def read(self, resource: Resource[Any], namespace: str, name: str) -> Any:
        """The object as the hub has it, whatever the watch has delivered."""
        return msgspec.convert(self.documents[resource.plural, namespace, name], resource.type)

    def drop(self, resource: Resource[Any], name: str, *, namespace: str = "") -> None:
        del self.documents[resource.plural, namespace, name]
        self.shelves[resource.plural].deliver((namespace, name), None)
        self.notify()

    # Requests of the controller

    async def create(
        self, resource: Resource[Any], body: Document, *, namespace: str | None, **_: Any
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
        namespace: str | None = None,
        **_: Any,
    ) -> Any:
        target = f"{namespace}/{name}" if namespace else resource.plural
        self.writes.append(("patch", f"{target}/{subresource}" if subresource else target))
        self.reject(body)
        old = self._get((resource.plural, namespace or "", name))
        new = (mergepatch if kind is Patch.MERGE else jsonpatch).apply(old, body)
        _check_preconditions(old, new["metadata"])
        if subresource == "status":
            new = {**old, "status": new["status"]}
        elif "status" in old:
            new = {**new, "status": old["status"]}
        self.put(resource, new, namespace=namespace or "")
        return self.read(resource, namespace or "", name)

    async def delete(
        self, resource: Resource[Any], name: str, *, namespace: str | None, uid: str, resource_version: str
    ) -> None:
        self.writes.append(("delete", f"{namespace}/{name}"))
        old = self._get((resource.plural, namespace or "", name))
        _check_preconditions(old, {"uid": uid, "resourceVersion": resource_version})
        self.drop(resource, name, namespace=namespace or "")

    def _get(self, key: Key) -> Document:
        if key not in self.documents:
            raise NotFound("/".join(key), code=404, reason="NotFound")
        return self.documents[key]

    # HTTP

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Serve the objects (get, create and merge-patch) at the address that is returned."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def _serve(self, request: web.Request) -> web.Response:
        try:
            return web.json_response(self._answer(request.method, request.path, await request.text()))
        except ApiError as error:
            body = {"kind": "Status", "status": "Failure", "reason": error.reason, "message": str(error)}
            return web.json_response({**body, "code": error.code}, status=error.code)

    def _answer(self, method: str, path: str, text: str) -> Document:
        parts = path.split("/")
        at = parts.index("namespaces")
        namespace, plural, name = parts[at + 1], parts[at + 2], "".join(parts[at + 3 : at + 4])
        if method == "GET":
            return self._get((plural, namespace, name))
        body: Document = json.loads(text)
        self.bodies.append((method, path, body))
        if method == "POST":
            key = (plural, namespace, body["metadata"]["name"])
            if key in self.documents:
                raise AlreadyExists("/".join(key), code=409, reason="AlreadyExists")
            return self._store(key, body)
        old = self._get((plural, namespace, name))
        new: Document = mergepatch.apply(old, body)
        _check_preconditions(old, new["metadata"])
        return self._store((plural, namespace, name), new)


def said(type_: str, status: str, *, since: str = "2020-01-01T00:00:00Z") -> Document:
    """A condition, as another client writes it."""
    return {"type": type_, "status": status, "reason": "Said", "message": "", "lastTransitionTime": since}


def _check_preconditions(old: Document, given: Mapping[str, Any]) -> None:
    for each in PRECONDITIONS:
        if given[each] != old["metadata"][each]:
            raise Conflict("changed meanwhile", code=409, reason="Conflict")
