"""Namespaces, nodes, config maps, secrets, service accounts, events, leases."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kubehub import status
from kubehub.kind import Kind, RequiresResourceVersion
from kubehub.resource import Document
from kubehub.schemas.metadata import finalizer_faults
from kubehub.status import Cause
from kubehub.user import User
from kubehub.write_request import WriteRequest
from kubewire.api import naming

KUBERNETES: Final = "kubernetes"
NAME_LABEL: Final = "kubernetes.io/metadata.name"
ACTIVE: Final = "Active"
TERMINATING: Final = "Terminating"
IMMORTAL: Final = ("default", "kube-system", "kube-public")
OPAQUE: Final = "Opaque"
ACCOUNT_TOKEN: Final = "kubernetes.io/service-account-token"

_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_DATA_LIMIT: Final = 1024 * 1024


class Namespace(Kind):
    naming = staticmethod(naming.label)
    allow_propagation_policy = False
    return_deleted_object = True

    def default(self, document: Document) -> None:
        if name := document["metadata"].get("name"):
            labels = document["metadata"].get("labels") or {}
            document["metadata"]["labels"] = labels | {NAME_LABEL: name}

    def prepare(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        if old is None:
            finalizers = (document.get("spec") or {}).get("finalizers") or []
            document["spec"] = {"finalizers": [*dict.fromkeys([*finalizers, KUBERNETES])]}
            document["status"] = {"phase": ACTIVE}
        elif request.subresource == "finalize":
            document["status"] = old.get("status") or {}
        else:
            document["spec"] = old.get("spec") or {}
            document["status"] = {"phase": ACTIVE, **(document.get("status") or {})}

    def validate(self, document: Document, old: Document | None, request: WriteRequest) -> Sequence[Cause]:
        if request.subresource == "status":
            return _phase_causes(document)
        causes = []
        for index, name in enumerate((document.get("spec") or {}).get("finalizers") or ()):
            path = f"spec.finalizers[{index}]" if request.subresource == "finalize" else "spec.finalizers"
            causes += [status.invalid_value(path, name, text) for text in finalizer_faults(str(name))]
        return causes

    def check_deletion(self, document: Document, user: User) -> None:
        name = document["metadata"]["name"]
        if name in IMMORTAL:
            raise status.forbidden("", "namespaces", name, "this namespace may not be deleted")

    def is_removable(self, document: Document) -> bool:
        return not (document.get("spec") or {}).get("finalizers")

    def begin_deletion(self, document: Document) -> None:
        document["metadata"].pop("deletionGracePeriodSeconds", None)
        document.setdefault("status", {})["phase"] = TERMINATING


def _phase_causes(document: Document) -> list[Cause]:
    phase = (document.get("status") or {}).get("phase", "")
    ending = bool(document["metadata"].get("deletionTimestamp"))
    if phase == (TERMINATING if ending else ACTIVE):
        return []
    message = "may only be 'Terminating' if `deletionTimestamp` is not empty"
    if not ending:
        message = "may only be 'Active' if `deletionTimestamp` is empty"
    return [status.invalid_value("status.Phase", phase, message)]


def _data_causes(document: Document) -> list[Cause]:
    causes = []
    texts, binaries = document.get("data") or {}, document.get("binaryData") or {}
    for part, values in (("data", texts), ("binaryData", binaries)):
        causes += [
            status.invalid_value(f"{part}[{key}]", key, _KEY_RULE)
            for key in values
            if not _KEY.fullmatch(key) or key in (".", "..")
        ]
    causes += [
        status.invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
        for key in texts
        if key in binaries
    ]
    if sum(len(str(v)) for v in (*texts.values(), *binaries.values())) > _DATA_LIMIT:
        causes.append(
            Cause(
                field="",
                reason=status.TOO_LONG,
                message=f"Too long: may not be more than {_DATA_LIMIT} bytes",
            )
        )
    return causes


def _immutable_causes(document: Document, old: Document | None, parts: Sequence[str]) -> list[Cause]:
    """Return the faults for changes that ``immutable: true`` forbids."""
    if old is None or not old.get("immutable"):
        return []
    causes = []
    if not document.get("immutable"):
        causes.append(status.forbidden_field("immutable", "field is immutable when `immutable` is set"))
    causes += [
        status.forbidden_field(part, "field is immutable when `immutable` is set")
        for part in parts
        if (document.get(part) or {}) != (old.get(part) or {})
    ]
    return causes


class ConfigMap(Kind):
    def validate(self, document: Document, old: Document | None, request: WriteRequest) -> Sequence[Cause]:
        return [*_data_causes(document), *_immutable_causes(document, old, ("data", "binaryData"))]


_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


class Secret(Kind):
    def default(self, document: Document) -> None:
        if plain := document.pop("stringData", None):
            data = document.get("data") or {}
            encoded = {key: base64.b64encode(str(text).encode()).decode() for key, text in plain.items()}
            document["data"] = {**data, **encoded}
        document.setdefault("type", OPAQUE)

    def validate(self, document: Document, old: Document | None, request: WriteRequest) -> Sequence[Cause]:
        causes = _data_causes(document)
        for key, value in (document.get("data") or {}).items():
            try:
                base64.b64decode(str(value), validate=True)
            except (binascii.Error, ValueError):
                causes.append(status.invalid_value(f"data[{key}]", "<redacted>", "must be base64"))
        causes += [
            status.required(f"data[{key}]")
            for key in _NEEDED.get(document.get("type", ""), ())
            if key not in (document.get("data") or {})
        ]
        annotations = document["metadata"].get("annotations") or {}
        if document.get("type") == ACCOUNT_TOKEN and not annotations.get(
            "kubernetes.io/service-account.name"
        ):
            causes.append(status.required("metadata.annotations[kubernetes.io/service-account.name]"))
        causes += _immutable_causes(document, old, ("data",))
        if old is not None and document.get("type") != old.get("type"):
            causes.append(status.invalid_value("type", document.get("type"), "field is immutable"))
        return causes


class Event(Kind):
    allow_create_on_update = True

    def validate(self, document: Document, old: Document | None, request: WriteRequest) -> Sequence[Cause]:
        about = document.get("involvedObject") or document.get("regarding") or {}
        part = "involvedObject" if "regarding" not in document else "regarding"
        namespace = document["metadata"].get("namespace", "")
        wanted = about.get("namespace") or "default"
        if namespace not in (wanted, "kube-system") or (
            not about.get("namespace") and namespace not in ("default", "kube-system", "")
        ):
            return [
                status.invalid_value(
                    f"{part}.namespace", about.get("namespace", ""), "does not match event.namespace"
                )
            ]
        return ()


class Lease(RequiresResourceVersion):
    allow_create_on_update = True

    def validate(self, document: Document, old: Document | None, request: WriteRequest) -> Sequence[Cause]:
        spec: dict[str, Any] = document.get("spec") or {}
        causes = []
        seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if isinstance(seconds, int) and seconds <= 0:
            causes.append(
                status.invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0")
            )
        if isinstance(transitions, int) and transitions < 0:
            causes.append(
                status.invalid_value(
                    "spec.leaseTransitions", transitions, "must be greater than or equal to 0"
                )
            )
        return causes


class Node(Kind):
    def validate(self, document: Document, old: Document | None, request: WriteRequest) -> Sequence[Cause]:
        spec, before = document.get("spec") or {}, (old or {}).get("spec") or {}
        causes = []
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            causes.append(
                status.forbidden_field(
                    "spec.providerID", 'node updates may not change providerID except from "" to valid'
                )
            )
        keys: set[tuple[object, object]] = set()
        for index, taint in enumerate(spec.get("taints") or ()):
            key = (taint.get("key"), taint.get("effect"))
            if key in keys:
                causes.append(status.duplicate(f"spec.taints[{index}]", taint))
            keys.add(key)
        return causes


class LimitRange(Kind):
    """Stored and defaulted; not enforced, because the hub runs no workloads."""

    allow_create_on_update = True

    def default(self, document: Document) -> None:
        for limit in (document.get("spec") or {}).get("limits") or ():
            if limit.get("type") != "Container":
                continue
            ceiling, floor = limit.get("max") or {}, limit.get("min") or {}
            if limits := {**ceiling, **(limit.get("default") or {})}:
                limit["default"] = limits
            if requests := {**floor, **limits, **(limit.get("defaultRequest") or {})}:
                limit["defaultRequest"] = requests
