"""Roles, bindings and certificate requests: what they may grant, and to whom."""

from collections.abc import Sequence

from fairway.hub.access import rbac
from fairway.hub.access.authz import Authorizer
from fairway.hub.kinds import Kind
from fairway.hub.requests import Request
from fairway.hub.resource import Document
from fairway.hub.schemas import naming
from fairway.hub.status import Cause


class _Granting(Kind):
    naming = staticmethod(naming.path_segment)
    upsert = True
    presence = False

    def __init__(self, *, resource: str, authorizer: Authorizer) -> None:
        self._resource, self._authorizer = resource, authorizer

    @property
    def _namespaced(self) -> bool:
        return not self._resource.startswith("cluster")

    def admit_early(self, document: Document, old: Document | None, request: Request) -> None:
        self._authorizer.admit(
            self._resource,
            document,
            old,
            user=request.user,
            namespace=document["metadata"].get("namespace", ""),
        )


class Role(_Granting):
    def check(self, document: Document, old: Document | None, request: Request) -> Sequence[Cause]:
        return rbac.check_role(document, namespaced=self._namespaced)


class Binding(_Granting):
    def default(self, document: Document) -> None:
        rbac.default_binding(document)

    def check(self, document: Document, old: Document | None, request: Request) -> Sequence[Cause]:
        return rbac.check_binding(document, old, namespaced=self._namespaced)
