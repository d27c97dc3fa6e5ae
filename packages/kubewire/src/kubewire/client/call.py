"""Requests before they are sent, and their bytes.

A client sends thousands of requests that differ in path and body only, so their headers are formatted once.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import urlencode, urlsplit

from msgspec import Struct
from multidict import CIMultiDict
from yarl import URL

IDENTITY: Final = "identity"
BYTES: Final = "application/octet-stream"
"""The content type of a body whose type is not given."""

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_WRITING: Final = frozenset({"PATCH", "POST", "PUT"})
_HEADS: Final = 32
"""Limit of the formatted headers that are kept."""

Query = Sequence[tuple[str, str]] | Mapping[str, str]


class Call(Struct, frozen=True, kw_only=True, gc=False):
    """A request before its credentials are known. ``target`` is the path with the query."""

    method: str
    path: str
    target: str
    body: bytes | None
    content_type: str
    headers: Mapping[str, str] | None
    timeout: float
    repeatable: bool

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class CallEncoder:
    """Encodes requests to one server, with ``headers`` in each."""

    def __init__(self, server: str, headers: Sequence[tuple[str, str]]) -> None:
        self._base = urlsplit(server).path
        self.host = URL(server, encoded=True).host_port_subcomponent or ""
        self._headers = headers
        self._heads: dict[tuple[str, str], str] = {}

    def headers(self, call: Call, authorization: str, encoding: str) -> CIMultiDict[str]:
        """The headers without those that follow from the connection and the body."""
        headers = CIMultiDict(self._headers)
        headers["Accept-Encoding"] = encoding
        if call.content_type:
            headers["Content-Type"] = call.content_type
        headers.update(call.headers or {})
        if authorization:
            headers["Authorization"] = authorization
        return headers

    def encode(self, call: Call, authorization: str) -> bytes:
        """Raise ValueError for a path or a header that would not be sent as one."""
        target, body = self._base + call.target, call.body
        line = f"{call.method} {target}"
        if not (line.isascii() and line.isprintable()) or line.count(" ") != 1 or target[:1] != "/":
            raise ValueError(f"the path {target!r} must start with '/' and be quoted")
        content_type = call.content_type or (BYTES if body is not None or call.method in _WRITING else "")
        if call.headers is None:
            # Requests with the same credentials and type have the same bytes here.
            kind = (authorization, content_type)
            head = self._heads.get(kind, "")
            if not head:
                if len(self._heads) >= _HEADS:
                    self._heads.clear()  # of tokens that expired
                head = self._heads[kind] = self._format_head(call, authorization, content_type)
        else:
            head = self._format_head(call, authorization, content_type)
        if body is None:
            length = "" if call.method in READING else "Content-Length: 0\r\n"
            return f"{line} HTTP/1.1\r\n{head}{length}\r\n".encode()
        return f"{line} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def _format_head(self, call: Call, authorization: str, content_type: str) -> str:
        headers = self.headers(call, authorization, IDENTITY)
        if content_type:
            headers.setdefault("Content-Type", content_type)
        headers.setdefault("Host", self.host)
        headers.pop("Content-Length", None)  # follows from the body
        return _format_headers(headers.items())


def target_of(path: str, query: Query) -> str:
    if not query:
        return path
    return f"{path}?{_encode_query(tuple(query.items() if isinstance(query, Mapping) else query))}"


@lru_cache(maxsize=256)
def _encode_query(query: tuple[tuple[str, str], ...]) -> str:
    """Cached, because writes use the same few queries."""
    return urlencode(query)


def _format_headers(headers: Iterable[tuple[str, str]]) -> str:
    """Raise ValueError for a value that would end the line."""
    lines = []
    for name, value in headers:
        if not {"\r", "\n", "\0"}.isdisjoint(name + value):
            raise ValueError(f"header {name} must not contain line breaks")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines)
