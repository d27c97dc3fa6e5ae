"""A fake hub over real HTTP with scripted faults: the server in tests of clients.

It serves the objects of a ``FakeHub``, records the requests, and plays faults: responses in place of the right one,
truncated or delayed responses, watches that are cut anywhere, restarts, and restarts from an older backup.
"""

import asyncio
import contextlib
import json
import re
import ssl
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web
from multidict import CIMultiDict

from fairway.api.resources import MANAGED_CLUSTERS
from kubehub.patches import mergepatch
from kubewire.client import Conflict
from rigs.fake_hub import Document, Entry, FakeHub, Key, check_identity
from rigs.processes import Port

GROUP = MANAGED_CLUSTERS.group
PATH = f"/apis/{GROUP}/v1/managedclusters"
OBJECT = re.compile(r"/(?:api/v1|apis/[^/]+/[^/]+)/(?:namespaces/([^/]+)/)?([^/]+)(?:/([^/]+))?")
MERGE = "application/merge-patch+json"
TYPE = {"apiVersion": f"{GROUP}/v1", "kind": "ManagedCluster"}
NOT_STREAMING = (
    'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: '
    "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
)

Kind = Literal["list", "watch", "newest", "get", "write"]


@dataclass(slots=True)
class Seen:
    """A received request."""

    kind: Kind
    method: str
    path: str
    query: dict[str, str]
    headers: CIMultiDict[str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True, kw_only=True)
class Fault:
    """Played once, for the first request of one of its kinds. With only ``held`` set, the request is served later."""

    kinds: tuple[Kind, ...] = ("list", "watch", "newest", "get", "write")
    code: int = 0
    reason: str = ""
    message: str = "a fault"
    causes: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """The body in place of a Status."""
    held: asyncio.Event | None = None
    """The response waits for this event."""
    dropped: bool = False
    """The connection is closed without a response, and the request is not carried out."""
    lost: bool = False
    """The request is carried out, and the connection is closed without a response."""
    keep: int | None = None
    """The response is truncated to so many bytes."""


class _End:
    """Ends a watch in the usual way."""


class _Cut:
    """Breaks the connection of a watch."""


@dataclass(slots=True, eq=False)
class _Watcher:
    after: int
    queue: asyncio.Queue[bytes | type[_End] | type[_Cut]] = field(default_factory=asyncio.Queue)


class FakeServer:
    """``streaming`` is its reaction to ``sendInitialEvents``, ``future`` to a watch from a future version."""

    def __init__(
        self,
        *,
        streaming: Literal["yes", "refused", "ignored"] = "yes",
        future: Literal["wait", "refused"] = "wait",
        tokens: set[str] | None = None,
    ) -> None:
        self.objects = FakeHub(live=False)
        self.streaming, self.future, self.tokens = streaming, future, tokens
        self.requests: list[Seen] = []
        self.faults: deque[Fault] = deque()
        self._began = asyncio.Condition()
        self._snapshots: dict[int, list[Document]] = {}
        self._watchers: set[_Watcher] = set()
        self._transports: set[asyncio.BaseTransport] = set()
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None
        self._port = 0
        self._held = contextlib.ExitStack()
        self._ssl: ssl.SSLContext | None = None

    # Start and stop

    @property
    def url(self) -> str:
        return f"{'https' if self._ssl else 'http'}://127.0.0.1:{self._port}"

    async def start(self, *, ssl_context: ssl.SSLContext | None = None) -> None:
        self._ssl = ssl_context or self._ssl
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01, handler_cancellation=True)
        await self._runner.setup()
        assert self._runner.server is not None
        self._listening = await asyncio.get_running_loop().create_server(
            self._runner.server, "127.0.0.1", self._port, ssl=self._ssl
        )
        self._port = self._listening.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.close()
        for transport in self._transports:
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
        self._close(_Cut)
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        if listening is not None:
            await _left(listening)

    async def restart(self, *, rewind_to: int | None = None) -> None:
        await self.stop()
        if rewind_to is not None:
            self.objects.rewind(rewind_to)
            self._snapshots.clear()
        await self.start()

    async def __aenter__(self) -> "FakeServer":
        # Keeps the port reserved while the server is stopped.
        self._port = self._held.enter_context(Port()).number
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        self._held.close()

    # ManagedClusters, as another client changes them

    def put(self, name: str, **labels: str) -> Entry:
        entry = self.put_silently(name, labels)
        self._notify(entry)
        return entry

    def put_silently(self, name: str, labels: Mapping[str, str] | None = None, **fields: Any) -> Entry:
        """Write a new version without an event for the open watches."""
        document = {"metadata": {"name": name, "labels": dict(labels or {})}, **fields}
        return self.objects.store(self._key(name), {**TYPE, **document}, touch=True)

    def delete(self, name: str) -> None:
        entry = self.delete_silently(name)
        if entry is not None:
            self._notify(entry)

    def delete_silently(self, name: str) -> Entry | None:
        return self.objects.erase(self._key(name))

    def versions(self) -> dict[str, tuple[str, str]]:
        """Uid and resource version by name: what a copy must agree with."""
        metadata = [document["metadata"] for document in self._all("managedclusters")]
        return {meta["name"]: (meta["uid"], meta["resourceVersion"]) for meta in metadata}

    @staticmethod
    def _key(name: str) -> Key:
        return (MANAGED_CLUSTERS.plural, "", name)

    def _all(self, plural: str) -> list[Document]:
        return [self.objects.documents[key] for key in sorted(self.objects.documents) if key[0] == plural]

    def _notify(self, entry: Entry) -> None:
        for watcher in self._watchers:
            if entry.version > watcher.after:
                watcher.queue.put_nowait(entry.line)

    # Faults

    def fault(self, *kinds: Kind, **options: Any) -> Fault:
        made = Fault(kinds=kinds, **options) if kinds else Fault(**options)
        self.faults.append(made)
        return made

    def bookmark(self, version: int | None = None) -> None:
        self.send(bookmark(self.objects.revision if version is None else version))

    def send(self, line: bytes) -> None:
        """Send these bytes to every watch."""
        for watcher in self._watchers:
            watcher.queue.put_nowait(line)

    def cut(self, *, after: bytes = b"") -> None:
        """Break all watches, after these bytes, which may be half a line."""
        if after:
            self.send(after)
        self._close(_Cut)

    def end(self) -> None:
        self._close(_End)

    def _close(self, how: type[_End] | type[_Cut]) -> None:
        for watcher in self._watchers:
            watcher.queue.put_nowait(how)
        self._watchers.clear()

    def error(self, code: int, reason: str, *, message: str = "a fault") -> None:
        """Send an ERROR event to all watches, and end them."""
        self.send(json.dumps({"type": "ERROR", "object": status(code, reason, message)}).encode() + b"\n")
        self.end()

    async def watched(self, count: int = 1) -> None:
        """Wait until so many watches are open."""
        async with self._began:
            await self._began.wait_for(lambda: len(self._watchers) >= count)

    def asked(self, kind: Kind) -> list[Seen]:
        return [request for request in self.requests if request.kind == kind]

    # Serving

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        self._transports.add(transport)
        try:
            seen = Seen(
                kind=_kind_of(request),
                method=request.method,
                path=request.rel_url.raw_path,
                query=dict(request.query),
                headers=request.headers.copy(),
                body=await request.read(),
            )
            self.requests.append(seen)
            return await self._answer(request, seen, transport)
        finally:
            self._transports.discard(transport)

    async def _answer(
        self, request: web.Request, seen: Seen, transport: asyncio.BaseTransport
    ) -> web.StreamResponse:
        fault = self._take(seen.kind)
        if fault.held is not None:
            await fault.held.wait()
        if fault.dropped:
            transport.close()
            return web.Response()
        if fault.code:
            made = status(fault.code, fault.reason, fault.message, fault.causes)
            body = json.dumps(made).encode() if fault.body is None else fault.body
            return web.Response(status=fault.code, body=body, headers=fault.headers)
        given = seen.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.tokens is not None and given not in self.tokens:
            return _refusal(401, "Unauthorized")
        if seen.kind == "watch":
            return await self._watch(request, seen.query)
        response = self._write(seen) if seen.kind == "write" else self._read(seen)
        if fault.lost:
            transport.close()
        if fault.keep is not None:
            return await _truncated(request, response, fault.keep)
        return response

    def _take(self, kind: Kind) -> Fault:
        for fault in self.faults:
            if kind in fault.kinds:
                self.faults.remove(fault)
                return fault
        return Fault()

    def _read(self, seen: Seen) -> web.Response:
        key = _key_of(seen.path)
        if seen.kind == "get":
            document = self.objects.documents.get(key)
            return web.json_response(document) if document else _refusal(404, "NotFound")
        limit = int(seen.query.get("limit", "0"))
        version, start = self.objects.revision, 0
        if token := seen.query.get("continue"):
            version, start = map(int, token.split(":"))
            if version < self.objects.floor or version not in self._snapshots:
                return _refusal(410, "Expired")
        else:
            self._snapshots[version] = self._all(key[0])
        items = self._snapshots[version]
        end = start + limit if limit else len(items)
        metadata = {"resourceVersion": str(version)}
        if end < len(items):
            metadata["continue"] = f"{version}:{end}"
        return web.json_response({"kind": "List", "metadata": metadata, "items": items[start:end]})

    def _write(self, seen: Seen) -> web.Response:
        key = _key_of(seen.path)
        if seen.method == "DELETE":
            entry = self.objects.erase(key)
            if entry is None:
                return _refusal(404, "NotFound")
            self._notify(entry)
            return web.json_response(status(200, "", "gone"))
        new: Document = seen.json
        if seen.method == "POST":
            key = (*key[:2], new["metadata"]["name"])
            if key in self.objects.documents:
                return _refusal(409, "AlreadyExists")
        elif seen.method == "PATCH":
            old = self.objects.documents.get(key, {**TYPE, "metadata": {"name": key[2]}})
            new = mergepatch.apply(old, new) if seen.headers["Content-Type"] == MERGE else old
            try:
                check_identity(self.objects.documents.get(key, new), new["metadata"])
            except Conflict:
                return _refusal(409, "Conflict")
        entry = self.objects.store(key, new, touch=True)
        self._notify(entry)
        return web.json_response(entry.document, status=201 if seen.method == "POST" else 200)

    async def _watch(self, request: web.Request, query: Mapping[str, str]) -> web.StreamResponse:
        version = int(query.get("resourceVersion") or 0)
        initial = query.get("sendInitialEvents") == "true"
        if initial and self.streaming == "refused":
            return _refusal(422, "Invalid", NOT_STREAMING)
        if version and version < self.objects.floor:
            return _refusal(410, "Expired", "too old resource version")
        if version > self.objects.revision and self.future == "refused":
            causes = ("ResourceVersionTooLarge",)
            return _refusal(504, "Timeout", "Too large resource version", causes)
        watcher = _Watcher(after=version or self.objects.revision)
        for line in self._backlog(version, ended=initial and self.streaming == "yes"):
            watcher.queue.put_nowait(line)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        # No event may come between the backlog and the events that follow.
        self._watchers.add(watcher)
        try:
            await response.prepare(request)
            async with self._began:
                self._began.notify_all()
            await _follow(request, response, watcher)
        finally:
            self._watchers.discard(watcher)
        return response

    def _backlog(self, version: int, *, ended: bool) -> Iterator[bytes]:
        if version:
            yield from (entry.line for entry in self.objects.log if entry.version > version)
            return
        for document in self.objects.documents.values():
            yield Entry(0, self._key(""), "ADDED", document).line
        if ended:
            yield bookmark(self.objects.revision, ends_initial_events=True)


async def _left(server: asyncio.Server) -> None:
    """Wait until all connections are closed, also those without a finished handshake, which aiohttp does not count."""
    await server.wait_closed()
    while vars(server).get("_active_count"):  # Python 3.11 does not wait
        await asyncio.sleep(0)


async def _follow(request: web.Request, response: web.StreamResponse, watcher: _Watcher) -> None:
    while True:
        item = await watcher.queue.get()
        if item is _End:
            return
        if item is _Cut:
            if request.transport is not None:
                request.transport.close()
            return
        assert isinstance(item, bytes)
        with contextlib.suppress(ConnectionError):
            await response.write(item)


async def _truncated(request: web.Request, response: web.Response, keep: int) -> web.StreamResponse:
    body = response.body
    assert isinstance(body, bytes)
    cut = web.StreamResponse(status=response.status, headers={"Content-Type": "application/json"})
    cut.content_length = len(body)
    await cut.prepare(request)
    await cut.write(body[: min(keep, len(body) - 1)])
    if request.transport is not None:
        request.transport.close()
    return cut


def _kind_of(request: web.Request) -> Kind:
    if request.method != "GET":
        return "write"
    if request.query.get("watch") == "true":
        return "watch"
    if _key_of(request.path)[2]:
        return "get"
    return "newest" if request.query.get("limit") == "1" else "list"


def _key_of(path: str) -> Key:
    """Return the plural, the namespace and the name, which is empty for a collection."""
    match = OBJECT.search(path)
    namespace, plural, name = match.groups("") if match else ("", "", "")
    return plural, namespace, name


def status(code: int, reason: str, message: str, causes: tuple[str, ...] = ()) -> Document:
    made: Document = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure" if code >= 300 else "Success",
        "message": message,
        "reason": reason,
        "code": code,
    }
    if causes:
        made["details"] = {"causes": [{"reason": cause} for cause in causes]}
    return made


def _refusal(code: int, reason: str, message: str = "refused", causes: tuple[str, ...] = ()) -> web.Response:
    return web.json_response(status(code, reason, message, causes), status=code)


def bookmark(version: int, *, ends_initial_events: bool = False) -> bytes:
    metadata: Document = {"resourceVersion": str(version)}
    if ends_initial_events:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return Entry(version, ("", "", ""), "BOOKMARK", {"kind": "ManagedCluster", "metadata": metadata}).line
