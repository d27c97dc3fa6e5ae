"""Cells of nodes, namespaces, config maps, secrets, events, RBAC objects, quotas and policies."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from kubehub.printing.cells.parts import NONE, UNSET, Cell, at, field, optional_text, selector, size
from kubehub.resource import Document
from kubewire.api import age

_ROLE: Final = "node-role.kubernetes.io/"
_UNKNOWN: Final = "<unknown>"

# Nodes


def _node_status(document: Document, _: datetime) -> str:
    state = next(
        (
            "Ready" if c.get("status") == "True" else "NotReady"
            for c in at(document, "status", "conditions") or ()
            if c.get("type") == "Ready"
        ),
        "Unknown",
    )
    return f"{state},SchedulingDisabled" if at(document, "spec", "unschedulable") else state


def _node_roles(document: Document, _: datetime) -> str:
    roles = set()
    for key, value in (at(document, "metadata", "labels") or {}).items():
        if key.startswith(_ROLE):
            roles.add(key.removeprefix(_ROLE))
        elif key == "kubernetes.io/role":
            roles.add(value)
    return ",".join(sorted(filter(None, roles))) or NONE


def _address(kind: str) -> Cell:
    return lambda document, _: next(
        (a.get("address", "") for a in at(document, "status", "addresses") or () if a.get("type") == kind),
        NONE,
    )


def _kernel(document: Document, _: datetime) -> str:
    info = at(document, "status", "nodeInfo") or {}
    version = info.get("kernelVersion") or _UNKNOWN
    return f"{version} ({info['architecture']})" if info.get("architecture") else version


# Events, of both groups


def _event_object(document: Document, _: datetime) -> str:
    about = document.get("involvedObject") or document.get("regarding") or {}
    kind, name = about.get("kind", "").lower(), about.get("name", "")
    return f"{kind}/{name}" if name else kind


def _event_source(document: Document, _: datetime) -> str:
    source = document.get("source") or document.get("deprecatedSource") or {}
    component = (
        source.get("component") or document.get("reportingComponent") or document.get("reportingController")
    )
    instance = source.get("host") or document.get("reportingInstance") or ""
    return f"{component or ''}, {instance}" if instance else component or ""


def _first_seen(document: Document, now: datetime) -> str:
    seen = document.get("firstTimestamp") or document.get("deprecatedFirstTimestamp")
    return age.since(seen or document.get("eventTime"), now=now)


def _last_seen(document: Document, now: datetime) -> str:
    seen = (
        at(document, "series", "lastObservedTime")
        or document.get("lastTimestamp")
        or document.get("deprecatedLastTimestamp")
    )
    return age.since(seen, now=now) if seen else _first_seen(document, now)


def _event_count(document: Document, _: datetime) -> int:
    counted = at(document, "series", "count") or document.get("count") or document.get("deprecatedCount")
    return int(counted or 1)


def _subobject(document: Document, _: datetime) -> str:
    return at(document, "involvedObject", "fieldPath") or at(document, "regarding", "fieldPath") or ""


def _message(document: Document, _: datetime) -> str:
    return str(document.get("message") or document.get("note") or "").strip()


# RBAC


def _role(document: Document, _: datetime) -> str:
    return f"{at(document, 'roleRef', 'kind') or ''}/{at(document, 'roleRef', 'name') or ''}"


def _subjects(kind: str) -> Cell:
    def cell(document: Document, _: datetime) -> str:
        texts = []
        for subject in document.get("subjects") or ():
            if subject.get("kind") == kind:
                namespace = subject.get("namespace") if kind == "ServiceAccount" else None
                texts.append(f"{namespace}/{subject['name']}" if namespace else subject.get("name", ""))
        return ", ".join(texts)

    return cell


def _request_condition(document: Document, _: datetime) -> str:
    conditions = [c.get("type") for c in at(document, "status", "conditions") or ()]
    state = "Denied" if "Denied" in conditions else "Approved" if "Approved" in conditions else "Pending"
    if "Failed" in conditions:
        state += ",Failed"
    return f"{state},Issued" if at(document, "status", "certificate") else state


def _requested_duration(document: Document, _: datetime) -> str:
    seconds = at(document, "spec", "expirationSeconds")
    return NONE if seconds is None else age.format_age(int(seconds))


# Quotas


def _quota(*, limits: bool) -> Cell:
    def cell(document: Document, _: datetime) -> str:
        hard, used = at(document, "status", "hard") or {}, at(document, "status", "used") or {}
        return ", ".join(
            f"{name}: {used.get(name, '0')}/{amount}"
            for name, amount in sorted(hard.items())
            if name.startswith("limits.") is limits
        )

    return cell


# API services


def _served_by(document: Document, _: datetime) -> str:
    service = at(document, "spec", "service")
    return f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"


def _available(document: Document, _: datetime) -> str:
    for condition in at(document, "status", "conditions") or ():
        if condition.get("type") == "Available":
            state = str(condition.get("status", ""))
            return state if state == "True" else f"{state} ({condition.get('reason', '')})"
    return "Unknown"


# Admission


def _param_kind(document: Document, _: datetime) -> str:
    kind = at(document, "spec", "paramKind")
    return UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def _param_ref(document: Document, now: datetime) -> str:
    reference = at(document, "spec", "paramRef") or {}
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    return str(_selected(document, now)) if reference.get("selector") is not None else UNSET


_selected: Final = selector("spec", "paramRef", "selector")

_BINDING: Final[Mapping[str, Cell]] = {
    "Role": _role,
    "Users": _subjects("User"),
    "Groups": _subjects("Group"),
    "ServiceAccounts": _subjects("ServiceAccount"),
}

KINDS: Final[Mapping[str, Mapping[str, Cell]]] = {
    "Node": {
        "Status": _node_status,
        "Roles": _node_roles,
        "Version": field("status", "nodeInfo", "kubeletVersion"),
        "Internal-IP": _address("InternalIP"),
        "External-IP": _address("ExternalIP"),
        "OS-Image": optional_text("status", "nodeInfo", "osImage", missing=_UNKNOWN),
        "Kernel-Version": _kernel,
        "Container-Runtime": optional_text("status", "nodeInfo", "containerRuntimeVersion", missing=_UNKNOWN),
    },
    "Namespace": {"Status": field("status", "phase")},
    "ConfigMap": {"Data": lambda d, _: len(d.get("data") or ()) + len(d.get("binaryData") or ())},
    "Secret": {"Type": field("type"), "Data": size("data")},
    "Event": {
        "Last Seen": _last_seen,
        "Type": field("type"),
        "Reason": field("reason"),
        "Object": _event_object,
        "Subobject": _subobject,
        "Source": _event_source,
        "Message": _message,
        "First Seen": _first_seen,
        "Count": _event_count,
    },
    "Lease": {"Holder": field("spec", "holderIdentity")},
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "CertificateSigningRequest": {
        "SignerName": optional_text("spec", "signerName"),
        "Requestor": field("spec", "username"),
        "RequestedDuration": _requested_duration,
        "Condition": _request_condition,
    },
    "PriorityClass": {
        "Value": field("value", missing=0),
        "Global-Default": lambda d, _: bool(d.get("globalDefault")),
        "PreemptionPolicy": field("preemptionPolicy"),
    },
    "RuntimeClass": {"Handler": field("handler")},
    "ResourceQuota": {"Request": _quota(limits=False), "Limit": _quota(limits=True)},
    "ValidatingAdmissionPolicy": {"Validations": size("spec", "validations"), "ParamKind": _param_kind},
    "ValidatingAdmissionPolicyBinding": {"PolicyName": field("spec", "policyName"), "ParamRef": _param_ref},
    "APIService": {"Service": _served_by, "Available": _available},
}
