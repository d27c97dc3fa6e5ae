"""Pods, and the pod templates inside workloads: the defaults a scheduler and kubectl rely on."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from fairway.api.quantity import Quantity
from fairway.hub import naming, status
from fairway.hub.kinds import Kind
from fairway.hub.kinds.priorities import Priorities
from fairway.hub.requests import Request
from fairway.hub.resource import Document
from fairway.hub.status import Cause

GRACE: Final = 30
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


def _containers(spec: Document) -> Iterator[Document]:
    for part in ("initContainers", "containers", "ephemeralContainers"):
        yield from (c for c in spec.get(part) or () if isinstance(c, dict))


def default_pod_spec(spec: Document) -> None:
    """The defaults Kubernetes writes into every pod specification, templates included."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("terminationGracePeriodSeconds", GRACE)
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    if account := spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", account)
    for container in _containers(spec):
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        image = str(container.get("image", ""))
        tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
        latest = "@" not in image and tag in ("", "latest")
        container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
        container.setdefault("resources", {})
        for port in container.get("ports") or ():
            port.setdefault("protocol", "TCP")
        for name in ("livenessProbe", "readinessProbe", "startupProbe"):
            if isinstance(probe := container.get(name), dict):
                _default_probe(probe)
        for variable in container.get("env") or ():
            if isinstance(field := (variable.get("valueFrom") or {}).get("fieldRef"), dict):
                field.setdefault("apiVersion", "v1")
    for volume in spec.get("volumes") or ():
        for source in ("configMap", "secret", "downwardAPI", "projected"):
            if isinstance(volume.get(source), dict):
                volume[source].setdefault("defaultMode", 0o644)


def _default_probe(probe: Document) -> None:
    for key, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        probe.setdefault(key, value)
    if isinstance(call := probe.get("httpGet"), dict):
        call.setdefault("path", "/")
        call.setdefault("scheme", "HTTP")


def quality(spec: Document) -> str:
    """The quality-of-service class of a pod."""
    every = list(_containers(spec))
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


def pod_spec_causes(spec: Document, path: str) -> Iterator[Cause]:
    if not spec.get("containers"):
        yield status.required(f"{path}.containers")
    for part in ("containers", "initContainers"):
        names: list[str] = []
        for index, container in enumerate(spec.get(part) or ()):
            place, name = f"{path}.{part}[{index}]", container.get("name") or ""
            if not name:
                yield status.required(f"{place}.name")
            elif name in names:
                yield status.duplicate(f"{place}.name", name)
            else:
                yield from (status.invalid_value(f"{place}.name", name, f) for f in naming.label(name))
            names.append(name)
            if not container.get("image"):
                yield status.required(f"{place}.image")


class Pod(Kind):
    generation = True
    presence = False
    returned = True

    def __init__(self, priorities: Priorities) -> None:
        self._priorities = priorities

    def default(self, document: Document) -> None:
        spec = document.setdefault("spec", {})
        default_pod_spec(spec)
        for container in _containers(spec):
            resources = container["resources"]
            for name, amount in (resources.get("limits") or {}).items():
                resources.setdefault("requests", {}).setdefault(name, amount)
        spec.setdefault("enableServiceLinks", True)

    def prepare(self, document: Document, old: Document | None, request: Request) -> None:
        spec = document.setdefault("spec", {})
        if old is not None:
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

    def check(self, document: Document, old: Document | None, request: Request) -> Sequence[Cause]:
        spec = document.get("spec") or {}
        causes = list(pod_spec_causes(spec, "spec"))
        changed = old is not None and _fixed(spec) != _fixed(old.get("spec") or {})
        if changed and not request.subresource:
            causes.append(
                status.forbidden_field("spec", f"pod updates may not change fields other than {_MUTABLE}\n")
            )
        return causes

    def grace(self, document: Document, asked: int | None) -> int:
        if not (document.get("spec") or {}).get("nodeName"):
            return 0
        if (document.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
            return 0
        if asked is None:
            asked = document["spec"].get("terminationGracePeriodSeconds", GRACE)
        return max(int(asked or 0), 0)


def _fixed(spec: Document) -> Document:
    """What may not change, once a pod exists."""
    fixed = {k: v for k, v in spec.items() if k not in _CHANGEABLE}
    for part in ("containers", "initContainers"):
        if part in fixed:
            fixed[part] = [{k: v for k, v in c.items() if k != "image"} for c in fixed[part]]
    return fixed


class Workload(Kind):
    """Deployments, sets and jobs: stored and defaulted; no controller of the hub acts on them."""

    generation = True
    presence = False

    initial: ClassVar[Document] = {}
    """The status of a new one."""

    def default(self, document: Document) -> None:
        spec = document.setdefault("spec", {})
        template = (spec.get("template") or {}).get("spec")
        if isinstance(template, dict):
            default_pod_spec(template)

    def prepare(self, document: Document, old: Document | None, request: Request) -> None:
        if old is None:
            document["status"] = dict(self.initial)

    def check(self, document: Document, old: Document | None, request: Request) -> Sequence[Cause]:
        spec = document.get("spec") or {}
        template = spec.get("template") or {}
        causes = []
        if not spec.get("selector"):
            causes.append(status.required("spec.selector"))
        selector = (spec.get("selector") or {}).get("matchLabels") or {}
        labels = (template.get("metadata") or {}).get("labels")
        if not spec.get("selector") or any((labels or {}).get(k) != v for k, v in selector.items()):
            causes.append(
                status.invalid_value(
                    "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
                )
            )
        causes += pod_spec_causes(template.get("spec") or {}, "spec.template.spec")
        if old is not None and (old.get("spec") or {}).get("selector") != spec.get("selector"):
            causes.append(status.invalid_value("spec.selector", spec.get("selector"), "field is immutable"))
        replicas = spec.get("replicas")
        if isinstance(replicas, int) and replicas < 0:
            causes.append(
                status.invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
            )
        return causes


class Deployment(Workload):
    annotated = True

    def default(self, document: Document) -> None:
        super().default(document)
        spec = document["spec"]
        spec.setdefault("replicas", 1)
        strategy = spec.setdefault("strategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)


class Replicated(Workload):
    initial: ClassVar[Document] = {"replicas": 0}

    def default(self, document: Document) -> None:
        super().default(document)
        document["spec"].setdefault("replicas", 1)


class DaemonSet(Workload):
    initial: ClassVar[Document] = {
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    }

    def default(self, document: Document) -> None:
        super().default(document)
        spec = document["spec"]
        strategy = spec.setdefault("updateStrategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            strategy.setdefault("rollingUpdate", {"maxUnavailable": 1, "maxSurge": 0})
        spec.setdefault("revisionHistoryLimit", 10)


class Job(Workload):
    def default(self, document: Document) -> None:
        super().default(document)
        spec = document["spec"]
        for key, value in (("parallelism", 1), ("completions", 1), ("backoffLimit", 6)):
            spec.setdefault(key, value)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")

    def prepare(self, document: Document, old: Document | None, request: Request) -> None:
        super().prepare(document, old, request)
        spec = document["spec"]
        if old is None and not spec.get("manualSelector"):
            uid = document["metadata"]["uid"]
            name = document["metadata"].get("name", "")
            labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
            for prefix in ("", "batch.kubernetes.io/"):
                labels.setdefault(f"{prefix}controller-uid", uid)
                labels.setdefault(f"{prefix}job-name", name)
            spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


class Service(Kind):
    """Stored and defaulted; no address is assigned, because nothing here would route to it."""

    def default(self, document: Document) -> None:
        spec = document.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if "port" in port:
                port.setdefault("targetPort", port["port"])

    def prepare(self, document: Document, old: Document | None, request: Request) -> None:
        if old is None:
            document["status"] = {"loadBalancer": {}}


class Budget(Kind):
    generation = True

    def prepare(self, document: Document, old: Document | None, request: Request) -> None:
        if old is None:
            document["status"] = {
                "currentHealthy": 0,
                "desiredHealthy": 0,
                "disruptionsAllowed": 0,
                "expectedPods": 0,
            }


class Generational(Kind):
    generation = True
