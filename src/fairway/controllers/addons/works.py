"""The ManifestWorks of an add-on: what they contain, and what their status reports."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import structs

from fairway.api.addon import ManagedClusterAddOn
from fairway.api.addon_template import AddOnTemplate
from fairway.api.resources import MANAGED_CLUSTER_ADD_ONS
from fairway.api.work import (
    SELECTIVELY_ORPHAN,
    WELL_KNOWN_STATUS,
    WORK_APPLIED,
    WORK_AVAILABLE,
    DeleteOption,
    FeedbackRule,
    FieldValue,
    ManifestConfig,
    ManifestWork,
    ManifestWorkSpec,
    ResourceIdentifier,
    SelectivelyOrphans,
    Workload,
)
from fairway.controllers.addons import names
from fairway.controllers.addons.rendering import Manifest, Rendered, group_kind
from kubewire.api.encoding import encode
from kubewire.api.meta import TRUE, ObjectMeta, OwnerReference, find_condition

_PLURALS: Final = {
    ("apps", "DaemonSet"): "daemonsets",
    ("apps", "Deployment"): "deployments",
    ("batch", "Job"): "jobs",
    ("", "Pod"): "pods",
}
"""Kinds whose status is reported."""
_WELL_KNOWN: Final = FeedbackRule(type=WELL_KNOWN_STATUS)


def deployed(
    add_on: ManagedClusterAddOn, template: AddOnTemplate, rendered: Rendered, *, hashes: Mapping[str, str]
) -> ManifestWork:
    spec = template.spec.agentSpec
    workloads = [manifest for manifest in rendered.manifests if group_kind(manifest)[0] == "apps"]
    return ManifestWork(
        metadata=_meta(add_on, names.deploy_work(add_on.metadata.name), hashes=hashes),
        spec=ManifestWorkSpec(
            workload=Workload(manifests=rendered.manifests),
            deleteOption=_kept(rendered.manifests) or spec.deleteOption,
            manifestConfigs=tuple(_configs(workloads, spec.manifestConfigs, moved_to=rendered.moved_to)),
            executor=spec.executor,
        ),
    )


def pre_delete(add_on: ManagedClusterAddOn, rendered: Rendered) -> ManifestWork | None:
    """None if there is no pre-delete hook."""
    if not rendered.hooks:
        return None
    return ManifestWork(
        metadata=_meta(add_on, names.pre_delete_work(add_on.metadata.name)),
        spec=ManifestWorkSpec(
            workload=Workload(manifests=rendered.hooks), manifestConfigs=tuple(_configs(rendered.hooks, ()))
        ),
    )


def body(work: ManifestWork) -> dict[str, Any]:
    document: dict[str, Any] = {
        "apiVersion": work.apiVersion,
        "kind": work.kind,
        "metadata": encode(work.metadata),
        "spec": encode(work.spec),
    }
    return document


def met_by(wanted: ManifestWork, seen: ManifestWork) -> bool:
    """Whether a work is as desired, regardless of additions by other clients and defaults by the hub."""
    ours, theirs = wanted.metadata, seen.metadata
    if not ours.labels.items() <= theirs.labels.items():
        return False
    if not ours.annotations.items() <= theirs.annotations.items():
        return False
    if not {reference.uid for reference in ours.ownerReferences} <= {
        reference.uid for reference in theirs.ownerReferences
    }:
        return False
    return covers(encode(wanted.spec), encode(seen.spec))


def covers(wanted: Any, seen: Any) -> bool:
    """Whether an object contains the desired fields; manifests must be equal."""
    if isinstance(wanted, dict) and isinstance(seen, dict):
        return all(
            (seen.get(key) == value if key == "manifests" else covers(value, seen.get(key)))
            for key, value in _plain(wanted).items()
        )
    if isinstance(wanted, list) and isinstance(seen, list):
        return len(wanted) == len(seen) and all(map(covers, wanted, seen))
    return bool(wanted == seen)


def applied(work: ManifestWork) -> bool:
    """Whether the cluster has applied the current generation of the work."""
    condition = find_condition(work.status.conditions, WORK_APPLIED)
    return (
        condition is not None
        and condition.status == TRUE
        and condition.observedGeneration == work.metadata.generation
    )


def hashes_of(work: ManifestWork) -> dict[str, str]:
    """The configurations it was rendered from; empty if the annotation cannot be decoded."""
    try:
        return msgspec.json.decode(
            work.metadata.annotations.get(names.CONFIG_HASHES, "{}"), type=dict[str, str]
        )
    except (msgspec.DecodeError, RecursionError):
        return {}


def is_hook_complete(work: ManifestWork) -> bool:
    """Whether all Jobs of the pre-delete work are complete and all its Pods have succeeded."""
    condition = find_condition(work.status.conditions, WORK_AVAILABLE)
    if condition is None or condition.status != TRUE or not work.spec.manifestConfigs:
        return False
    return all(_succeeded(work, config.resourceIdentifier) for config in work.spec.manifestConfigs)


def values_of(work: ManifestWork, identifier: ResourceIdentifier) -> dict[str, FieldValue]:
    for manifest in work.status.resourceStatus.manifests:
        meta = manifest.resourceMeta
        if (meta.group, meta.resource, meta.namespace, meta.name) == (
            identifier.group,
            identifier.resource,
            identifier.namespace,
            identifier.name,
        ):
            feedback = manifest.statusFeedback
            return {} if feedback is None else {value.name: value.fieldValue for value in feedback.values}
    return {}


def identifier_of(manifest: Mapping[str, Any]) -> ResourceIdentifier | None:
    kind = group_kind(manifest)
    plural = _PLURALS.get(kind)
    if plural is None:
        return None
    metadata = manifest["metadata"]
    return ResourceIdentifier(
        group=kind[0], resource=plural, namespace=metadata.get("namespace", ""), name=metadata["name"]
    )


def _succeeded(work: ManifestWork, identifier: ResourceIdentifier) -> bool:
    name, wanted = ("PodPhase", "Succeeded") if identifier.resource == "pods" else ("JobComplete", TRUE)
    value = values_of(work, identifier).get(name)
    return value is not None and value.string == wanted


def _configs(
    manifests: Iterable[Manifest], given: tuple[ManifestConfig, ...], *, moved_to: str = ""
) -> Iterator[ManifestConfig]:
    """The template's manifest configurations, plus the feedback of workloads."""
    asked: dict[ResourceIdentifier, ManifestConfig] = {}
    for manifest in manifests:
        identifier = identifier_of(manifest)
        if identifier is not None:
            asked[identifier] = ManifestConfig(resourceIdentifier=identifier, feedbackRules=(_WELL_KNOWN,))
    for config in given:
        identifier = config.resourceIdentifier
        if moved_to and identifier.namespace:
            identifier = structs.replace(identifier, namespace=moved_to)
        rules = config.feedbackRules
        if identifier in asked and all(rule.type != WELL_KNOWN_STATUS for rule in rules):
            rules = (_WELL_KNOWN, *rules)
        asked[identifier] = structs.replace(config, resourceIdentifier=identifier, feedbackRules=rules)
    yield from asked.values()


def _kept(manifests: Iterable[Manifest]) -> DeleteOption | None:
    rules: list[ResourceIdentifier] = []
    for manifest in manifests:
        metadata = manifest["metadata"]
        if names.ORPHAN not in (metadata.get("annotations") or {}):
            continue
        group, kind = group_kind(manifest)
        rules.append(
            ResourceIdentifier(
                group=group,
                resource=plural_of(kind),
                namespace=metadata.get("namespace", ""),
                name=metadata["name"],
            )
        )
    if not rules:
        return None
    return DeleteOption(
        propagationPolicy=SELECTIVELY_ORPHAN,
        selectivelyOrphans=SelectivelyOrphans(orphaningRules=tuple(rules)),
    )


def plural_of(kind: str) -> str:
    """Guess the plural, as OCM does, because the hub does not know the kinds of a managed cluster."""
    lower = kind.lower()
    if lower.endswith("s"):
        return f"{lower}es"
    return f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"


def _meta(add_on: ManagedClusterAddOn, name: str, *, hashes: Mapping[str, str] | None = None) -> ObjectMeta:
    owner = add_on.metadata
    annotations = (
        {names.CONFIG_HASHES: msgspec.json.encode(dict(hashes), order="sorted").decode()} if hashes else {}
    )
    return ObjectMeta(
        name=name,
        namespace=owner.namespace,
        labels={names.ADD_ON_LABEL: owner.name},
        annotations=annotations,
        ownerReferences=(owner_of(add_on),),
    )


def owner_of(add_on: ManagedClusterAddOn) -> OwnerReference:
    return OwnerReference(
        apiVersion=MANAGED_CLUSTER_ADD_ONS.api_version,
        kind=MANAGED_CLUSTER_ADD_ONS.kind,
        name=add_on.metadata.name,
        uid=add_on.metadata.uid,
        controller=True,
        blockOwnerDeletion=True,
    )


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: child for key, child in value.items() if child is not None}
