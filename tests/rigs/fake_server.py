"""A hub over real HTTP that can be told to misbehave: the server in tests of whatever talks to a hub.

``History`` is the truth: a simple model of one resource with resource versions. ``FaultyHub`` serves it, keeps what it
was asked, and plays faults: answers in place of the right one, answers cut short or held back, watches cut anywhere,
restarts, and restarts with an older history. Nothing here waits for time to pass.
"""

import asyncio
import contextlib
import itertools
import json
import ssl
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web
from multidict import CIMultiDict

from rigs.processes import Port

GROUP = "cluster.open-cluster-management.io"
PATH = f"/apis/{GROUP}/v1/managedclusters"
NOT_STREAMING = (
    'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: '
    "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
)

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    version: int
    type: str
    document: Document

    @property
    def line(self) -> bytes:
        return json.dumps({"type": self.type, "object": self.document}).encode() + b"\n"


class History:
    """Objects by name, and every write that led to them. Resource versions are shared with the rest of the hub."""

    def __init__(self, *, revision: int = 10) -> None:
        self.revision = revision
        self.objects: dict[str, Document] = {}
        self.log: list[Entry] = []
        self.floor = 0
        """Watches and pages from before this version are answered with 410."""
        self._uids = itertools.count(1)

    def put(self, name: str, labels: Mapping[str, str] | None = None, **fields: Any) -> Entry:
        self.revision += 1
        known = self.objects.get(name)
        uid = known["metadata"]["uid"] if known else f"uid-{next(self._uids)}"
        metadata = {
            "name": name,
            "uid": uid,
            "resourceVersion": str(self.revision),
            "labels": dict(labels or {}),
        }
        document = {"apiVersion": f"{GROUP}/v1", "kind": "ManagedCluster", "metadata": metadata, **fields}
        self.objects[name] = document
        return self._logged("MODIFIED" if known else "ADDED", document)

    def delete(self, name: str) -> Entry | None:
        known = self.objects.pop(name, None)
        if known is None:
            return None
        self.revision += 1
        gone = {**known, "metadata": {**known["metadata"], "resourceVersion": str(self.revision)}}
        return self._logged("DELETED", gone)

    def _logged(self, type_: str, document: Document) -> Entry:
        entry = Entry(self.revision, type_, document)
        self.log.append(entry)
        return entry

    def compact(self) -> None:
        """Forget everything but the present."""
        self.revision += 1
        self.floor = self.revision

    def rewind(self, revision: int) -> None:
        """As if a backup from back then had been restored. UIDs are not given out twice."""
        self.log = [entry for entry in self.log if entry.version <= revision]
        self.objects = {}
        for entry in self.log:
            name = entry.document["metadata"]["name"]
            if entry.type == "DELETED":
                self.objects.pop(name, None)
            else:
                self.objects[name] = entry.document
        self.revision = revision
        self.floor = min(self.floor, revision)

    def versions(self) -> dict[str, tuple[str, str]]:
        """Uid and resource version by name: what a copy must agree with."""
        return {
            name: (each["metadata"]["uid"], each["metadata"]["resourceVersion"])
            for name, each in self.objects.items()
        }


Kind = Literal["list", "watch", "newest", "get", "write"]


@dataclass(slots=True)
class Seen:
    """A request as it came."""

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
    """Played once, for the first request of one of its kinds. With no more than a ``held`` the request goes on."""

    kinds: tuple[Kind, ...] = ("list", "watch", "newest", "get", "write")
    code: int = 0
    reason: str = ""
    message: str = "a fault"
    causes: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """In place of a Status."""
    held: asyncio.Event | None = None
    """Nothing is answered before this is set."""
    dropped: bool = False
    """The connection is closed instead of an answer, and the request not carried out."""
    lost: bool = False
    """The request is carried out, and the connection closed instead of an answer."""
    keep: int | None = None
    """The answer is cut after so many bytes."""


class _End:
    """Ends a watch as hubs do."""


class _Cut:
    """Breaks the connection of a watch."""


@dataclass(slots=True, eq=False)
class _Watcher:
    after: int
    queue: asyncio.Queue[bytes | type[_End] | type[_Cut]] = field(default_factory=asyncio.Queue)


class FaultyHub:
    """``streaming`` is how it takes ``sendInitialEvents``; ``future`` how it takes a watch from a version to come."""

    def __init__(
        self,
        *,
        streaming: Literal["yes", "refused", "ignored"] = "yes",
        future: Literal["wait", "refused"] = "wait",
        tokens: set[str] | None = None,
    ) -> None:
        self.history = History()
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

    # Life

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
        for watcher in self._watchers:
            watcher.queue.put_nowait(_Cut)
        self._watchers.clear()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        if listening is not None:
            await _left(listening)

    async def restart(self, *, rewind_to: int | None = None) -> None:
        await self.stop()
        if rewind_to is not None:
            self.history.rewind(rewind_to)
            self._snapshots.clear()
        await self.start()

    async def __aenter__(self) -> "FaultyHub":
        # Nobody else gets it while this one is stopped.
        self._port = self._held.enter_context(Port()).number
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        self._held.close()

    # The truth

    def put(self, name: str, **labels: str) -> Entry:
        entry = self.history.put(name, labels)
        self._tell(entry)
        return entry

    def delete(self, name: str) -> None:
        entry = self.history.delete(name)
        if entry is not None:
            self._tell(entry)

    def _tell(self, entry: Entry) -> None:
        for watcher in self._watchers:
            if entry.version > watcher.after:
                watcher.queue.put_nowait(entry.line)

    # Faults

    def fault(self, *kinds: Kind, **options: Any) -> Fault:
        made = Fault(kinds=kinds, **options) if kinds else Fault(**options)
        self.faults.append(made)
        return made

    def bookmark(self, version: int | None = None) -> None:
        self.send(bookmark(self.history.revision if version is None else version))

    def send(self, line: bytes) -> None:
        """To every watch, as it is."""
        for watcher in self._watchers:
            watcher.queue.put_nowait(line)

    def cut(self, *, after: bytes = b"") -> None:
        """Break all watches, after these bytes, which may be half a line."""
        for watcher in self._watchers:
            if after:
                watcher.queue.put_nowait(after)
            watcher.queue.put_nowait(_Cut)

    def end(self) -> None:
        for watcher in self._watchers:
            watcher.queue.put_nowait(_End)

    def error(self, code: int, reason: str, *, message: str = "a fault") -> None:
        """An ERROR event to all watches, and their end."""
        self.send(json.dumps({"type": "ERROR", "object": status(code, reason, message)}).encode() + b"\n")
        self.end()

    async def watched(self, count: int = 1) -> None:
        """Until there are so many watches."""
        async with self._began:
            await self._began.wait_for(lambda: len(self._watchers) >= count)

    def asked(self, kind: Kind) -> list[Seen]:
        return [each for each in self.requests if each.kind == kind]

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
        if seen.kind == "get":
            found = self.history.objects.get(seen.path.rpartition("/")[2])
            return web.json_response(found) if found else _refusal(404, "NotFound")
        limit = int(seen.query.get("limit", "0"))
        version, start = self.history.revision, 0
        if token := seen.query.get("continue"):
            version, start = map(int, token.split(":"))
            if version < self.history.floor or version not in self._snapshots:
                return _refusal(410, "Expired")
        else:
            self._snapshots[version] = [self.history.objects[name] for name in sorted(self.history.objects)]
        items = self._snapshots[version]
        end = start + limit if limit else len(items)
        metadata = {"resourceVersion": str(version)}
        if end < len(items):
            metadata["continue"] = f"{version}:{end}"
        return web.json_response(
            {"kind": "ManagedClusterList", "metadata": metadata, "items": items[start:end]}
        )

    def _write(self, seen: Seen) -> web.Response:
        name = seen.path.rpartition("/")[2]
        if seen.method == "DELETE":
            if name not in self.history.objects:
                return _refusal(404, "NotFound")
            self.delete(name)
            return web.json_response(status(200, "", "gone"))
        body = seen.json
        if seen.method == "POST":
            name = body["metadata"]["name"]
            if name in self.history.objects:
                return _refusal(409, "AlreadyExists")
        labels = body.get("metadata", {}).get("labels", {}) if isinstance(body, dict) else {}
        entry = self.history.put(name, labels)
        self._tell(entry)
        return web.json_response(entry.document, status=201 if seen.method == "POST" else 200)

    async def _watch(self, request: web.Request, query: Mapping[str, str]) -> web.StreamResponse:
        version = int(query.get("resourceVersion") or 0)
        initial = query.get("sendInitialEvents") == "true"
        if initial and self.streaming == "refused":
            return _refusal(422, "Invalid", NOT_STREAMING)
        if version and version < self.history.floor:
            return _refusal(410, "Expired", "too old resource version")
        if version > self.history.revision and self.future == "refused":
            causes = ("ResourceVersionTooLarge",)
            return _refusal(504, "Timeout", "Too large resource version", causes)
        watcher = _Watcher(after=version or self.history.revision)
        for line in self._backlog(version, ended=initial and self.streaming == "yes"):
            watcher.queue.put_nowait(line)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        # Nothing may happen between what is sent as the past and what is sent as news.
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
            yield from (entry.line for entry in self.history.log if entry.version > version)
            return
        for document in self.history.objects.values():
            yield Entry(0, "ADDED", document).line
        if ended:
            yield bookmark(self.history.revision, ends_initial_events=True)


async def _left(server: asyncio.Server) -> None:
    """By everybody, also those who never got past the handshake, of whom the application knows nothing."""
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
    if not request.path.endswith("managedclusters"):
        return "get"
    return "newest" if request.query.get("limit") == "1" else "list"


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
        made["details"] = {"causes": [{"reason": each} for each in causes]}
    return made


def _refusal(code: int, reason: str, message: str = "refused", causes: tuple[str, ...] = ()) -> web.Response:
    return web.json_response(status(code, reason, message, causes), status=code)


def bookmark(version: int, *, ends_initial_events: bool = False) -> bytes:
    metadata: Document = {"resourceVersion": str(version)}
    if ends_initial_events:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return Entry(version, "BOOKMARK", {"kind": "ManagedCluster", "metadata": metadata}).line
