"""Read the manifests of a work: which object each one is, its normalized content, and the order to apply them."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import structs

from fairway.api.work import (
    FOREGROUND,
    ORPHAN,
    UPDATE,
    DeleteOption,
    ManifestConfig,
    ManifestResourceMeta,
    ManifestWork,
    ResourceIdentifier,
    ServerSideApply,
    UpdateStrategy,
)
from fairway.klusterlet.works import messages
from fairway.klusterlet.works.discovery import Discovery
from fairway.klusterlet.works.messages import ManifestError
from fairway.klusterlet.works.objects import MANAGER, Object, ObjectId, ObjectVersion, Target
from fairway.klusterlet.works.wildcard import matches
from kubewire.client import KubeError, Resource

_RANKS: Final[tuple[tuple[str, ...], ...]] = (
    ("PriorityClass", "Namespace", "CustomResourceDefinition", "StorageClass", "PersistentVolume"),
    ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    ("NetworkPolicy", "ResourceQuota", "LimitRange", "PodDisruptionBudget", "ServiceAccount"),
    ("Secret", "ConfigMap", "PersistentVolumeClaim"),
    ("Service",),
    (
        "DaemonSet", "Pod", "ReplicationController", "ReplicaSet", "Deployment", "HorizontalPodAutoscaler",
        "StatefulSet", "Job", "CronJob",
    ),
    (
        "APIService", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
    ),
)  # fmt: skip
"""Apply order of kinds, as in OCM. Other kinds come last."""
_RANK: Final = {kind: rank for rank, kinds in enumerate(_RANKS) for kind in kinds}

_SERVER_FIELDS: Final = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
)
"""Metadata that the API server sets; exported manifests contain it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredObject:
    """An applicable manifest. ``body`` has no server-side fields."""

    meta: ManifestResourceMeta
    target: Target
    body: Object
    strategy: UpdateStrategy
    config: ManifestConfig
    owned: bool
    """Whether it is deleted with the work."""

    @property
    def identity(self) -> ObjectId:
        return self.target.identity

    @property
    def options(self) -> ServerSideApply:
        return self.strategy.serverSideApply or ServerSideApply()

    @property
    def manager(self) -> str:
        return (self.strategy.type == "ServerSideApply" and self.options.fieldManager) or MANAGER


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidManifest:
    meta: ManifestResourceMeta
    refusal: ManifestError


Reading = DesiredObject | InvalidManifest


async def read(work: ManifestWork, discovery: Discovery) -> tuple[Reading, ...]:
    """Read all manifests, in order. Raises KubeError if discovery fails."""
    readings: list[Reading] = []
    first: dict[ObjectId, int] = {}
    for ordinal, manifest in enumerate(work.spec.workload.manifests):
        meta = resource_meta(ordinal, manifest)
        try:
            wanted = await _resolve(work, meta, manifest, discovery)
            known = first.setdefault(wanted.identity, ordinal)
            if known != ordinal:
                raise ManifestError(
                    messages.DUPLICATE.format(first=known), remedy=messages.DUPLICATE_REMEDY, final=True
                )
        except ManifestError as refusal:
            readings.append(InvalidManifest(meta=meta, refusal=refusal))
        else:
            readings.append(wanted)
    return tuple(readings)


def apply_order(readings: Iterable[Reading]) -> list[DesiredObject]:
    wanted = [reading for reading in readings if isinstance(reading, DesiredObject)]
    return sorted(wanted, key=lambda desired: _RANK.get(desired.meta.kind, len(_RANKS)))


def resource_meta(ordinal: int, manifest: Any) -> ManifestResourceMeta:
    """Read the fields that the manifest has; the plural needs discovery."""
    content = manifest if isinstance(manifest, Mapping) else {}
    metadata = content.get("metadata")
    names = metadata if isinstance(metadata, Mapping) else {}
    group, _, version = _text(content.get("apiVersion")).rpartition("/")
    return ManifestResourceMeta(
        ordinal=ordinal,
        group=group,
        version=version,
        kind=_text(content.get("kind")),
        name=_text(names.get("name")),
        namespace=_text(names.get("namespace")),
    )


async def _resolve(
    work: ManifestWork, meta: ManifestResourceMeta, manifest: Mapping[str, Any], discovery: Discovery
) -> DesiredObject:
    for field, given in (("apiVersion", meta.version), ("kind", meta.kind)):
        if not given:
            raise ManifestError(
                messages.NO_KIND.format(field=field), remedy=messages.NO_KIND_REMEDY, final=True
            )
    if not meta.name:
        raise ManifestError(messages.NO_NAME, remedy=messages.NO_NAME_REMEDY, final=True)
    api_version = f"{meta.group}/{meta.version}" if meta.group else meta.version
    try:
        resource = await discovery.find(api_version, meta.kind)
    except KubeError as error:
        if error.retryable:
            raise
        raise messages.manifest_error(error, namespace=meta.namespace) from None
    if resource is None:
        message = messages.UNKNOWN_KIND.format(kind=meta.kind, version=api_version)
        raise ManifestError(message, remedy=messages.UNKNOWN_KIND_REMEDY)
    if resource.namespaced and not meta.namespace:
        raise ManifestError(messages.NO_NAMESPACE, remedy=messages.NO_NAMESPACE_REMEDY, final=True)
    try:
        resource.path(namespace=meta.namespace if resource.namespaced else None, name=meta.name)
    except ValueError:
        given = meta.name if meta.name in (".", "..") or set("/%") & set(meta.name) else meta.namespace
        message = messages.BAD_NAME.format(given=given)
        raise ManifestError(message, remedy=messages.BAD_NAME_REMEDY, final=True) from None
    return desired_object(work, meta, manifest, resource)


def desired_object(
    work: ManifestWork,
    meta: ManifestResourceMeta,
    manifest: Mapping[str, Any],
    resource: Resource[ObjectVersion],
) -> DesiredObject:
    namespace = meta.namespace if resource.namespaced else ""
    meta = structs.replace(meta, resource=resource.plural, namespace=namespace)
    target = Target(resource=resource, namespace=namespace, name=meta.name)
    config = config_of(meta, work.spec.manifestConfigs)
    return DesiredObject(
        meta=meta,
        target=target,
        body=strip_server_fields(manifest, target),
        strategy=config.updateStrategy or UpdateStrategy(type=UPDATE),
        config=config,
        owned=is_owned(target.identity, work.spec.deleteOption),
    )


def strip_server_fields(manifest: Mapping[str, Any], target: Target) -> Object:
    """Remove fields of the API server, of other writers, and the status."""
    body = deepcopy(dict(manifest))
    body.pop("status", None)
    metadata = body["metadata"] = dict(body.get("metadata") or {})
    for name in _SERVER_FIELDS:
        metadata.pop(name, None)
    metadata.pop("namespace", None)
    if target.namespace:
        metadata["namespace"] = target.namespace
    if target.resource.group == "" and target.resource.kind == "Secret":
        _encode_string_data(body)
    kept: Object = _without_empty_times(body)
    return kept


def _encode_string_data(secret: Object) -> None:
    # The API server never returns stringData, so entries removed from it could not be detected.
    plain = secret.pop("stringData", None)
    if isinstance(plain, Mapping):
        data = secret.get("data")
        encoded = {key: b64encode(str(text).encode()).decode() for key, text in plain.items()}
        secret["data"] = {**(data if isinstance(data, Mapping) else {}), **encoded}


def _without_empty_times(value: Any) -> Any:
    # Go writes creationTimestamp: null into templates; applying it would be a change every time.
    if isinstance(value, dict):
        return {
            key: _without_empty_times(child)
            for key, child in value.items()
            if not (key == "creationTimestamp" and child is None)
        }
    return [_without_empty_times(item) for item in value] if isinstance(value, list) else value


def config_of(meta: ManifestResourceMeta, configs: Iterable[ManifestConfig]) -> ManifestConfig:
    """Merge the matching configs; the first value of each field wins. Names may contain wildcards."""
    merged = ManifestConfig(
        resourceIdentifier=ResourceIdentifier(
            group=meta.group, resource=meta.resource, namespace=meta.namespace, name=meta.name
        )
    )
    for config in configs:
        wanted = config.resourceIdentifier
        if (
            (wanted.group, wanted.resource) == (meta.group, meta.resource)
            and matches(meta.namespace, wanted.namespace)
            and matches(meta.name, wanted.name)
        ):
            merged = structs.replace(
                merged,
                feedbackRules=merged.feedbackRules or config.feedbackRules,
                conditionRules=merged.conditionRules or config.conditionRules,
                updateStrategy=merged.updateStrategy or config.updateStrategy,
            )
    return merged


def is_owned(identity: ObjectId, option: DeleteOption | None) -> bool:
    """Whether the object is deleted with the work, or when its manifest is removed."""
    policy = option.propagationPolicy if option else FOREGROUND
    if option is None or policy in (FOREGROUND, ""):
        return True
    if policy == ORPHAN:
        return False
    rules = option.selectivelyOrphans.orphaningRules if option.selectivelyOrphans else ()
    return all(
        (rule.group, rule.resource, rule.namespace, rule.name)
        != (identity.group, identity.resource, identity.namespace, identity.name)
        for rule in rules
    )


def digest(wanted: DesiredObject) -> bytes:
    """Equal for manifests with equal effect."""
    return msgspec.json.encode((wanted.body, wanted.strategy, wanted.owned), order="deterministic")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
