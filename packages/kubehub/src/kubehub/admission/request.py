"""A write, as admission policies see it."""

from dataclasses import dataclass, field
from typing import Final

from kubehub.admission.cel_authorizer import AuthorizerValue, ResourceCheck
from kubehub.admission.cel_environment import (
    ASKER,
    NAMESPACE,
    OBJECT,
    OLD_OBJECT,
    REQUEST,
    REQUEST_RESOURCE,
)
from kubehub.admission.matching import CREATE, DELETE, UPDATE, Subject
from kubehub.rbac.authorizer import Attributes, Authorizer
from kubehub.resource import Document, Resource, Subresource
from kubehub.user import User


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """A write of a client. ``new`` is None for a delete, ``old`` for a create."""

    user: User
    resource: Resource
    """In the version of the request."""
    subresource: str
    place: tuple[str, str]
    """Namespace and name of the path, for bodies without them."""
    new: Document | None
    old: Document | None
    """Both in the storage version, without apiVersion and kind, unless the subresource has a body of its own."""
    dry_run: bool
    manager: str
    warnings: list[str]
    annotations: dict[str, str] = field(default_factory=dict)

    @property
    def operation(self) -> str:
        if self.new is None:
            return DELETE
        return CREATE if self.old is None else UPDATE

    @property
    def namespace(self) -> str:
        """For a namespace, its own name."""
        if self.resource.key == "namespaces":
            return self.name
        return str(self._metadata.get("namespace") or self.place[0])

    @property
    def name(self) -> str:
        return str(self._metadata.get("name") or self.place[1])

    @property
    def _metadata(self) -> Document:
        document = self.new or self.old
        assert document is not None
        metadata: Document = document.get("metadata") or {}
        return metadata

    def inputs(
        self, equivalent: Resource, subject: Subject, *, authorizer: Authorizer, home: Document | None
    ) -> dict[str, object]:
        """Return the CEL variables. ``home`` is the namespace object."""
        asker = AuthorizerValue(authorizer, self.user)
        asked = Attributes(
            verb="",
            group=self.resource.group,
            resource=self.resource.plural,
            subresource=self.subresource,
            namespace=subject.namespace,
            name=subject.name,
        )
        return {
            OBJECT: self._to_version(equivalent, self.new),
            OLD_OBJECT: self._to_version(equivalent, self.old),
            REQUEST: _request(self, equivalent, subject),
            NAMESPACE: None if home is None else _namespace(home),
            ASKER: asker,
            REQUEST_RESOURCE: ResourceCheck(asker, asked),
        }

    @property
    def body(self) -> Subresource | None:
        """The subresource, if its body has a kind of its own."""
        part = self.resource.subresources.get(self.subresource)
        return part if part is not None and part.kind else None

    def _to_version(self, equivalent: Resource, document: Document | None) -> Document | None:
        """Convert a document to the version ``equivalent``."""
        if document is None:
            return None
        if (body := self.body) is not None:
            version = f"{body.group}/{body.version}" if body.group else body.version
            return {"apiVersion": version, "kind": body.kind, **document}
        shown = document if equivalent.conversion is None else equivalent.conversion.from_storage(document)
        return {"apiVersion": equivalent.api_version, "kind": equivalent.kind, **shown}


_NAMESPACE_METADATA: Final = (
    "name", "generateName", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "labels", "annotations", "finalizers",
)  # fmt: skip


def _namespace(document: Document) -> Document:
    metadata = document["metadata"]
    shown = {key: metadata[key] for key in _NAMESPACE_METADATA if key in metadata}
    return {"metadata": shown, "spec": document.get("spec") or {}, "status": document.get("status") or {}}


def _request(attempt: AdmissionRequest, equivalent: Resource, subject: Subject) -> Document:
    user = attempt.user
    who = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    resource, body = attempt.resource, attempt.body
    options: Document = {
        "kind": {CREATE: "CreateOptions", UPDATE: "UpdateOptions", DELETE: "DeleteOptions"}[
            attempt.operation
        ],
        "apiVersion": "meta.k8s.io/v1",
    }
    if attempt.manager and attempt.operation != DELETE:
        options["fieldManager"] = attempt.manager
    if attempt.dry_run:
        options["dryRun"] = ["All"]
    made: Document = {
        "kind": _kind(body or equivalent),
        "resource": {"group": equivalent.group, "version": equivalent.version, "resource": equivalent.plural},
        "subResource": attempt.subresource,
        "requestKind": _kind(body or resource),
        "requestResource": {
            "group": resource.group,
            "version": resource.version,
            "resource": resource.plural,
        },
        "requestSubResource": attempt.subresource,
        "name": subject.name,
        "namespace": subject.namespace,
        "operation": attempt.operation,
        "userInfo": {key: value for key, value in who.items() if value},
        "options": options,
    }
    return {key: value for key, value in made.items() if value} | {"dryRun": attempt.dry_run}


def _kind(of: Resource | Subresource) -> Document:
    return {"group": of.group, "version": of.version, "kind": of.kind}
