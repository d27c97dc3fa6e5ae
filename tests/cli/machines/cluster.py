"""The story as objects: vm-a wants to grow, its node is full, and vm-b moves to make room."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import yaml

from fairway.api.virtual_machine import (
    APPROVED,
    AUTO_MIGRATION_LABEL,
    AUTOSCALING_LABEL,
    REQUESTED,
    SCALING_UNIT,
)
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts.instant import SECOND, to_micros
from fairway.workloads.machines import kubevirt
from fairway.workloads.machines.migration import Claim, Migration, Phase, Reason
from fairway.workloads.machines.migration_record import record_object
from fairway.workloads.machines.migration_story import describe_migration
from fairway.workloads.machines.neonvm import migration_object
from fairway.workloads.machines.permit_protocol import encode_size_text

STARTED = to_micros(datetime(2026, 3, 1, 12, tzinfo=UTC))
UNIT = {"cpu": 1000, "memory": (4 << 30) * 1000}


def size(units: int) -> dict[str, int]:
    return {name: units * amount for name, amount in UNIT.items()}


def node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "10", "memory": "40Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def pod(name: str, *, on: str = "", vm: str = "", cpu: str = "", **status: Any) -> dict[str, Any]:
    owner = {"apiVersion": "vm.neon.tech/v1", "kind": "VirtualMachine", "name": vm, "uid": f"uid-{vm}"}
    requests = {"cpu": cpu, "memory": "12Gi"} if cpu else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "ownerReferences": [owner] if vm else [],
        },
        "spec": {
            "nodeName": on,
            "schedulerName": "fairway",
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running" if on else "Pending", **status},
    }


def machine(name: str, *, units: int, wants: int, on: str) -> dict[str, Any]:
    annotations = {
        REQUESTED: encode_size_text(size(wants)),
        APPROVED: encode_size_text(size(units)),
        SCALING_UNIT: encode_size_text(UNIT),
    }
    guest = {
        "cpus": {"min": 1, "max": 10, "use": units},
        "memorySlots": {"min": 4, "max": 40, "use": 4 * units},
        "memorySlotSize": "1Gi",
    }
    return {
        "apiVersion": "vm.neon.tech/v1",
        "kind": "VirtualMachine",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": {AUTO_MIGRATION_LABEL: "true", AUTOSCALING_LABEL: "true"},
            "annotations": annotations,
        },
        "spec": {"guest": guest},
        "status": {"phase": "Running", "podName": f"{name}-1", "node": on},
    }


def migration(*, phase: Phase = Phase.COPYING) -> Migration:
    claim = Claim(beneficiary=WorkloadKey("default", "vm-a-1", "uid-vm-a-1"), amounts=size(2))
    planned = Migration(
        id="vm-b-0a1b2c3d-1",
        vm="vm-b",
        source=WorkloadKey("default", "vm-b-1", "uid-vm-b-1"),
        source_host=HostKey("node-1", "uid-node-1"),
        target=WorkloadKey("default", "vm-b-2", "uid-vm-b-2"),
        target_host=HostKey("node-2", "uid-node-2"),
        amounts=size(3),
        reason=Reason.DEMAND,
        claims=(claim,),
        purpose=(claim,),
        started=STARTED,
        since=STARTED,
        deadline=STARTED + 3600 * SECOND,
    )
    for seconds, step in enumerate((Phase.TARGET_PENDING, Phase.TARGET_BOUND, Phase.COPYING), 1):
        planned = planned.step(step, now=STARTED + seconds * SECOND)
    if phase is Phase.CLEANED:
        for seconds, step in enumerate((Phase.CUTOVER, Phase.SWAP_COMMITTED, Phase.CLEANED), 15):
            planned = planned.step(step, now=STARTED + seconds * SECOND)
    return planned


def story() -> list[dict[str, Any]]:
    """Return the objects while vm-b is copied."""
    moving = migration_object(migration())
    ram = {"total": 12 << 30, "transferred": 5 << 30, "remaining": 7 << 30}
    moving["status"] = {"phase": "Running", "info": {"status": "active", "ram": ram}}
    return [
        node("node-1"),
        node("node-2"),
        machine("vm-a", units=4, wants=6, on="node-1"),
        machine("vm-b", units=3, wants=3, on="node-1"),
        pod("vm-a-1", on="node-1", vm="vm-a"),
        pod("vm-b-1", on="node-1", vm="vm-b"),
        pod("vm-b-2", on="node-2", vm="vm-b"),
        pod("x", on="node-1", cpu="3"),
        moving,
        record_object(migration()),
    ]


def ended_event() -> dict[str, Any]:
    """Return the event that remains of the migration."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "VirtualMachine", "namespace": "default", "name": "vm-b"},
        "reason": "MigrationCompleted",
        "message": describe_migration(migration(phase=Phase.CLEANED)),
        "lastTimestamp": "2026-03-01T12:00:17Z",
    }


def kubevirt_story() -> list[dict[str, Any]]:
    """Return the objects while an instance of KubeVirt is copied, beside a machine of NeonVM."""
    api_version, kind = "kubevirt.io/v1", kubevirt.INSTANCE_KIND
    source, target = pod("vm-b-1", on="node-1", cpu="3"), pod("vm-b-2", on="node-2", cpu="3")
    for moving_pod in (source, target):
        owner = {"apiVersion": api_version, "kind": kind, "name": "vm-b", "uid": "uid-vm-b"}
        moving_pod["metadata"]["ownerReferences"] = [owner]
    target["metadata"]["labels"] = {kubevirt.MIGRATION_LABEL: "uid-move"}
    recorded = replace(migration(), kind=kind)
    moving = kubevirt.migration_object(recorded)
    moving["metadata"]["uid"] = "uid-move"
    moving["status"] = {"phase": "Running"}
    instance = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "vm-b", "namespace": "default", "uid": "uid-vm-b"},
        "spec": {"domain": {"resources": {"requests": {"cpu": "3", "memory": "12Gi"}}}},
        "status": {"phase": "Running", "nodeName": "node-1"},
    }
    first = machine("vm-a", units=4, wants=6, on="node-1"), pod("vm-a-1", on="node-1", vm="vm-a")
    return [node("node-1"), node("node-2"), *first, instance, source, target, moving, record_object(recorded)]


def written(*documents: dict[str, Any]) -> str:
    return yaml.safe_dump_all(documents)
