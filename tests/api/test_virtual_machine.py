"""NeonVM's and KubeVirt's objects decode as their controllers write them."""

import msgspec

from fairway.api.kubevirt import VirtualMachineInstanceMigration
from fairway.api.virtual_machine import VirtualMachine, VirtualMachineMigration


def test_virtual_machine_is_read_with_whole_and_milli_cpus() -> None:
    vm = msgspec.convert(
        {
            "apiVersion": "vm.neon.tech/v1",
            "kind": "VirtualMachine",
            "metadata": {"name": "vm-a", "namespace": "ns", "uid": "u", "labels": {"a": "b"}},
            "spec": {
                "guest": {
                    "cpus": {"min": "250m", "max": 4, "use": 1},
                    "memorySlots": {"min": 1, "max": 16, "use": 4},
                    "memorySlotSize": "1Gi",
                    "rootDisk": {"image": "x"},
                },
                "overcommit": {"cpu": "1.5"},
                "schedulerName": "fairway",
            },
            "status": {"phase": "Running", "podName": "vm-a-x", "node": "n1", "cpus": "1500m"},
        },
        VirtualMachine,
    )
    assert (vm.spec.guest.cpus.min, vm.spec.guest.cpus.max, vm.status.cpus) == ("250m", 4, "1500m")
    assert vm.spec.overcommit is not None
    assert (vm.spec.overcommit.cpu, vm.spec.overcommit.memory) == ("1.5", None)


def test_migrations_have_the_defaults_of_their_definition() -> None:
    migration = msgspec.convert({"spec": {"vmName": "vm-b"}}, VirtualMachineMigration)
    assert migration.spec.preventMigrationToSameHost
    assert (migration.spec.maxBandwidth, migration.spec.completionTimeout) == ("1Gi", 3600)
    assert msgspec.to_builtins(migration) == {"spec": {"vmName": "vm-b"}}


def test_kubevirt_migration_without_state_is_read() -> None:
    migration = msgspec.convert(
        {"spec": {"vmiName": "vm-b"}, "status": {"phase": "Scheduling"}}, VirtualMachineInstanceMigration
    )
    assert (migration.status.phase, migration.status.migrationState) == ("Scheduling", None)
