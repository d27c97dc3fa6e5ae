"""Certificate signing requests."""

from collections.abc import Callable, Sequence
from datetime import datetime

from fairway.hub.access import signing
from fairway.hub.access.authz import Authorizer
from fairway.hub.kinds import Kind
from fairway.hub.requests import Request
from fairway.hub.resource import Document
from fairway.hub.schemas import naming
from fairway.hub.status import Cause


class CertificateSigningRequest(Kind):
    naming = staticmethod(naming.path_segment)
    presence = False

    def __init__(self, *, authorizer: Authorizer, clock: Callable[[], datetime]) -> None:
        self._authorizer, self._clock = authorizer, clock

    def prepare(self, document: Document, old: Document | None, request: Request) -> None:
        signing.prepare(document, old, user=request.user, now=self._clock(), subresource=request.subresource)

    def check(self, document: Document, old: Document | None, request: Request) -> Sequence[Cause]:
        return signing.check(document, old, subresource=request.subresource)

    def complete(self, document: Document, old: Document | None, request: Request) -> None:
        signing.admit(
            document,
            old,
            user=request.user,
            authorizer=self._authorizer,
            subresource=request.subresource,
        )
