"""Pods: defaults that a scheduler and kubectl rely on, immutable fields, and the grace period."""

from collections.abc import Sequence
from typing import Any, Final

from kubehub import status
from kubehub.kind import Kind
from kubehub.kinds.priorities import Priorities
from kubehub.kinds.templates import GRACE, containers, default_pod_spec, pod_spec_causes
from kubehub.resource import Document
from kubehub.status import Cause
from kubehub.write_request import WriteRequest
from kubewire.api.quantity import Quantity

GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_MUTABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_CHANGEABLE: Final = (
    "activeDeadlineSeconds",
    "tolerations",
    "terminationGracePeriodSeconds",
    "schedulingGates",
)


def quality(spec: Document) -> str:
    """Return the quality-of-service class of a pod."""
    every = list(containers(spec))
    amounts = [
        ((c.get("resources") or {}).get("requests") or {}, (c.get("resources") or {}).get("limits") or {})
        for c in every
    ]
    if not any(part.get(n) for pair in amounts for part in pair for n in ("cpu", "memory")):
        return "BestEffort"
    for requests, limits in amounts:
        for name in ("cpu", "memory"):
            if not limits.get(name) or _amount(requests.get(name)) != _amount(limits[name]):
                return "Burstable"
    return "Guaranteed"


def _amount(value: Any) -> object:
    try:
        return Quantity.parse(str(value))
    except ValueError:
        return value


def _keep_owners(document: Document, old: Document) -> None:
    """A status update must not change owner references, or it could have the pod garbage-collected."""
    owners = old["metadata"].get("ownerReferences")
    if owners is None:
        document["metadata"].pop("ownerReferences", None)
    else:
        document["metadata"]["ownerReferences"] = owners


class Pod(Kind):
    has_generation = True
    required_fields_non_empty = False
    return_deleted_object = True

    def __init__(self, priorities: Priorities) -> None:
        self._priorities = priorities

    def default(self, document: Document) -> None:
        spec = document.setdefault("spec", {})
        default_pod_spec(spec)
        for container in containers(spec):
            resources = container["resources"]
            for name, amount in (resources.get("limits") or {}).items():
                resources.setdefault("requests", {}).setdefault(name, amount)
        spec.setdefault("enableServiceLinks", True)

    def prepare(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        spec = document.setdefault("spec", {})
        if old is not None:
            if request.subresource == "status":
                _keep_owners(document, old)
            return
        self._priorities.admit(document)
        spec.setdefault("serviceAccountName", "default")
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
        present = {t.get("key") for t in spec.get("tolerations") or ()}
        for key in _TOLERATED:
            if key not in present:
                spec.setdefault("tolerations", []).append(
                    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
                )
        document["status"] = {"phase": "Pending", "qosClass": quality(spec)}
        if spec.get("schedulingGates"):
            document["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": GATED,
                    "lastProbeTime": None,
                    "lastTransitionTime": document["metadata"]["creationTimestamp"],
                }
            ]

    def validate(self, document: Document, old: Document | None, request: WriteRequest) -> Sequence[Cause]:
        spec = document.get("spec") or {}
        causes = list(pod_spec_causes(spec, "spec"))
        changed = old is not None and _immutable_causes(spec) != _immutable_causes(old.get("spec") or {})
        if changed and not request.subresource:
            causes.append(
                status.forbidden_field("spec", f"pod updates may not change fields other than {_MUTABLE}\n")
            )
        return causes

    def grace_seconds(self, document: Document, asked: int | None) -> int:
        if not (document.get("spec") or {}).get("nodeName"):
            return 0
        if (document.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
            return 0
        if asked is None:
            asked = document["spec"].get("terminationGracePeriodSeconds", GRACE)
        return max(int(asked or 0), 0)


def _immutable_causes(spec: Document) -> Document:
    """Return the faults for changes of immutable fields."""
    fixed = {k: v for k, v in spec.items() if k not in _CHANGEABLE}
    for part in ("containers", "initContainers"):
        if part in fixed:
            fixed[part] = [{k: v for k, v in c.items() if k != "image"} for c in fixed[part]]
    return fixed
