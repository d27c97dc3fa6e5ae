"""A claim that waits for its first consumer restricts its pod to nodes that have a volume for it, or can get one."""

from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import given, settings

from fairway.api.persistent_volume import ClaimReference, PersistentVolume, PersistentVolumeClaim
from fairway.api.pod import Pod, Volume
from fairway.api.storage import CSIDriver, CSIStorageCapacity, StorageClass
from fairway.engine import cycle
from fairway.engine.outcome import Outcome
from fairway.hosts.nodes import NodeFleet
from fairway.workloads.pods import default_profile, pod_workload
from fairway.workloads.pods.plugins.volume_binding import NOT_BOUND, waiting_claims
from fairway.workloads.pods.plugins.volume_choice import (
    NO_SPACE,
    NO_VOLUME_TO_BIND,
    VolumeChoice,
    choose_volumes,
)
from hosts.nodes.builders import node, pod

PROFILE = default_profile()
DRIVER = "csi.example.com"
HOSTS = ("n1", "n2", "n3")


def fleet_of(**class_: Any) -> NodeFleet:
    """Return three nodes, each in its own zone, and a class that waits for the first consumer."""
    fleet = NodeFleet()
    fleet.load([node(name, labels={"host": name}, ready="True", pods="9") for name in HOSTS])
    document = {
        "metadata": {"name": "late"},
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
        **class_,
    }
    fleet.upsert_class(msgspec.convert(document, StorageClass))
    return fleet


def add_claim(fleet: NodeFleet, name: str, size: str = "1Gi", *, selected: str = "", **spec: Any) -> None:
    annotations = {"volume.kubernetes.io/selected-node": selected} if selected else {}
    document = {
        "metadata": {"namespace": "ns1", "name": name, "uid": f"uid-{name}", "annotations": annotations},
        "spec": {
            "storageClassName": "late",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            **spec,
        },
    }
    fleet.upsert_claim(msgspec.convert(document, PersistentVolumeClaim))


def add_volume(
    fleet: NodeFleet, name: str, size: str = "1Gi", *, on: str = "", phase: str = "Available", **spec: Any
) -> None:
    expression = {"key": "host", "operator": "In", "values": [on]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    document = {
        "metadata": {"name": name, "labels": {"disk": name}},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            **({"nodeAffinity": affinity} if on else {}),
            **spec,
        },
        "status": {"phase": phase},
    }
    fleet.upsert_volume(msgspec.convert(document, PersistentVolume))


def add_capacity(fleet: NodeFleet, host: str, size: str, **more: Any) -> None:
    topology = {"matchLabels": {"host": host}}
    document = {
        "metadata": {"namespace": "kube-system", "name": host},
        "storageClassName": "late",
        "nodeTopology": topology,
        "capacity": size,
        **more,
    }
    fleet.upsert_capacity(msgspec.convert(document, CSIStorageCapacity))


def user(*claims: str) -> Pod:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return pod("new", spec={"volumes": msgspec.convert(volumes, tuple[Volume, ...])})


def run(fleet: NodeFleet, *claims: str) -> Outcome:
    return cycle.run(fleet.snapshot(), pod_workload(user(*claims)), PROFILE, now=0)


def feasible(fleet: NodeFleet, *claims: str) -> list[str]:
    return sorted(run(fleet, *claims).totals_by_name())


def reasons(outcome: Outcome) -> set[str]:
    rows = outcome.snapshot.hosts.row_of.values()
    rejected = (cycle.rejection(outcome.context, outcome.plugins, row) for row in rows)
    return {status.message for status in rejected if status is not None}


def chosen(fleet: NodeFleet, host: str, *claims: str) -> dict[str, str]:
    """Return the volume that each claim binds on a node; an empty name for those that are provisioned."""
    waiting = waiting_claims([fleet.storage.claims["ns1", name] for name in claims], fleet.storage)
    assert waiting is not None
    choice = choose_volumes(waiting, host, {"host": host})
    assert isinstance(choice, VolumeChoice)
    bound = {claim.metadata.name: volume.metadata.name for claim, volume in choice.bindings}
    return bound | {claim.metadata.name: "" for claim in choice.provisioned}


def test_claim_binds_the_smallest_volume_that_its_node_reaches() -> None:
    fleet = fleet_of(provisioner="kubernetes.io/no-provisioner")
    add_claim(fleet, "c", "2Gi")
    for name, size, on in (("small", "1Gi", "n1"), ("large", "9Gi", "n2"), ("fits", "3Gi", "n2")):
        add_volume(fleet, name, size, on=on)
    outcome = run(fleet, "c")
    assert outcome.selected == ["n2"]
    assert reasons(outcome) == {NO_VOLUME_TO_BIND}
    assert chosen(fleet, "n2", "c") == {"c": "fits"}


def test_volume_must_suit_the_claim() -> None:
    fleet = fleet_of(provisioner="kubernetes.io/no-provisioner")
    add_claim(fleet, "c", selector={"matchLabels": {"disk": "good"}})
    add_claim(fleet, "d")
    add_volume(fleet, "bad", on="n1")
    add_volume(fleet, "good", on="n2")
    assert (feasible(fleet, "c"), feasible(fleet, "d")) == (["n2"], ["n1", "n2"])
    other = {"namespace": "ns1", "name": "other", "uid": "x"}
    for unusable in (
        {"claimRef": other},
        {"accessModes": ["ReadOnlyMany"]},
        {"volumeMode": "Block"},
        {"storageClassName": "another"},
        {"phase": "Released"},
        {"volumeAttributesClassName": "fast"},
    ):
        add_volume(fleet, "good", **{"on": "n2", **unusable})  # type: ignore[arg-type]
        assert feasible(fleet, "c") == [], unusable


def test_volume_that_names_the_claim_is_the_only_choice() -> None:
    fleet = fleet_of()
    add_claim(fleet, "c")
    add_volume(fleet, "small", on="n1")
    reference = {"namespace": "ns1", "name": "c"}
    add_volume(fleet, "named", "9Gi", on="n3", phase="Pending", claimRef=reference)
    assert chosen(fleet, "n3", "c") == {"c": "named"}
    assert chosen(fleet, "n1", "c") == {"c": ""}
    add_volume(fleet, "named", "9Gi", on="n3", claimRef={**reference, "uid": "of an earlier claim"})
    assert chosen(fleet, "n1", "c") == {"c": "small"}


def test_two_claims_need_two_volumes_or_a_provisioner() -> None:
    fleet = fleet_of(provisioner="kubernetes.io/no-provisioner")
    add_claim(fleet, "c")
    add_claim(fleet, "d", "2Gi")
    add_volume(fleet, "one", "5Gi", on="n1")
    add_volume(fleet, "two", "5Gi", on="n2")
    add_volume(fleet, "three", "1Gi", on="n2")
    assert feasible(fleet, "c", "d") == ["n2"]
    assert chosen(fleet, "n2", "c", "d") == {"c": "three", "d": "two"}
    fleet = fleet_of()
    add_claim(fleet, "c")
    add_claim(fleet, "d", "2Gi")
    add_volume(fleet, "one", "5Gi", on="n1")
    assert feasible(fleet, "c", "d") == list(HOSTS)
    assert chosen(fleet, "n1", "c", "d") == {"c": "one", "d": ""}


def test_volume_is_provisioned_in_the_allowed_topologies_only() -> None:
    terms = [{"matchLabelExpressions": [{"key": "host", "values": ["n1", "n3"]}]}, {}]
    fleet = fleet_of(allowedTopologies=terms)
    add_claim(fleet, "c")
    outcome = run(fleet, "c")
    assert sorted(outcome.totals_by_name()) == ["n1", "n3"]
    assert reasons(outcome) == {NO_VOLUME_TO_BIND}


def test_driver_that_reports_capacity_limits_where_a_volume_is_provisioned() -> None:
    fleet = fleet_of()
    add_claim(fleet, "c", "2Gi")
    add_capacity(fleet, "n1", "1Gi")
    add_capacity(fleet, "n2", "9Gi")
    add_capacity(fleet, "n3", "9Gi", maximumVolumeSize="1Gi")
    assert feasible(fleet, "c") == list(HOSTS), "the driver does not report capacity"
    driver = {"metadata": {"name": DRIVER}, "spec": {"storageCapacity": True}}
    fleet.upsert_driver(msgspec.convert(driver, CSIDriver))
    outcome = run(fleet, "c")
    assert outcome.selected == ["n2"]
    assert reasons(outcome) == {NO_SPACE}


def test_claim_that_is_being_provisioned_keeps_its_node() -> None:
    fleet = fleet_of()
    add_claim(fleet, "c", selected="n3")
    add_claim(fleet, "d", selected="n1")
    assert feasible(fleet, "c") == ["n3"]
    assert feasible(fleet, "c", "d") == []


def test_claim_without_a_class_that_waits_must_be_bound_before() -> None:
    fleet = fleet_of()
    add_claim(fleet, "immediate", storageClassName="missing")
    add_claim(fleet, "wants", volumeName="v")
    for name in ("immediate", "wants"):
        assert run(fleet, name).status.message == NOT_BOUND


def test_taken_volume_is_not_offered_until_it_is_released() -> None:
    fleet = fleet_of(provisioner="kubernetes.io/no-provisioner")
    for name in ("c", "d"):
        add_claim(fleet, name)
    add_volume(fleet, "v", on="n2")
    fleet.take_volume("v", ClaimReference(namespace="ns1", name="c", uid="uid-c"))
    assert (feasible(fleet, "c"), feasible(fleet, "d")) == (["n2"], [])
    add_volume(fleet, "v", on="n2")  # a version from before the claim was written
    assert feasible(fleet, "d") == []
    fleet.release_volume("v")
    assert feasible(fleet, "d") == ["n2"]


@given(
    sizes=st.lists(st.sampled_from(["1Gi", "2Gi"]), min_size=1, max_size=3),
    volumes=st.lists(st.tuples(st.sampled_from(["1Gi", "2Gi"]), st.sampled_from(["", *HOSTS])), max_size=4),
    provisioned=st.booleans(),
    allowed=st.lists(st.sampled_from(HOSTS)),
    capacities=st.dictionaries(st.sampled_from(HOSTS), st.sampled_from(["1Gi", "2Gi"])),
)
@settings(max_examples=60)
def test_whole_fleet_form_of_waiting_claims_agrees_with_per_node_form(
    sizes: list[str],
    volumes: list[tuple[str, str]],
    provisioned: bool,
    allowed: list[str],
    capacities: dict[str, str],
) -> None:
    terms = [{"matchLabelExpressions": [{"key": "host", "values": [name]}]} for name in allowed]
    fleet = fleet_of(
        allowedTopologies=terms, **({} if provisioned else {"provisioner": "kubernetes.io/no-provisioner"})
    )
    for at, (size, on) in enumerate(volumes):
        add_volume(fleet, f"v{at}", size, on=on)
    for host, size in capacities.items():
        add_capacity(fleet, host, size)
    driver = {"metadata": {"name": DRIVER}, "spec": {"storageCapacity": bool(capacities)}}
    fleet.upsert_driver(msgspec.convert(driver, CSIDriver))
    names = [f"c{at}" for at in range(len(sizes))]
    for name, size in zip(names, sizes, strict=True):
        add_claim(fleet, name, size)
    snapshot, workload = fleet.snapshot(), pod_workload(user(*names))
    fast = cycle.run(snapshot, workload, PROFILE, now=0)
    slow = cycle.run(snapshot, workload, PROFILE, now=0, whole_fleet=False)
    assert fast.totals_by_name() == slow.totals_by_name()
