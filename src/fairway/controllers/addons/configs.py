"""Select the configurations that apply to an add-on on a cluster.

Configurations of the ManagedClusterAddOn take precedence, then those of the Placement that selected the cluster, then
the defaults of the ClusterManagementAddOn. There is one of each kind, as in OCM's templates.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Struct

from fairway.api.addon import (
    ADD_ON_GROUP,
    PLACEMENTS,
    AddOnConfig,
    ClusterManagementAddOn,
    ConfigReference,
    ConfigSpecHash,
    ManagedClusterAddOn,
)
from fairway.api.addon_config import AddOnDeploymentConfig
from fairway.api.addon_template import AddOnTemplate
from fairway.api.resources import ADD_ON_DEPLOYMENT_CONFIGS, ADD_ON_TEMPLATES
from kubewire.api.encoding import encode
from kubewire.api.meta import unreadable_within

NOT_FOUND: Final = "{kind} {name} is referenced as a configuration, but does not exist"
OTHER_ADD_ON: Final = "AddOnTemplate {name} is for add-on {whose} (spec.addonName), not for {add_on}"
UNREADABLE: Final = "{kind} {name}: {field} cannot be read: {reason}"
NOT_SUPPORTED: Final = "the add-on does not support configurations of the kind {kind}"

Kind = tuple[str, str]
"""Group and plural."""

TEMPLATES: Final[Kind] = (ADD_ON_GROUP, ADD_ON_TEMPLATES.plural)
DEPLOYMENTS: Final[Kind] = (ADD_ON_GROUP, ADD_ON_DEPLOYMENT_CONFIGS.plural)


_ESCAPED_BY_GO: Final = {
    b"<": b"\\u003c",
    b">": b"\\u003e",
    b"&": b"\\u0026",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}
"""Characters that occur in strings of JSON only, and that Go escapes there."""


class ConfigError(Exception):
    """A configuration that cannot be used, and why."""


class UnusableConfig(ConfigError):
    """A configuration that exists, but cannot be read or belongs to another add-on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configs:
    """The configurations of one ManagedClusterAddOn. ``template`` is None for an add-on without a template."""

    template: AddOnTemplate | None = None
    deployment: AddOnDeploymentConfig | None = None
    references: tuple[AddOnConfig, ...] = ()

    def hashes(self) -> dict[Kind, str]:
        hashes: dict[Kind, str] = {}
        if self.template is not None:
            hashes[TEMPLATES] = spec_hash(self.template.spec)
        if self.deployment is not None:
            hashes[DEPLOYMENTS] = spec_hash(self.deployment.spec)
        return hashes


def named(
    add_on: ManagedClusterAddOn,
    offer: ClusterManagementAddOn | None,
    *,
    placements: Iterable[tuple[str, str]],
) -> tuple[AddOnConfig, ...]:
    """By kind, in the order of the kinds the add-on supports. ``placements`` selected the cluster."""
    if offer is None:
        return tuple(
            {(config.group, config.resource): config for config in reversed(add_on.spec.configs)}.values()
        )
    configs: dict[Kind, AddOnConfig] = {}
    for supported in offer.spec.supportedConfigs:
        if (default := supported.defaultConfig) is not None:
            configs[supported.group, supported.resource] = AddOnConfig(
                group=supported.group,
                resource=supported.resource,
                namespace=default.namespace,
                name=default.name,
            )
    chosen = set(placements)
    strategies = (
        offer.spec.installStrategy.placements if offer.spec.installStrategy.type == PLACEMENTS else ()
    )
    # Of several Placements that selected the cluster, the last one counts, as in OCM.
    for strategy in strategies:
        if (strategy.namespace, strategy.name) in chosen:
            configs |= {(config.group, config.resource): config for config in strategy.configs}
    configs |= {(config.group, config.resource): config for config in reversed(add_on.spec.configs)}
    return tuple(configs.values())


def unreadable(
    obj: ClusterManagementAddOn | ManagedClusterAddOn | AddOnTemplate | AddOnDeploymentConfig,
) -> str:
    """The field of its spec that cannot be decoded; empty if there is none."""
    field = unreadable_within(obj, "spec")
    if field is None:
        return ""
    return UNREADABLE.format(kind=obj.kind, name=obj.metadata.name, field=field.path, reason=field.reason)


def unsupported(add_on: ManagedClusterAddOn, offer: ClusterManagementAddOn | None) -> str:
    """A configuration on the cluster of a kind that the add-on does not support; empty if there is none."""
    if offer is None:
        return ""
    known = {(kind.group, kind.resource) for kind in offer.spec.supportedConfigs}
    named = {(config.group, config.resource) for config in add_on.spec.configs}
    unsupported_kinds = sorted(f"{resource}.{group}" for group, resource in named - known)
    return NOT_SUPPORTED.format(kind=", ".join(unsupported_kinds)) if unsupported_kinds else ""


def resolve(
    references: tuple[AddOnConfig, ...],
    *,
    add_on: str,
    templates: Mapping[tuple[str, str], AddOnTemplate],
    deployments: Mapping[tuple[str, str], AddOnDeploymentConfig],
) -> Configs:
    """Raise ConfigError for a missing configuration, and for the template of another add-on.

    A user who may configure an add-on on one cluster must not be able to give it the rights of another add-on.
    """
    template: AddOnTemplate | None = None
    deployment: AddOnDeploymentConfig | None = None
    for reference in references:
        kind = (reference.group, reference.resource)
        if kind == TEMPLATES:
            template = templates.get(("", reference.name))
            if template is None:
                raise ConfigError(NOT_FOUND.format(kind=ADD_ON_TEMPLATES.kind, name=reference.name))
            if field := unreadable(template):
                raise UnusableConfig(field)
            if template.spec.addonName not in ("", add_on):
                other_add_on = template.spec.addonName
                raise UnusableConfig(
                    OTHER_ADD_ON.format(name=reference.name, whose=other_add_on, add_on=add_on)
                )
        elif kind == DEPLOYMENTS:
            deployment = deployments.get((reference.namespace, reference.name))
            if deployment is None:
                name = f"{reference.namespace}/{reference.name}"
                raise ConfigError(NOT_FOUND.format(kind=ADD_ON_DEPLOYMENT_CONFIGS.kind, name=name))
            if field := unreadable(deployment):
                raise UnusableConfig(field)
    return Configs(template=template, deployment=deployment, references=references)


def references_for_status(
    configs: Configs, *, applied: Mapping[str, str], before: Iterable[ConfigReference]
) -> tuple[ConfigReference, ...]:
    """The references for the status. ``applied`` has the hashes that the cluster runs, by configuration."""
    old = {(reference.group, reference.resource): reference.lastAppliedConfig for reference in before}
    hashes = configs.hashes()
    return tuple(
        _reference(
            config,
            hashes.get((config.group, config.resource), ""),
            applied,
            old.get((config.group, config.resource)),
        )
        for config in configs.references
    )


def _reference(
    config: AddOnConfig, wanted: str, applied: Mapping[str, str], before: ConfigSpecHash | None
) -> ConfigReference:
    applied_hash = applied.get(key(config))
    last = before
    if applied_hash is not None:
        last = ConfigSpecHash(namespace=config.namespace, name=config.name, specHash=applied_hash)
    return ConfigReference(
        group=config.group,
        resource=config.resource,
        namespace=config.namespace,
        name=config.name,
        desiredConfig=ConfigSpecHash(namespace=config.namespace, name=config.name, specHash=wanted),
        lastAppliedConfig=last,
    )


def key(config: AddOnConfig) -> str:
    """As in the annotation of a ManifestWork: ``addontemplates.addon.open-cluster-management.io//name``."""
    kind = f"{config.resource}.{config.group}" if config.group else config.resource
    return f"{kind}/{config.namespace}/{config.name}"


def spec_hash(spec: Struct) -> str:
    """As OCM computes it: of the object without its kind, metadata and status, in Go's notation of JSON."""
    content: dict[str, Any] = {"spec": encode(spec)}
    text = msgspec.json.encode(content, order="sorted")
    for character, escaped in _ESCAPED_BY_GO.items():
        text = text.replace(character, escaped)
    return hashlib.sha256(text).hexdigest()
