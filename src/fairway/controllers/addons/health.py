"""Availability of an add-on's agent, from the feedback on its Deployments and DaemonSets."""

from typing import Final

from fairway.api.cluster import CONDITION_AVAILABLE, ManagedCluster
from fairway.api.work import WORK_APPLIED, WORK_AVAILABLE, ManifestWork, ResourceIdentifier
from fairway.controllers.addons import conditions, names, works
from fairway.controllers.addons.rendering import Manifest
from kubewire.api.meta import FALSE, TRUE, UNKNOWN, Condition, find_condition

NO_READY_REPLICA: Final = "Deployment {name} has no ready replica of {wanted}"
NOT_ALL_READY: Final = "DaemonSet {name} is ready on {ready} of {wanted} nodes"
NO_VALUES: Final = "the work agent has not reported {resource} {name}"


def cluster_silent(cluster: ManagedCluster) -> Condition | None:
    """Reports of a silent cluster are outdated, so its add-ons are Unknown, too."""
    available = find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
    if available is None or available.status != UNKNOWN:
        return None
    return conditions.unknown(conditions.AVAILABLE, available.reason, available.message)


def available(add_on: str, work: ManifestWork | None) -> Condition:
    kind = conditions.AVAILABLE
    if work is None:
        message = conditions.WAITING_MESSAGE.format(work=names.deploy_work(add_on))
        return conditions.unknown(kind, conditions.WORK_NOT_APPLIED, message)
    condition = find_condition(work.status.conditions, WORK_AVAILABLE)
    if condition is None:
        message = conditions.WAITING_MESSAGE.format(work=work.metadata.name)
        return conditions.unknown(kind, conditions.WORK_NOT_APPLIED, message)
    if condition.status == FALSE:
        return conditions.no(kind, conditions.WORK_NOT_APPLIED, condition.message)
    probed = [
        identifier
        for manifest in work.spec.workload.manifests
        if (identifier := _probed(manifest)) is not None
    ]
    if not probed:
        return conditions.yes(kind, conditions.WORK_APPLIED, conditions.APPLIED_MESSAGE)
    if not any(works.values_of(work, identifier) for identifier in probed):
        return conditions.unknown(kind, conditions.NO_PROBE_RESULT, conditions.NO_PROBE_MESSAGE)
    faults = [fault for identifier in probed if (fault := _fault(work, identifier))]
    if faults:
        return conditions.no(kind, conditions.PROBE_UNAVAILABLE, "; ".join(faults))
    return conditions.yes(kind, conditions.PROBE_AVAILABLE, conditions.AVAILABLE_MESSAGE.format(name=add_on))


def manifests_applied(work: ManifestWork | None, add_on: str) -> Condition:
    kind = conditions.MANIFEST_APPLIED
    condition = None if work is None else find_condition(work.status.conditions, WORK_APPLIED)
    if work is None or condition is None or condition.observedGeneration < work.metadata.generation:
        message = conditions.WAITING_MESSAGE.format(work=names.deploy_work(add_on))
        return conditions.no(kind, conditions.WAITING, message)
    if condition.status == TRUE:
        return conditions.yes(kind, conditions.APPLIED, conditions.APPLIED_MESSAGE)
    return conditions.no(kind, conditions.NOT_APPLIED, _failures(work) or condition.message)


def label(available: Condition | None) -> str:
    """The value of the cluster's label."""
    if available is None or available.status not in (TRUE, FALSE):
        return names.UNREACHABLE
    return names.AVAILABLE if available.status == TRUE else names.UNHEALTHY


def _failures(work: ManifestWork) -> str:
    applied = (
        (manifest.resourceMeta, find_condition(manifest.conditions, WORK_APPLIED))
        for manifest in work.status.resourceStatus.manifests
    )
    return "; ".join(
        f"{meta.kind or meta.resource} {meta.name}: {condition.message}"
        for meta, condition in applied
        if condition is not None and condition.status == FALSE
    )


def _probed(manifest: Manifest) -> ResourceIdentifier | None:
    """A Deployment with zero replicas is no evidence of health."""
    identifier = works.identifier_of(manifest)
    if identifier is None or identifier.group != "apps":
        return None
    replicas = (manifest.get("spec") or {}).get("replicas")
    return None if identifier.resource == "deployments" and replicas == 0 else identifier


def _fault(work: ManifestWork, identifier: ResourceIdentifier) -> str:
    values = works.values_of(work, identifier)
    name = f"{identifier.namespace}/{identifier.name}".removeprefix("/")

    def number(value: str) -> int | None:
        field = values.get(value)
        return None if field is None else field.integer

    if identifier.resource == "deployments":
        wanted, ready = number("Replicas"), number("ReadyReplicas")
        if wanted is not None and (wanted == 0 or (ready or 0) >= 1):
            return ""
        return NO_READY_REPLICA.format(name=name, wanted=wanted or 1)
    wanted, ready = number("DesiredNumberScheduled"), number("NumberReady")
    if wanted is None or ready is None:
        return NO_VALUES.format(resource="DaemonSet", name=name)
    return "" if ready == wanted else NOT_ALL_READY.format(name=name, ready=ready, wanted=wanted)
