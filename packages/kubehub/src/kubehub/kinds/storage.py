"""Volumes, claims and storage classes: stored and defaulted; no volume is provisioned."""

from typing import Final

from kubehub.kind import Kind, RequiresResourceVersion
from kubehub.resource import Document
from kubehub.write_request import WriteRequest

PENDING: Final = "Pending"


class Volume(Kind):
    def default(self, document: Document) -> None:
        spec = document.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")

    def prepare(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        if old is None:
            since = document["metadata"]["creationTimestamp"]
            document["status"] = {"phase": PENDING, "lastPhaseTransitionTime": since}


class Claim(Kind):
    def default(self, document: Document) -> None:
        document.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")

    def prepare(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        if old is None:
            document["status"] = {"phase": PENDING}


class StorageClass(Kind):
    def default(self, document: Document) -> None:
        document.setdefault("reclaimPolicy", "Delete")
        document.setdefault("volumeBindingMode", "Immediate")


class Driver(RequiresResourceVersion):
    def default(self, document: Document) -> None:
        spec = document.setdefault("spec", {})
        spec.setdefault("attachRequired", True)
        for key in ("podInfoOnMount", "requiresRepublish", "seLinuxMount", "storageCapacity"):
            spec.setdefault(key, False)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]


class DriversOfNode(RequiresResourceVersion):
    required_fields_non_empty = False  # a node may have no drivers
