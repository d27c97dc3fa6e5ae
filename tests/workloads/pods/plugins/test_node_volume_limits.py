"""A node takes no more volumes of a CSI driver than its CSINode states; pods that need devices are refused."""

from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import given, settings

from fairway.api.persistent_volume import PersistentVolume, PersistentVolumeClaim
from fairway.api.pod import Pod, PodResourceClaim, Volume
from fairway.api.storage import CSIDriver, CSINode, StorageClass, VolumeAttachment
from fairway.engine import cycle
from fairway.engine.outcome import Outcome
from fairway.engine.status import Code
from fairway.hosts.nodes import NodeFleet
from fairway.hosts.steps import finish
from fairway.workloads.pods import default_profile, pod_workload
from fairway.workloads.pods.plugins.default_preemption import Preemption
from fairway.workloads.pods.plugins.dynamic_resources import REASON
from fairway.workloads.pods.plugins.node_volume_limits import EXCEEDED
from hosts.nodes.builders import node, pod

PROFILE = default_profile()
DRIVER = "csi.example.com"
HOSTS = ("n1", "n2")


def fleet_of(**limits: int) -> NodeFleet:
    fleet = NodeFleet()
    fleet.load([node(name, ready="True", pods="9") for name in HOSTS])
    for name, limit in limits.items():
        set_limit(fleet, name, limit)
    return fleet


def set_limit(
    fleet: NodeFleet, name: str, limit: int | None, *, driver: str = DRIVER, migrated: str = ""
) -> None:
    drivers = [{"name": driver, **({} if limit is None else {"allocatable": {"count": limit}})}]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    document = {"metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": drivers}}
    fleet.upsert_csi_node(msgspec.convert(document, CSINode))


def add_claim(fleet: NodeFleet, name: str, source: dict[str, Any] | None = None) -> None:
    """Add a claim with a volume of the driver, or of another source."""
    source = source or {"csi": {"driver": DRIVER, "volumeHandle": f"handle-{name}"}}
    volume = {"metadata": {"name": f"pv-{name}"}, "spec": source}
    claim = {
        "metadata": {
            "namespace": "ns1",
            "name": name,
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {"volumeName": f"pv-{name}"},
    }
    fleet.upsert_volume(msgspec.convert(volume, PersistentVolume))
    fleet.upsert_claim(msgspec.convert(claim, PersistentVolumeClaim))


def user(name: str, *claims: str, on: str = "", priority: int = 0) -> Pod:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    spec = {"volumes": msgspec.convert(volumes, tuple[Volume, ...]), "priority": priority}
    return pod(name, on=on, spec=spec)


def run(fleet: NodeFleet, *claims: str, priority: int = 0) -> Outcome:
    workload = pod_workload(user("new", *claims, priority=priority))
    return cycle.run(fleet.snapshot(), workload, PROFILE, now=0)


def feasible(fleet: NodeFleet, *claims: str) -> list[str]:
    return sorted(run(fleet, *claims).totals_by_name())


def test_full_node_is_rejected_until_a_volume_is_released_or_the_limit_is_raised() -> None:
    fleet = fleet_of(n1=1)
    for name in ("a", "b"):
        add_claim(fleet, name)
    assert feasible(fleet, "a") == ["n1", "n2"]
    assert feasible(fleet, "a", "b") == ["n2"]
    fleet.upsert_pod(user("first", "a", on="n1"))
    outcome = run(fleet, "b")
    assert outcome.selected == ["n2"]
    status = cycle.rejection(outcome.context, outcome.plugins, 0)
    assert status is not None
    assert (status.code, status.message) == (Code.UNSCHEDULABLE, EXCEEDED)
    assert feasible(fleet, "a") == ["n1", "n2"], "a volume counts once, however many pods use it"
    fleet.delete_pod("ns1", "first")
    assert feasible(fleet, "b") == ["n1", "n2"]
    fleet.upsert_pod(user("first", "a", on="n1"))
    set_limit(fleet, "n1", 2)
    assert feasible(fleet, "b") == ["n1", "n2"]


def test_attached_volume_of_a_deleted_pod_counts() -> None:
    fleet = fleet_of(n1=1)
    for name in ("a", "b"):
        add_claim(fleet, name)
    document = {
        "metadata": {"name": "va"},
        "spec": {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "pv-a"}},
    }
    attachment = msgspec.convert(document, VolumeAttachment)
    assert feasible(fleet, "b") == ["n1", "n2"]
    fleet.upsert_attachment(attachment)
    assert feasible(fleet, "b") == ["n2"]
    fleet.delete_attachment(attachment)
    assert feasible(fleet, "b") == ["n1", "n2"]


def test_volume_that_will_be_provisioned_counts_for_its_class() -> None:
    fleet = fleet_of(n1=0)
    document = {"metadata": {"namespace": "ns1", "name": "c"}, "spec": {"storageClassName": "late"}}
    class_ = {
        "metadata": {"name": "late"},
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    fleet.upsert_class(msgspec.convert(class_, StorageClass))
    fleet.upsert_claim(msgspec.convert(document, PersistentVolumeClaim))
    assert feasible(fleet, "c") == ["n2"]


def test_volumes_of_a_loaded_fleet_count_and_follow_their_class() -> None:
    loaded = fleet_of(n1=1)
    add_claim(loaded, "a")
    add_claim(loaded, "b")
    storage = loaded.storage
    late = {"metadata": {"namespace": "ns1", "name": "c"}, "spec": {"storageClassName": "late"}}
    fleet = NodeFleet()
    fleet.load_others(
        namespaces={},
        claims=[*storage.claims.values(), msgspec.convert(late, PersistentVolumeClaim)],
        volumes=storage.volumes.values(),
        csi_nodes=storage.csi_nodes.values(),
    )
    fleet.load([node(name, ready="True", pods="9") for name in HOSTS])
    finish(fleet.load_pods([user("first", "c", on="n1")]))
    assert feasible(fleet, "b") == ["n1", "n2"], "the driver of the claim is not known"
    fleet.upsert_class(msgspec.convert({"metadata": {"name": "late"}, "provisioner": DRIVER}, StorageClass))
    assert feasible(fleet, "b") == ["n2"]
    finish(fleet.load_pods([user("second", "a", on="n2")]))
    set_limit(fleet, "n2", 1)
    assert feasible(fleet, "b") == []


def test_disk_of_a_migrated_plugin_counts_for_its_driver() -> None:
    fleet, driver = fleet_of(), "ebs.csi.aws.com"
    add_claim(fleet, "a", {"awsElasticBlockStore": {"volumeID": "vol-1"}})
    set_limit(fleet, "n1", 0, driver=driver)
    assert feasible(fleet, "a") == ["n1", "n2"]
    set_limit(fleet, "n1", 0, driver=driver, migrated="kubernetes.io/aws-ebs,kubernetes.io/gce-pd")
    assert feasible(fleet, "a") == ["n2"]


def test_node_without_a_required_driver_is_rejected() -> None:
    fleet = fleet_of()
    add_claim(fleet, "a")
    set_limit(fleet, "n2", None)
    assert feasible(fleet, "a") == ["n1", "n2"]
    driver = {"metadata": {"name": DRIVER}, "spec": {"preventPodSchedulingIfMissing": True}}
    fleet.upsert_driver(msgspec.convert(driver, CSIDriver))
    assert feasible(fleet, "a") == ["n2"]


def test_pod_of_lower_priority_makes_room_for_a_volume() -> None:
    fleet = fleet_of(n1=1, n2=0)
    for name in ("a", "b"):
        add_claim(fleet, name)
    fleet.upsert_pod(user("low", "a", on="n1"))
    plan = Preemption.of(run(fleet, "b", priority=5))
    assert plan is not None
    assert (plan.node, [victim.metadata.name for victim in plan.victims]) == ("n1", ["low"])


def test_pod_with_resource_claims_is_refused() -> None:
    given = pod("new", spec={"resourceClaims": (PodResourceClaim(name="gpu"),)})
    status = cycle.run(fleet_of().snapshot(), pod_workload(given), PROFILE, now=0).status
    assert (status.code, status.plugin, status.message) == (Code.UNRESOLVABLE, "DynamicResources", REASON)


@given(
    pods=st.lists(st.tuples(st.sampled_from(HOSTS), st.sets(st.sampled_from("abc"))), max_size=4),
    new=st.sets(st.sampled_from("abcd"), min_size=1),
    limits=st.dictionaries(st.sampled_from(HOSTS), st.integers(0, 3)),
)
@settings(max_examples=60)
def test_whole_fleet_form_of_volume_limits_agrees_with_per_node_form_and_a_new_fleet(
    pods: list[tuple[str, set[str]]], new: set[str], limits: dict[str, int]
) -> None:
    fleet = fleet_of()
    for name in "abcd":
        add_claim(fleet, name)
    run(fleet, *new)  # the columns exist, and are updated from now on
    for name, limit in limits.items():
        set_limit(fleet, name, limit)
    for at, (on, claims) in enumerate(pods):
        fleet.upsert_pod(user(f"p{at}", *sorted(claims), on=on))
    snapshot, workload = fleet.snapshot(), pod_workload(user("new", *sorted(new)))
    fast = cycle.run(snapshot, workload, PROFILE, now=0).totals_by_name()
    assert fast == cycle.run(snapshot, workload, PROFILE, now=0, whole_fleet=False).totals_by_name()
    on_nodes = {on: set().union(*(claims for host, claims in pods if host == on)) for on in HOSTS}
    fits = [
        on for on in HOSTS if on not in limits or new <= on_nodes[on] or len(on_nodes[on] | new) <= limits[on]
    ]
    assert sorted(fast) == fits
