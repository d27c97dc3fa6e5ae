"""Hooks of roles and bindings: the escalation check, defaults, validation."""

from collections.abc import Sequence

from kubehub.kind import Kind
from kubehub.rbac import roles
from kubehub.rbac.authorizer import Authorizer
from kubehub.resource import Document
from kubehub.status import Cause
from kubehub.write_request import WriteRequest
from kubewire.api import naming


class _Granting(Kind):
    naming = staticmethod(naming.path_segment)
    allow_create_on_update = True
    required_fields_non_empty = False

    def __init__(self, *, resource: str, authorizer: Authorizer) -> None:
        self._resource, self._authorizer = resource, authorizer

    @property
    def _namespaced(self) -> bool:
        return not self._resource.startswith("cluster")

    def authorize(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        self._authorizer.admit(
            self._resource,
            document,
            old,
            user=request.user,
            namespace=document["metadata"].get("namespace", ""),
        )


class Role(_Granting):
    def validate(self, document: Document, old: Document | None, request: WriteRequest) -> Sequence[Cause]:
        return roles.check_role(document, namespaced=self._namespaced)


class Binding(_Granting):
    def default(self, document: Document) -> None:
        roles.default_binding(document)

    def validate(self, document: Document, old: Document | None, request: WriteRequest) -> Sequence[Cause]:
        return roles.check_binding(document, old, namespaced=self._namespaced)
