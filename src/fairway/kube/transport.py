"""Send requests: credentials, retries, deadlines, and errors.

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
import platform
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeVar
from urllib.parse import urlencode

import aiohttp
from multidict import CIMultiDict
from yarl import URL

import fairway
from fairway.kube.clock import Backoff
from fairway.kube.connection import Connection
from fairway.kube.connector import Connector
from fairway.kube.credentials import Proof
from fairway.kube.errors import (
    DeadlineExceeded,
    KubeError,
    ServerError,
    TooManyRequests,
    TransportError,
    Unauthorized,
    UntrustedError,
    error_of,
)

NOT_REACHED: Final = "cannot reach {server}: {why}"
PROXY_REFUSED: Final = "the proxy refused the connection to {server}: {code} {why}"
NOT_TRUSTED: Final = (
    "the certificate of {server} is not trusted: {why}; "
    "check certificate-authority, and tls-server-name if the name differs"
)
INCOMPLETE: Final = "{request}: the connection closed before the response was complete: {why}"
TIMED_OUT: Final = "{request}: no response within {seconds:g} s"
NOT_OPEN: Final = "the client is not open: use it in 'async with'"

USER_AGENT: Final = f"fairway/{fairway.__version__} ({platform.system().lower()}/{platform.machine()})"
CONCURRENCY: Final = 64
"""Requests at a time; watches have no limit."""
GZIP: Final = "gzip"
IDENTITY: Final = "identity"

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_CONNECT_SECONDS: Final = 10.0
_READ_AHEAD: Final = 2**20
_BACKOFF: Final = Backoff(base=0.25, cap=10.0)

_log = logging.getLogger(__name__)

R = TypeVar("R")
Query = Sequence[tuple[str, str]] | Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


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
            case TransportError() if not error.sent:
                limit = self.unsent
            case TransportError() if repeatable and not isinstance(error, DeadlineExceeded):
                limit = self.failed
            case _:
                return None
        return None if failures >= limit else self.backoff.delay(failures) * random.uniform(0.5, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    method: str
    path: str
    url: URL
    headers: CIMultiDict[str]
    body: bytes | None
    timeout: float
    repeatable: bool

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Transport:
    """The connections to one hub. ``timeout`` is in seconds, per request including its retries."""

    def __init__(self, connection: Connection, *, timeout: float = 60.0, retry: Retry | None = None) -> None:
        self.connection = connection
        self.timeout = timeout
        self._retry = retry or Retry()
        self._headers = [("User-Agent", USER_AGENT), ("Accept", "application/json")]
        self._headers += connection.impersonation.headers()
        self._compresses = connection.compression and not connection.local
        self._session: aiohttp.ClientSession | None = None
        # Watches hold a connection each for minutes; a separate pool keeps them from starving requests.
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._warned: set[str] = set()

    async def open(self) -> None:
        self._links = Connector()
        self._session = aiohttp.ClientSession(
            connector=self._links,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            read_bufsize=_READ_AHEAD,
            middlewares=(_send,),
        )

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            await self._links.end()

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
        call = self._call(
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            headers=headers,
            timeout=timeout,
            repeatable=repeatable,
            encoding=GZIP if large and self._compresses else IDENTITY,
        )
        return await self._perform(call, _read_response, self._slots)

    async def stream(
        self, path: str, *, query: Query = (), timeout: float | None = None
    ) -> aiohttp.ClientResponse:
        """A GET whose response has begun. The caller closes it. ``timeout`` applies to the beginning only."""
        call = self._call("GET", path, query=query, timeout=timeout)
        return await self._perform(call, _return_open, nullcontext())

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Query,
        body: bytes | None = None,
        content_type: str = "",
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        repeatable: bool | None = None,
        encoding: str = IDENTITY,
    ) -> _Call:
        all_headers = CIMultiDict(self._headers)
        all_headers["Accept-Encoding"] = encoding
        if content_type:
            all_headers["Content-Type"] = content_type
        if headers:
            all_headers.update(headers)
        asked = f"?{_encode(tuple(query.items() if isinstance(query, Mapping) else query))}" if query else ""
        return _Call(
            method=method,
            path=path,
            url=URL(f"{self.connection.server}{path}{asked}", encoded=True),
            headers=all_headers,
            body=body,
            timeout=self.timeout if timeout is None else timeout,
            repeatable=method in _READING if repeatable is None else repeatable,
        )

    async def _perform(
        self,
        call: _Call,
        read: Callable[[aiohttp.ClientResponse], Awaitable[R]],
        slot: AbstractAsyncContextManager[None],
    ) -> R:
        clock = asyncio.get_running_loop().time
        deadline = clock() + call.timeout
        failures, renewed = 0, False
        while True:
            asked = clock()
            proof = await self.connection.credentials.proof()
            # A login may take minutes, so it does not count against the request's timeout.
            deadline += clock() - asked
            try:
                async with asyncio.timeout_at(deadline), slot:
                    return await self._attempt(call, proof, read)
            except TimeoutError:
                raise DeadlineExceeded(TIMED_OUT.format(request=call, seconds=call.timeout)) from None
            except Unauthorized:
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

    async def _attempt(
        self, call: _Call, proof: Proof, read: Callable[[aiohttp.ClientResponse], Awaitable[R]]
    ) -> R:
        if self._session is None:
            raise RuntimeError(NOT_OPEN)
        connection = self.connection
        headers = call.headers
        if proof.authorization:
            headers = CIMultiDict(headers)
            headers["Authorization"] = proof.authorization
        proxy = connection.proxy
        try:
            response = await self._session.request(
                call.method,
                call.url,
                headers=headers,
                data=call.body,
                ssl=connection.context(proof) or True,
                server_hostname=connection.tls_server_name or None,
                proxy=proxy.url if proxy else None,
                proxy_headers={"Proxy-Authorization": proxy.authorization}
                if proxy and proxy.authorization
                else None,
                allow_redirects=False,
            )
            try:
                self._log_hub_warnings(response)
                if response.status >= 300:
                    body = await response.read()
                    raise error_of(
                        code=response.status, body=body, headers=response.headers, request=str(call)
                    )
                return await read(response)
            except BaseException:
                abandon(response)
                raise
        except (aiohttp.ClientError, OSError) as error:
            raise self._describe_error(error, call) from error

    def _describe_error(self, error: aiohttp.ClientError | OSError, call: _Call) -> TransportError:
        server = self.connection.server
        why = describe_failure(error)
        match error:
            case aiohttp.ClientConnectorCertificateError():
                return UntrustedError(
                    NOT_TRUSTED.format(server=server, why=error.certificate_error), sent=False
                )
            case aiohttp.ClientHttpProxyError():
                message = PROXY_REFUSED.format(server=server, code=error.status, why=error.message)
                return TransportError(message, sent=False)
            case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
                return TransportError(NOT_REACHED.format(server=server, why=why), sent=False)
            case _:
                return TransportError(INCOMPLETE.format(request=call, why=why))

    def _log_hub_warnings(self, response: aiohttp.ClientResponse) -> None:
        """Log the hub's warnings, such as about deprecated versions, each once."""
        for line in response.headers.getall("Warning", ()):
            for text in _WARNING.findall(line):
                if text not in self._warned and len(self._warned) < 1000:
                    self._warned.add(text)
                    _log.warning("%s: %s", self.connection.server, re.sub(r"\\(.)", r"\1", text))


@lru_cache(maxsize=256)
def _encode(query: tuple[tuple[str, str], ...]) -> str:
    """Cached, because writes use the same few queries."""
    return urlencode(query)


def abandon(response: aiohttp.ClientResponse) -> None:
    """End a response. If it is incomplete, abort the connection: a TLS close would wait for the peer, for half a
    minute if the peer is dead, and outlive the client.
    """
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


async def _read_response(response: aiohttp.ClientResponse) -> Response:
    body = await response.read()
    return Response(status=response.status, headers=response.headers, body=body)


async def _return_open(response: aiohttp.ClientResponse) -> aiohttp.ClientResponse:
    return response


async def _send(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from resending a PUT or DELETE after a broken connection: retries are decided here."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _Lost(str(error)) from error


class _Lost(aiohttp.ClientError):
    """The connection broke."""


def describe_failure(error: aiohttp.ClientError | OSError) -> str:
    """Describe the failure for users; aiohttp's text for a truncated response is about HTTP encodings."""
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the response ended early"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"the proxy {error.host}:{error.port} cannot be reached: {error.os_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        # aiohttp adds the name of the server again, and the address of a Python object.
        return describe_failure(error.os_error)
    return str(error) or type(error).__name__
