"""The hub's objects as manifests for another hub: without what that hub makes itself, and in an order that applies."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from fairway.cli.files.export import export, format_for
from fairway.cli.hub.data import STDOUT
from fairway.hub import kubernetes_service
from fairway.hub.admission import cluster_acceptance
from fairway.hub.authn import bootstrap_account
from fairway.hub.controllers.service_accounts import ROOT_CA
from fairway.hub.hub import NAMESPACES
from fairway.hub.kinds import priorities
from fairway.hub.kinds.core import ACCOUNT_TOKEN
from fairway.hub.resource import Document
from fairway.hub.storage import archive
from fairway.hub.storage.entry import DELETED, Key
from fairway.hub.storage.log import Log

_DEFINITION: Final = "CustomResourceDefinition"
_FILES: Final = ("definitions.yaml", "objects.yaml", "status.yaml")

_RBAC: Final = "rbac.authorization.k8s.io/v1"
_BOOTSTRAPPING: Final = "kubernetes.io/bootstrapping"
_PRIORITIES: Final = frozenset(each["metadata"]["name"] for each in priorities.SYSTEM)
# Of no use elsewhere: reports on what happened here, who holds what at the moment, and requests to this hub's own
# certificate authority.
_PASSING: Final = frozenset({"Event", "Lease", "CertificateSigningRequest"})
# The next hub decides which names a definition gets, and whether a namespace is ending.
_STATUS_OF_ITS_OWN: Final = frozenset({_DEFINITION, "Namespace"})
_OWNERS: Final = b'"ownerReferences":['
_JOB_LABELS: Final = ("controller-uid", "job-name")
_JOB_PREFIXES: Final = ("", "batch.kubernetes.io/")


@dataclass(slots=True, kw_only=True)
class Count:
    """What became of the objects, known once all have been taken."""

    definitions: int = 0
    objects: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """By kind."""
    statuses: int = 0
    """How many went to a file of their own."""
    owned: int = 0
    """How many lost their owner references."""


def targets(out: str, *, status: bool) -> list[Path]:
    """The files that will be written; those of a folder in the order in which they apply."""
    if out != STDOUT and (out.endswith(os.sep) or Path(out).is_dir()):
        return [Path(out, name) for name in (_FILES if status else _FILES[:2])]
    return [Path(out)]


def write(folder: Path, out: str, *, status: bool) -> Count:
    """Write what the hub in ``folder`` holds to a file, to standard output, or to the files of a folder.

    In a folder, definitions have a file of their own, because kubectl looks up all kinds before it applies the first
    object; and so has what must be applied to the subresource `status`.
    """
    count = Count()
    files = targets(out, status=status)
    documents = portable(folder, count, status=status)
    if len(files) == 1:
        export(documents, out=out, output="json" if format_for(out) == "json" else "yaml")
        return count
    files[0].parent.mkdir(parents=True, exist_ok=True)
    definitions: list[Document] = []
    first = None
    for first in documents:
        if first["kind"] != _DEFINITION:
            break
        definitions.append(first)
        first = None
    export(definitions, out=str(files[0]), output="yaml")
    statuses: list[Document] = []
    rest = chain([first] if first else [], documents)
    export(_apart(rest, statuses), out=str(files[1]), output="yaml")
    if status:
        export(statuses, out=str(files[2]), output="yaml")
    count.statuses = len(statuses)
    return count


def _apart(documents: Iterator[Document], statuses: list[Document]) -> Iterator[Document]:
    for document in documents:
        if status := document.pop("status", None):
            metadata = {k: v for k, v in document["metadata"].items() if k in ("name", "namespace")}
            named = {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": metadata}
            statuses.append(named | {"status": status})
        yield document


def portable(folder: Path, count: Count, *, status: bool) -> Iterator[Document]:
    """What to apply elsewhere: definitions, namespaces, then the rest."""
    owned = _owned(folder)
    held: Document | None = None
    for document in archive.export(folder, status=status):
        kind = str(document.get("kind"))
        if everywhere(document):
            count.left_out[kind] += 1
            continue
        if (kind, document["metadata"]["name"]) == ("Namespace", bootstrap_account.NAMESPACE):
            held = document  # every hub of managed clusters has it, but not what else may be in it
            continue
        if held is not None and document["metadata"].get("namespace") == bootstrap_account.NAMESPACE:
            count.objects += 1
            yield held
            held = None
        count.owned += _identity(document) in owned
        if (document.get("apiVersion"), kind) == ("batch/v1", "Job"):
            _forget_uid(document)
        if kind in _STATUS_OF_ITS_OWN:
            document.pop("status", None)
        if kind == _DEFINITION:
            count.definitions += 1
        else:
            count.objects += 1
        yield document
    if held is not None:
        count.left_out["Namespace"] += 1


def _identity(document: Document) -> tuple[object, ...]:
    metadata = document["metadata"]
    return document.get("apiVersion"), document.get("kind"), metadata.get("namespace"), metadata["name"]


def _owned(folder: Path) -> set[tuple[object, ...]]:
    """Those with owners, which the export no longer tells."""
    owned: dict[Key, bytes] = {}
    with closing(Log.read(archive.file_of(folder))) as log:
        for row in log.rows():
            if row.change != DELETED and _OWNERS in row.item.raw:
                owned[row.item.key] = row.item.raw
            else:
                owned.pop(row.item.key, None)
    return {_identity(msgspec.json.decode(raw)) for raw in owned.values()}


def everywhere(document: Document) -> bool:
    """Whether every hub makes such an object by itself, or it means something only where it is."""
    api, kind, metadata = document.get("apiVersion"), document.get("kind"), document["metadata"]
    match api, kind:
        case "v1", "Namespace":
            return metadata["name"] in NAMESPACES
        case "v1", "ConfigMap":
            return bool(metadata["name"] == ROOT_CA)
        case "v1", "ServiceAccount":
            return bool(metadata["name"] == "default") or bootstrap_account.brought(document)
        case (("v1" | "discovery.k8s.io/v1"), ("Service" | "Endpoints" | "EndpointSlice")):
            return kubernetes_service.brought(document)
        case "v1", "Secret":
            return document.get("type") == ACCOUNT_TOKEN
        case "scheduling.k8s.io/v1", "PriorityClass":
            return metadata["name"] in _PRIORITIES
        case "admissionregistration.k8s.io/v1", _:
            return cluster_acceptance.brought(document)
        case (("v1" | "coordination.k8s.io/v1" | "certificates.k8s.io/v1"), _) if kind in _PASSING:
            return True
    if api != _RBAC:
        return False
    return _BOOTSTRAPPING in (metadata.get("labels") or {}) or bootstrap_account.brought(document)


def _forget_uid(job: Document) -> None:
    """A job's pods are found by its uid, which the next hub gives anew and writes in the same places."""
    spec = job.get("spec") or {}
    if spec.get("manualSelector"):
        return
    spec.pop("selector", None)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    for prefix in _JOB_PREFIXES:
        for label in _JOB_LABELS:
            labels.pop(f"{prefix}{label}", None)
