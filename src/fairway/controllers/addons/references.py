"""The references to configurations in the statuses of add-ons, as OCM's addon-manager writes them.

    ClusterManagementAddOn: defaults ──▶ status.defaultconfigReferences
                            placements, over the defaults ──▶ status.installProgressions
    ManagedClusterAddOn: its own configurations, over those of its Placement ──▶ status.configReferences

Each overrides all configurations of a kind. An add-on with its own manager, a program built with OCM's addon-framework,
deploys from the references, and many such programs deploy nothing without them. That program computes the hashes,
because the kinds of its configurations are known to it only; a hash in a status is kept for as long as it belongs to
the same object.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
from msgspec import structs

from fairway.api.addon import (
    PLACEMENTS,
    AddOnConfig,
    ClusterManagementAddOn,
    ClusterManagementAddOnStatus,
    ConfigReference,
    ConfigSpecHash,
    DefaultConfigReference,
    InstallConfigReference,
    InstallProgression,
    ManagedClusterAddOn,
    PlacementStrategy,
)
from fairway.api.work import WORK_APPLIED, WORK_AVAILABLE, ManifestWork
from fairway.controllers.addons import conditions, names
from fairway.controllers.addons.configs import TEMPLATES, Kind
from fairway.controllers.addons.rollout_plan import Member, Phase
from kubewire.api.meta import TRUE, Condition, find_condition

NO_DEFAULT: Final = "__reserved_no_default__"
"""OCM converts a missing default to this name in newer versions of the API."""

HashOf = Callable[[Kind, ConfigSpecHash], str | None]
"""The hash of a configuration, empty if that does not exist; None if only another program can compute it."""
Desired = Mapping[Kind, tuple[ConfigSpecHash, ...]]


def has_template(offer: ClusterManagementAddOn) -> bool:
    """Whether the add-on is deployed from an AddOnTemplate, and not by its own manager."""
    return any((kind.group, kind.resource) == TEMPLATES for kind in offer.spec.supportedConfigs)


def unknown_hash(_kind: Kind, _config: ConfigSpecHash) -> str | None:
    return None


# ClusterManagementAddOns


def status_of(
    offer: ClusterManagementAddOn, hash_of: HashOf, *, managed: bool = True
) -> ClusterManagementAddOnStatus:
    """The references of the status. For an add-on that manages itself, only the defaults change."""
    defaults = tuple(_default(offer, kind, config, hash_of) for kind, config in _defaults(offer))
    progressions: tuple[InstallProgression, ...] = ()
    if offer.spec.installStrategy.type == PLACEMENTS:
        progressions = offer.status.installProgressions
        if managed:
            strategies = offer.spec.installStrategy.placements
            progressions = tuple(_progression(offer, strategy, hash_of) for strategy in strategies)
    return structs.replace(offer.status, defaultconfigReferences=defaults, installProgressions=progressions)


def basis(offer: ClusterManagementAddOn) -> tuple[object, ...]:
    """What the references of ManagedClusterAddOns are derived from."""
    progressions = tuple(
        (
            progression.namespace,
            progression.name,
            tuple(
                (reference.group, reference.resource, reference.desiredConfig)
                for reference in progression.configReferences
            ),
        )
        for progression in offer.status.installProgressions
    )
    return offer.spec, offer.status.defaultconfigReferences, progressions


def is_current(offer: ClusterManagementAddOn) -> bool:
    """Whether the status has the references that the specification names."""
    return basis(offer) == basis(structs.replace(offer, status=status_of(offer, unknown_hash)))


def _defaults(offer: ClusterManagementAddOn) -> Iterable[tuple[Kind, ConfigSpecHash]]:
    for supported in offer.spec.supportedConfigs:
        default = supported.defaultConfig
        if default is not None and default.name not in ("", NO_DEFAULT):
            kind = supported.group, supported.resource
            yield kind, ConfigSpecHash(namespace=default.namespace, name=default.name)


def _default(
    offer: ClusterManagementAddOn, kind: Kind, config: ConfigSpecHash, hash_of: HashOf
) -> DefaultConfigReference:
    known = (
        reference.desiredConfig
        for reference in offer.status.defaultconfigReferences
        if (reference.group, reference.resource) == kind
    )
    hashed = _with_hash(kind, config, known, hash_of)
    return DefaultConfigReference(group=kind[0], resource=kind[1], desiredConfig=hashed)


def _progression(
    offer: ClusterManagementAddOn, strategy: PlacementStrategy, hash_of: HashOf
) -> InstallProgression:
    named: dict[Kind, list[ConfigSpecHash]] = {}
    for kind, config in _defaults(offer):
        named.setdefault(kind, []).append(config)
    named |= _by_kind(strategy.configs)
    before = next(
        (
            progression
            for progression in offer.status.installProgressions
            if (progression.namespace, progression.name) == (strategy.namespace, strategy.name)
        ),
        None,
    )
    known = () if before is None else before.configReferences
    references = tuple(
        _installed(kind, config, known, hash_of) for kind in sorted(named) for config in named[kind]
    )
    # A rollout to other configurations is another rollout: what was applied and known before does not count.
    merged = before is not None and {_object_of(reference) for reference in references} <= {
        _object_of(reference) for reference in known
    }
    if not merged:
        references = tuple(
            structs.replace(reference, lastAppliedConfig=None, lastKnownGoodConfig=None)
            for reference in references
        )
    return InstallProgression(
        name=strategy.name,
        namespace=strategy.namespace,
        configReferences=references,
        conditions=before.conditions if before is not None and merged else (),
    )


def _installed(
    kind: Kind, config: ConfigSpecHash, known: Iterable[InstallConfigReference], hash_of: HashOf
) -> InstallConfigReference:
    before = next(
        (
            reference
            for reference in known
            if (reference.group, reference.resource) == kind and is_same(reference.desiredConfig, config)
        ),
        None,
    )
    if before is None:
        before = InstallConfigReference(group=kind[0], resource=kind[1])
    return structs.replace(before, desiredConfig=_with_hash(kind, config, [before.desiredConfig], hash_of))


def _with_hash(
    kind: Kind, config: ConfigSpecHash, known: Iterable[ConfigSpecHash | None], hash_of: HashOf
) -> ConfigSpecHash:
    computed = hash_of(kind, config)
    if computed is None:
        kept = (earlier.specHash for earlier in known if earlier is not None and is_same(earlier, config))
        computed = next(kept, "")
    return structs.replace(config, specHash=computed)


def is_same(one: ConfigSpecHash | None, other: ConfigSpecHash) -> bool:
    """Whether both name the same object."""
    return one is not None and (one.namespace, one.name) == (other.namespace, other.name)


def _object_of(reference: InstallConfigReference) -> tuple[str, str, str, str]:
    config = reference.desiredConfig or ConfigSpecHash()
    return reference.group, reference.resource, config.namespace, config.name


def _by_kind(configs: Iterable[AddOnConfig]) -> dict[Kind, list[ConfigSpecHash]]:
    named: dict[Kind, list[ConfigSpecHash]] = {}
    for reference in configs:
        config = ConfigSpecHash(namespace=reference.namespace, name=reference.name)
        of_kind = named.setdefault((reference.group, reference.resource), [])
        if config not in of_kind:
            of_kind.append(config)
    return named


# ManagedClusterAddOns


def of_placement(offer: ClusterManagementAddOn, placement: tuple[str, str] | None) -> Desired:
    """The configurations for clusters of a Placement; None for clusters that no Placement selects."""
    desired: dict[Kind, tuple[ConfigSpecHash, ...]] = {}
    for default in offer.status.defaultconfigReferences:
        if default.desiredConfig is not None:
            kind = default.group, default.resource
            desired[kind] = (*desired.get(kind, ()), default.desiredConfig)
    of_this: dict[Kind, tuple[ConfigSpecHash, ...]] = {}
    for progression in offer.status.installProgressions:
        if (progression.namespace, progression.name) == placement:
            for installed in progression.configReferences:
                if installed.desiredConfig is not None:
                    kind = installed.group, installed.resource
                    of_this[kind] = (*of_this.get(kind, ()), installed.desiredConfig)
    return desired | of_this


def desired(add_on: ManagedClusterAddOn, of_placement: Desired) -> Desired:
    """With the configurations that the ManagedClusterAddOn itself names, whose hashes are in its own status."""
    if not add_on.spec.configs:
        return of_placement
    own: dict[Kind, tuple[ConfigSpecHash, ...]] = {}
    for kind, configs in _by_kind(add_on.spec.configs).items():
        known = [
            reference.desiredConfig
            for reference in add_on.status.configReferences
            if (reference.group, reference.resource) == kind
        ]
        own[kind] = tuple(_with_hash(kind, config, known, unknown_hash) for config in configs)
    return {**of_placement, **own}


def merged(add_on: ManagedClusterAddOn, wanted: Desired) -> tuple[ConfigReference, ...]:
    """The references of the status with these configurations, and with the known parts of them."""
    result: list[ConfigReference] = []
    for kind in sorted(wanted):
        known = [
            reference
            for reference in add_on.status.configReferences
            if (reference.group, reference.resource) == kind
        ]
        kept = [
            reference
            for reference in known
            if any(is_same(reference.desiredConfig, config) for config in wanted[kind])
        ]
        for reference in kept:
            config = next(config for config in wanted[kind] if is_same(reference.desiredConfig, config))
            result.append(structs.replace(reference, desiredConfig=config))
        result.extend(
            ConfigReference(
                group=kind[0],
                resource=kind[1],
                namespace=config.namespace,
                name=config.name,
                desiredConfig=config,
            )
            for config in wanted[kind]
            if not any(is_same(reference.desiredConfig, config) for reference in kept)
        )
    return tuple(result)


def member_of(add_on: ManagedClusterAddOn, wanted: Desired) -> Member:
    """How far the cluster is with these configurations."""
    references = add_on.status.configReferences
    if len(references) != sum(map(len, wanted.values())):
        return Member(Phase.TO_APPLY)
    if any(
        reference.desiredConfig not in wanted.get((reference.group, reference.resource), ())
        for reference in references
    ):
        return Member(Phase.TO_APPLY)
    progressing = find_condition(add_on.status.conditions, conditions.PROGRESSING)
    reason, since = ("", None)
    if progressing is not None:
        reason, since = progressing.reason, progressing.lastTransitionTime
    if any(reference.lastAppliedConfig != reference.desiredConfig for reference in references):
        if reason == conditions.FAILED:
            return Member(Phase.FAILED, since)
        return Member(Phase.PROGRESSING, since if reason == conditions.IN_PROGRESS else None)
    return Member(Phase.SUCCEEDED, since if reason == conditions.COMPLETED else None)


def progress(add_on: ManagedClusterAddOn, works: Iterable[ManifestWork]) -> Condition:
    """The condition Progressing of an add-on with its own manager. ``works`` are its ManifestWorks."""
    kind, status = conditions.PROGRESSING, add_on.status
    supported = {(config.group, config.resource) for config in status.supportedConfigs}
    for config in add_on.spec.configs:
        if (config.group, config.resource) not in supported:
            message = conditions.KIND_UNSUPPORTED.format(group=config.group, resource=config.resource)
            return conditions.no(kind, conditions.CONFIGURATION_UNSUPPORTED, message)
    if find_condition(status.conditions, conditions.MANIFEST_APPLIED) is None:
        message = conditions.WAITING_FOR_CONDITION.format(type=conditions.MANIFEST_APPLIED)
        return conditions.no(kind, conditions.WAITING_FOR_APPLIED, message)
    hosted = bool(add_on.metadata.annotations.get(names.HOSTING_CLUSTER))
    if hosted and find_condition(status.conditions, conditions.HOSTING_APPLIED) is None:
        message = conditions.WAITING_FOR_CONDITION.format(type=conditions.HOSTING_APPLIED)
        return conditions.no(kind, conditions.WAITING_FOR_HOSTING_APPLIED, message)
    deployed = list(works)
    if not deployed:
        return _unfinished(conditions.NO_WORKS)
    for work in deployed:
        if work.metadata.name.startswith(names.pre_delete_work(add_on.metadata.name)):
            continue
        if not _is_of(work, status.configReferences):
            return _unfinished(conditions.CONFIGS_DIFFER)
        if not _is_ready(work):
            return _unfinished(conditions.WORK_NOT_READY)
    return conditions.no(kind, conditions.COMPLETED, conditions.COMPLETED_MESSAGE)


def as_applied(references: Iterable[ConfigReference]) -> tuple[ConfigReference, ...]:
    return tuple(
        structs.replace(reference, lastAppliedConfig=reference.desiredConfig) for reference in references
    )


def _unfinished(why: str) -> Condition:
    message = conditions.PROGRESS_MESSAGE.format(why=why)
    return conditions.yes(conditions.PROGRESSING, conditions.IN_PROGRESS, message)


def _is_of(work: ManifestWork, references: tuple[ConfigReference, ...]) -> bool:
    """Whether a work was rendered from exactly these configurations."""
    text = work.metadata.annotations.get(names.CONFIG_HASHES)
    if text is None:
        return not references
    try:
        rendered = msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.DecodeError, RecursionError):
        return False
    wanted = {
        _key(reference): (reference.desiredConfig or ConfigSpecHash()).specHash for reference in references
    }
    return all(rendered.values()) and all(wanted.values()) and rendered == wanted


def _key(reference: ConfigReference) -> str:
    config = reference.desiredConfig or ConfigSpecHash()
    kind = f"{reference.resource}.{reference.group}" if reference.group else reference.resource
    return f"{kind}/{config.namespace}/{config.name}"


def _is_ready(work: ManifestWork) -> bool:
    """Whether the cluster reports the present generation as applied and available."""
    states = (find_condition(work.status.conditions, kind) for kind in (WORK_AVAILABLE, WORK_APPLIED))
    return all(
        state is not None and state.status == TRUE and state.observedGeneration == work.metadata.generation
        for state in states
    )
