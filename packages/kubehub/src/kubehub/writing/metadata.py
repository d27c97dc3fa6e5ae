"""Metadata that the API server sets itself: name, namespace, uid, timestamps and generation."""

import secrets
import uuid
from collections.abc import Callable
from typing import Final

import msgspec

from kubehub import status
from kubehub.json_decoder import decode_value
from kubehub.kind import Kind
from kubehub.resource import Document, Resource

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_MAX_BASE_LENGTH: Final = 58
_MAX_ATTEMPTS: Final = 8

_IMMUTABLE: Final = ("creationTimestamp", "generation", "resourceVersion", "name", "namespace", "selfLink")
"""Metadata of the live object that an update keeps, whatever the request contains."""

_encode = msgspec.json.Encoder().encode


def metadata_of(document: Document) -> Document:
    """Return the document's metadata, which is created if missing."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        metadata = document["metadata"] = {}
    return metadata


def set_namespace_and_name(resource: Resource, metadata: Document, namespace: str, name: str) -> None:
    """Set the namespace of the path and require its name. Raises a 400."""
    if resource.namespaced:
        if metadata.get("namespace") not in (None, "", namespace):
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    if name and metadata.get("name") != name:
        raise status.bad_request(name_mismatch(metadata.get("name"), name))


def name_mismatch(sent: object, wanted: str) -> str:
    if not sent:
        return f"the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
    return f"the name of the object ({sent}) does not match the name on the URL ({wanted})"


def generate_name(resource: Resource, metadata: Document, is_taken: Callable[[str], bool]) -> None:
    """Set a name from ``generateName`` if there is no name. Raises a 409 when every attempt was taken."""
    if metadata.get("name") or not metadata.get("generateName"):
        return
    base = str(metadata["generateName"])[:_MAX_BASE_LENGTH]
    for _ in range(_MAX_ATTEMPTS):
        metadata["name"] = base + "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(_SUFFIX_LENGTH))
        if not is_taken(metadata["name"]):
            return
    raise status.already_exists(resource.group, resource.plural, metadata["name"])


def initialize(resource: Resource, kind: Kind, document: Document, *, now: str) -> None:
    """Set the metadata of a new object."""
    metadata = document["metadata"]
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"):
        metadata.pop(key, None)
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = now
    if resource.custom or kind.has_generation:
        metadata["generation"] = 1
    if resource.custom and "status" in resource.subresources:
        document.pop("status", None)


def carry_over(document: Document, old: Document) -> None:
    """Keep the live object's metadata where an update can't change it."""
    metadata, live = metadata_of(document), old["metadata"]
    metadata["uid"] = metadata.get("uid") or live["uid"]
    for key in _IMMUTABLE:
        if key in live:
            metadata[key] = live[key]
        else:
            metadata.pop(key, None)
    if "deletionTimestamp" in live:  # validation rejects a new one
        metadata["deletionTimestamp"] = live["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in live:
        metadata.setdefault("deletionGracePeriodSeconds", live["deletionGracePeriodSeconds"])


def restrict_to_endpoint(resource: Resource, document: Document, old: Document, subresource: str) -> None:
    """Keep the live object's fields that this endpoint doesn't write: ``/status`` writes only the status."""
    if subresource == "status":
        for key in {*old, *document} - {"metadata", "status", "apiVersion", "kind"}:
            _keep(document, old, key)
        if resource.custom:
            managers = document["metadata"].get("managedFields")
            _keep(document, old, "metadata")
            if managers is not None:
                document["metadata"]["managedFields"] = managers
    elif not subresource and "status" in resource.subresources:
        _keep(document, old, "status")


def bump_generation(kind: Kind, document: Document, old: Document, subresource: str) -> None:
    """Count a change of the specification."""
    metadata, live = document["metadata"], old["metadata"]
    changed = _specification(document) != _specification(old)
    if kind.annotations_bump_generation and not subresource:
        changed |= (metadata.get("annotations") or {}) != (live.get("annotations") or {})
    if "generation" in live and changed:
        metadata["generation"] = live["generation"] + 1


def _keep(document: Document, old: Document, key: str) -> None:
    if key in old:
        document[key] = decode_value(_encode(old[key]))
    else:
        document.pop(key, None)


def _specification(document: Document) -> Document:
    return {k: v for k, v in document.items() if k not in ("metadata", "status", "apiVersion", "kind")}
