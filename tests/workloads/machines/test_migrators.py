"""NeonVM's and KubeVirt's objects: what is written for each step, and what their state means."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec import structs

from fairway.api import validation
from fairway.api.kubevirt import VirtualMachineInstance, VirtualMachineInstanceMigration
from fairway.api.machine_migration import MachineMigration
from fairway.api.pod import Pod, PodStatus
from fairway.api.virtual_machine import (
    APPROVED,
    REQUESTED,
    SCALING_BOUNDS,
    SCALING_UNIT,
    VirtualMachine,
    VirtualMachineMigration,
)
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.workloads.machines import kubevirt, neonvm
from fairway.workloads.machines.events import Stage
from fairway.workloads.machines.instructions import WritePermit
from fairway.workloads.machines.machine import Demand
from fairway.workloads.machines.migration import (
    Claim,
    Migration,
    Phase,
    Reason,
    RecordError,
    decode_record,
)
from fairway.workloads.machines.migration_record import (
    ANNOTATION,
    annotated_record,
    is_ours,
    migration_in,
    record_object,
)
from fairway.workloads.machines.migrator import Create, Delete, Migrator, SimulatedMigrator

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
            "labels": {
                "autoscaling.neon.tech/auto-migration-enabled": "true",
                "autoscaling.neon.tech/enabled": changes.pop("enabled", "true"),
            },
            "annotations": changes.pop("annotations", {}),
        },
        "spec": {
            "guest": {
                "cpus": {"min": "250m", "use": 1, "max": 8},
                "memorySlots": {"min": 1, "use": 4, "max": 32},
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


def test_machine_has_the_larger_size_of_hypervisor_and_spec() -> None:
    machine = neonvm.machine_of(vm(), pod("vm-b-pod", "n1"), HOSTS["n1"])
    assert machine.using == {"cpu": 1000, "memory": 4 * GI}
    assert (machine.factors, machine.migratable, machine.moved) == ({"cpu": 1500}, True, None)
    assert neonvm.size_of(vm(cpus="1500m", memorySize="6Gi")) == {"cpu": 1500, "memory": 6 * GI}
    assert neonvm.size_of(vm(cpus="250m", memorySize="2Gi")) == {"cpu": 1000, "memory": 4 * GI}
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
    demand = neonvm.demand_of(vm(annotations={**dict.fromkeys(names, size), neonvm.GENERATION: "3"}))
    assert demand == Demand(
        requested={"cpu": 250, "memory": GI},
        approved={"cpu": 250, "memory": GI},
        unit={"cpu": 250, "memory": GI},
        generation=3,
    )
    endless = {**dict.fromkeys(names, size), neonvm.GENERATION: "9" * 5000}
    assert neonvm.demand_of(vm(annotations=endless)) == replace(demand, generation=0)
    assert neonvm.demand_of(vm()) is None
    assert neonvm.demand_of(vm(annotations=dict.fromkeys(names, "{"))) is None


def test_bounds_of_a_machine_are_those_of_its_spec() -> None:
    machine = neonvm.machine_of(vm(), pod("vm-b-pod", "n1"), HOSTS["n1"])
    assert machine.smallest == {"cpu": 250, "memory": GI}
    assert machine.largest == {"cpu": 8000, "memory": 32 * GI}


@pytest.mark.parametrize(
    ("annotation", "largest"),
    [
        ('{"min":{"cpu":"1","mem":"1Gi"},"max":{"cpu":"2","mem":"8Gi"}}', {"cpu": 2000, "memory": 8 * GI}),
        ('{"max":{"cpu":"500m","mem":"2Gi"}}', {"cpu": 1000, "memory": 4 * GI}),
        ('{"max":{"cpu":16,"mem":"64Gi"}}', {"cpu": 8000, "memory": 32 * GI}),
        ('{"max":{"cpu":"many"}}', {"cpu": 8000, "memory": 32 * GI}),
        ('{"max":' + "[" * 100_000, {"cpu": 8000, "memory": 32 * GI}),
        ('{"x":' + "[" * 100_000, {"cpu": 8000, "memory": 32 * GI}),
    ],
    ids=["lower", "below the size", "above the spec", "bad quantity", "not bounds", "deep"],
)
def test_annotated_bounds_lower_the_maximum_but_not_below_the_size(
    annotation: str, largest: dict[str, int]
) -> None:
    bounded = vm(annotations={SCALING_BOUNDS: annotation})
    assert neonvm.machine_of(bounded, pod("vm-b-pod", "n1"), HOSTS["n1"]).largest == largest


def test_deeply_nested_annotations_count_as_unreadable() -> None:
    deep = '{"x":' + "[" * 100_000
    assert neonvm.demand_of(vm(annotations=dict.fromkeys((REQUESTED, SCALING_UNIT, APPROVED), deep))) is None
    with pytest.raises(RecordError, match="unreadable"):
        decode_record(deep, name="m")


def test_machine_without_an_agent_moves_if_its_owner_allows_it() -> None:
    machine = neonvm.machine_of(vm(enabled="false"), pod("vm-b-pod", "n1"), HOSTS["n1"])
    assert (machine.grows, machine.migratable) == (False, True)


def test_recorded_demand_ends_at_the_maximum_of_the_machine() -> None:
    unit, huge = '{"vCPUs":1,"mem":1073741824}', '{"vCPUs":512,"mem":70368744177664}'
    demand = neonvm.demand_of(vm(annotations={REQUESTED: huge, APPROVED: huge, SCALING_UNIT: unit}))
    assert demand is not None
    assert demand.requested == demand.approved == {"cpu": 8000, "memory": 32 * GI}


@pytest.mark.parametrize("enabled", ["false", "True", ""])
def test_machine_without_the_autoscaling_label_has_no_permit(enabled: str) -> None:
    size = '{"vCPUs":6,"mem":1073741824}'
    plain = vm(annotations=dict.fromkeys((REQUESTED, SCALING_UNIT, APPROVED), size), enabled=enabled)
    assert neonvm.demand_of(plain) is None
    assert not neonvm.machine_of(plain, pod("vm-b-pod", "n1"), HOSTS["n1"]).grows


def test_permit_patch_tests_the_generation_of_the_request() -> None:
    demand = Demand(
        requested={"cpu": 500, "memory": GI},
        approved={"cpu": 250, "memory": GI},
        unit={"cpu": 250, "memory": GI},
        generation=4,
    )
    write = WritePermit(key=MIGRATION.source, demand=demand, after=3)
    patch = neonvm.permit_patch(write, vm(annotations={neonvm.GENERATION: "3"}))
    assert patch[0] == {
        "op": "test",
        "path": "/metadata/annotations/fairway.dev~1request-generation",
        "value": "3",
    }
    assert {operation["path"].rsplit("/", 1)[1] for operation in patch[1:]} == {
        "internal.autoscaling.neon.tech~1resources-requested",
        "internal.autoscaling.neon.tech~1resources-approved",
        "autoscaling.neon.tech~1scaling-unit",
        "fairway.dev~1request-generation",
    }
    first = neonvm.permit_patch(write, vm())
    assert first[0] == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    assert json.loads(first[1]["value"][APPROVED]) == {"vCPUs": "250m", "mem": 1 << 30}


CLAIM = Claim(beneficiary=WorkloadKey("ns", "vm-a-pod", "u9"), amounts={"cpu": 500}, from_source=False)
FULL = replace(
    MIGRATION.step(Phase.CANCELLING, now=7, outcome=Phase.FAILED, message="no room"),
    claims=(CLAIM,),
    purpose=(CLAIM, replace(CLAIM, from_source=True)),
    attempt=3,
    revision=8,
    kind="VirtualMachineInstance",
)


@pytest.mark.parametrize("migration", [MIGRATION, FULL])
def test_record_is_valid_and_read_back_from_its_object(migration: Migration) -> None:
    object_ = record_object(migration)
    assert not validation.check(object_, kind=MachineMigration)
    assert migration_in(msgspec.convert(object_, MachineMigration)) == migration


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"machine": {"kind": "VirtualMachine", "name": ""}}, "spec.machine.name is missing"),
        ({"startTime": None}, "spec.startTime is missing"),
        ({"phase": "Walking"}, "'Walking' is not a valid Phase"),
    ],
)
def test_unreadable_record_names_its_migration_and_the_field(change: dict[str, Any], reason: str) -> None:
    object_ = record_object(MIGRATION)
    object_["spec"].update(change)
    with pytest.raises(RecordError, match=f"the record of migration vm-b-12345678-1 is unreadable: {reason}"):
        migration_in(msgspec.convert(object_, MachineMigration))


def annotated(text: str, **meta: Any) -> VirtualMachineMigration:
    metadata = {"name": MIGRATION.id, "annotations": {ANNOTATION: text}, **meta}
    return msgspec.convert({"metadata": metadata}, VirtualMachineMigration)


def test_record_in_an_annotation_of_an_earlier_version_is_read() -> None:
    document = msgspec.to_builtins(MIGRATION)
    assert annotated_record(annotated(json.dumps(document))) == MIGRATION
    del document["kind"]  # a version before KubeVirt
    assert annotated_record(annotated(json.dumps(document))) == MIGRATION
    deleted = annotated(json.dumps(document), deletionTimestamp="2026-03-01T12:00:00Z")
    assert annotated_record(deleted) is None
    with pytest.raises(RecordError, match="the record of migration vm-b-12345678-1 is unreadable"):
        annotated_record(annotated("{"))


def test_migration_object_of_neonvm_has_no_record() -> None:
    object_ = msgspec.convert(neonvm.migration_object(MIGRATION), VirtualMachineMigration)
    assert (object_.spec.vmName, object_.metadata.annotations) == ("vm-b", {})
    assert is_ours(object_)


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


@pytest.mark.parametrize("phase", [Phase.TARGET_PENDING, Phase.TARGET_BOUND, Phase.COPYING])
def test_migration_whose_object_was_deleted_has_failed(phase: Phase) -> None:
    migration = replace(MIGRATION, phase=phase, target=WorkloadKey("ns", "target", "uid-target"))
    seen = neon(phase=None, target=pod("target", "n2"), machine=vm()).observe(migration)
    assert (seen.stage, seen.message) == (Stage.FAILED, "the VirtualMachineMigration was deleted")


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


@pytest.mark.parametrize(("phase", "waiting"), [("", False), ("Pending", True), ("Scheduling", False)])
def test_kubevirt_migration_that_is_pending_without_a_target_waits_for_its_turn(
    phase: str, waiting: bool
) -> None:
    assert kubevirt_migrator(phase).observe(MIGRATION).waiting is waiting


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
