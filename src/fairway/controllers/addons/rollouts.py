"""Hold changed configurations of add-ons with a template back where a rollout strategy asks for steps.

For them Fairway implements the strategy ``All`` only; ``rollout_plan`` has the steps of add-ons with their own manager.
Under any other strategy a change of a template or configuration must not reach all clusters at once, so a cluster that
has the add-on keeps the configuration that it was given before. A cluster without the add-on gets the present one: the
content of earlier configurations is not stored anywhere on the hub, and no other mechanism would ever install it. A
configuration that a ManagedClusterAddOn starts to name is applied, so that an administrator can take the steps by hand.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import structs

from fairway.api.addon import (
    ROLLOUT_ALL,
    AddOnConfig,
    ClusterManagementAddOn,
    ConfigReference,
    ConfigSpecHash,
    ManagedClusterAddOn,
    PlacementStrategy,
)
from fairway.api.work import ManifestWork
from fairway.controllers.addons import configs, works
from kubewire.api.encoding import encode

HELD: Final = (
    "ClusterManagementAddOn {offer} has the rollout strategy {type} for Placement {placement}, and Fairway implements "
    "only All for templates: this cluster keeps its earlier configuration; to update it alone, name the configuration "
    "under a new name in spec.configs of this ManagedClusterAddOn, and to update all clusters at once, set the "
    "strategy to All"
)
EVENT: Final = (
    "rollout strategy {type} of Placement {placement} is not implemented: clusters that have the add-on keep their "
    "earlier configuration, and newly selected clusters get the present one"
)
HELD_LOG: Final = "rollout held back, strategy not implemented  add-on=%s placement=%s strategy=%s cluster=%s"


def strategy_of(
    offer: ClusterManagementAddOn, placements: Iterable[tuple[str, str]]
) -> PlacementStrategy | None:
    """Return the strategy that applies to a cluster; None if changes apply at once. ``placements`` selected it."""
    chosen = set(placements)
    for strategy in reversed(offer.spec.installStrategy.placements):
        if (strategy.namespace, strategy.name) in chosen:
            # As for configurations, the last Placement that selected the cluster counts.
            return strategy if is_staged(strategy) else None
    return None


def is_staged(strategy: PlacementStrategy) -> bool:
    return strategy.rolloutStrategy.type not in ("", ROLLOUT_ALL)


def is_changed(add_on: ManagedClusterAddOn, *, wanted: ManifestWork, deployed: ManifestWork | None) -> bool:
    """Return whether a work would change what a cluster runs because of a configuration that others changed."""
    if deployed is None or deployed.metadata.deletionTimestamp is not None:
        return False
    if all(owner.uid != add_on.metadata.uid for owner in deployed.metadata.ownerReferences):
        return False  # of a deleted ManagedClusterAddOn with the same name
    new, old = works.hashes_of(wanted), works.hashes_of(deployed)
    if new == old or works.covers(encode(wanted.spec), encode(deployed.spec)):
        return False
    recently_named = {configs.key(config) for config in add_on.spec.configs} - old.keys()
    before, after = _by_kind(old), _by_kind(new)
    return any(
        before.get(kind) != after.get(kind) and after.get(kind, ("", ""))[0] not in recently_named
        for kind in before.keys() | after.keys()
    )


def _by_kind(hashes: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return key and hash of the configuration of each kind; there is one of each."""
    return {key.partition("/")[0]: (key, spec_hash) for key, spec_hash in hashes.items()}


def kept(references: Iterable[ConfigReference], *, applied: Mapping[str, str]) -> tuple[ConfigReference, ...]:
    """Return the references of the status with what the cluster reports as applied."""
    return tuple(_with_applied(reference, applied) for reference in references)


def _with_applied(reference: ConfigReference, applied: Mapping[str, str]) -> ConfigReference:
    config = AddOnConfig(
        group=reference.group,
        resource=reference.resource,
        namespace=reference.namespace,
        name=reference.name,
    )
    spec_hash = applied.get(configs.key(config))
    if spec_hash is None:
        return reference
    last = ConfigSpecHash(namespace=config.namespace, name=config.name, specHash=spec_hash)
    return structs.replace(reference, lastAppliedConfig=last)
