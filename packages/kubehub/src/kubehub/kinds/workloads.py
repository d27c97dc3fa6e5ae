"""Deployments, sets and jobs: stored and defaulted; no controller of the hub acts on them."""

from collections.abc import Sequence
from typing import ClassVar, Final

from kubehub import status
from kubehub.kind import Kind, RequiresResourceVersion
from kubehub.kinds.templates import default_template, pod_spec_causes
from kubehub.resource import Document
from kubehub.status import Cause
from kubehub.write_request import WriteRequest

_HISTORY: Final = 10
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


class Workload(Kind):
    has_generation = True
    required_fields_non_empty = False

    initial: ClassVar[Document] = {}
    """The status of a new object."""

    def default(self, document: Document) -> None:
        default_template(document.setdefault("spec", {}).get("template"))

    def prepare(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        if old is None:
            document["status"] = dict(self.initial)

    def validate(self, document: Document, old: Document | None, request: WriteRequest) -> Sequence[Cause]:
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
    annotations_bump_generation = True

    def default(self, document: Document) -> None:
        super().default(document)
        spec = document["spec"]
        spec.setdefault("replicas", 1)
        strategy = spec.setdefault("strategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", _HISTORY)
        spec.setdefault("progressDeadlineSeconds", 600)


class ReplicaSet(Workload):
    initial: ClassVar[Document] = {"replicas": 0}

    def default(self, document: Document) -> None:
        super().default(document)
        document["spec"].setdefault("replicas", 1)


class ReplicationController(ReplicaSet):
    def default(self, document: Document) -> None:
        super().default(document)
        spec = document["spec"]
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        if labels:
            _set_default(spec, "selector", labels)
            _set_default(document.setdefault("metadata", {}), "labels", labels)


class StatefulSet(ReplicaSet):
    def default(self, document: Document) -> None:
        super().default(document)
        spec = document["spec"]
        spec.setdefault("podManagementPolicy", "OrderedReady")
        strategy = spec.setdefault("updateStrategy", {})
        if (strategy.get("type") or "RollingUpdate") == "RollingUpdate":
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
        kept = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        kept.setdefault("whenDeleted", "Retain")
        kept.setdefault("whenScaled", "Retain")
        spec.setdefault("revisionHistoryLimit", _HISTORY)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("kind", "PersistentVolumeClaim")
            claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
            _set_default(claim, "status", {"phase": "Pending"})


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
        spec.setdefault("revisionHistoryLimit", _HISTORY)
        _set_default(document.setdefault("metadata", {}), "annotations", {})
        document["metadata"]["annotations"].setdefault(_TEMPLATE_GENERATION, "1")

    def prepare(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        super().prepare(document, old, request)
        if old is None:
            document["metadata"]["annotations"][_TEMPLATE_GENERATION] = "1"
            return
        counted = int((old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "0"))
        changed = document["spec"].get("template") != (old.get("spec") or {}).get("template")
        _set_default(document["metadata"], "annotations", {})
        document["metadata"]["annotations"][_TEMPLATE_GENERATION] = str(counted + changed)


class Job(Workload):
    def default(self, document: Document) -> None:
        super().default(document)
        spec = document["spec"]
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("manualSelector", False)
        spec.setdefault(
            "podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
        )
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        if labels:
            _set_default(document.setdefault("metadata", {}), "labels", labels)

    def prepare(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        super().prepare(document, old, request)
        spec, metadata = document["spec"], document["metadata"]
        if old is not None or spec.get("manualSelector"):
            return
        template = spec.setdefault("template", {}).setdefault("metadata", {})
        # A job without labels gets those of its pods, including the generated ones.
        own = not metadata.get("labels") or metadata["labels"] == template.get("labels")
        labels = template.setdefault("labels", {})
        for prefix in ("", "batch.kubernetes.io/"):
            labels.setdefault(f"{prefix}controller-uid", metadata["uid"])
            labels.setdefault(f"{prefix}job-name", metadata.get("name", ""))
        if own:
            metadata["labels"] = dict(labels)
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": metadata["uid"]}}


class CronJob(Kind):
    has_generation = True

    def default(self, document: Document) -> None:
        spec = document.setdefault("spec", {})
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        job = (spec.get("jobTemplate") or {}).get("spec")
        default_template((job or {}).get("template"))


class PodTemplate(Kind):
    has_generation = True

    def default(self, document: Document) -> None:
        default_template(document.get("template"))


class PodDisruptionBudget(RequiresResourceVersion):
    has_generation = True

    def prepare(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        if old is None:
            document["status"] = {
                "currentHealthy": 0,
                "desiredHealthy": 0,
                "disruptionsAllowed": 0,
                "expectedPods": 0,
            }


class Generational(Kind):
    has_generation = True


def _set_default(place: Document, key: str, value: Document) -> None:
    """Set a value where there is none, or an empty map."""
    if not place.get(key):
        place[key] = dict(value)
