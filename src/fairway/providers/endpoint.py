"""HTTP requests of hub-side providers: connection, and errors as provider errors.

One request is one attempt: the next round follows soon, and retries would burden a struggling server. The exception is
a 401 after which the credentials have changed. Redirects are not followed, because they would carry the credentials; a
login page is an error; and responses are limited in size.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from fairway.providers.document import Document, Steps
from fairway.providers.endpoint_entry import NO_BYTES, NO_TIME, ServerEntry, check_headers, connection_of
from fairway.providers.provider import ProviderError
from kubewire.client.credentials import Proof
from kubewire.client.errors import ConfigError, CredentialError
from kubewire.client.session import abandon, describe_failure

UNREACHABLE: Final = "SourceUnreachable"
UNTRUSTED: Final = "SourceUntrusted"
TIMEOUT: Final = "SourceTimeout"
UNAUTHORIZED: Final = "SourceUnauthorized"
FORBIDDEN: Final = "SourceForbidden"
REDIRECTED: Final = "SourceRedirected"
UNAVAILABLE: Final = "SourceUnavailable"
REFUSED: Final = "SourceRefused"
NOT_JSON: Final = "AnswerNotJSON"
TOO_LARGE: Final = "AnswerTooLarge"
NO_CREDENTIALS: Final = "CredentialsUnreadable"

CANNOT_REACH: Final = "cannot reach {server}: {why}"
NOT_TRUSTED: Final = "the certificate of {server} is not trusted: {why}; check tls.caFile and tls.serverName"
TOO_LATE: Final = "{server} did not respond within {seconds:g} s"
NO_WHOLE_ANSWER: Final = "{server}: the connection closed before the response was complete: {why}"
TOKEN_REJECTED: Final = "{server} rejected the credentials (401{excerpt}); {what}. Retrying in the next round"
REREAD: Final = "the {what} file has not changed"
TOKEN_GIVEN: Final = "they come from the configuration"
NO_AUTH: Final = "none were given: see auth"
NOT_ALLOWED: Final = "{server} does not allow {what} (403{excerpt})"
REDIRECT: Final = (
    "{server} returned {status}, a redirect to {where}, which is not followed: "
    "it is a login page, or the address has moved"
)
SERVER_FAILED: Final = "{server} returned {status}{excerpt}"
LOGIN_PAGE: Final = "{server} returned {kind} instead of JSON: is there a login page in front of it?"
BROKEN_JSON: Final = "{server} returned invalid JSON: {why}"
ANSWER_TOO_LARGE: Final = "{server} returned more than {limit} bytes; narrow the query, or raise maxBytes"

SHORTEST_SECRET: Final = 4
"""Shorter secrets occur in any text and are not redacted."""
LONGEST_EXCERPT: Final = 300
"""Characters of a server's error response that a message quotes."""

_CONNECT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Response with a 2xx status, or with a status that the caller accepts."""

    status: int
    value: Any
    """Decoded JSON."""


class Endpoint:
    """An HTTP server, usable within ``open()``. Its errors never contain a secret."""

    def __init__(self, entry: ServerEntry, *, folder: Path, document: Document, path: Steps = ()) -> None:
        """``folder`` is the base of relative paths; ``path`` is the position of the entry. Raises DocumentError."""
        if not entry.timeout > 0:
            raise document.error(NO_TIME, *path, "timeout")
        if entry.max_bytes < 1:
            raise document.error(NO_BYTES, *path, "maxBytes")
        self.timeout = float(entry.timeout)
        self._limit = entry.max_bytes
        self._headers = check_headers(entry, document, path)
        self._auth = entry.auth
        self._connection = connection_of(entry, folder=folder, document=document, path=path)
        self._session: aiohttp.ClientSession | None = None

    @property
    def server(self) -> str:
        return self._connection.server

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            trust_env=False,
        ) as session:
            self._session = session
            try:
                yield
            finally:
                self._session = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        body: bytes | None = None,
        accept: frozenset[int] = frozenset(),
        ignore_body: bool = False,
    ) -> Answer:
        """``accept`` lists further statuses whose JSON body the caller handles. Raises ProviderError."""
        seconds = self.timeout
        renewed = False
        try:
            async with asyncio.timeout(seconds):
                while True:
                    proof = await self._proof()
                    status, kind, raw, where = await self._attempt(
                        method, path, params=params, data=form or body, json=body is not None, proof=proof
                    )
                    if status != 401 or renewed or not await self._connection.credentials.renew(proof):
                        break
                    renewed = True
        except TimeoutError:
            raise ProviderError(
                TOO_LATE.format(server=self.server, seconds=seconds), reason=TIMEOUT
            ) from None
        if not 200 <= status < 300:
            raw = self._redact(raw, proof)
        if status == 401:
            raise self._unauthorized(raw)
        if 300 <= status < 400:
            # The query of a login page's address may contain credentials.
            where = re.split(r"[?#]", where, maxsplit=1)[0].rpartition("@")[2] or "an empty address"
            message = REDIRECT.format(server=self.server, status=status, where=where)
            raise ProviderError(message, reason=REDIRECTED)
        if 200 <= status < 300:
            return Answer(status, None if ignore_body else self._decode(raw, kind))
        if status in accept:
            with contextlib.suppress(ProviderError):
                return Answer(status, self._decode(raw, kind))
        raise self._status_error(status, path, raw)

    async def _proof(self) -> Proof:
        try:
            return await self._connection.credentials.proof()
        except (CredentialError, ConfigError) as error:
            raise ProviderError(str(error), reason=NO_CREDENTIALS) from None

    async def _attempt(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None,
        data: Mapping[str, str] | bytes | None,
        json: bool,
        proof: Proof,
    ) -> tuple[int, str, bytes, str]:
        if self._session is None:
            raise RuntimeError(f"{self.server} : request outside of open()")
        connection, proxy = self._connection, self._connection.proxy
        headers = {"Accept": "application/json", **self._headers}
        if proof.authorization:
            headers["Authorization"] = proof.authorization
        if json:
            headers["Content-Type"] = "application/json"
        try:
            response = await self._session.request(
                method,
                f"{self.server.rstrip('/')}{path}",
                params=params,
                data=data,
                headers=headers,
                ssl=connection.context(proof) or True,
                server_hostname=connection.tls_server_name or None,
                proxy=proxy.url if proxy else None,
                proxy_headers={"Proxy-Authorization": proxy.authorization}
                if proxy and proxy.authorization
                else None,
                allow_redirects=False,
            )
            try:
                raw = await self._read_bounded(response)
            except BaseException:
                abandon(response)
                raise
            return response.status, response.content_type, raw, response.headers.get("Location", "")
        except ConfigError as error:
            raise ProviderError(str(error), reason=NO_CREDENTIALS) from None
        except aiohttp.ClientConnectorCertificateError as error:
            message = NOT_TRUSTED.format(server=self.server, why=error.certificate_error)
            raise ProviderError(message, reason=UNTRUSTED) from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            message = CANNOT_REACH.format(server=self.server, why=describe_failure(error))
            raise ProviderError(message, reason=UNREACHABLE) from None
        except (aiohttp.ClientError, OSError) as error:
            message = NO_WHOLE_ANSWER.format(server=self.server, why=describe_failure(error))
            raise ProviderError(message, reason=UNREACHABLE) from None

    async def _read_bounded(self, response: aiohttp.ClientResponse) -> bytes:
        """Read at most ``maxBytes`` after decompression."""
        parts, size = [], 0
        async for part in response.content.iter_chunked(65536):
            size += len(part)
            if size > self._limit:
                message = ANSWER_TOO_LARGE.format(server=self.server, limit=self._limit)
                raise ProviderError(message, reason=TOO_LARGE)
            parts.append(part)
        return b"".join(parts)

    def _decode(self, raw: bytes, kind: str) -> Any:
        try:
            return msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if kind != "application/json":
                raise ProviderError(
                    LOGIN_PAGE.format(server=self.server, kind=kind), reason=NOT_JSON
                ) from None
            raise ProviderError(BROKEN_JSON.format(server=self.server, why=error), reason=NOT_JSON) from None

    def _redact(self, raw: bytes, proof: Proof) -> bytes:
        """Remove secrets from an error response: some servers repeat the request, and messages quote the response."""
        shown = proof.authorization.partition(" ")[2]
        for secret in (shown, self._auth.password, *self._headers.values()):
            if len(secret) >= SHORTEST_SECRET:
                raw = raw.replace(secret.encode(), b"***")
        return raw

    def _unauthorized(self, raw: bytes) -> ProviderError:
        auth = self._auth
        what = TOKEN_GIVEN if auth.token or auth.username or auth.cert_file else NO_AUTH
        if auth.token_file or auth.password_file:
            what = REREAD.format(what="token" if auth.token_file else "password")
        message = TOKEN_REJECTED.format(server=self.server, excerpt=excerpt(raw), what=what)
        return ProviderError(message, reason=UNAUTHORIZED)

    def _status_error(self, status: int, path: str, raw: bytes) -> ProviderError:
        if status == 403:
            message = NOT_ALLOWED.format(server=self.server, what=path, excerpt=excerpt(raw))
            return ProviderError(message, reason=FORBIDDEN)
        message = SERVER_FAILED.format(server=self.server, status=status, excerpt=excerpt(raw))
        return ProviderError(message, reason=UNAVAILABLE if status >= 500 or status == 429 else REFUSED)


def excerpt(raw: bytes) -> str:
    """Format the start of an error response as one line for the end of a message; empty for HTML."""
    text = " ".join(raw[: 4 * LONGEST_EXCERPT].decode("utf-8", errors="replace").split())
    if not text or text.startswith("<"):
        return ""
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return f": {text[:LONGEST_EXCERPT]}"
