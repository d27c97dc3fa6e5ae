"""Hooks of the CertificateSigningRequest kind."""

from collections.abc import Callable, Sequence
from datetime import datetime

from kubehub.csr import validation
from kubehub.kind import Kind
from kubehub.rbac.authorizer import Authorizer
from kubehub.resource import Document
from kubehub.status import Cause
from kubehub.write_request import WriteRequest
from kubewire.api import naming


class CertificateSigningRequest(Kind):
    naming = staticmethod(naming.path_segment)
    required_fields_non_empty = False

    def __init__(self, *, authorizer: Authorizer, clock: Callable[[], datetime]) -> None:
        self._authorizer, self._clock = authorizer, clock

    def prepare(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        validation.prepare(
            document, old, user=request.user, now=self._clock(), subresource=request.subresource
        )

    def validate(self, document: Document, old: Document | None, request: WriteRequest) -> Sequence[Cause]:
        return validation.check(document, old, subresource=request.subresource)

    def complete(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        validation.admit(
            document, old, user=request.user, authorizer=self._authorizer, subresource=request.subresource
        )
