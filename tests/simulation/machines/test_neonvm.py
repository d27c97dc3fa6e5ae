"""The stand-in for NeonVM's controller: runner pods, sizes, and every way that a migration ends."""

import pytest

from fairway.api.resources import PODS, VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from fairway.simulation.machines.neonvm import Step
from simulation.machines.machine_hub import MachineHub


async def test_virtual_machine_gets_a_runner_pod_that_names_the_scheduler(hub: MachineHub) -> None:
    await hub.run_vm("vm-a", "n1")
    vm = hub.vm("vm-a")
    assert (vm.status.node, vm.status.cpus, vm.status.memorySize) == ("n1", 1, "4Gi")
    pod = hub.pod(vm.status.podName)
    assert pod is not None
    assert pod.spec.schedulerName == "fairway"
    assert [(owner.kind, owner.controller) for owner in pod.metadata.ownerReferences] == [
        ("VirtualMachine", True)
    ]


async def test_changed_size_is_reported_while_the_machine_runs(hub: MachineHub) -> None:
    await hub.run_vm("vm-r", "n1")
    await hub.resize("vm-r", cpus=2, slots=8)
    await hub.until(lambda: hub.vm("vm-r").status.memorySize == "8Gi")
    assert hub.vm("vm-r").status.cpus == 2


async def test_deleted_runner_pod_is_replaced(hub: MachineHub) -> None:
    await hub.run_vm("vm-d", "n1")
    first = hub.vm("vm-d").status.podName
    await hub.delete(PODS, first)
    await hub.until(lambda: hub.vm("vm-d").status.podName not in ("", first))
    assert hub.vm("vm-d").status.phase == "Pending"


async def test_deleted_virtual_machine_loses_its_pod(hub: MachineHub) -> None:
    await hub.run_vm("vm-x", "n1")
    pod = hub.vm("vm-x").status.podName
    await hub.delete(VIRTUAL_MACHINES, "vm-x")
    await hub.until(lambda: hub.pod(pod) is None)


async def moving(hub: MachineHub, vm: str, *, hold: Step) -> tuple[str, str]:
    """Migrate a machine from n1 to n2 up to a step, and return its source and target pod."""
    hub.neonvm.hold(hold)
    await hub.run_vm(vm, "n1")
    source = hub.vm(vm).status.podName
    await hub.migrate(f"{vm}-1", vm)
    await hub.until(lambda: hub.migration(f"{vm}-1").status.info.status == "setup")
    target = hub.migration(f"{vm}-1").status.targetPodName
    await hub.bind(target, "n2")
    return source, target


async def test_migration_moves_the_machine_and_deletes_its_source(hub: MachineHub) -> None:
    source, target = await moving(hub, "vm-m", hold=Step.CLEANUP)
    await hub.until(lambda: hub.migration("vm-m-1").status.phase == "Succeeded")
    assert hub.vm("vm-m").status.podName == target
    assert (hub.vm("vm-m").status.node, hub.vm("vm-m").status.phase) == ("n2", "Running")
    assert hub.migration("vm-m-1").status.info.ram.transferred == 4 << 30
    assert hub.pod(source) is not None
    hub.neonvm.release()
    await hub.until(lambda: hub.pod(source) is None)
    await hub.delete(VIRTUAL_MACHINE_MIGRATIONS, "vm-m-1")
    await hub.until(lambda: ("default", "vm-m-1") not in hub.migrations.store)
    assert hub.pod(target) is not None


async def test_machine_keeps_its_size_while_it_migrates(hub: MachineHub) -> None:
    await moving(hub, "vm-s", hold=Step.COMPLETE)
    await hub.until(lambda: hub.vm("vm-s").status.phase == "Migrating")
    await hub.resize("vm-s", cpus=2, slots=8)
    hub.neonvm.release()
    await hub.until(lambda: hub.migration("vm-s-1").status.phase == "Succeeded")
    assert hub.migration("vm-s-1").status.info.ram.total == 4 << 30
    await hub.until(lambda: hub.vm("vm-s").status.memorySize == "8Gi")


@pytest.mark.parametrize("step", [Step.COPY, Step.COMPLETE, Step.CUTOVER])
async def test_deleted_migration_is_cancelled_before_its_cutover(hub: MachineHub, step: Step) -> None:
    vm = f"vm-{step.name.lower()}"
    source, target = await moving(hub, vm, hold=step)
    await hub.delete(VIRTUAL_MACHINE_MIGRATIONS, f"{vm}-1")
    await hub.until(lambda: hub.pod(target) is None)
    await hub.until(lambda: hub.vm(vm).status.phase == "Running")
    assert hub.vm(vm).status.podName == source
    assert hub.pod(source) is not None


async def test_migration_fails_when_its_target_pod_is_deleted(hub: MachineHub) -> None:
    source, target = await moving(hub, "vm-f", hold=Step.COMPLETE)
    await hub.delete(PODS, target)
    await hub.until(lambda: hub.migration("vm-f-1").status.phase == "Failed")
    assert hub.migration("vm-f-1").status.conditions[0].message == f"target pod {target} was deleted"
    await hub.until(lambda: hub.vm("vm-f").status.phase == "Running")
    assert hub.vm("vm-f").status.podName == source


async def test_migration_of_a_missing_machine_fails(hub: MachineHub) -> None:
    await hub.migrate("nothing-1", "nothing")
    await hub.until(lambda: hub.migration("nothing-1").status.phase == "Failed")
