"""A request that is being answered, and its response."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from aiohttp import web

from kubehub.request_info import RequestInfo
from kubehub.resource import Resource
from kubehub.serialization import representation
from kubehub.serialization.representation import Representation
from kubehub.serving import head
from kubehub.user import MASTERS, User

ANSWER: Final = {"Cache-Control": "no-cache, private"}
"""Headers of every response."""
_PHRASES: Final = {413: "Request Entity Too Large", 422: "Unprocessable Entity"}
"""Go's texts; later Python versions have others."""
_MAX_WARNINGS: Final = 4096
"""Characters; the same limit as in kube-apiserver."""


@dataclass(slots=True, kw_only=True)
class Exchange:
    """A request that is being answered."""

    request: web.BaseRequest
    id_: str
    received: datetime
    target: RequestInfo | None = None
    resource: Resource | None = None
    verb: str = ""
    authenticated: User | None = None
    """The authenticated user; ``user`` differs when the request impersonates."""
    acting: User | None = None
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    """For the audit log."""
    reason: str = ""

    @property
    def user(self) -> User:
        assert self.acting is not None
        return self.acting

    @property
    def owner(self) -> str:
        """The user whose share of the memory for bodies and responses this request takes; None for administrators."""
        user = self.authenticated
        return "" if user is None or MASTERS in user.groups else user.name

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query

    @property
    def agent(self) -> str:
        return head.agent(self.request)


def reply(
    exchange: Exchange, payload: bytes, *, code: int = 200, style: Representation = representation.PLAIN_JSON
) -> web.Response:
    response = web.Response(
        body=payload,
        status=code,
        reason=_PHRASES.get(code),
        headers={**ANSWER, "Audit-Id": exchange.id_},
        content_type=representation.YAML if style.yaml else representation.JSON,
    )
    for warning in _warning_headers(exchange.warnings):
        response.headers.add("Warning", f'299 - "{warning}"')
    return response


def _warning_headers(warnings: Iterable[str]) -> Iterator[str]:
    """Yield each warning once, as a valid header value, up to the size that clients accept."""
    room = _MAX_WARNINGS
    for warning in dict.fromkeys(warnings):
        room -= len(warning)
        if room < 0:
            return
        printable = "".join(char if char.isprintable() else "?" for char in warning)
        yield printable.replace("\\", "\\\\").replace('"', '\\"')
