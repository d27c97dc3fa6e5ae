"""What runs machines: NeonVM and KubeVirt. Each has a kind of machines, a kind of migrations, and a migrator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fairway.api.kubevirt import VirtualMachineInstance, VirtualMachineInstanceMigration
from fairway.api.resources import VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from fairway.api.virtual_machine import VirtualMachine, VirtualMachineMigration
from fairway.controllers.machines.kinds import INSTANCE_MIGRATIONS, INSTANCES
from fairway.controllers.machines.objects import MachineObjects
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.optional_kinds import OptionalKinds
from fairway.workloads.machines.kubevirt import INSTANCE_KIND, KubeVirtMigrator
from fairway.workloads.machines.machine import VIRTUAL_MACHINE
from fairway.workloads.machines.migration import Migration
from fairway.workloads.machines.migration_record import is_ours
from fairway.workloads.machines.migrator import Migrator
from fairway.workloads.machines.neonvm import NeonVMMigrator
from kubewire.api.resource import Key
from kubewire.client import Informer, Resource

MigrationObject = VirtualMachineMigration | VirtualMachineInstanceMigration
MachineObject = VirtualMachine | VirtualMachineInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class HypervisorKinds:
    machines: Resource[Any]
    migrations: Resource[Any]


NEONVM: Final = HypervisorKinds(machines=VIRTUAL_MACHINES, migrations=VIRTUAL_MACHINE_MIGRATIONS)
KUBEVIRT: Final = HypervisorKinds(machines=INSTANCES, migrations=INSTANCE_MIGRATIONS)
HYPERVISORS: Final[Mapping[str, HypervisorKinds]] = {VIRTUAL_MACHINE: NEONVM, INSTANCE_KIND: KUBEVIRT}
"""By the kind of their machines."""


def find_record(object_: MigrationObject, find: Callable[[str], Migration | None]) -> Migration | None:
    """Return the migration that an object carries out; ``find`` returns the one with an id."""
    migration, meta = find(object_.metadata.name), object_.metadata
    if migration is None or migration.source.namespace != meta.namespace:
        return None
    return migration if HYPERVISORS[migration.kind].migrations.kind == object_.kind else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypervisor:
    """The informers of what the hub serves."""

    machines: Informer[Any]
    migrations: Informer[Any]


Hypervisors = Mapping[str, Hypervisor]

M = TypeVar("M", VirtualMachineMigration, VirtualMachineInstanceMigration)


def watch_hypervisors(
    informers: InformerFactory, kinds: frozenset[str] | None, *, changed: Callable[[], None]
) -> dict[str, OptionalKinds]:
    """Watch ``kinds`` of machines; without ``kinds``, those that the hub serves. ``changed`` is called when a
    hypervisor begins or ends to be served."""
    return {
        kind: OptionalKinds(
            informers, (hypervisor.machines, hypervisor.migrations), changed=changed, fixed=kinds is not None
        )
        for kind, hypervisor in HYPERVISORS.items()
        if kinds is None or kind in kinds
    }


def served_hypervisors(watched: Mapping[str, OptionalKinds]) -> dict[str, Hypervisor]:
    return {
        kind: Hypervisor(machines=kinds.informers[0], migrations=kinds.informers[1])
        for kind, kinds in watched.items()
        if kinds.informers
    }


def migrators_of(hypervisors: Hypervisors, objects: MachineObjects) -> dict[str, Migrator]:
    """Return how the machines of each kind are moved."""
    migrators: dict[str, Migrator] = {}
    if VIRTUAL_MACHINE in hypervisors:
        migrators[VIRTUAL_MACHINE] = NeonVMMigrator(
            migrations=lambda namespace, name: _ours(objects.migrations, (namespace, name)),
            machines=lambda namespace, name: objects.machines.get((namespace, name)),
            pods=lambda namespace, name: objects.pods.get((namespace, name)),
            hosts=objects.hosts,
        )
    if INSTANCE_KIND in hypervisors:
        migrators[INSTANCE_KIND] = KubeVirtMigrator(
            migrations=lambda namespace, name: _ours(objects.instance_migrations, (namespace, name)),
            target_pods=objects.pod_of_migration,
            pods=lambda namespace, name: objects.pods.get((namespace, name)),
            hosts=objects.hosts,
        )
    return migrators


def _ours(objects: Mapping[Key, M], key: Key) -> M | None:
    """Return an object that this scheduler created. Another one with its name must be left alone."""
    created = objects.get(key)
    return created if created is not None and is_ours(created) else None
