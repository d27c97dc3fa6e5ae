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
from fairway.api.kinds import encode
from fairway.api.meta import unreadable_within
from fairway.kube import ADD_ON_DEPLOYMENT_CONFIGS, ADD_ON_TEMPLATES

NOT_FOUND: Final = "{kind} {name} is referenced as a configuration, but does not exist"
OTHER_ADD_ON: Final = "AddOnTemplate {name} is for add-on {whose} (spec.addonName), not for {add_on}"
UNREADABLE: Final = "{kind} {name}: {field} cannot be read: {reason}"
NOT_SUPPORTED: Final = "the add-on does not support configurations of the kind {kind}"

Kind = tuple[str, str]
"""Group and plural."""

TEMPLATES: Final[Kind] = (ADD_ON_GROUP, ADD_ON_TEMPLATES.plural)
DEPLOYMENTS: Final[Kind] = (ADD_ON_GROUP, ADD_ON_DEPLOYMENT_CONFIGS.plural)


class ConfigError(Exception):
    """A configuration that cannot be used, and why."""


class StrangeConfig(ConfigError):
    """A configuration that exists but belongs to another add-on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configs:
    """The configurations of one ManagedClusterAddOn. ``template`` is None for an add-on without a template."""

    template: AddOnTemplate | None = None
    deployment: AddOnDeploymentConfig | None = None
    references: tuple[AddOnConfig, ...] = ()

    def hashes(self) -> dict[Kind, str]:
        found: dict[Kind, str] = {}
        if self.template is not None:
            found[TEMPLATES] = spec_hash(self.template.spec)
        if self.deployment is not None:
            found[DEPLOYMENTS] = spec_hash(self.deployment.spec)
        return found


def named(
    add_on: ManagedClusterAddOn,
    offer: ClusterManagementAddOn | None,
    *,
    placements: Iterable[tuple[str, str]],
) -> tuple[AddOnConfig, ...]:
    """By kind, in the order of the kinds the add-on supports. ``placements`` selected the cluster."""
    if offer is None:
        return tuple({(each.group, each.resource): each for each in reversed(add_on.spec.configs)}.values())
    found: dict[Kind, AddOnConfig] = {}
    for supported in offer.spec.supportedConfigs:
        if (default := supported.defaultConfig) is not None:
            found[supported.group, supported.resource] = AddOnConfig(
                group=supported.group,
                resource=supported.resource,
                namespace=default.namespace,
                name=default.name,
            )
    chosen = set(placements)
    strategies = (
        offer.spec.installStrategy.placements if offer.spec.installStrategy.type == PLACEMENTS else ()
    )
    # Of several Placements that selected the cluster, the first one counts.
    for strategy in reversed(strategies):
        if (strategy.namespace, strategy.name) in chosen:
            found |= {(each.group, each.resource): each for each in strategy.configs}
    found |= {(each.group, each.resource): each for each in reversed(add_on.spec.configs)}
    return tuple(found.values())


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
    known = {(each.group, each.resource) for each in offer.spec.supportedConfigs}
    named = {(each.group, each.resource) for each in add_on.spec.configs}
    strange = sorted(f"{resource}.{group}" for group, resource in named - known)
    return NOT_SUPPORTED.format(kind=", ".join(strange)) if strange else ""


def found(
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
    for each in references:
        kind = (each.group, each.resource)
        if kind == TEMPLATES:
            template = templates.get(("", each.name))
            if template is None:
                raise ConfigError(NOT_FOUND.format(kind=ADD_ON_TEMPLATES.kind, name=each.name))
            if field := unreadable(template):
                raise StrangeConfig(field)
            if template.spec.addonName not in ("", add_on):
                whose = template.spec.addonName
                raise StrangeConfig(OTHER_ADD_ON.format(name=each.name, whose=whose, add_on=add_on))
        elif kind == DEPLOYMENTS:
            deployment = deployments.get((each.namespace, each.name))
            if deployment is None:
                name = f"{each.namespace}/{each.name}"
                raise ConfigError(NOT_FOUND.format(kind=ADD_ON_DEPLOYMENT_CONFIGS.kind, name=name))
            if field := unreadable(deployment):
                raise StrangeConfig(field)
    return Configs(template=template, deployment=deployment, references=references)


def written(
    configs: Configs, *, applied: Mapping[str, str], before: Iterable[ConfigReference]
) -> tuple[ConfigReference, ...]:
    """The references for the status. ``applied`` has the hashes that the cluster runs, by configuration."""
    old = {(each.group, each.resource): each.lastAppliedConfig for each in before}
    hashes = configs.hashes()
    return tuple(
        _reference(
            each, hashes.get((each.group, each.resource), ""), applied, old.get((each.group, each.resource))
        )
        for each in configs.references
    )


def _reference(
    config: AddOnConfig, wanted: str, applied: Mapping[str, str], before: ConfigSpecHash | None
) -> ConfigReference:
    there = applied.get(key(config))
    last = before
    if there is not None:
        last = ConfigSpecHash(namespace=config.namespace, name=config.name, specHash=there)
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
    content: dict[str, Any] = encode(spec)
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()
