"""Send requests with aiohttp: watches, lists, which may be compressed, and requests through a proxy.

Other requests go through an ``Exchange``, which costs a fraction of the CPU time.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from kubewire.client.connection import Connection
from kubewire.client.connector import Connector
from kubewire.client.exchange import (
    CONNECT_SECONDS,
    ENDED_EARLY,
    NOT_IN_TIME,
    Incomplete,
    NotConnected,
    TooLong,
    is_closed_by_peer,
)

LIST_BYTES: Final = 2**30
"""Limit of a decoded response. Some hubs ignore the limit of a page, and 100,000 clusters are about 400 MB."""

_READ_AHEAD: Final = 2**20


class ProxyRefused(NotConnected):
    """The proxy did not connect to the hub. ``code`` and ``message`` are of its response."""

    def __init__(self, code: int, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(f"{code} {message}")


class Session:
    """A session of aiohttp that follows no redirects, keeps no cookies and sends no request twice."""

    def __init__(self, connection: Connection) -> None:
        self._server, self._server_name = connection.server, connection.tls_server_name or None
        proxy = connection.proxy
        self._proxy = proxy.url if proxy else None
        self._proxy_headers = (
            {"Proxy-Authorization": proxy.authorization} if proxy and proxy.authorization else None
        )
        self._connector = Connector()
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            read_bufsize=_READ_AHEAD,
            middlewares=(_send,),
        )

    async def close(self) -> None:
        await self._session.close()
        await self._connector.end()

    async def send(
        self,
        method: str,
        target: str,
        *,
        headers: CIMultiDict[str],
        body: bytes | None,
        context: ssl.SSLContext | None,
    ) -> aiohttp.ClientResponse:
        """Return a response that has begun. The caller ends it. Raise NotConnected or Incomplete."""
        with _translate_errors():
            return await self._session.request(
                method,
                URL(f"{self._server}{target}", encoded=True),
                headers=headers,
                data=body,
                ssl=context or True,
                server_hostname=self._server_name,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers,
                allow_redirects=False,
            )


async def read_body(response: aiohttp.ClientResponse) -> bytes:
    """Raise Incomplete, or TooLong. A compressed body is decoded as it is read, a part at a time."""
    transport = response.connection.transport if response.connection is not None else None
    tls = None if transport is None else transport.get_extra_info("ssl_object")
    parts, length = list[bytes](), 0
    with _translate_errors():
        async for part in response.content.iter_any():
            length += len(part)
            if length > LIST_BYTES:
                raise TooLong(LIST_BYTES)
            parts.append(part)
    measured = "Content-Length" in response.headers or "Transfer-Encoding" in response.headers
    # Only such a body ends with the connection; after any other, the connection may already serve another request.
    if parts and not measured and not is_closed_by_peer(tls):
        raise Incomplete(ENDED_EARLY)
    return b"".join(parts)


def abandon(response: aiohttp.ClientResponse) -> None:
    """End a response. If it is incomplete, abort the connection: a TLS close would wait for the peer, for half a
    minute if the peer is dead, and outlive the client.
    """
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


def describe_failure(error: aiohttp.ClientError | OSError) -> str:
    """Describe the failure for users; aiohttp's text for a truncated response is about HTTP encodings."""
    if isinstance(error, aiohttp.ClientPayloadError):
        return ENDED_EARLY
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return NOT_IN_TIME.format(seconds=CONNECT_SECONDS)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"the proxy {error.host}:{error.port} cannot be reached: {error.os_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        # aiohttp adds the name of the server again, and the address of a Python object.
        return describe_failure(error.os_error)
    return str(error) or type(error).__name__


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        raise NotConnected(describe_failure(error), untrusted=True) from error
    except aiohttp.ClientHttpProxyError as error:
        raise ProxyRefused(error.status, error.message) from error
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise NotConnected(describe_failure(error)) from error
    except (aiohttp.ClientError, OSError) as error:
        raise Incomplete(describe_failure(error)) from error


async def _send(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from resending a PUT or DELETE after a broken connection: ``transport`` decides about retries."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _Lost(str(error)) from error


class _Lost(aiohttp.ClientError):
    """The connection broke."""
