"""The references to configurations in statuses, without a hub."""

import pytest

from fairway.api.addon import (
    PLACEMENTS,
    AddOnConfig,
    ClusterManagementAddOn,
    ClusterManagementAddOnSpec,
    ConfigReferent,
    ConfigSpecHash,
    InstallStrategy,
    ManagedClusterAddOn,
    ManagedClusterAddOnStatus,
    PlacementStrategy,
    SupportedConfig,
)
from fairway.api.work import WORK_APPLIED, WORK_AVAILABLE, ManifestWork, ManifestWorkStatus
from fairway.controllers.addons import conditions, names, references
from fairway.controllers.addons.rollout_plan import Member, Phase
from kubewire.api.meta import TRUE, Condition, ObjectMeta

KIND = ("example.com", "things")


def config(name: str, *, resource: str = "things") -> AddOnConfig:
    return AddOnConfig(group="example.com", resource=resource, name=name)


def hashed(name: str, spec_hash: str = "") -> ConfigSpecHash:
    return ConfigSpecHash(name=name, specHash=spec_hash)


def offered(*configs: AddOnConfig, default: str = "") -> ClusterManagementAddOn:
    """With the status that its specification leads to; the hash of a configuration is its name."""
    supported = SupportedConfig(
        group=KIND[0], resource=KIND[1], defaultConfig=ConfigReferent(name=default) if default else None
    )
    strategy = PlacementStrategy(namespace="ns", name="p", configs=configs)
    offer = ClusterManagementAddOn(
        spec=ClusterManagementAddOnSpec(
            supportedConfigs=(supported,),
            installStrategy=InstallStrategy(type=PLACEMENTS, placements=(strategy,)),
        )
    )
    status = references.status_of(offer, lambda _kind, of: f"hash-of-{of.name}")
    return ClusterManagementAddOn(spec=offer.spec, status=status)


def add_on(offer: ClusterManagementAddOn) -> ManagedClusterAddOn:
    """With all that it shall have in its status."""
    new = ManagedClusterAddOn(metadata=ObjectMeta(name="a", namespace="c"))
    wanted = references.desired(new, references.of_placement(offer, ("ns", "p")))
    made = references.merged(new, wanted)
    return ManagedClusterAddOn(metadata=new.metadata, status=ManagedClusterAddOnStatus(configReferences=made))


def test_configurations_of_one_kind_keep_their_order() -> None:
    """As in OCM's test of several configurations of a kind in a Placement."""
    offer = offered(config("z"), config("b", resource="others"), config("a"), config("z"), default="d")
    desired = references.of_placement(offer, ("ns", "p"))
    assert desired[KIND] == (hashed("z", "hash-of-z"), hashed("a", "hash-of-a"))
    names = [(reference.resource, reference.name) for reference in add_on(offer).status.configReferences]
    assert names == [("others", "b"), ("things", "z"), ("things", "a")]
    assert references.of_placement(offer, None) == {KIND: (hashed("d", "hash-of-d"),)}


def test_hash_of_another_program_is_kept_for_the_same_object_only() -> None:
    before = offered(config("a"), config("b"))
    unchanged = references.status_of(before, references.unknown_hash)
    assert unchanged == before.status
    changed = ClusterManagementAddOn(spec=offered(config("a"), config("c")).spec, status=before.status)
    assert not references.is_current(changed)
    (progression,) = references.status_of(changed, references.unknown_hash).installProgressions
    desired = [reference.desiredConfig for reference in progression.configReferences]
    assert desired == [hashed("a", "hash-of-a"), hashed("c")]


def test_changed_reference_keeps_what_was_applied() -> None:
    offer = offered(config("a"))
    deployed = add_on(offer)
    applied = references.as_applied(deployed.status.configReferences)
    status = ManagedClusterAddOnStatus(configReferences=applied)
    wanted = {KIND: (hashed("a", "new"),)}
    seen = ManagedClusterAddOn(metadata=deployed.metadata, status=status)
    assert references.member_of(seen, wanted) == Member(Phase.TO_APPLY)
    (reference,) = references.merged(seen, wanted)
    assert (reference.desiredConfig, reference.lastAppliedConfig) == (
        hashed("a", "new"),
        hashed("a", "hash-of-a"),
    )


@pytest.mark.parametrize(
    ("hashes", "why"),
    [
        ('{"things.example.com//a": "hash-of-a"}', ""),
        ('{"things.example.com//a": "old"}', conditions.CONFIGS_DIFFER),
        ('{"things.example.com//a": ""}', conditions.CONFIGS_DIFFER),
        ("{}", conditions.CONFIGS_DIFFER),
        ("[", conditions.CONFIGS_DIFFER),
        (None, conditions.CONFIGS_DIFFER),
    ],
)
def test_work_counts_with_exactly_the_hashes_of_the_references(hashes: str | None, why: str) -> None:
    seen = add_on(offered(config("a")))
    applied = Condition(type=conditions.MANIFEST_APPLIED, status=TRUE)
    status = ManagedClusterAddOnStatus(configReferences=seen.status.configReferences, conditions=(applied,))
    states = tuple(
        Condition(type=kind, status=TRUE, observedGeneration=3) for kind in (WORK_AVAILABLE, WORK_APPLIED)
    )
    annotations = {} if hashes is None else {names.CONFIG_HASHES: hashes}
    work = ManifestWork(
        metadata=ObjectMeta(name="w", generation=3, annotations=annotations),
        status=ManifestWorkStatus(conditions=states),
    )
    hook = ManifestWork(metadata=ObjectMeta(name=names.pre_delete_work("a")))
    progress = references.progress(ManagedClusterAddOn(metadata=seen.metadata, status=status), [hook, work])
    expected = conditions.PROGRESS_MESSAGE.format(why=why) if why else conditions.COMPLETED_MESSAGE
    assert progress.message == expected
    assert (progress.status == TRUE) is bool(why)
