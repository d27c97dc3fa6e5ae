"""Cells of deployments, sets, jobs and disruption budgets."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from kubehub.printing.cells.parts import NONE, Cell, at, containers, field, labels, selector, size
from kubehub.resource import Document
from kubewire.api import age
from kubewire.api.lease import parse_micro_time


def _ready_of(*path: str) -> Cell:
    def cell(document: Document, _: datetime) -> str:
        return f"{at(document, 'status', 'readyReplicas') or 0}/{at(document, *path) or 0}"

    return cell


def _job_status(document: Document, _: datetime) -> str:
    true = {c.get("type") for c in at(document, "status", "conditions") or () if c.get("status") == "True"}
    for state in ("Complete", "Failed"):
        if state in true:
            return state
    if at(document, "metadata", "deletionTimestamp"):
        return "Terminating"
    for state in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if state in true:
            return state
    return "Running"


def _completions(document: Document, _: datetime) -> str:
    wanted = at(document, "spec", "completions")
    done = at(document, "status", "succeeded") or 0
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = at(document, "spec", "parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(document: Document, now: datetime) -> str:
    start = parse_micro_time(at(document, "status", "startTime") or "")
    end = parse_micro_time(at(document, "status", "completionTime") or "")
    return "" if start is None else age.format_age(int(((end or now) - start).total_seconds()))


def _last_schedule(document: Document, now: datetime) -> str:
    last = at(document, "status", "lastScheduleTime")
    return age.since(last, now=now) if last else NONE


def _controller(document: Document, _: datetime) -> str:
    for owner in at(document, "metadata", "ownerReferences") or ():
        if owner.get("controller"):
            group = str(owner.get("apiVersion", "")).rpartition("/")[0]
            kind = f"{owner.get('kind', '')}.{group}" if group else str(owner.get("kind", ""))
            return f"{kind.lower()}/{owner.get('name', '')}"
    return NONE


def _budget(key: str) -> Cell:
    def cell(document: Document, _: datetime) -> str:
        value = at(document, "spec", key)
        return "N/A" if value is None else str(value)

    return cell


_TEMPLATE: Final = containers("spec", "template", "spec")
_REPLICAS: Final[Mapping[str, Cell]] = {
    "Desired": field("spec", "replicas", missing=0),
    "Current": field("status", "replicas", missing=0),
    "Ready": field("status", "readyReplicas", missing=0),
    **_TEMPLATE,
}

KINDS: Final[Mapping[str, Mapping[str, Cell]]] = {
    "Deployment": {
        "Ready": _ready_of("spec", "replicas"),
        "Up-to-date": field("status", "updatedReplicas", missing=0),
        "Available": field("status", "availableReplicas", missing=0),
        **_TEMPLATE,
        "Selector": selector("spec", "selector"),
    },
    "ReplicaSet": {**_REPLICAS, "Selector": selector("spec", "selector")},
    "ReplicationController": {**_REPLICAS, "Selector": labels("spec", "selector")},
    "StatefulSet": {"Ready": _ready_of("spec", "replicas"), **_TEMPLATE},
    "DaemonSet": {
        "Desired": field("status", "desiredNumberScheduled", missing=0),
        "Current": field("status", "currentNumberScheduled", missing=0),
        "Ready": field("status", "numberReady", missing=0),
        "Up-to-date": field("status", "updatedNumberScheduled", missing=0),
        "Available": field("status", "numberAvailable", missing=0),
        "Node Selector": labels("spec", "template", "spec", "nodeSelector"),
        **_TEMPLATE,
        "Selector": selector("spec", "selector"),
    },
    "ControllerRevision": {"Controller": _controller, "Revision": field("revision", missing=0)},
    "PodTemplate": {**containers("template", "spec"), "Pod Labels": labels("template", "metadata", "labels")},
    "Job": {
        "Status": _job_status,
        "Completions": _completions,
        "Duration": _job_duration,
        **_TEMPLATE,
        "Selector": selector("spec", "selector"),
    },
    "CronJob": {
        "Schedule": field("spec", "schedule"),
        "Timezone": field("spec", "timeZone", missing=NONE),
        "Suspend": lambda d, _: "True" if at(d, "spec", "suspend") else "False",
        "Active": size("status", "active"),
        "Last Schedule": _last_schedule,
        **containers("spec", "jobTemplate", "spec", "template", "spec"),
        "Selector": selector("spec", "jobTemplate", "spec", "selector"),
    },
    "PodDisruptionBudget": {
        "Min Available": _budget("minAvailable"),
        "Max Unavailable": _budget("maxUnavailable"),
        "Allowed Disruptions": field("status", "disruptionsAllowed", missing=0),
    },
}
