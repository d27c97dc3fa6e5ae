"""Errors of manifests that cannot be applied: which manifest, what is wrong, and what to do."""

from typing import Final

from fairway.api.work import ManifestResourceMeta
from kubewire.client import (
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    Unauthorized,
)
from kubewire.client.errors import TooLarge

NO_KIND: Final = "names no {field}"
NO_KIND_REMEDY: Final = 'write both, like "apiVersion: apps/v1" and "kind: Deployment"'
NO_NAME: Final = "has no metadata.name"
NO_NAME_REMEDY: Final = "give the object a name; the work agent does not generate names"
BAD_NAME: Final = "{given!r} is not a valid name of an object or a namespace"
BAD_NAME_REMEDY: Final = "use lower case letters, digits, '-' and '.'"
UNKNOWN_KIND: Final = "the server doesn't have a resource type {kind!r} in {version}"
UNKNOWN_KIND_REMEDY: Final = "install its CustomResourceDefinition on the cluster, or add it to the work"
NO_NAMESPACE: Final = "has no namespace, and its kind is namespaced"
NO_NAMESPACE_REMEDY: Final = "write metadata.namespace"
DUPLICATE: Final = "is the same object as manifest {first}"
DUPLICATE_REMEDY: Final = "keep one of the two"
CONFLICT: Final = "is also in ManifestWork {work} with other content, which {why}"
CONFLICT_REMEDY: Final = "remove it from one of the works, or make both equal"
WAS_FIRST: Final = "takes precedence because it is older"
OWNS: Final = "takes precedence because it owns the object"
KEEPS: Final = "takes precedence because this work would orphan it"
TERMINATING: Final = "the existing object is being deleted"
TERMINATING_REMEDY: Final = "it is created again once the finalizers of the old one are done"
NAMESPACE_MISSING: Final = "the namespace {namespace!r} does not exist"
NAMESPACE_REMEDY: Final = "add the Namespace to the work, or create it"
NAMESPACE_TERMINATING_REMEDY: Final = "wait until the namespace is deleted and created again"
INVALID_REMEDY: Final = "correct the manifest"
NOT_ALLOWED_REMEDY: Final = "grant it to the work agent"
FIELDS_TAKEN_REMEDY: Final = (
    "leave the fields out of the manifest, or set updateStrategy.serverSideApply.force"
)
CHANGED_REMEDY: Final = "retrying"
TOO_LARGE_REMEDY: Final = "split it into several objects"

LONGEST: Final = 2000
"""Longer messages are cut; a condition may hold more."""


class ManifestError(Exception):
    """A manifest cannot be applied. ``retry`` is in seconds; None uses the queue's backoff."""

    def __init__(
        self, message: str, *, remedy: str, reason: str = "", retry: float | None = None, final: bool = False
    ) -> None:
        super().__init__(f"{message}; {remedy}")
        self.reason, self.retry = reason, retry
        self.final = final
        """Whether only a change of the work or of the object helps."""


def describe(meta: ManifestResourceMeta) -> str:
    """Format as ``manifest 2 (ConfigMap ns1/a)``, without missing parts."""
    place = "/".join(part for part in (meta.namespace, meta.name) if part)
    words = " ".join(part for part in (meta.kind, place) if part)
    return f"manifest {meta.ordinal} ({words})" if words else f"manifest {meta.ordinal}"


def manifest_error(error: KubeError, *, namespace: str) -> ManifestError:
    """Convert an error of the cluster."""
    if not isinstance(error, ApiError):
        return ManifestError(str(error), remedy=CHANGED_REMEDY)
    message = error.message.strip()
    match error:
        case NotFound() if error.details.kind == "namespaces":
            return ManifestError(NAMESPACE_MISSING.format(namespace=namespace), remedy=NAMESPACE_REMEDY)
        case Forbidden() if error.has_cause("NamespaceTerminating"):
            return ManifestError(message, remedy=NAMESPACE_TERMINATING_REMEDY)
        case Forbidden() | Unauthorized():
            return ManifestError(message, remedy=NOT_ALLOWED_REMEDY)
        case Conflict() if error.has_cause("FieldManagerConflict"):
            return ManifestError(message, remedy=FIELDS_TAKEN_REMEDY)
        case TooLarge():
            return ManifestError(message, remedy=TOO_LARGE_REMEDY)
        case Invalid() | BadRequest():
            return ManifestError(message, remedy=INVALID_REMEDY)
        case _:
            return ManifestError(message, remedy=CHANGED_REMEDY)


def truncate(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
