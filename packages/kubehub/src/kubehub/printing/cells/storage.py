"""Cells of volumes, claims and storage classes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from kubehub.printing.cells.parts import NONE, UNSET, Cell, at, field, flag, name_with_default, size
from kubehub.resource import Document

_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


def _modes(*path: str) -> Cell:
    def cell(document: Document, _: datetime) -> str:
        modes = at(document, *path) or ()
        return ",".join(short for mode, short in _MODES.items() if mode in modes)

    return cell


def _bound(cell: Cell) -> Cell:
    """Return a field that a claim gets from its volume."""
    return lambda document, now: cell(document, now) if at(document, "spec", "volumeName") else ""


def _phase(document: Document, _: datetime) -> str:
    return (
        "Terminating"
        if at(document, "metadata", "deletionTimestamp")
        else at(document, "status", "phase") or ""
    )


def _class(document: Document, _: datetime) -> str:
    old = (at(document, "metadata", "annotations") or {}).get(_CLASS)
    return old if old is not None else at(document, "spec", "storageClassName") or ""


def _claim(document: Document, _: datetime) -> str:
    claim = at(document, "spec", "claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _audiences(document: Document, _: datetime) -> str:
    requests = at(document, "spec", "tokenRequests")
    return UNSET if requests is None else ",".join(request.get("audience", "") for request in requests)


_VOLUME: Final[Mapping[str, Cell]] = {
    "Status": _phase,
    "StorageClass": _class,
    "VolumeAttributesClass": field("spec", "volumeAttributesClassName", missing=UNSET),
    "VolumeMode": field("spec", "volumeMode", missing=UNSET),
}

KINDS: Final[Mapping[str, Mapping[str, Cell]]] = {
    "PersistentVolumeClaim": {
        **_VOLUME,
        "Volume": field("spec", "volumeName"),
        "Capacity": _bound(field("status", "capacity", "storage", missing="0")),
        "Access Modes": _bound(_modes("status", "accessModes")),
    },
    "PersistentVolume": {
        **_VOLUME,
        "Capacity": field("spec", "capacity", "storage", missing="0"),
        "Access Modes": _modes("spec", "accessModes"),
        "Reclaim Policy": field("spec", "persistentVolumeReclaimPolicy"),
        "Claim": _claim,
        "Reason": field("status", "reason"),
    },
    "StorageClass": {
        "Name": name_with_default("storageclass.kubernetes.io/is-default-class"),
        "Provisioner": field("provisioner"),
        "ReclaimPolicy": field("reclaimPolicy", missing="Delete"),
        "VolumeBindingMode": field("volumeBindingMode", missing="Immediate"),
        "AllowVolumeExpansion": flag("allowVolumeExpansion"),
    },
    "VolumeAttachment": {
        "Attacher": field("spec", "attacher"),
        "PV": field("spec", "source", "persistentVolumeName"),
        "Node": field("spec", "nodeName"),
        "Attached": flag("status", "attached"),
    },
    "CSIDriver": {
        "AttachRequired": flag("spec", "attachRequired", missing=True),
        "PodInfoOnMount": flag("spec", "podInfoOnMount"),
        "StorageCapacity": flag("spec", "storageCapacity"),
        "TokenRequests": _audiences,
        "RequiresRepublish": flag("spec", "requiresRepublish"),
        "Modes": lambda d, _: ",".join(at(d, "spec", "volumeLifecycleModes") or ()) or NONE,
    },
    "CSINode": {"Drivers": size("spec", "drivers")},
}
