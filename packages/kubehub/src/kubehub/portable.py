"""A hub's objects as manifests for another hub.

Objects that every hub creates itself are left out, and so are uids, which the other hub assigns. The order is one
in which the manifests can be applied.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from kubehub import kubernetes_service
from kubehub.admission import cluster_acceptance
from kubehub.authn import bootstrap_account
from kubehub.controllers.service_accounts import ROOT_CA
from kubehub.hub import NAMESPACES
from kubehub.kinds import priorities
from kubehub.kinds.core import ACCOUNT_TOKEN
from kubehub.resource import Document
from kubehub.storage import archive
from kubehub.storage.entry import DELETED, Key
from kubehub.storage.log import Log

DEFINITION: Final = "CustomResourceDefinition"

_RBAC: Final = "rbac.authorization.k8s.io/v1"
_BOOTSTRAPPING: Final = "kubernetes.io/bootstrapping"
_PRIORITIES: Final = frozenset(priority_class["metadata"]["name"] for priority_class in priorities.SYSTEM)
_PASSING: Final = frozenset({"Event", "Lease", "CertificateSigningRequest"})
"""Kinds that are meaningless on another hub: past events, current leases, requests to this hub's authority."""
_STATUS_OF_ITS_OWN: Final = frozenset({DEFINITION, "Namespace"})
"""Kinds whose status the other hub computes itself."""
_OWNERS: Final = b'"ownerReferences":['
_JOB_LABELS: Final = ("controller-uid", "job-name")
_JOB_PREFIXES: Final = ("", "batch.kubernetes.io/")


@dataclass(slots=True, kw_only=True)
class Count:
    """Counts of exported objects; complete when the export has been consumed."""

    definitions: int = 0
    objects: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """By kind."""
    statuses: int = 0
    """Statuses written to a file of their own."""
    owned: int = 0
    """Objects that lost their owner references."""


def portable_objects(folder: Path, count: Count, *, status: bool) -> Iterator[Document]:
    """Yield definitions, then namespaces, then the other objects, and count them in ``count``."""
    owned = _owned_identities(folder)
    held: Document | None = None
    for document in archive.export(folder, status=status):
        kind = str(document.get("kind"))
        if is_local(document):
            count.left_out[kind] += 1
            continue
        if (kind, document["metadata"]["name"]) == ("Namespace", bootstrap_account.NAMESPACE):
            held = document  # exported only together with an object inside it
            continue
        if held is not None and document["metadata"].get("namespace") == bootstrap_account.NAMESPACE:
            count.objects += 1
            yield held
            held = None
        count.owned += _identity(document) in owned
        if (document.get("apiVersion"), kind) == ("batch/v1", "Job"):
            _remove_uid(document)
        if kind in _STATUS_OF_ITS_OWN:
            document.pop("status", None)
        if kind == DEFINITION:
            count.definitions += 1
        else:
            count.objects += 1
        yield document
    if held is not None:
        count.left_out["Namespace"] += 1


def _identity(document: Document) -> tuple[object, ...]:
    metadata = document["metadata"]
    return document.get("apiVersion"), document.get("kind"), metadata.get("namespace"), metadata["name"]


def _owned_identities(folder: Path) -> set[tuple[object, ...]]:
    """Return the identities of objects with owner references, which the export strips."""
    owned: dict[Key, bytes] = {}
    with closing(Log.read(archive.file_of(folder))) as log:
        for row in log.rows():
            if row.change != DELETED and _OWNERS in row.item.raw:
                owned[row.item.key] = row.item.raw
            else:
                owned.pop(row.item.key, None)
    return {_identity(msgspec.json.decode(raw)) for raw in owned.values()}


def is_local(document: Document) -> bool:
    """Whether every hub creates such an object itself, or it has a meaning only on its own hub."""
    api, kind, metadata = document.get("apiVersion"), document.get("kind"), document["metadata"]
    match api, kind:
        case "v1", "Namespace":
            return metadata["name"] in NAMESPACES
        case "v1", "ConfigMap":
            return bool(metadata["name"] == ROOT_CA)
        case "v1", "ServiceAccount":
            return bool(metadata["name"] == "default") or bootstrap_account.is_default(document)
        case (("v1" | "discovery.k8s.io/v1"), ("Service" | "Endpoints" | "EndpointSlice")):
            return kubernetes_service.is_default(document)
        case "v1", "Secret":
            return document.get("type") == ACCOUNT_TOKEN
        case "scheduling.k8s.io/v1", "PriorityClass":
            return metadata["name"] in _PRIORITIES
        case "admissionregistration.k8s.io/v1", _:
            return cluster_acceptance.is_managed(document)
        case (("v1" | "coordination.k8s.io/v1" | "certificates.k8s.io/v1"), _) if kind in _PASSING:
            return True
    if api != _RBAC:
        return False
    return _BOOTSTRAPPING in (metadata.get("labels") or {}) or bootstrap_account.is_default(document)


def _remove_uid(job: Document) -> None:
    """Remove the uid from the selector and the labels of a Job; the other hub adds its own."""
    spec = job.get("spec") or {}
    if spec.get("manualSelector"):
        return
    spec.pop("selector", None)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    for prefix in _JOB_PREFIXES:
        for label in _JOB_LABELS:
            labels.pop(f"{prefix}{label}", None)
