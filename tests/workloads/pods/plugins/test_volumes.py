"""A pod with bound claims is placed where its volumes are; one with an unbound claim is not placed."""

from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings
from msgspec import structs

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
from fairway.hosts.nodes import NodeFleet
from fairway.workloads.pods import default_profile, pod_workload
from fairway.workloads.pods.plugins.volume_binding import CONFLICT, NO_VOLUME
from fairway.workloads.pods.plugins.volume_restrictions import CLAIM_CONFLICT, DISK_CONFLICT
from fairway.workloads.pods.plugins.volume_zone import REASON, ZONE_KEYS
from hosts.nodes.builders import node, pod
from kubewire.api.meta import ObjectMeta, OwnerReference

PROFILE = default_profile()
ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


def claim(name: str, volume: str = "", **more: Any) -> PersistentVolumeClaim:
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    return PersistentVolumeClaim(
        metadata=ObjectMeta(namespace="ns1", name=name, annotations=bound),
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
    volumes = tuple(
        Volume(name=stored, persistentVolumeClaim=ClaimVolume(claimName=stored)) for stored in claims
    )
    return pod("new", spec={"volumes": volumes})


def fleet_of(*objects: PersistentVolume | PersistentVolumeClaim) -> NodeFleet:
    fleet = NodeFleet()
    zones = {"n1": {ZONE: "a"}, "n2": {ZONE: "b"}, "n3": {}}
    fleet.load(
        [node(name, labels={"host": name, **more}, ready="True", pods="9") for name, more in zones.items()]
    )
    for object_ in objects:
        if isinstance(object_, PersistentVolume):
            fleet.upsert_volume(object_)
        else:
            fleet.upsert_claim(object_)
    return fleet


def run(fleet: NodeFleet, given: Pod) -> Outcome:
    return cycle.run(fleet.snapshot(), pod_workload(given), PROFILE, now=0)


def reasons(outcome: Outcome) -> dict[str, str]:
    rows = outcome.snapshot.hosts.row_of
    rejected = {name: cycle.rejection(outcome.context, outcome.plugins, row) for name, row in rows.items()}
    return {name: status.message for name, status in rejected.items() if status is not None}


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
    ("claims", "plugin", "reason"),
    [
        ((), "VolumeRestrictions", 'persistentvolumeclaim "c" not found'),
        (
            (claim("c"),),
            "VolumeBinding",
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            (claim("c", "v", status=PersistentVolumeClaimStatus(phase="Lost")),),
            "VolumeBinding",
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
    ],
    ids=["missing", "unbound", "lost"],
)
def test_pod_with_an_unusable_claim_is_rejected_as_a_whole(
    claims: tuple[PersistentVolumeClaim, ...], plugin: str, reason: str
) -> None:
    status = run(fleet_of(*claims), user("c")).status
    assert (status.code, status.plugin, status.message) == (Code.UNRESOLVABLE, plugin, reason)


def test_claim_bound_to_a_missing_volume_rejects_the_pod_and_without_volume_zone_all_nodes() -> None:
    fleet = fleet_of(claim("c", "v"))
    status = run(fleet, user("c")).status
    assert (status.plugin, status.message) == ("VolumeZone", 'persistentvolume "v" not found')
    profile = default_profile(without=frozenset({"VolumeZone"}))
    outcome = cycle.run(fleet.snapshot(), pod_workload(user("c")), profile, now=0)
    assert outcome.selected == []
    assert set(reasons(outcome).values()) == {NO_VOLUME}


def test_claim_of_an_ephemeral_volume_is_named_after_the_pod_that_owns_it() -> None:
    given = pod("new", spec={"volumes": (Volume(name="cache", ephemeral=EphemeralVolume()),)})
    fleet = fleet_of(volume("v", on="n3"))
    assert "waiting for ephemeral volume controller to create" in run(fleet, given).status.message
    owned = claim("new-cache", "v")
    fleet.upsert_claim(owned)
    assert run(fleet, given).status.message == (
        "PVC ns1/new-cache was not created for pod ns1/new (pod is not owner)"
    )
    owner = OwnerReference(apiVersion="v1", kind="Pod", name="new", uid=given.metadata.uid, controller=True)
    metadata = structs.replace(owned.metadata, ownerReferences=(owner,))
    fleet.upsert_claim(structs.replace(owned, metadata=metadata))
    assert run(fleet, given).selected == ["n3"]


def exclusive(name: str) -> PersistentVolumeClaim:
    exclusive_claim = claim(name, "v")
    return structs.replace(
        exclusive_claim, spec=structs.replace(exclusive_claim.spec, accessModes=("ReadWriteOncePod",))
    )


def test_claim_of_one_pod_keeps_other_pods_from_every_node() -> None:
    fleet = fleet_of(exclusive("c"), claim("d", "v"), volume("v"))
    assert run(fleet, user("c")).selected == ["n1"]
    placed = pod("first", on="n2", spec={"volumes": user("c").spec.volumes})
    fleet.upsert_pod(placed)
    assert set(reasons(run(fleet, user("c"))).values()) == {CLAIM_CONFLICT}
    assert run(fleet, user("d")).selected == ["n1"], "another claim"
    fleet.delete_pod("ns1", "first")
    assert run(fleet, user("c")).selected == ["n1"]


GCE, EBS = {"gcePersistentDisk": {"pdName": "disk"}}, {"awsElasticBlockStore": {"volumeID": "disk"}}
ISCSI = {"iscsi": {"iqn": "disk", "targetPortal": "t", "lun": 0}}
RBD = {"rbd": {"monitors": ["m1", "m2"], "pool": "p", "image": "i"}}


def read_only(source: dict[str, Any]) -> dict[str, Any]:
    return {kind: {**disk, "readOnly": True} for kind, disk in source.items()}


@pytest.mark.parametrize(
    ("mounted", "wanted", "conflict"),
    [
        (GCE, GCE, True),
        (GCE, read_only(GCE), True),
        (read_only(GCE), GCE, True),
        (read_only(GCE), read_only(GCE), False),
        (GCE, EBS, False),
        (read_only(EBS), read_only(EBS), True),
        (ISCSI, {"iscsi": {"iqn": "other"}}, False),
        (read_only(ISCSI), read_only(ISCSI), False),
        (ISCSI, read_only(ISCSI), True),
        (RBD, {"rbd": {"monitors": ["m2"], "pool": "p", "image": "i"}}, True),
        (RBD, {"rbd": {"monitors": ["m3"], "pool": "p", "image": "i"}}, False),
        (RBD, {"rbd": {"monitors": ["m1"], "pool": "q", "image": "i"}}, False),
    ],
)
def test_disk_is_shared_on_a_node_only_by_pods_that_read_it(
    mounted: dict[str, Any], wanted: dict[str, Any], conflict: bool
) -> None:
    def mounting(name: str, source: dict[str, Any], **more: Any) -> Pod:
        volumes = msgspec.convert([{"name": "disk", **source}], tuple[Volume, ...])
        return pod(name, spec={"volumes": volumes}, **more)

    fleet = fleet_of()
    fleet.upsert_pod(mounting("first", mounted, on="n2"))
    outcome = run(fleet, mounting("second", wanted))
    assert reasons(outcome) == ({"n2": DISK_CONFLICT} if conflict else {})
    assert set(outcome.totals_by_name()) == {"n1", "n3"} | (set() if conflict else {"n2"})


def test_deleted_volume_and_claim_are_forgotten() -> None:
    fleet = fleet_of(claim("c", "v"), volume("v", on="n2"))
    fleet.delete_volume("v")
    assert run(fleet, user("c")).status.message == 'persistentvolume "v" not found'
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
            node(f"n{at}", labels={"host": f"n{at}", **node_labels}, ready="True", pods="9")
            for at, node_labels in enumerate(labels)
        ]
    )
    fleet.upsert_claim(claim("c", "v"))
    stored = volume("v", on=on)
    fleet.upsert_volume(PersistentVolume(metadata=ObjectMeta(name="v", labels=wanted), spec=stored.spec))
    snapshot, workload = fleet.snapshot(), pod_workload(user("c"))
    fast = cycle.run(snapshot, workload, PROFILE, now=0)
    slow = cycle.run(snapshot, workload, PROFILE, now=0, whole_fleet=False)
    assert fast.totals_by_name() == slow.totals_by_name()
