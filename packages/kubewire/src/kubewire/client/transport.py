"""Send requests: credentials, retries, deadlines, and errors.

Ordinary requests go through an ``Exchange``, which costs least. Watches, lists, which may be compressed, and all
requests to a hub behind a proxy go through a ``Session`` of aiohttp.

Whether a request is retried depends on what is known about the first attempt:

- the hub asked to retry later (429, or a 5xx with Retry-After): always, after the requested time, up to a limit;
- it was never sent: twice, at once;
- it was sent and no complete response arrived, or a 5xx without Retry-After: only if it is idempotent, as reads,
  applies and merge patches are;
- 401: once, if the credentials have changed.

All of it happens within one deadline.
"""

import asyncio
import logging
import random
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import aiohttp

from kubewire.client.call import IDENTITY, READING, Call, CallEncoder, Query, target_of
from kubewire.client.clock import Backoff
from kubewire.client.connection import Connection
from kubewire.client.credentials import Proof
from kubewire.client.deadlines import Deadlines, Limit
from kubewire.client.errors import (
    DeadlineExceeded,
    KubeError,
    ResponseTooLong,
    ServerError,
    TooManyRequests,
    TransportError,
    Unauthorized,
    UntrustedError,
    error_of,
)
from kubewire.client.exchange import Exchange, Incomplete, NotConnected, TooLong
from kubewire.client.exchange import Response as Response  # the result of Transport.request
from kubewire.client.session import ProxyRefused, Session, abandon, read_body
from kubewire.user_agent import user_agent

INCOMPLETE: Final = "{request}: the connection closed before the response was complete: {why}"
NOT_OPEN: Final = "the client is not open: use it in 'async with'"

CONCURRENCY: Final = 64
"""Requests at a time; watches have no limit."""
GZIP: Final = "gzip"

_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_CONTEXT_SECONDS: Final = 1.0
_BACKOFF: Final = Backoff(base=0.25, cap=10.0)

_log = logging.getLogger(__name__)

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often to retry. ``longest`` limits the seconds of a Retry-After."""

    asked: int = 10
    failed: int = 3
    unsent: int = 2
    longest: float = 30.0
    backoff: Backoff = _BACKOFF

    def wait(self, error: KubeError, *, repeatable: bool, failures: int) -> float | None:
        """Seconds until the next attempt, or None to give up. ``failures`` is the number of earlier failures."""
        match error:
            case ServerError() if error.version_too_large:
                return None  # a retry does not make the hub reach the version sooner
            case TooManyRequests() | ServerError() if error.retry_after is not None:
                if failures >= self.asked:
                    return None
                # All clients get the same number, so spread their retries.
                return min(error.retry_after, self.longest) * random.uniform(1.0, 1.1)
            case TooManyRequests():
                limit = self.asked
            case ServerError() if repeatable:
                limit = self.failed
            case TransportError() if not error.retryable:
                return None
            # Not sent, so it is safe to repeat also for writes; few attempts, as an unreachable hub rarely returns
            # within seconds.
            case TransportError() if not error.sent:
                limit = self.unsent
            # Sent, and the response was lost. A create may have succeeded; repeated, it would report AlreadyExists to
            # its author.
            case TransportError() if repeatable and not isinstance(error, DeadlineExceeded):
                limit = self.failed
            case _:
                return None
        return None if failures >= limit else self.backoff.delay(failures) * random.uniform(0.5, 1.0)


class Transport:
    """The connections to one hub. ``timeout`` is in seconds, per request including its retries."""

    def __init__(self, connection: Connection, *, timeout: float = 60.0, retry: Retry | None = None) -> None:
        self.connection = connection
        self.timeout = timeout
        self._retry = retry or Retry()
        headers = [("User-Agent", user_agent()), ("Accept", "application/json")]
        self._encoder = CallEncoder(connection.server, [*headers, *connection.impersonation.headers()])
        self._context: tuple[Proof, ssl.SSLContext | None, float] | None = None
        self._compresses = connection.compression and not connection.local
        self._session: Session | None = None
        self._exchange: Exchange | None = None
        # Watches hold a connection each for minutes; a separate pool keeps them from starving requests.
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._deadlines: Deadlines | None = None
        self._warned: set[str] = set()

    async def open(self) -> None:
        self._deadlines = Deadlines(asyncio.get_running_loop())
        self._exchange = Exchange(self.connection.server, server_name=self.connection.tls_server_name)
        self._session = Session(self.connection)

    async def close(self) -> None:
        deadlines, self._deadlines = self._deadlines, None
        if deadlines is not None:
            deadlines.close()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            await exchange.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "",
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        repeatable: bool | None = None,
        large: bool = False,
    ) -> Response:
        """``large`` responses may be compressed. Raise a KubeError for any status from 300 up."""
        call = Call(
            method=method,
            path=path,
            target=target_of(path, query),
            body=body,
            content_type=content_type,
            headers=headers,
            timeout=self.timeout if timeout is None else timeout,
            repeatable=method in READING if repeatable is None else repeatable,
        )
        # Lists, proxies and HEAD go through aiohttp, which streams, decompresses and speaks CONNECT. A small PATCH
        # costs 62 µs of CPU time through Exchange, and 183 through aiohttp.
        if large or self.connection.proxy is not None or method == "HEAD":
            encoding = GZIP if large and self._compresses else IDENTITY
            attempt = partial(self._ask_session, encoding=encoding, slot=self._slots, use=_read_response)
            return await self._perform(call, attempt)
        return await self._perform(call, self._ask)

    async def stream(
        self, path: str, *, query: Query = (), timeout: float | None = None
    ) -> aiohttp.ClientResponse:
        """A GET whose response has begun. The caller closes it. ``timeout`` applies to the beginning only."""
        call = Call(
            method="GET",
            path=path,
            target=target_of(path, query),
            body=None,
            content_type="",
            headers=None,
            timeout=self.timeout if timeout is None else timeout,
            repeatable=True,
        )
        attempt = partial(self._ask_session, encoding=IDENTITY, slot=nullcontext(), use=_return_open)
        return await self._perform(call, attempt)

    async def _perform(self, call: Call, attempt: Callable[[Call, Proof], Awaitable[R]]) -> R:
        deadlines = self._deadlines
        if deadlines is None:
            raise RuntimeError(NOT_OPEN)
        clock = deadlines.loop.time
        deadline = clock() + call.timeout
        failures, renewed = 0, False
        while True:
            begun = clock()
            proof = await self.connection.credentials.proof()
            # A login may take minutes, so it does not count against the request's timeout.
            deadline += clock() - begun
            try:
                with Limit(deadlines, deadline):
                    try:
                        return await attempt(call, proof)
                    except (NotConnected, Incomplete) as error:
                        raise self._describe_error(error, call) from error
            except TimeoutError:
                raise DeadlineExceeded(f"{call}: no response within {call.timeout:g} s") from None
            except Unauthorized:
                # Once per request. Tokens may be rotated between reading and using them, but a second 401 is an answer.
                if renewed or not await self.connection.credentials.renew(proof):
                    raise
                renewed = True
            except KubeError as error:
                wait = self._retry.wait(error, repeatable=call.repeatable, failures=failures)
                if wait is None or clock() + wait >= deadline:
                    raise
                failures += 1
                _log.debug("%s; again in %.2f s", error, wait)
                await asyncio.sleep(wait)

    async def _ask(self, call: Call, proof: Proof) -> Response:
        await self._slots.acquire()  # "async with" creates two more coroutines
        try:
            if self._exchange is None:
                raise RuntimeError(NOT_OPEN)
            request = self._encoder.encode(call, proof.authorization)
            response = await self._exchange.send(request, self._context_of(proof))
        except NotConnected:
            # The files of the context may have changed, such as a rotated CA: read them again for the next attempt.
            self._context = None
            raise
        finally:
            self._slots.release()
        headers = response.headers
        if "Warning" in headers:
            self._log_hub_warnings((headers["Warning"],))
        if response.status >= 300:
            raise error_of(code=response.status, body=response.body, headers=headers, request=str(call))
        return response

    def _context_of(self, proof: Proof) -> ssl.SSLContext | None:
        """The TLS context, whose files are checked once a second: a check per request is a system call each.

        A new certificate of the client has a new proof, and is used at once.
        """
        now = time.monotonic()
        if self._context is not None:
            known, context, until = self._context
            if known is proof and now < until:
                return context
        context = self.connection.context(proof)
        self._context = (proof, context, now + _CONTEXT_SECONDS)
        return context

    async def _ask_session(
        self,
        call: Call,
        proof: Proof,
        *,
        encoding: str,
        slot: AbstractAsyncContextManager[None],
        use: Callable[[aiohttp.ClientResponse], Awaitable[R]],
    ) -> R:
        headers = self._encoder.headers(call, proof.authorization, encoding)
        async with slot:
            if self._session is None:
                raise RuntimeError(NOT_OPEN)
            context = self.connection.context(proof)
            response = await self._session.send(
                call.method, call.target, headers=headers, body=call.body, context=context
            )
            try:
                self._log_hub_warnings(response.headers.getall("Warning", ()))
                if response.status >= 300:
                    body = await read_body(response)
                    raise error_of(
                        code=response.status, body=body, headers=response.headers, request=str(call)
                    )
                return await use(response)
            except BaseException:
                abandon(response)
                raise

    def _describe_error(self, error: NotConnected | Incomplete, call: Call) -> TransportError:
        server = self.connection.server
        match error:
            case ProxyRefused():
                message = f"the proxy refused the connection to {server}: {error.code} {error.message}"
                return TransportError(message, sent=False)
            case NotConnected(untrusted=True):
                return UntrustedError(
                    f"the certificate of {server} is not trusted: {error}; check certificate-authority, and "
                    "tls-server-name if the name differs",
                    sent=False,
                )
            case NotConnected():
                return TransportError(f"cannot reach {server}: {error}", sent=False)
            case TooLong():
                return ResponseTooLong(f"{call}: the response was not read: {error}")
            case Incomplete():
                return TransportError(INCOMPLETE.format(request=call, why=error))

    def _log_hub_warnings(self, headers: Iterable[str]) -> None:
        """Log the hub's warnings, such as about deprecated versions, each once."""
        for line in headers:
            for text in _WARNING.findall(line):
                if text not in self._warned and len(self._warned) < 1000:
                    self._warned.add(text)
                    _log.warning("%s: %s", self.connection.server, re.sub(r"\\(.)", r"\1", text))


async def _read_response(response: aiohttp.ClientResponse) -> Response:
    body = await read_body(response)
    return Response(status=response.status, headers=response.headers, body=body)


async def _return_open(response: aiohttp.ClientResponse) -> aiohttp.ClientResponse:
    return response
