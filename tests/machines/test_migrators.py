"""NeonVM's and KubeVirt's objects: what is written for each step, and what their state means."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec import structs

from fairway.api.kubevirt import VirtualMachineInstance, VirtualMachineInstanceMigration
from fairway.api.pod import Pod, PodStatus
from fairway.api.virtual_machine import (
    APPROVED,
    REQUESTED,
    SCALING_UNIT,
    VirtualMachine,
    VirtualMachineMigration,
)
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.machines import kubevirt, neonvm
from fairway.machines.events import Stage
from fairway.machines.instructions import WritePermit
from fairway.machines.machine import Demand
from fairway.machines.migration import Migration, Phase, Reason, RecordError
from fairway.machines.migrator import Create, Delete, Migrator, SimulatedMigrator

GI = (1 << 30) * 1000
HOSTS = {name: HostKey(name, f"uid-{name}") for name in ("n1", "n2")}
MIGRATION = Migration(
    id="vm-b-12345678-1",
    vm="vm-b",
    source=WorkloadKey("ns", "vm-b-pod", "u1"),
    source_host=HOSTS["n1"],
    target=WorkloadKey("ns", "vm-b-12345678-1"),
    target_host=HOSTS["n2"],
    amounts={"cpu": 1000, "memory": 4 * GI},
    reason=Reason.DEMAND,
    started=5,
    since=5,
    deadline=9,
)


def vm(**changes: Any) -> VirtualMachine:
    document: dict[str, Any] = {
        "metadata": {
            "name": "vm-b",
            "namespace": "ns",
            "resourceVersion": "7",
            "labels": {"autoscaling.neon.tech/auto-migration-enabled": "true"},
            "annotations": changes.pop("annotations", {}),
        },
        "spec": {
            "guest": {
                "cpus": {"use": 1},
                "memorySlots": {"use": 4},
                "memorySlotSize": "1Gi",
            },
            "overcommit": {"cpu": "1.5"},
        },
        "status": {"phase": "Running", "podName": "vm-b-pod", **changes},
    }
    return msgspec.convert(document, VirtualMachine)


def pod(name: str, node: str = "", **metadata: Any) -> Pod:
    document = {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", **metadata},
        "spec": {"nodeName": node},
    }
    return msgspec.convert(document, Pod)


def test_machine_has_the_size_of_the_hypervisor_or_else_of_the_spec() -> None:
    machine = neonvm.machine_of(vm(), pod("vm-b-pod", "n1"), HOSTS["n1"])
    assert machine.using == {"cpu": 1000, "memory": 4 * GI}
    assert (machine.factors, machine.migratable, machine.moved) == ({"cpu": 1500}, True, None)
    assert neonvm.size_of(vm(cpus="1500m", memorySize="6Gi")) == {"cpu": 1500, "memory": 6 * GI}
    assert not neonvm.machine_of(vm(phase="PreMigrating"), pod("p"), HOSTS["n1"]).migratable


def test_pod_of_a_migration_counts_as_moved_when_it_was_created() -> None:
    owned = pod(
        "p",
        creationTimestamp="1970-01-01T00:00:09Z",
        ownerReferences=[{"kind": "VirtualMachineMigration", "name": "m"}],
    )
    assert neonvm.machine_of(vm(), owned, HOSTS["n1"]).moved == 9_000_000


@pytest.mark.parametrize(
    ("annotation", "moved"),
    [("1970-01-01T00:00:20.5Z", 20_500_000), ("yesterday", None), ("1970-01-01T00:00:20", None), ("", None)],
)
def test_annotation_records_when_a_machine_moved_and_is_ignored_if_unreadable(
    annotation: str, moved: int | None
) -> None:
    moved_vm = vm(annotations={neonvm.MOVED_AT: annotation})
    assert neonvm.machine_of(moved_vm, pod("p"), HOSTS["n1"]).moved == moved


def test_newer_of_annotation_and_owner_shows_when_a_machine_moved() -> None:
    owned = pod(
        "p",
        creationTimestamp="1970-01-01T00:00:09Z",
        ownerReferences=[{"kind": "VirtualMachineMigration", "name": "m"}],
    )
    for seconds, moved in (("08", 9_000_000), ("10", 10_000_000)):
        moved_vm = vm(annotations={neonvm.MOVED_AT: f"1970-01-01T00:00:{seconds}Z"})
        assert neonvm.machine_of(moved_vm, owned, HOSTS["n1"]).moved == moved


def test_demand_is_read_from_annotations_and_ignored_if_unreadable() -> None:
    size = '{"vCPUs":"250m","mem":1073741824}'
    names = (REQUESTED, SCALING_UNIT, APPROVED)
    found = neonvm.demand_of(vm(annotations={**dict.fromkeys(names, size), neonvm.GENERATION: "3"}))
    assert found == Demand(
        requested={"cpu": 250, "memory": GI},
        approved={"cpu": 250, "memory": GI},
        unit={"cpu": 250, "memory": GI},
        generation=3,
    )
    assert neonvm.demand_of(vm()) is None
    assert neonvm.demand_of(vm(annotations=dict.fromkeys(names, "{"))) is None


def test_permit_patch_tests_the_generation_of_the_request() -> None:
    demand = Demand(
        requested={"cpu": 500, "memory": GI},
        approved={"cpu": 250, "memory": GI},
        unit={"cpu": 250, "memory": GI},
        generation=4,
    )
    write = WritePermit(key=MIGRATION.source, demand=demand, after=3, epoch=1)
    patch = neonvm.permit_patch(write, vm(annotations={neonvm.GENERATION: "3"}))
    assert patch[0] == {
        "op": "test",
        "path": "/metadata/annotations/fairway.dev~1request-generation",
        "value": "3",
    }
    assert {each["path"].rsplit("/", 1)[1] for each in patch[1:]} == {
        "internal.autoscaling.neon.tech~1resources-requested",
        "internal.autoscaling.neon.tech~1resources-approved",
        "autoscaling.neon.tech~1scaling-unit",
        "fairway.dev~1request-generation",
    }
    first = neonvm.permit_patch(write, vm())
    assert first[0] == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    assert json.loads(first[1]["value"][APPROVED]) == {"vCPUs": "250m", "mem": 1 << 30}


def test_record_is_read_back_from_the_migration_object() -> None:
    object_ = msgspec.convert(neonvm.migration_object(MIGRATION), VirtualMachineMigration)
    assert neonvm.record_of(object_) == MIGRATION
    assert object_.spec.vmName == "vm-b"

    bad = msgspec.convert(
        {"metadata": {"name": "m", "annotations": {neonvm.RECORD: "{"}}}, VirtualMachineMigration
    )
    with pytest.raises(RecordError, match="the record of migration m is unreadable"):
        neonvm.record_of(bad)


def test_step_that_skips_a_phase_is_refused() -> None:
    with pytest.raises(RecordError, match="cannot go from Planned to Cutover"):
        MIGRATION.step(Phase.CUTOVER, now=6)


def neon(
    *, phase: str | None, target: Pod | None = None, machine: VirtualMachine | None = None, info: str = ""
) -> neonvm.NeonVMMigrator:
    object_ = None
    if phase is not None:
        status = {"phase": phase, "targetPodName": "target", "info": {"status": info}}
        document = {"metadata": {"name": MIGRATION.id, "uid": "m1"}, "status": status}
        object_ = msgspec.convert(document, VirtualMachineMigration)
    return neonvm.NeonVMMigrator(
        migrations=lambda _namespace, _name: object_,
        machines=lambda _namespace, _name: machine,
        pods=lambda _namespace, name: target if target is not None and name == "target" else None,
        hosts=HOSTS,
    )


@pytest.mark.parametrize(
    ("phase", "node", "info", "stage"),
    [
        (None, None, "", Stage.ABSENT),
        ("", None, "", Stage.ABSENT),
        ("Pending", "", "", Stage.PENDING),
        ("Pending", "n2", "", Stage.BOUND),
        ("Running", "n2", "active", Stage.COPYING),
        ("Running", "n2", "completed", Stage.COPIED),
        ("Succeeded", "n2", "", Stage.SWITCHED),
        ("Failed", None, "", Stage.FAILED),
    ],
)
def test_neonvm_objects_tell_how_far_a_migration_is(
    phase: str | None, node: str | None, info: str, stage: Stage
) -> None:
    target = None if node is None else pod("target", node)
    seen = neon(phase=phase, target=target, machine=vm(), info=info).observe(MIGRATION)
    assert seen.stage is stage
    assert seen.target == (None if target is None else WorkloadKey("ns", "target", "uid-target"))
    assert seen.target_host == (HOSTS["n2"] if node == "n2" else None)


def test_neonvm_migration_of_a_deleted_machine_has_failed() -> None:
    seen = neon(phase="Running", target=pod("target", "n2")).observe(MIGRATION)
    assert (seen.stage, seen.message) == (Stage.FAILED, "VirtualMachine ns/vm-b no longer exists")


def test_neonvm_machine_that_names_the_target_has_switched_even_without_the_object() -> None:
    migration = replace(MIGRATION, target=WorkloadKey("ns", "target", "uid-target"))
    migrator = neon(phase=None, target=pod("target", "n2"), machine=vm(podName="target"))
    assert migrator.observe(migration).stage is Stage.SWITCHED
    assert neon(phase=None, machine=vm()).observe(migration).stage is Stage.ABSENT


def kubevirt_migrator(phase: str, target: Pod | None = None, **state: Any) -> kubevirt.KubeVirtMigrator:
    object_ = msgspec.convert(
        {
            "metadata": {"name": MIGRATION.id, "uid": "m1"},
            "status": {"phase": phase, "migrationState": state or None},
        },
        VirtualMachineInstanceMigration,
    )
    return kubevirt.KubeVirtMigrator(
        migrations=lambda _namespace, _name: object_,
        target_pods=lambda _namespace, uid: target if uid == "m1" else None,
        pods=lambda _namespace, _name: None,
        hosts=HOSTS,
    )


@pytest.mark.parametrize(
    ("phase", "node", "stage"),
    [
        ("", None, Stage.ABSENT),
        ("Scheduling", "", Stage.PENDING),
        ("Scheduled", "n2", Stage.BOUND),
        ("TargetReady", "n2", Stage.BOUND),
        ("Running", "n2", Stage.COPYING),
        ("Succeeded", "n2", Stage.SWITCHED),
        ("Failed", None, Stage.FAILED),
    ],
)
def test_kubevirt_objects_tell_how_far_a_migration_is(phase: str, node: str | None, stage: Stage) -> None:
    target = None if node is None else pod("virt-launcher", node)
    assert kubevirt_migrator(phase, target).observe(MIGRATION).stage is stage


def test_kubevirt_failure_has_its_reason() -> None:
    seen = kubevirt_migrator("Running", failed=True, failureReason="no network").observe(MIGRATION)
    assert (seen.stage, seen.message) == (Stage.FAILED, "no network")


def test_kubevirt_migration_names_the_planned_node() -> None:
    object_ = msgspec.convert(kubevirt.migration_object(MIGRATION), VirtualMachineInstanceMigration)
    assert object_.spec.addedNodeSelector == {"kubernetes.io/hostname": "n2"}


def test_kubevirt_pod_that_has_finished_is_no_target() -> None:
    target = structs.replace(pod("virt-launcher", "n2"), status=PodStatus(phase="Failed"))
    seen = kubevirt_migrator("Failed", target).observe(MIGRATION)
    assert (seen.stage, seen.target) == (Stage.FAILED, None)


@pytest.mark.parametrize(("exists", "stage"), [(True, Stage.UNKNOWN), (False, Stage.ABSENT)])
def test_kubevirt_migration_without_object_has_ended_once_its_target_is_gone(
    exists: bool, stage: Stage
) -> None:
    target = pod("virt-launcher", "n2") if exists else None
    migrator = kubevirt.KubeVirtMigrator(
        migrations=lambda _namespace, _name: None,
        target_pods=lambda _namespace, _uid: None,
        pods=lambda _namespace, _name: target,
        hosts=HOSTS,
    )
    assert migrator.observe(MIGRATION).stage is stage


def instance(**changes: Any) -> VirtualMachineInstance:
    """A running instance on n1 that may move, with changes of metadata, spec and status."""
    ready = {"type": "LiveMigratable", "status": "True", "lastTransitionTime": None}
    body = {
        "metadata": {"name": "vm", **changes.get("metadata", {})},
        "spec": {"evictionStrategy": "LiveMigrate", **changes.get("spec", {})},
        "status": {
            "phase": "Running",
            "nodeName": "n1",
            "conditions": [ready],
            **changes.get("status", {}),
        },
    }
    return msgspec.convert(body, VirtualMachineInstance)


LABEL = "autoscaling.neon.tech/auto-migration-enabled"


@pytest.mark.parametrize(
    ("changes", "node", "may_move"),
    [
        ({}, "n1", True),
        ({"spec": {"evictionStrategy": None}}, "n1", False),
        ({"spec": {"evictionStrategy": None}, "metadata": {"labels": {LABEL: "true"}}}, "n1", True),
        ({"metadata": {"labels": {LABEL: "false"}}}, "n1", False),
        ({"status": {"conditions": []}}, "n1", False),
        ({"status": {"phase": "Scheduled"}}, "n1", False),
        ({"status": {"migrationState": {"targetNode": "n2"}}}, "n1", False),
        ({"status": {"migrationState": {"completed": True}}}, "n1", True),
        ({}, "n2", False),
    ],
)
def test_kubevirt_instance_moves_if_it_can_and_its_owner_agrees(
    changes: dict[str, Any], node: str, may_move: bool
) -> None:
    machine = kubevirt.machine_of(instance(**changes), pod("virt-launcher", node), HOSTS[node], requests={})
    assert machine.migratable is may_move
    assert machine.identity == ("VirtualMachineInstance", "ns", "vm")


def test_kubevirt_instance_counts_the_requests_of_its_pod_and_at_least_what_its_domain_asks_for() -> None:
    domain = {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}, "memory": {"guest": "2Gi"}}
    asked = instance(spec={"domain": domain})
    assert kubevirt.size_of(asked, {}) == {"cpu": 500, "memory": 2 * GI}
    assert kubevirt.size_of(asked, {"cpu": 600, "memory": 3 * GI}) == {"cpu": 600, "memory": 3 * GI}
    grown = instance(spec={"domain": domain}, status={"memory": {"guestCurrent": "4Gi"}})
    assert kubevirt.size_of(grown, {"cpu": 600, "memory": 3 * GI}) == {"cpu": 600, "memory": 4 * GI}


@pytest.mark.parametrize("name", ["neonvm", "kubevirt"])
def test_migrators_write_one_object_and_cancel_by_deleting_exactly_it(name: str) -> None:
    migrator: Migrator = neon(phase="Pending") if name == "neonvm" else kubevirt_migrator("Pending")
    (created,) = migrator.prepare(MIGRATION)
    assert isinstance(created, Create)
    assert created.object["metadata"]["name"] == MIGRATION.id
    assert (migrator.transfer(MIGRATION), migrator.cutover(MIGRATION)) == ((), ())
    (deleted,) = migrator.abort(MIGRATION)
    assert isinstance(deleted, Delete)
    assert (deleted.kind, deleted.name, deleted.uid) == (created.object["kind"], MIGRATION.id, "m1")


def test_simulated_migrator_keeps_the_protocol() -> None:
    migrator: Migrator = SimulatedMigrator()
    assert migrator.observe(MIGRATION).stage is Stage.ABSENT
    migrator.prepare(MIGRATION)
    assert migrator.observe(MIGRATION).stage is Stage.PENDING
    migrator.abort(MIGRATION)
    assert migrator.observe(MIGRATION).stage is Stage.ABSENT
