"""The cells of built-in kinds in printed tables, by kind and column name."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from fairway.hub import age
from fairway.hub.resource import Document

Cell = Callable[[Document, datetime], Any]

NONE: Final = "<none>"


def _at(document: Document, *path: str) -> Any:
    value: Any = document
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _field(*path: str, missing: Any = "") -> Cell:
    def cell(document: Document, _: datetime) -> Any:
        value = _at(document, *path)
        return missing if value is None else value

    return cell


def _size(*path: str) -> Cell:
    return lambda document, _: len(_at(document, *path) or ())


def _since(*path: str) -> Cell:
    return lambda document, now: age.since(_at(document, *path), now=now)


def _labels(*path: str) -> Cell:
    def cell(document: Document, _: datetime) -> str:
        labels = _at(document, *path) or {}
        return ",".join(f"{k}={v}" for k, v in sorted(labels.items())) or NONE

    return cell


def _selector(*path: str) -> Cell:
    def cell(document: Document, _: datetime) -> str:
        selector = _at(document, *path) or {}
        parts = [f"{k}={v}" for k, v in sorted((selector.get("matchLabels") or {}).items())]
        for each in selector.get("matchExpressions") or ():
            values = ",".join(sorted(each.get("values") or ()))
            parts.append(
                {
                    "Exists": each.get("key", ""),
                    "DoesNotExist": f"!{each.get('key', '')}",
                    "In": f"{each.get('key', '')} in ({values})",
                    "NotIn": f"{each.get('key', '')} notin ({values})",
                }.get(each.get("operator", ""), "")
            )
        return ",".join(parts) or NONE

    return cell


def _containers(*path: str) -> Mapping[str, Cell]:
    def listed(document: Document, key: str) -> str:
        return ",".join(str(c.get(key, "")) for c in _at(document, *path, "containers") or ())

    return {
        "Containers": lambda document, _: listed(document, "name"),
        "Images": lambda document, _: listed(document, "image"),
    }


# Pods


def _pod_status(document: Document, _: datetime) -> str:
    told = _at(document, "status", "reason") or _at(document, "status", "phase") or ""
    for each in _at(document, "status", "containerStatuses") or ():
        waiting, ended = _at(each, "state", "waiting"), _at(each, "state", "terminated")
        told = _at(waiting or {}, "reason") or _at(ended or {}, "reason") or told
        if ended is not None and not _at(ended, "reason"):
            told = (
                f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"
            )
    if _at(document, "metadata", "deletionTimestamp"):
        return "Unknown" if told == "NodeLost" else "Terminating"
    return str(told)


def _pod_ready(document: Document, _: datetime) -> str:
    statuses = _at(document, "status", "containerStatuses") or ()
    ready = sum(bool(s.get("ready")) for s in statuses)
    return f"{ready}/{len(_at(document, 'spec', 'containers') or ())}"


def _pod_restarts(document: Document, _: datetime) -> str:
    return str(sum(s.get("restartCount", 0) for s in _at(document, "status", "containerStatuses") or ()))


def _readiness_gates(document: Document, _: datetime) -> str:
    gates = _at(document, "spec", "readinessGates") or ()
    if not gates:
        return NONE
    true = {c["type"] for c in _at(document, "status", "conditions") or () if c.get("status") == "True"}
    return f"{sum(g.get('conditionType') in true for g in gates)}/{len(gates)}"


# Nodes


def _node_status(document: Document, _: datetime) -> str:
    told = next(
        (
            "Ready" if c.get("status") == "True" else "NotReady"
            for c in _at(document, "status", "conditions") or ()
            if c.get("type") == "Ready"
        ),
        "Unknown",
    )
    return f"{told},SchedulingDisabled" if _at(document, "spec", "unschedulable") else told


def _node_roles(document: Document, _: datetime) -> str:
    roles = set()
    for key, value in (_at(document, "metadata", "labels") or {}).items():
        if key.startswith("node-role.kubernetes.io/"):
            roles.add(key.removeprefix("node-role.kubernetes.io/"))
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    return ",".join(sorted(r for r in roles if r)) or NONE


def _address(kind: str) -> Cell:
    return lambda document, _: next(
        (a.get("address", "") for a in _at(document, "status", "addresses") or () if a.get("type") == kind),
        NONE,
    )


# Events


def _event_object(document: Document, _: datetime) -> str:
    about = document.get("involvedObject") or document.get("regarding") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_source(document: Document, _: datetime) -> str:
    source = document.get("source") or document.get("deprecatedSource") or {}
    component = (
        source.get("component") or document.get("reportingComponent") or document.get("reportingController")
    )
    host = source.get("host") or ""
    return f"{component or ''}, {host}" if host else str(component or "")


def _last_seen(document: Document, now: datetime) -> str:
    seen = (
        _at(document, "series", "lastObservedTime")
        or document.get("lastTimestamp")
        or document.get("deprecatedLastTimestamp")
        or document.get("eventTime")
    )
    return age.since(seen, now=now)


def _first_seen(document: Document, now: datetime) -> str:
    seen = (
        document.get("firstTimestamp")
        or document.get("deprecatedFirstTimestamp")
        or document.get("eventTime")
    )
    return age.since(seen, now=now)


def _event_count(document: Document, _: datetime) -> int:
    counted = (
        _at(document, "series", "count") or document.get("count") or document.get("deprecatedCount") or 1
    )
    return int(counted)


# Access


def _role(document: Document, _: datetime) -> str:
    return f"{_at(document, 'roleRef', 'kind') or ''}/{_at(document, 'roleRef', 'name') or ''}"


def _subjects(kind: str) -> Cell:
    def cell(document: Document, _: datetime) -> str:
        told = []
        for subject in document.get("subjects") or ():
            if subject.get("kind") == kind:
                namespace = subject.get("namespace") if kind == "ServiceAccount" else None
                told.append(f"{namespace}/{subject['name']}" if namespace else subject.get("name", ""))
        return ", ".join(told)

    return cell


def _request_condition(document: Document, _: datetime) -> str:
    conditions = [c.get("type") for c in _at(document, "status", "conditions") or ()]
    told = "Denied" if "Denied" in conditions else "Approved" if "Approved" in conditions else "Pending"
    if "Failed" in conditions:
        told += ",Failed"
    return f"{told},Issued" if _at(document, "status", "certificate") else told


def _requested_duration(document: Document, _: datetime) -> str:
    seconds = _at(document, "spec", "expirationSeconds")
    return NONE if seconds is None else age.spoken(int(seconds))


# Workloads


def _ready_of(*path: str) -> Cell:
    def cell(document: Document, _: datetime) -> str:
        ready = _at(document, "status", "readyReplicas") or 0
        return f"{ready}/{_at(document, *path) or 0}"

    return cell


def _job_status(document: Document, _: datetime) -> str:
    true = {c.get("type") for c in _at(document, "status", "conditions") or () if c.get("status") == "True"}
    for told in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if told in true:
            return told
    return "Terminating" if _at(document, "metadata", "deletionTimestamp") else "Running"


def _completions(document: Document, _: datetime) -> str:
    wanted = _at(document, "spec", "completions")
    done = _at(document, "status", "succeeded") or 0
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = _at(document, "spec", "parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(document: Document, now: datetime) -> str:
    start = age.instant(_at(document, "status", "startTime"))
    end = age.instant(_at(document, "status", "completionTime"))
    return "" if start is None else age.spoken(int(((end or now) - start).total_seconds()))


def _ports(document: Document, _: datetime) -> str:
    told = []
    for port in _at(document, "spec", "ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        told.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(told) or NONE


def _external(document: Document, _: datetime) -> str:
    ingress = [
        i.get("ip") or i.get("hostname") for i in _at(document, "status", "loadBalancer", "ingress") or ()
    ]
    addresses = [*ingress, *(_at(document, "spec", "externalIPs") or ())]
    return ",".join(str(a) for a in addresses if a) or NONE


def _budget(key: str) -> Cell:
    def cell(document: Document, _: datetime) -> str:
        value = _at(document, "spec", key)
        return "N/A" if value is None else str(value)

    return cell


_AGE: Final[Mapping[str, Cell]] = {
    "Name": _field("metadata", "name"),
    "Age": _since("metadata", "creationTimestamp"),
    "Created At": _field("metadata", "creationTimestamp"),
}
_BINDING: Final[Mapping[str, Cell]] = {
    "Role": _role,
    "Users": _subjects("User"),
    "Groups": _subjects("Group"),
    "ServiceAccounts": _subjects("ServiceAccount"),
}
_EVENT: Final[Mapping[str, Cell]] = {
    "Last Seen": _last_seen,
    "Type": _field("type"),
    "Reason": _field("reason"),
    "Object": _event_object,
    "Subobject": lambda d, _: str(
        _at(d, "involvedObject", "fieldPath") or _at(d, "regarding", "fieldPath") or ""
    ),
    "Source": _event_source,
    "Message": lambda d, _: str(d.get("message") or d.get("note") or "").strip(),
    "First Seen": _first_seen,
    "Count": _event_count,
}

_BY_KIND: Final[Mapping[str, Mapping[str, Cell]]] = {
    "Pod": {
        "Ready": _pod_ready,
        "Status": _pod_status,
        "Restarts": _pod_restarts,
        "IP": _field("status", "podIP", missing=NONE),
        "Node": lambda d, _: _at(d, "spec", "nodeName") or NONE,
        "Nominated Node": lambda d, _: _at(d, "status", "nominatedNodeName") or NONE,
        "Readiness Gates": _readiness_gates,
    },
    "Node": {
        "Status": _node_status,
        "Roles": _node_roles,
        "Version": _field("status", "nodeInfo", "kubeletVersion"),
        "Internal-IP": _address("InternalIP"),
        "External-IP": _address("ExternalIP"),
        "OS-Image": lambda d, _: _at(d, "status", "nodeInfo", "osImage") or "<unknown>",
        "Kernel-Version": lambda d, _: _at(d, "status", "nodeInfo", "kernelVersion") or "<unknown>",
        "Container-Runtime": lambda d, _: (
            _at(d, "status", "nodeInfo", "containerRuntimeVersion") or "<unknown>"
        ),
    },
    "Namespace": {"Status": _field("status", "phase")},
    "ConfigMap": {"Data": lambda d, _: len(d.get("data") or ()) + len(d.get("binaryData") or ())},
    "Secret": {"Type": _field("type"), "Data": _size("data")},
    "ServiceAccount": {"Secrets": _size("secrets")},
    "Event": _EVENT,
    "Lease": {"Holder": _field("spec", "holderIdentity")},
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "CertificateSigningRequest": {
        "SignerName": _field("spec", "signerName"),
        "Requestor": _field("spec", "username"),
        "RequestedDuration": _requested_duration,
        "Condition": _request_condition,
    },
    "Deployment": {
        "Ready": _ready_of("spec", "replicas"),
        "Up-to-date": _field("status", "updatedReplicas", missing=0),
        "Available": _field("status", "availableReplicas", missing=0),
        **_containers("spec", "template", "spec"),
        "Selector": _selector("spec", "selector"),
    },
    "ReplicaSet": {
        "Desired": _field("spec", "replicas", missing=0),
        "Current": _field("status", "replicas", missing=0),
        "Ready": _field("status", "readyReplicas", missing=0),
        **_containers("spec", "template", "spec"),
        "Selector": _selector("spec", "selector"),
    },
    "ReplicationController": {
        "Desired": _field("spec", "replicas", missing=0),
        "Current": _field("status", "replicas", missing=0),
        "Ready": _field("status", "readyReplicas", missing=0),
        **_containers("spec", "template", "spec"),
        "Selector": _labels("spec", "selector"),
    },
    "StatefulSet": {"Ready": _ready_of("spec", "replicas"), **_containers("spec", "template", "spec")},
    "DaemonSet": {
        "Desired": _field("status", "desiredNumberScheduled", missing=0),
        "Current": _field("status", "currentNumberScheduled", missing=0),
        "Ready": _field("status", "numberReady", missing=0),
        "Up-to-date": _field("status", "updatedNumberScheduled", missing=0),
        "Available": _field("status", "numberAvailable", missing=0),
        "Node Selector": _labels("spec", "template", "spec", "nodeSelector"),
        **_containers("spec", "template", "spec"),
        "Selector": _selector("spec", "selector"),
    },
    "Job": {
        "Status": _job_status,
        "Completions": _completions,
        "Duration": _job_duration,
        **_containers("spec", "template", "spec"),
        "Selector": _selector("spec", "selector"),
    },
    "CronJob": {
        "Schedule": _field("spec", "schedule"),
        "Timezone": _field("spec", "timeZone", missing=NONE),
        "Suspend": lambda d, _: "True" if _at(d, "spec", "suspend") else "False",
        "Active": _size("status", "active"),
        "Last Schedule": lambda d, now: (
            age.since(_at(d, "status", "lastScheduleTime"), now=now)
            if _at(d, "status", "lastScheduleTime")
            else NONE
        ),
        **_containers("spec", "jobTemplate", "spec", "template", "spec"),
        "Selector": _selector("spec", "jobTemplate", "spec", "selector"),
    },
    "Service": {
        "Type": _field("spec", "type"),
        "Cluster-IP": lambda d, _: _at(d, "spec", "clusterIP") or NONE,
        "External-IP": _external,
        "Port(s)": _ports,
        "Selector": _labels("spec", "selector"),
    },
    "PriorityClass": {
        "Value": _field("value", missing=0),
        "Global-Default": lambda d, _: bool(d.get("globalDefault")),
        "PreemptionPolicy": _field("preemptionPolicy"),
    },
    "PodDisruptionBudget": {
        "Min Available": _budget("minAvailable"),
        "Max Unavailable": _budget("maxUnavailable"),
        "Allowed Disruptions": _field("status", "disruptionsAllowed", missing=0),
    },
    "PersistentVolumeClaim": {
        "Status": _field("status", "phase"),
        "Volume": _field("spec", "volumeName"),
        "Capacity": _field("status", "capacity", "storage"),
        "Access Modes": lambda d, _: ",".join(_at(d, "spec", "accessModes") or ()),
        "StorageClass": _field("spec", "storageClassName"),
        "VolumeAttributesClass": _field("spec", "volumeAttributesClassName", missing="<unset>"),
        "VolumeMode": _field("spec", "volumeMode", missing="<unset>"),
    },
    "StorageClass": {
        "Provisioner": _field("provisioner"),
        "ReclaimPolicy": _field("reclaimPolicy", missing="Delete"),
        "VolumeBindingMode": _field("volumeBindingMode", missing="<unset>"),
        "AllowVolumeExpansion": lambda d, _: bool(d.get("allowVolumeExpansion")),
    },
    "APIService": {
        "Service": lambda _, __: "Local",
        "Available": lambda d, _: next(
            (c.get("status") for c in _at(d, "status", "conditions") or () if c.get("type") == "Available"),
            "Unknown",
        ),
    },
    "Ingress": {
        "Class": _field("spec", "ingressClassName", missing=NONE),
        "Hosts": lambda d, _: ",".join(r.get("host") or "*" for r in _at(d, "spec", "rules") or ()) or "*",
        "Address": _external,
        "Ports": lambda d, _: "80, 443" if _at(d, "spec", "tls") else "80",
    },
    "NetworkPolicy": {"Pod-Selector": _selector("spec", "podSelector")},
    "RuntimeClass": {"Handler": _field("handler")},
}


def cell(kind: str, column: str) -> Cell:
    """A column the table doesn't know shows nothing."""
    return _BY_KIND.get(kind, {}).get(column) or _AGE.get(column) or (lambda _, __: "")
