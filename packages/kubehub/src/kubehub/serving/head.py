"""The head of a request: the supported HTTP, and headers as valid text."""

from collections.abc import Iterator
from typing import Final

from aiohttp import HttpVersion10, HttpVersion11, web

from kubehub.status import Refusal

OTHER_VERSION: Final = "HTTP Version Not Supported"
OTHER_ENCODING: Final = "Unsupported transfer encoding"

_LONGEST_AGENT: Final = 1024
_CUT: Final = "...TRUNCATED"


def check(request: web.BaseRequest) -> None:
    """Raises a 501 or a 505, after which the connection can't be parsed further."""
    if request.version not in (HttpVersion10, HttpVersion11):
        raise Refusal(code=505, reason="", message=OTHER_VERSION)
    encoding = request.headers.get("Transfer-Encoding")
    if encoding is not None and encoding.strip().lower() != "chunked":
        raise Refusal(code=501, reason="", message=OTHER_ENCODING)


def text(value: str) -> str:
    """Replace bytes that aren't UTF-8, which can be neither sent nor stored."""
    return value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def headers(request: web.BaseRequest) -> Iterator[tuple[str, str]]:
    for name, value in request.headers.items():
        yield text(name), text(value)


def agent(request: web.BaseRequest) -> str:
    name = text(request.headers.get("User-Agent", ""))
    return name if len(name) <= _LONGEST_AGENT else name[:_LONGEST_AGENT] + _CUT
