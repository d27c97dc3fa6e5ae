"""HTTP: from a request to its answer. Who asks, what for, may they, and in which form they want it."""

import asyncio
import contextlib
import logging
import ssl
import time
import traceback
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from aiohttp import web

from fairway.hub import builtin, options, status
from fairway.hub.access.authn import Authenticator
from fairway.hub.access.authz import Attributes, Authorizer
from fairway.hub.access.impersonation import Impersonation
from fairway.hub.builtin.canonical import Malformed, canonical
from fairway.hub.registry import Registry
from fairway.hub.requests import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Patch, Request
from fairway.hub.resource import Document, Resource
from fairway.hub.serving import body, form, head, selection
from fairway.hub.serving import target as targets
from fairway.hub.serving.audit import Audit
from fairway.hub.serving.connection import (
    FAREWELL_SECONDS,
    HANDSHAKE_SECONDS,
    Connection,
    Connections,
    Listener,
)
from fairway.hub.serving.documents import Documents
from fairway.hub.serving.form import Form
from fairway.hub.serving.meters import Meters
from fairway.hub.serving.pace import Pace
from fairway.hub.serving.reads import Reader
from fairway.hub.serving.target import Target
from fairway.hub.serving.traffic import BUSY, Traffic
from fairway.hub.status import Refusal
from fairway.hub.storage.store import Closed, ReadOnly
from fairway.hub.user import ANONYMOUS, User
from fairway.hub.writing.special import Special
from fairway.hub.writing.writes import Writer

log = logging.getLogger(__name__)

WRITERS: Final = 256
"""Requests with a body that are answered at the same time, once it has arrived; more wait, many more are turned
away."""
WAITING: Final = 4096

STOPPING: Final = "the hub is stopping"

DELETE_OPTIONS: Final = "DeleteOptions"
NO_KIND: Final = (
    'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
)

_METHODS: Final[Mapping[str, str]] = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_PATCHES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
_ANSWER: Final = {"Cache-Control": "no-cache, private"}
_VERBS: Final = frozenset(
    {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "post", "put"}
)
_DUPLICATES: Final = 100
_CLOSING: Final = (408, 413, 501, 505)
"""After these nothing more of the connection is worth reading, or can be understood."""
_PHRASES: Final = {413: "Request Entity Too Large", 422: "Unprocessable Entity"}
"""As Kubernetes says them; later Pythons have other words."""


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request while it is being answered."""

    request: web.BaseRequest
    id_: str
    received: datetime
    target: Target | None = None
    resource: Resource | None = None
    verb: str = ""
    authenticated: User | None = None
    """Who showed credentials; ``user`` is another when they act for somebody else."""
    acting: User | None = None
    warnings: list[str] = field(default_factory=list)
    reason: str = ""

    @property
    def user(self) -> User:
        assert self.acting is not None
        return self.acting

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query

    @property
    def agent(self) -> str:
        return head.agent(self.request)


class Server:
    def __init__(
        self,
        *,
        registry: Registry,
        reader: Reader,
        writer: Writer,
        special: Special,
        documents: Documents,
        authenticator: Authenticator,
        authorizer: Authorizer,
        audit: Audit,
        meters: Meters,
    ) -> None:
        self._registry, self._reader, self._writer = registry, reader, writer
        self._special, self._documents = special, documents
        self._authenticator, self._authorizer = authenticator, authorizer
        self._impersonation = Impersonation(authorizer)
        self._audit, self._meters = audit, meters
        self._connections = Connections()
        meters.connections.set_function(lambda: len(self._connections.open))
        self._traffic = Traffic()
        self._turns = asyncio.Semaphore(WRITERS)
        self._waiting = 0
        self._server: asyncio.Server | None = None
        self._listener: Listener | None = None

    async def listen(self, *, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Start; returns the port."""
        self._listener = Listener(self.handle, book=self._connections, body_limit=body.LIMIT)
        self._server = await asyncio.get_running_loop().create_server(
            self._listener,
            host,
            port,
            ssl=context,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if context else None,
            ssl_shutdown_timeout=FAREWELL_SECONDS if context else None,
            backlog=1024,
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._listener is not None:
            self._listener.pre_shutdown()
            await self._listener.shutdown(1.0)
            await self._connections.end()
        if self._server is not None:
            await self._server.wait_closed()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        protocol = request.protocol
        if isinstance(protocol, Connection):
            protocol.head_arrived()
        exchange = Exchange(request=request, id_=str(uuid.uuid4()), received=datetime.now(UTC))
        begun = time.perf_counter()
        self._meters.inflight.inc()
        code = 499
        try:
            response = await self._answered(exchange)
            code = response.status
            return response
        finally:
            self._meters.inflight.dec()
            self._told(exchange, code, time.perf_counter() - begun)

    def _told(self, exchange: Exchange, code: int, seconds: float) -> None:
        found, resource = exchange.target, exchange.resource
        # Whatever strangers make up must not become a label.
        part = found.subresource if found is not None and resource is not None else ""
        self._meters.answered(
            verb=exchange.verb if exchange.verb in _VERBS else "",
            group=resource.group if resource is not None else "",
            resource=resource.plural if resource is not None else "",
            subresource=part if resource is not None and part in resource.subresources else "",
            code=code,
            seconds=seconds,
        )
        if self._audit.on and exchange.authenticated is not None:
            self._audit.record(
                id_=exchange.id_,
                user=exchange.authenticated,
                impersonated=exchange.acting if exchange.acting is not exchange.authenticated else None,
                verb=exchange.verb,
                uri=exchange.request.path_qs,
                target=found,
                code=code,
                reason=exchange.reason,
                address=exchange.request.remote or "",
                agent=exchange.agent,
                received=exchange.received,
            )

    async def _answered(self, exchange: Exchange) -> web.StreamResponse:
        try:
            response = await self._routed(exchange)
            if isinstance(response, web.Response):
                return await self._traffic.send(exchange.request, response)
            return response
        except Refusal as refusal:
            exchange.reason = refusal.reason
            return self._refused(exchange, refusal)
        except RecursionError:
            return self._refused(exchange, status.bad_request(body.TOO_DEEP))
        except (ReadOnly, Closed) as fault:
            unable = status.unavailable(STOPPING if isinstance(fault, Closed) else str(fault))
            exchange.reason = unable.reason
            return self._refused(exchange, unable)
        except (ConnectionResetError, asyncio.CancelledError):
            raise
        except Exception as error:
            # Without the words of the exception, which may quote an object.
            log.error(
                "%s of %r failed, %s:\n%s%s",
                exchange.request.method,
                exchange.target.path if exchange.target is not None else "",
                exchange.id_,
                "".join(traceback.format_tb(error.__traceback__)),
                type(error).__qualname__,
            )
            return self._refused(
                exchange, status.internal(f"the hub failed; its log has it under {exchange.id_}")
            )

    def _refused(self, exchange: Exchange, refusal: Refusal) -> web.Response:
        style = form.of_refusal(exchange.request.headers.get("Accept", ""))
        payload = form.written(refusal.document(), style)
        response = self._response(exchange, payload, code=refusal.code, style=style)
        response.headers.update(refusal.headers)
        unread = exchange.request.body_exists and not exchange.request.content.is_eof()
        if unread or refusal.code in _CLOSING:
            # What is left of the body is not worth reading.
            response.force_close()
        return response

    def _response(
        self, exchange: Exchange, payload: bytes, *, code: int = 200, style: Form = form.PLAIN_JSON
    ) -> web.Response:
        response = web.Response(
            body=payload,
            status=code,
            reason=_PHRASES.get(code),
            headers={**_ANSWER, "Audit-Id": exchange.id_},
            content_type=form.YAML if style.yaml else form.JSON,
        )
        for warning in exchange.warnings:
            quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
            response.headers.add("Warning", f'299 - "{quoted}"')
        return response

    # Routing

    async def _routed(self, exchange: Exchange) -> web.StreamResponse:
        request = exchange.request
        head.check(request)
        found = exchange.target = targets.parse(request.raw_path)
        if found.plural:
            exchange.resource = self._registry.find(found.group or "", found.version, found.plural)
        exchange.verb = _verb(found, request)
        self._admit(exchange, found)
        if found.nowhere and found.group is not None:
            raise status.unknown_path()
        if not found.plural:
            return await self._document(exchange)
        resource = exchange.resource
        if resource is None and found.group not in self._registry.groups:
            return web.Response(text="404 page not found\n", status=404)
        if resource is None or (resource.namespaced is False and found.namespace):
            raise status.unknown_path()
        if resource.deprecation:
            exchange.warnings.append(resource.deprecation)
        if found.subresource and found.subresource not in resource.subresources:
            if resource.custom:
                raise status.not_found(resource.group, resource.plural, found.name)
            raise status.unknown_path()
        allowed = resource.subresources[found.subresource].verbs if found.subresource else resource.verbs
        misplaced = request.method == "HEAD" or _misplaced(exchange.verb, found, resource)
        if exchange.verb not in allowed or misplaced:
            if resource.custom and found.subresource:
                raise status.unsupported_verb(resource.group, resource.plural, exchange.verb)
            raise status.Refusal(
                code=405,
                reason="MethodNotAllowed",
                message="the server does not allow this method on the requested resource",
                details={},
            )
        if exchange.verb == "watch":
            return await self._watch(exchange, resource, found)
        if exchange.verb in ("get", "list"):
            return await self._read(exchange, resource, found)
        return await self._in_turn(exchange, resource, found)

    def _admit(self, exchange: Exchange, found: Target) -> None:
        """Who asks, for whom, and whether they may."""
        request = exchange.request
        secured = request.transport.get_extra_info("ssl_object") if request.transport else None
        exchange.authenticated = exchange.acting = self._authenticator.authenticate(
            authorization=request.headers.get("Authorization", ""),
            certificate=secured.getpeercert(binary_form=True) if secured else None,
            path=found.path,
        )
        about_namespace = found.plural == "namespaces" and found.group == ""
        name = found.name
        if exchange.verb in ("list", "watch") and not name:
            # Whoever may list some by name may list them like this.
            name = selection.only_name(exchange.query.get("fieldSelector", ""))
        asked = Attributes(
            verb=exchange.verb,
            group=found.group or "" if found.plural else "",
            version=found.version if found.plural else "",
            resource=found.plural,
            subresource=found.subresource,
            namespace=found.name if about_namespace else found.namespace,
            name=name,
            path=None if found.plural else found.path,
        )
        exchange.acting = self._impersonation.become(exchange.authenticated, head.headers(request), asked)
        self._authorizer.authorize(exchange.acting, asked)

    async def _document(self, exchange: Exchange) -> web.StreamResponse:
        """Everything that isn't an object: discovery, OpenAPI, health, metrics."""
        found = exchange.target
        assert found is not None
        if exchange.request.method not in ("GET", "HEAD"):
            raise status.method_not_allowed("the server does not allow this method on the requested resource")
        answer = (
            None
            if found.nowhere
            else self._documents.find(
                found.path,
                accept=exchange.request.headers.get("Accept", ""),
                etag=exchange.request.headers.get("If-None-Match", ""),
                query=exchange.query,
                known=exchange.user.name != ANONYMOUS,
            )
        )
        if answer is None and found.group in self._registry.groups:
            raise status.unknown_path()
        if answer is None:
            return web.Response(text="404 page not found\n", status=404)
        response = web.Response(
            body=answer.payload, status=answer.code, headers={"Audit-Id": exchange.id_, **answer.headers}
        )
        response.headers["Content-Type"] = answer.content_type
        return response

    # Reading

    async def _read(self, exchange: Exchange, resource: Resource, found: Target) -> web.StreamResponse:
        request = exchange.request
        style = form.negotiate(request.headers.get("Accept", ""), exchange.query)
        if exchange.verb == "list":
            asked = options.read(exchange.query)
            payload = await self._reader.listing(resource, found.namespace, asked, style)
        elif found.subresource and found.subresource != "status":
            payload = self._special.get(resource, found, style)
        else:
            payload = form.one(resource, self._reader.get(resource, found.namespace, found.name).raw, style)
        return self._response(exchange, payload, style=style)

    async def _watch(self, exchange: Exchange, resource: Resource, found: Target) -> web.StreamResponse:
        request = exchange.request
        style = form.negotiate(request.headers.get("Accept", ""), exchange.query)
        if style.yaml:
            raise status.Refusal(code=406, reason="NotAcceptable", message=form.STREAMS)
        asked = options.read({**exchange.query, "watch": "true"})
        if found.name:
            named = f"metadata.name={found.name}"
            asked = replace(asked, fields=f"{asked.fields},{named}" if asked.fields else named)
        lines = self._reader.watch(resource, found.namespace, asked, style)
        first: asyncio.Future[bytes | None] | None = asyncio.ensure_future(anext(lines, None))
        assert first is not None
        response = web.StreamResponse(
            headers={**_ANSWER, "Content-Type": form.JSON, "Audit-Id": exchange.id_}
        )
        self._meters.watches.inc()
        try:
            done, _ = await asyncio.wait([first], timeout=0)
            if not done:
                await asyncio.sleep(0)
            if first.done() and (error := first.exception()) is not None:
                raise error
            await response.prepare(request)
            chunk = await first
            first = None  # so that what it brought isn't kept
            while chunk is not None:
                await response.write(chunk)
                chunk = b""  # not to be held while nothing happens
                chunk = await anext(lines, None)
            await response.write_eof()
        except ConnectionResetError:
            log.debug("a watcher of %s went away", resource.key)
        finally:
            self._meters.watches.dec()
            if first is not None and not first.done():
                first.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await first
            with contextlib.suppress(RuntimeError):
                await lines.aclose()  # type: ignore[attr-defined]  # an async generator, told as an iterator
        return response

    # Writing

    async def _in_turn(self, exchange: Exchange, resource: Resource, found: Target) -> web.StreamResponse:
        """Nobody's turn comes before its body is there, or a few who send slowly would keep all others waiting."""
        async with self._traffic.body(exchange.request) as raw:
            if self._waiting >= WAITING:
                raise status.too_many_requests(BUSY, retry_after=1)
            self._waiting += 1
            try:
                await self._turns.acquire()
            finally:
                self._waiting -= 1
            try:
                return await self._write(exchange, resource, found, raw)
            except Refusal:
                await self._writer.settled()
                raise
            finally:
                self._turns.release()

    async def _write(
        self, exchange: Exchange, resource: Resource, found: Target, raw: bytes
    ) -> web.StreamResponse:
        verbs: Mapping[str, Callable[[Exchange, Resource, Target, bytes], Awaitable[web.StreamResponse]]] = {
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_many,
        }
        return await verbs[exchange.verb](exchange, resource, found, raw)

    def _body(
        self, exchange: Exchange, resource: Resource, raw: bytes, *, strict: bool, kind: str = ""
    ) -> Document:
        content_type = exchange.request.headers.get("Content-Type", form.JSON)
        if body.media_type(content_type) not in ("", form.JSON, form.YAML, "text/yaml", form.PROTOBUF, "*/*"):
            raise status.unsupported_media(
                "the body of the request was in an unknown format - accepted media types include: "
                f"{form.JSON}, {form.YAML}, {form.PROTOBUF}"
            )
        try:
            document = body.document(
                raw,
                content_type,
                group=resource.group,
                version=resource.version,
                kind=kind or resource.kind,
            )
        except Refusal as refusal:
            if refusal.code == 400 and refusal.message.startswith("couldn't get"):
                raise status.bad_request(
                    f"the object provided is unrecognized (must be of type {resource.kind}): {refusal.message}"
                ) from refusal
            raise
        if strict and (repeated := body.duplicates(raw)):
            listed = ", ".join(f'duplicate field "{path}"' for path in repeated[:_DUPLICATES])
            raise status.bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
                f"strict decoding error: {listed}"
            )
        return document

    def _asked(self, exchange: Exchange, found: Target, kind: str) -> Request:
        return Request(
            user=exchange.user,
            options=options.write(exchange.query, agent=exchange.agent, kind=kind),
            subresource=found.subresource,
            warnings=exchange.warnings,
            may_create=partial(self._may_create, exchange.user, found),
        )

    def _may_create(self, user: User, found: Target, name: str) -> None:
        """For writes that make what isn't there yet: the verb of the request is another."""
        self._authorizer.authorize(
            user,
            Attributes(
                verb="create",
                group=found.group or "",
                version=found.version,
                resource=found.plural,
                namespace=found.namespace,
                name=name,
            ),
        )

    async def _create(
        self, exchange: Exchange, resource: Resource, found: Target, raw: bytes
    ) -> web.StreamResponse:
        asked = self._asked(exchange, found, "CreateOptions")
        style = form.negotiate(exchange.request.headers.get("Accept", ""), exchange.query)
        document = self._body(exchange, resource, raw, strict=asked.options.validation == options.STRICT)
        if self._special.serves(resource, found):
            payload = await self._special.create(resource, found, document, asked)
            return self._response(exchange, payload, code=201, style=style)
        written = await self._writer.create(resource, found.namespace, document, asked)
        return self._response(exchange, form.one(resource, written.raw, style), code=201, style=style)

    async def _update(
        self, exchange: Exchange, resource: Resource, found: Target, raw: bytes
    ) -> web.StreamResponse:
        asked = self._asked(exchange, found, "UpdateOptions")
        style = form.negotiate(exchange.request.headers.get("Accept", ""), exchange.query)
        document = self._body(exchange, resource, raw, strict=asked.options.validation == options.STRICT)
        if self._special.serves(resource, found):
            payload = await self._special.update(resource, found, document, asked, style)
            return self._response(exchange, payload, style=style)
        written = await self._writer.update(resource, found.namespace, found.name, document, asked)
        payload = form.one(resource, written.raw, style)
        return self._response(exchange, payload, code=201 if written.created else 200, style=style)

    async def _patch(
        self, exchange: Exchange, resource: Resource, found: Target, raw: bytes
    ) -> web.StreamResponse:
        media = body.media_type(exchange.request.headers.get("Content-Type", ""))
        if media not in _PATCHES:
            raise status.Refusal(
                code=415, reason="UnsupportedMediaType", message="415: Unsupported Media Type", details={}
            )
        asked = self._asked(exchange, found, "PatchOptions")
        _check_patch_options(media, asked.options)
        style = form.negotiate(exchange.request.headers.get("Accept", ""), exchange.query)
        patch = Patch(media=media, body=body.value(raw, media))
        if self._special.serves(resource, found):
            payload = await self._special.patch(resource, found, patch, asked, style)
            return self._response(exchange, payload, style=style)
        written = await self._writer.patch(resource, found.namespace, found.name, patch, asked)
        payload = form.one(resource, written.raw, style)
        return self._response(exchange, payload, code=201 if written.created else 200, style=style)

    async def _delete(
        self, exchange: Exchange, resource: Resource, found: Target, raw: bytes
    ) -> web.StreamResponse:
        asked = options.deletion(exchange.query, self._deletion_body(exchange, resource, raw))
        style = form.negotiate(exchange.request.headers.get("Accept", ""), exchange.query)
        removed = await self._writer.delete(resource, found.namespace, found.name, asked, user=exchange.user)
        if removed.gone and not self._writer.returned(resource):
            payload = form.written(_success(resource, removed.raw), style)
        else:
            payload = form.one(resource, removed.raw, style)
        return self._response(exchange, payload, style=style)

    def _deletion_body(self, exchange: Exchange, resource: Resource, raw: bytes) -> Document | None:
        """Of whatever group and version it says it is: there is only one."""
        if not raw:
            return None
        document = self._body(exchange, resource, raw, strict=False, kind=DELETE_OPTIONS)
        if document.get("kind") not in (None, "", DELETE_OPTIONS):
            version = document.get("apiVersion") or "meta.k8s.io/v1"
            raise status.bad_request(NO_KIND.format(kind=document["kind"], version=version))
        try:
            return canonical(builtin.kind("", "v1", DELETE_OPTIONS), document).document
        except Malformed as fault:
            raise status.bad_request(str(fault)) from fault

    async def _delete_many(
        self, exchange: Exchange, resource: Resource, found: Target, raw: bytes
    ) -> web.StreamResponse:
        asked = options.deletion(exchange.query, self._deletion_body(exchange, resource, raw))
        style = form.negotiate(exchange.request.headers.get("Accept", ""), exchange.query)
        chosen, metadata = await self._reader.page(resource, found.namespace, options.read(exchange.query))
        removed, pace = [], Pace()
        for item in chosen:
            await pace.step()
            with contextlib.suppress(Refusal):
                gone = await self._writer.delete(
                    resource, item.key[1], item.key[2], asked, user=exchange.user
                )
                removed.append(gone.raw)
        await self._writer.settled()
        payload = form.many(resource, removed, metadata, style)
        return self._response(exchange, payload, style=style)


def _verb(found: Target, request: web.BaseRequest) -> str:
    method = request.method
    if method in _METHODS:
        return _METHODS[method] if found.plural else method.lower()
    if method == "DELETE":
        return "deletecollection" if found.plural and not found.name else "delete"
    if method in ("GET", "HEAD"):
        if not found.plural:
            return method.lower()
        if found.watched:
            return "watch"
        if found.name:
            return "get"
        return "watch" if options.flag(request.query, "watch") else "list"
    return method.lower()


def _misplaced(verb: str, found: Target, resource: Resource) -> bool:
    """A verb on a path that has, or lacks, what it needs: a name, a namespace."""
    if verb == "create":
        return (bool(found.name) and not found.subresource) or (resource.namespaced and not found.namespace)
    if verb == "deletecollection":
        return resource.namespaced and not found.namespace
    if verb in ("get", "update", "patch", "delete"):
        return not found.name or (resource.namespaced and not found.namespace)
    return False


def _check_patch_options(media: str, asked: options.Write) -> None:
    causes = []
    if media == APPLY_PATCH:
        if not asked.named_manager:
            causes.append(status.required("fieldManager", "is required for apply patch"))
    elif asked.force:
        causes.append(status.forbidden_field("force", "may not be specified for non-apply patch"))
    if causes:
        raise status.invalid("meta.k8s.io", "PatchOptions", "", causes)


def _success(resource: Resource, raw: bytes) -> Document:
    metadata = form.decode(resource, raw)["metadata"]
    details = {
        "name": metadata["name"],
        "group": resource.group,
        "kind": resource.plural,
        "uid": metadata["uid"],
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }
