"""A pod with bound claims is placed where its volumes are; one with an unbound claim is not placed."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from fairway.api.meta import ObjectMeta
from fairway.api.persistent_volume import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)
from fairway.api.pod import ClaimVolume, EphemeralVolume, Pod, Volume
from fairway.api.pod_affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from fairway.engine import cycle
from fairway.engine.outcome import Outcome
from fairway.engine.status import Code
from fairway.nodes import NodeFleet
from fairway.plugins.pods import default_profile, pod_workload
from fairway.plugins.pods.volume_binding import CONFLICT, NO_VOLUME
from fairway.plugins.pods.volume_zone import REASON, ZONE_KEYS
from nodes.builders import node, pod

PROFILE = default_profile()
ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


def claim(name: str, volume: str = "", **more: Any) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(namespace="ns1", name=name),
        spec=PersistentVolumeClaimSpec(volumeName=volume),
        **more,
    )


def volume(name: str, *, on: str = "") -> PersistentVolume:
    required = NodeSelector(
        nodeSelectorTerms=(
            NodeSelectorTerm(
                matchExpressions=(NodeSelectorRequirement(key="host", operator="In", values=(on,)),)
            ),
        )
    )
    affinity = VolumeNodeAffinity(required=required) if on else None
    return PersistentVolume(
        metadata=ObjectMeta(name=name),
        spec=PersistentVolumeSpec(nodeAffinity=affinity),
    )


def zoned(name: str, key: str, value: str) -> PersistentVolume:
    return PersistentVolume(metadata=ObjectMeta(name=name, labels={key: value}))


def user(*claims: str) -> Pod:
    volumes = tuple(Volume(name=each, persistentVolumeClaim=ClaimVolume(claimName=each)) for each in claims)
    return pod("new", spec={"volumes": volumes})


def fleet_of(*objects: PersistentVolume | PersistentVolumeClaim) -> NodeFleet:
    fleet = NodeFleet()
    zones = {"n1": {ZONE: "a"}, "n2": {ZONE: "b"}, "n3": {}}
    fleet.load(
        [node(name, labels={"host": name, **more}, ready="True", pods="9") for name, more in zones.items()]
    )
    for each in objects:
        if isinstance(each, PersistentVolume):
            fleet.upsert_volume(each)
        else:
            fleet.upsert_claim(each)
    return fleet


def run(fleet: NodeFleet, given: Pod) -> Outcome:
    return cycle.run(fleet.snapshot(), pod_workload(given), PROFILE, now=0)


def reasons(outcome: Outcome) -> dict[str, str]:
    rows = outcome.snapshot.hosts.row_of
    found = {name: cycle.rejection(outcome.context, outcome.plugins, row) for name, row in rows.items()}
    return {name: status.message for name, status in found.items() if status is not None}


def test_pod_is_placed_where_the_node_affinity_of_its_volume_allows() -> None:
    outcome = run(fleet_of(claim("c", "v"), volume("v", on="n2")), user("c"))
    assert outcome.selected == ["n2"]
    assert reasons(outcome) == {"n1": CONFLICT, "n3": CONFLICT}


@pytest.mark.parametrize("key", [ZONE, OLD_ZONE])
def test_pod_is_placed_in_the_zone_of_its_volume_or_on_a_node_without_zone(key: str) -> None:
    outcome = run(fleet_of(claim("c", "v"), zoned("v", key, "b__c")), user("c"))
    assert sorted(outcome.totals_by_name()) == ["n2", "n3"]
    assert reasons(outcome) == {"n1": REASON}


def test_volumes_in_different_places_leave_no_node() -> None:
    objects = (claim("c", "v"), claim("d", "w"), volume("v", on="n1"), volume("w", on="n2"))
    assert run(fleet_of(*objects), user("c", "d")).selected == []


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ((), 'persistentvolumeclaim "c" not found'),
        (
            (claim("c"),),
            'persistentvolumeclaim "c" is not bound; only pods with bound claims are scheduled',
        ),
        (
            (claim("c", "v", status=PersistentVolumeClaimStatus(phase="Lost")),),
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
    ],
    ids=["missing", "unbound", "lost"],
)
def test_pod_with_an_unusable_claim_is_rejected_as_a_whole(
    claims: tuple[PersistentVolumeClaim, ...], reason: str
) -> None:
    status = run(fleet_of(*claims), user("c")).status
    assert (status.code, status.plugin, status.message) == (Code.UNRESOLVABLE, "VolumeBinding", reason)


def test_claim_bound_to_a_missing_volume_rejects_all_nodes() -> None:
    outcome = run(fleet_of(claim("c", "v")), user("c"))
    assert outcome.selected == []
    assert set(reasons(outcome).values()) == {NO_VOLUME}


def test_claim_of_an_ephemeral_volume_is_named_after_the_pod() -> None:
    fleet = fleet_of(claim("new-cache", "v"), volume("v", on="n3"))
    given = pod("new", spec={"volumes": (Volume(name="cache", ephemeral=EphemeralVolume()),)})
    assert run(fleet, given).selected == ["n3"]


def test_deleted_volume_and_claim_are_forgotten() -> None:
    fleet = fleet_of(claim("c", "v"), volume("v", on="n2"))
    fleet.delete_volume("v")
    assert set(reasons(run(fleet, user("c"))).values()) == {NO_VOLUME}
    fleet.delete_claim("ns1", "c")
    assert run(fleet, user("c")).status.message == 'persistentvolumeclaim "c" not found'


@given(
    labels=st.lists(
        st.dictionaries(st.sampled_from(ZONE_KEYS), st.sampled_from(["a", "b"])), min_size=1, max_size=4
    ),
    wanted=st.dictionaries(st.sampled_from(ZONE_KEYS), st.sampled_from(["a", "b", "a__b", "c"])),
    on=st.sampled_from(["", "n0", "n9"]),
)
@settings(max_examples=50)
def test_whole_fleet_form_of_volume_plugins_agrees_with_per_node_form(
    labels: list[dict[str, str]], wanted: dict[str, str], on: str
) -> None:
    fleet = NodeFleet()
    fleet.load(
        [
            node(f"n{at}", labels={"host": f"n{at}", **each}, ready="True", pods="9")
            for at, each in enumerate(labels)
        ]
    )
    fleet.upsert_claim(claim("c", "v"))
    found = volume("v", on=on)
    fleet.upsert_volume(PersistentVolume(metadata=ObjectMeta(name="v", labels=wanted), spec=found.spec))
    snapshot, workload = fleet.snapshot(), pod_workload(user("c"))
    fast = cycle.run(snapshot, workload, PROFILE, now=0)
    slow = cycle.run(snapshot, workload, PROFILE, now=0, whole_fleet=False)
    assert fast.totals_by_name() == slow.totals_by_name()
