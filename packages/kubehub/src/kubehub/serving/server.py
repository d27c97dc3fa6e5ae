"""The HTTP server: authenticate, authorize, route, answer."""

import asyncio
import contextlib
import logging
import ssl
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from aiohttp import web

from kubehub import options, selectors, status
from kubehub import request_info as targets
from kubehub.admission.control import Admission
from kubehub.authn.authenticator import Authenticator
from kubehub.flowcontrol.turns import Turn, Turns, yield_turn
from kubehub.rbac.authorizer import Attributes, Authorizer
from kubehub.rbac.impersonation import Impersonation
from kubehub.registry import Registry
from kubehub.request_info import RequestInfo
from kubehub.resource import Resource
from kubehub.safe_traceback import format_traceback
from kubehub.serialization import body, representation
from kubehub.serving import head
from kubehub.serving.audit import Audit
from kubehub.serving.connection import HANDSHAKE_SECONDS, Connection, Listener, open_gate
from kubehub.serving.exchange import ANSWER, Exchange, reply
from kubehub.serving.metrics import Metrics
from kubehub.serving.mutations import Mutations
from kubehub.serving.nonresource import NonResourcePaths
from kubehub.serving.reads import Reader
from kubehub.serving.traffic import Traffic
from kubehub.slicing import in_slices
from kubehub.status import Refusal
from kubehub.storage.store import Closed, Conflict, ReadOnly
from kubehub.user import ANONYMOUS
from kubehub.writing.subresources import Subresources
from kubehub.writing.writer import Writer

log = logging.getLogger(__name__)

LARGE: Final = 64 * 1024
"""Bytes of body plus stored object from which on a write is computed in slices."""
_IN_SLICES: Final = frozenset({"create", "update", "patch"})
_ATTEMPTS: Final = 3

STOPPING: Final = "the hub is stopping"

_METHODS: Final[Mapping[str, str]] = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_VERBS: Final = frozenset(
    {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "post", "put"}
)
_CLOSING: Final = (408, 413, 501, 505)
"""After these status codes the rest of the connection is not read."""


class Server:
    def __init__(
        self,
        *,
        registry: Registry,
        reader: Reader,
        writer: Writer,
        subresources: Subresources,
        documents: NonResourcePaths,
        authenticator: Authenticator,
        authorizer: Authorizer,
        admission: Admission,
        audit: Audit,
        metrics: Metrics,
    ) -> None:
        self._registry, self._reader, self._writer = registry, reader, writer
        self._subresources, self._documents = subresources, documents
        self._authenticator, self._authorizer = authenticator, authorizer
        self._impersonation = Impersonation(authorizer)
        self._mutations = Mutations(
            reader=reader,
            writer=writer,
            subresources=subresources,
            authorizer=authorizer,
            admission=admission,
        )
        self._audit, self._metrics = audit, metrics
        self._gate = open_gate()
        metrics.connections.set_function(lambda: len(self._gate))
        self._traffic = Traffic()
        self._turns = Turns()
        self._server: asyncio.Server | None = None
        self._listener: Listener | None = None

    async def listen(self, *, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Start listening; returns the port."""
        self._listener = listener = Listener(self.handle, gate=self._gate, body_limit=body.LIMIT)
        # The context is not given to asyncio, which would count a client only after its handshake.
        self._server = await asyncio.get_running_loop().create_server(
            listener
            if context is None
            else partial(listener.over_tls, context, handshake_seconds=HANDSHAKE_SECONDS),
            host,
            port,
            backlog=1024,
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._listener is not None:
            self._listener.pre_shutdown()
            await self._listener.shutdown(1.0)
            await self._gate.close_all()
        if self._server is not None:
            await self._server.wait_closed()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        protocol = request.protocol
        if isinstance(protocol, Connection):
            protocol.stop_head_timer()
        exchange = Exchange(request=request, id_=str(uuid.uuid4()), received=datetime.now(UTC))
        begun = time.perf_counter()
        self._metrics.inflight.inc()
        code = 499
        try:
            response = await self._answer(exchange)
            code = response.status
            return response
        finally:
            self._metrics.inflight.dec()
            self._record(exchange, code, time.perf_counter() - begun)

    def _record(self, exchange: Exchange, code: int, seconds: float) -> None:
        info, resource = exchange.target, exchange.resource
        # Values that clients invent must not become metric labels.
        part = info.subresource if info is not None and resource is not None else ""
        self._metrics.answered(
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
                target=info,
                code=code,
                reason=exchange.reason,
                address=exchange.request.remote or "",
                agent=exchange.agent,
                received=exchange.received,
                annotations=exchange.annotations,
            )

    async def _answer(self, exchange: Exchange) -> web.StreamResponse:
        try:
            response = await self._route(exchange)
            if isinstance(response, web.Response):
                return await self._traffic.send(exchange.request, response, owner=exchange.owner)
            return response
        except Refusal as refusal:
            exchange.reason = refusal.reason
            return self._refusal_response(exchange, refusal)
        except RecursionError:
            return self._refusal_response(exchange, status.bad_request(body.TOO_DEEP))
        except (ReadOnly, Closed) as fault:
            unable = status.unavailable(STOPPING if isinstance(fault, Closed) else str(fault))
            exchange.reason = unable.reason
            return self._refusal_response(exchange, unable)
        except (ConnectionResetError, asyncio.CancelledError):
            raise
        except Exception as error:
            log.error(
                "%s of %r failed, %s:\n%s",
                exchange.request.method,
                exchange.target.path if exchange.target is not None else "",
                exchange.id_,
                format_traceback(error),
            )
            return self._refusal_response(
                exchange, status.internal(f"unexpected error; see {exchange.id_} in the hub's log")
            )

    def _refusal_response(self, exchange: Exchange, refusal: Refusal) -> web.Response:
        style = representation.for_refusal(exchange.request.headers.get("Accept", ""))
        payload = representation.encode(refusal.document(), style)
        response = reply(exchange, payload, code=refusal.code, style=style)
        response.headers.update(refusal.headers)
        unread = exchange.request.body_exists and not exchange.request.content.is_eof()
        if unread or refusal.code in _CLOSING:
            # The rest of the body is not read.
            response.force_close()
        return response

    # Routing

    async def _route(self, exchange: Exchange) -> web.StreamResponse:
        request = exchange.request
        head.check(request)
        info = exchange.target = targets.parse(request.raw_path)
        if info.plural:
            exchange.resource = self._registry.find(info.group or "", info.version, info.plural)
        self._authenticate(exchange, info)
        turn = self._turns.of(exchange.user, info)
        work = self._serve(exchange, info, turn)
        return await (work if turn is None else turn.run(work))

    async def _serve(self, exchange: Exchange, info: RequestInfo, turn: Turn | None) -> web.StreamResponse:
        request = exchange.request
        exchange.verb = _verb(info, request)
        self._authorize(exchange, info)
        if info.invalid and info.group is not None:
            raise status.unknown_path()
        if not info.plural:
            return await self._document(exchange)
        resource = exchange.resource
        if resource is None and info.group not in self._registry.groups:
            return web.Response(text="404 page not found\n", status=404)
        if resource is None or (resource.namespaced is False and info.namespace):
            raise status.unknown_path()
        if resource.deprecation:
            exchange.warnings.append(resource.deprecation)
        if info.subresource and info.subresource not in resource.subresources:
            if resource.custom:
                raise status.not_found(resource.group, resource.plural, info.name)
            raise status.unknown_path()
        allowed = resource.subresources[info.subresource].verbs if info.subresource else resource.verbs
        misplaced = request.method == "HEAD" or _is_misplaced(exchange.verb, info, resource)
        if exchange.verb not in allowed or misplaced:
            if resource.custom and info.subresource:
                raise status.unsupported_verb(resource.group, resource.plural, exchange.verb)
            raise status.Refusal(
                code=405,
                reason="MethodNotAllowed",
                message="the server does not allow this method on the requested resource",
                details={},
            )
        if exchange.verb == "watch":
            return await self._watch(exchange, resource, info)
        if exchange.verb in ("get", "list"):
            return await self._read(exchange, resource, info)
        return await self._write(exchange, resource, info, turn)

    def _authenticate(self, exchange: Exchange, info: RequestInfo) -> None:
        request = exchange.request
        secured = request.transport.get_extra_info("ssl_object") if request.transport else None
        exchange.authenticated = exchange.acting = self._authenticator.authenticate(
            authorization=request.headers.get("Authorization", ""),
            certificate=secured.getpeercert(binary_form=True) if secured else None,
            path=info.path,
        )
        if exchange.authenticated.name != ANONYMOUS and isinstance(request.protocol, Connection):
            request.protocol.trust()

    def _authorize(self, exchange: Exchange, info: RequestInfo) -> None:
        """Authorize impersonation, then the request of the impersonated user."""
        request = exchange.request
        about_namespace = info.plural == "namespaces" and info.group == ""
        name = info.name
        if exchange.verb in ("list", "watch") and not name:
            # Permission to list certain names includes a list with a field selector for one of them.
            name = selectors.required_name(exchange.query.get("fieldSelector", ""))
        attributes = Attributes(
            verb=exchange.verb,
            group=info.group or "" if info.plural else "",
            version=info.version if info.plural else "",
            resource=info.plural,
            subresource=info.subresource,
            namespace=info.name if about_namespace else info.namespace,
            name=name,
            path=None if info.plural else info.path,
        )
        exchange.acting = self._impersonation.impersonate(exchange.user, head.headers(request), attributes)
        self._authorizer.authorize(exchange.acting, attributes)

    async def _document(self, exchange: Exchange) -> web.StreamResponse:
        """Answer paths that aren't resources: discovery, OpenAPI, health, metrics."""
        info = exchange.target
        assert info is not None
        if exchange.request.method not in ("GET", "HEAD"):
            raise status.method_not_allowed("the server does not allow this method on the requested resource")
        accept = exchange.request.headers.get("Accept", "")
        await self._documents.ensure(info.path, accept=accept)
        answer = (
            None
            if info.invalid
            else self._documents.find(
                info.path,
                accept=accept,
                etag=exchange.request.headers.get("If-None-Match", ""),
                query=exchange.query,
                known=exchange.user.name != ANONYMOUS,
            )
        )
        if answer is None and info.group in self._registry.groups:
            raise status.unknown_path()
        if answer is None:
            return web.Response(text="404 page not found\n", status=404)
        response = web.Response(
            body=answer.payload, status=answer.code, headers={"Audit-Id": exchange.id_, **answer.headers}
        )
        response.headers["Content-Type"] = answer.content_type
        return response

    # Reading

    async def _read(self, exchange: Exchange, resource: Resource, info: RequestInfo) -> web.StreamResponse:
        request = exchange.request
        style = representation.negotiate(request.headers.get("Accept", ""), exchange.query)
        if exchange.verb == "list":
            list_options = options.parse_read(exchange.query)
            payload = await self._reader.listing(resource, info.namespace, list_options, style)
        elif info.subresource and info.subresource != "status":
            payload = self._subresources.get(resource, info, style)
        else:
            payload = representation.encode_object(
                resource, self._reader.get(resource, info.namespace, info.name).raw, style
            )
        return reply(exchange, payload, style=style)

    async def _watch(self, exchange: Exchange, resource: Resource, info: RequestInfo) -> web.StreamResponse:
        request = exchange.request
        style = representation.negotiate(request.headers.get("Accept", ""), exchange.query)
        if style.yaml:
            raise status.Refusal(code=406, reason="NotAcceptable", message=representation.STREAMS)
        watch_options = options.parse_read({**exchange.query, "watch": "true"})
        if info.name:
            named = f"metadata.name={info.name}"
            watch_options = replace(
                watch_options, fields=f"{watch_options.fields},{named}" if watch_options.fields else named
            )
        lines = self._reader.watch(resource, info.namespace, watch_options, style)
        first: asyncio.Future[bytes | None] | None = asyncio.ensure_future(anext(lines, None))
        assert first is not None
        response = web.StreamResponse(
            headers={**ANSWER, "Content-Type": representation.JSON, "Audit-Id": exchange.id_}
        )
        self._metrics.watches.inc()
        try:
            done, _ = await asyncio.wait([first], timeout=0)
            if not done:
                await asyncio.sleep(0)
            if first.done() and (error := first.exception()) is not None:
                raise error
            await response.prepare(request)
            chunk = await first
            first = None  # release the chunk
            while chunk is not None:
                await response.write(chunk)
                chunk = b""  # an idle watch must not hold a turn
                chunk = await anext(lines, None)
            await response.write_eof()
        except ConnectionResetError:
            log.debug("watch closed by the client  resource=%s", resource.key)
        finally:
            self._metrics.watches.dec()
            if first is not None and not first.done():
                first.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await first
            with contextlib.suppress(RuntimeError):
                await lines.aclose()
        return response

    # Writing

    async def _write(
        self, exchange: Exchange, resource: Resource, info: RequestInfo, turn: Turn | None
    ) -> web.StreamResponse:
        """Take a second turn once the body has arrived, so that slow senders can't starve others."""
        content_type = exchange.request.headers.get("Content-Type", "")
        limits = body.limits(group=resource.group, verb=exchange.verb, content_type=content_type)
        async with self._traffic.body(exchange.request, limit=limits.size, owner=exchange.owner) as raw:
            if turn is not None:
                await turn.take()
            raw = await body.prepare(raw, content_type, limits)
            try:
                return await self._mutate(exchange, resource, info, raw)
            except Refusal:
                await self._writer.wait_for_commits()
                raise

    async def _mutate(
        self, exchange: Exchange, resource: Resource, info: RequestInfo, raw: bytes
    ) -> web.StreamResponse:
        """Run small writes at once and large ones in slices; a large one that lost too many races runs at once."""
        if exchange.verb in _IN_SLICES:
            size = len(raw) + self._reader.size(resource, info.namespace, info.name)
            warnings, annotations = list(exchange.warnings), dict(exchange.annotations)
            for _ in range(_ATTEMPTS if size > LARGE else 0):
                try:
                    work = self._mutations.answer(exchange, resource, info, raw)
                    return await in_slices(work, yield_loop=yield_turn)
                except Conflict:
                    exchange.warnings[:], exchange.annotations = list(warnings), dict(annotations)
        return await self._mutations.answer(exchange, resource, info, raw)


def _verb(info: RequestInfo, request: web.BaseRequest) -> str:
    method = request.method
    if method in _METHODS:
        return _METHODS[method] if info.plural else method.lower()
    if method == "DELETE":
        return "deletecollection" if info.plural and not info.name else "delete"
    if method in ("GET", "HEAD"):
        if not info.plural:
            return method.lower()
        if info.watched:
            return "watch"
        if info.name:
            return "get"
        return "watch" if options.parse_flag(request.query, "watch") else "list"
    return method.lower()


def _is_misplaced(verb: str, info: RequestInfo, resource: Resource) -> bool:
    """Return whether the path lacks the name or namespace that the verb needs, or has one that it does not allow."""
    if verb == "create":
        return (bool(info.name) and not info.subresource) or (resource.namespaced and not info.namespace)
    if verb == "deletecollection":
        return resource.namespaced and not info.namespace
    if verb in ("get", "update", "patch", "delete"):
        return not info.name or (resource.namespaced and not info.namespace)
    return False
