"""The ManifestWork that creates a hosted cluster, and what its status reports."""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import structs

from fairway.api.hosted_request import AVAILABILITY_FIELD, REQUEST_UID_LABEL, HostedClusterRequest
from fairway.api.hosting_policy import HOSTING_GROUP
from fairway.api.secret import Secret
from fairway.api.work import (
    JSON_PATHS,
    SELECTIVELY_ORPHAN,
    SERVER_SIDE_APPLY,
    WORK_APPLIED,
    DeleteOption,
    FeedbackRule,
    JsonPath,
    ManifestConfig,
    ManifestWork,
    ManifestWorkSpec,
    ResourceIdentifier,
    SelectivelyOrphans,
    ServerSideApply,
    UpdateStrategy,
    Workload,
)
from fairway.workloads.hosting.rules.host_namespaces import derived_namespace
from fairway.workloads.hosting.workload import hosted_name
from kubewire.api.meta import TRUE, ObjectMeta, find_condition

HYPERSHIFT_GROUP: Final = "hypershift.openshift.io"
HYPERSHIFT_VERSION: Final = f"{HYPERSHIFT_GROUP}/v1beta1"
HOSTED_CLUSTERS: Final = "hostedclusters"
NODE_POOLS: Final = "nodepools"

REQUEST_LABEL: Final = f"{HOSTING_GROUP}/request"
REQUEST_NAMESPACE_LABEL: Final = f"{HOSTING_GROUP}/request-namespace"
REQUEST_ANNOTATION: Final = f"{HOSTING_GROUP}/request"
"""Namespace and name of the request, separated by a slash."""
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "fairway-hosting"

AVAILABLE_VALUE: Final = "available"
# Agents evaluate the path on the whole object, although OCM's API documentation describes it as a path below status.
AVAILABLE_PATH: Final = '.status.conditions[?(@.type=="Available")].status'
_FEEDBACK: Final = (
    FeedbackRule(type=JSON_PATHS, jsonPaths=(JsonPath(name=AVAILABLE_VALUE, path=AVAILABLE_PATH),)),
)

SECRET_MISSING: Final = "spec.secrets: there is no Secret {namespace}/{name}; create it, or remove the entry"
LONGEST_LABEL: Final = 63


class WorkError(ValueError):
    """A request whose ManifestWork cannot be created."""


def work_name(request: HostedClusterRequest) -> str:
    """Return the name of the ManifestWork that Fairway creates: unique, and the same after every restart."""
    return f"hosted-{request.metadata.uid}"


def is_owned(work: ManifestWork, request: HostedClusterRequest) -> bool:
    """Return whether a ManifestWork was created for this request, or adopted by it."""
    return work.metadata.labels.get(REQUEST_UID_LABEL) == request.metadata.uid


def is_created_by_fairway(work: ManifestWork | None) -> bool:
    """Return whether Fairway created a ManifestWork. One that a request adopts belongs to its author."""
    labels = {} if work is None else work.metadata.labels
    return labels.get(MANAGED_BY) == MANAGER and REQUEST_UID_LABEL in labels


def carries(work: ManifestWork, request: HostedClusterRequest) -> bool:
    """Return whether a ManifestWork still has the HostedCluster of a request with a place."""
    return hosted_name(request) in {
        object_name(manifest)
        for manifest in work.spec.workload.manifests
        if is_kind(manifest, "HostedCluster")
    }


def is_kind(manifest: Mapping[str, Any], kind: str) -> bool:
    """Return whether a manifest is of a kind of HyperShift, in any version."""
    group, _, _ = str(manifest.get("apiVersion", "")).partition("/")
    return group == HYPERSHIFT_GROUP and manifest.get("kind") == kind


def object_name(manifest: Mapping[str, Any]) -> tuple[str, str]:
    """Return namespace and name of a manifest as its author wrote it; empty where they are missing."""
    metadata = manifest.get("metadata")
    if not isinstance(metadata, Mapping):
        return "", ""
    namespace, name = metadata.get("namespace"), metadata.get("name")
    return namespace if isinstance(namespace, str) else "", name if isinstance(name, str) else ""


def adopting_metadata(request: HostedClusterRequest) -> dict[str, Any]:
    """Return the labels and annotations that a ManifestWork gets which a request adopts.

    Without the label of Fairway's own works: those are deleted when no request has its place there.
    """
    return {
        "labels": owner_labels(request),
        "annotations": {REQUEST_ANNOTATION: f"{request.metadata.namespace}/{request.metadata.name}"},
    }


def work_of(request: HostedClusterRequest, *, host: str, secrets: Mapping[str, Secret]) -> ManifestWork:
    """``secrets``: by name, from the namespace of the request. Raises WorkError if one is missing."""
    namespace, name = hosted_name(request)
    labels = owner_labels(request)
    manifests: list[dict[str, Any]] = [_namespace(namespace, request)]
    for wanted in request.spec.secrets:
        secret = secrets.get(wanted.name)
        if secret is None:
            raise WorkError(SECRET_MISSING.format(namespace=request.metadata.namespace, name=wanted.name))
        manifests.append(_secret(secret, namespace=namespace, labels=labels))
    template = request.spec.hostedCluster
    spec = dict(template.spec)
    if request.spec.availability:
        spec[AVAILABILITY_FIELD] = request.spec.availability
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "labels": {**template.labels, **labels}}
    if template.annotations:
        metadata["annotations"] = dict(template.annotations)
    manifests.append(
        {"apiVersion": HYPERSHIFT_VERSION, "kind": "HostedCluster", "metadata": metadata, "spec": spec}
    )
    manifests += [
        {
            "apiVersion": HYPERSHIFT_VERSION,
            "kind": "NodePool",
            "metadata": {"name": pool.name, "namespace": namespace, "labels": {**pool.labels, **labels}},
            "spec": {**pool.spec, "clusterName": name},
        }
        for pool in request.spec.nodePools
    ]
    return ManifestWork(
        metadata=ObjectMeta(
            name=work_name(request),
            namespace=host,
            labels={**labels, MANAGED_BY: MANAGER},
            annotations={REQUEST_ANNOTATION: f"{request.metadata.namespace}/{request.metadata.name}"},
        ),
        spec=ManifestWorkSpec(
            workload=Workload(manifests=tuple(manifests)),
            deleteOption=_keeping_namespace(namespace),
            manifestConfigs=tuple(_configs(request)),
        ),
    )


def with_current_feedback(work: ManifestWork) -> tuple[ManifestConfig, ...] | None:
    """Return the configurations of a ManifestWork whose feedback rules are out of date; None if they are current.

    Only the rules change: the agent keeps what it applied and reported, and no Secret has to be read again.
    """
    configs = tuple(
        structs.replace(config, feedbackRules=_FEEDBACK)
        if (config.resourceIdentifier.group, config.resourceIdentifier.resource)
        == (HYPERSHIFT_GROUP, HOSTED_CLUSTERS)
        else config
        for config in work.spec.manifestConfigs
    )
    return None if configs == work.spec.manifestConfigs else configs


def _keeping_namespace(namespace: str) -> DeleteOption:
    """The namespace may have other hosted clusters, so it stays when this one is deleted."""
    rule = ResourceIdentifier(resource="namespaces", name=namespace)
    return DeleteOption(
        propagationPolicy=SELECTIVELY_ORPHAN, selectivelyOrphans=SelectivelyOrphans(orphaningRules=(rule,))
    )


def _configs(request: HostedClusterRequest) -> Iterator[ManifestConfig]:
    """Apply without force: an object of the same name that has another owner is reported, not overwritten."""
    apply = UpdateStrategy(type=SERVER_SIDE_APPLY, serverSideApply=ServerSideApply())
    yield ManifestConfig(
        resourceIdentifier=hosted_identifier(request), feedbackRules=_FEEDBACK, updateStrategy=apply
    )
    namespace, _ = hosted_name(request)
    for pool in request.spec.nodePools:
        identifier = ResourceIdentifier(
            group=HYPERSHIFT_GROUP, resource=NODE_POOLS, namespace=namespace, name=pool.name
        )
        yield ManifestConfig(resourceIdentifier=identifier, updateStrategy=apply)


def hosted_identifier(request: HostedClusterRequest) -> ResourceIdentifier:
    namespace, name = hosted_name(request)
    return ResourceIdentifier(
        group=HYPERSHIFT_GROUP, resource=HOSTED_CLUSTERS, namespace=namespace, name=name
    )


def owner_labels(request: HostedClusterRequest) -> dict[str, str]:
    meta = request.metadata
    return {
        REQUEST_UID_LABEL: meta.uid,
        REQUEST_LABEL: _label(meta.name),
        REQUEST_NAMESPACE_LABEL: _label(meta.namespace),
    }


def request_name(work: ManifestWork) -> tuple[str, str]:
    """Return namespace and name of the request that a work was created for; empty if it names none."""
    namespace, _, name = work.metadata.annotations.get(REQUEST_ANNOTATION, "").partition("/")
    return namespace, name


def is_reported(work: ManifestWork, request: HostedClusterRequest) -> bool:
    """Return whether the hosting cluster reports that it applied the HostedCluster."""
    identifier = hosted_identifier(request)
    for manifest in work.status.resourceStatus.manifests:
        meta = manifest.resourceMeta
        if (meta.group, meta.resource, meta.namespace, meta.name) == (
            identifier.group,
            identifier.resource,
            identifier.namespace,
            identifier.name,
        ):
            applied = find_condition(manifest.conditions, WORK_APPLIED)
            return applied is not None and applied.status == TRUE
    return False


def control_plane_availability(work: ManifestWork, request: HostedClusterRequest) -> str:
    """Return the status of the condition Available of the HostedCluster; empty if it is not reported."""
    identifier = hosted_identifier(request)
    for manifest in work.status.resourceStatus.manifests:
        meta = manifest.resourceMeta
        if (meta.resource, meta.namespace, meta.name) != (
            identifier.resource,
            identifier.namespace,
            identifier.name,
        ):
            continue
        values = () if manifest.statusFeedback is None else manifest.statusFeedback.values
        return next((value.fieldValue.string or "" for value in values if value.name == AVAILABLE_VALUE), "")
    return ""


def _namespace(name: str, request: HostedClusterRequest) -> dict[str, Any]:
    """A derived namespace shows whose it is. Requests of several namespaces may share any other."""
    metadata: dict[str, Any] = {"name": name}
    if name == derived_namespace(request.metadata.namespace):
        metadata["labels"] = {REQUEST_NAMESPACE_LABEL: request.metadata.namespace}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _secret(secret: Secret, *, namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret.metadata.name, "namespace": namespace, "labels": dict(labels)},
        "type": secret.type or "Opaque",
        "data": {key: b64encode(value).decode("ascii") for key, value in secret.data.items()},
    }


def _label(text: str) -> str:
    return text[:LONGEST_LABEL].rstrip("-._")
