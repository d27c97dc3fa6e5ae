"""What runs machines: NeonVM and KubeVirt. Each has a kind of machines, a kind of migrations, and a migrator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairway.api.kubevirt import VirtualMachineInstance, VirtualMachineInstanceMigration
from fairway.api.virtual_machine import VirtualMachine, VirtualMachineMigration
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.machines.kinds import INSTANCE_MIGRATIONS, INSTANCES
from fairway.controllers.machines.machine_objects import MachineObjects
from fairway.controllers.optional_kinds import OptionalKinds
from fairway.kube import Informer, Resource
from fairway.kube.resource import VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from fairway.machines import kubevirt, neonvm
from fairway.machines.kubevirt import INSTANCE_KIND, KubeVirtMigrator
from fairway.machines.machine import VIRTUAL_MACHINE
from fairway.machines.migration import Migration
from fairway.machines.migrator import Migrator
from fairway.machines.neonvm import NeonVMMigrator

MigrationObject = VirtualMachineMigration | VirtualMachineInstanceMigration
MachineObject = VirtualMachine | VirtualMachineInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class HypervisorKinds:
    machines: Resource[Any]
    migrations: Resource[Any]
    object_of: Callable[[Migration], dict[str, Any]]
    """Returns the object that starts a migration."""


NEONVM: Final = HypervisorKinds(
    machines=VIRTUAL_MACHINES, migrations=VIRTUAL_MACHINE_MIGRATIONS, object_of=neonvm.migration_object
)
KUBEVIRT: Final = HypervisorKinds(
    machines=INSTANCES, migrations=INSTANCE_MIGRATIONS, object_of=kubevirt.migration_object
)
HYPERVISORS: Final[Mapping[str, HypervisorKinds]] = {VIRTUAL_MACHINE: NEONVM, INSTANCE_KIND: KUBEVIRT}
"""By the kind of their machines."""


def find_record(object_: MigrationObject, records: Mapping[str, Migration]) -> Migration | None:
    """Return the migration whose record an object has; ``records`` are by id."""
    found, meta = records.get(object_.metadata.name), object_.metadata
    if found is None or found.source.namespace != meta.namespace:
        return None
    return found if HYPERVISORS[found.kind].migrations.kind == object_.kind else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypervisor:
    """The informers of what the hub serves."""

    machines: Informer[Any]
    migrations: Informer[Any]


Hypervisors = Mapping[str, Hypervisor]


def watch_hypervisors(
    informers: InformerFactory, kinds: frozenset[str] | None, *, changed: Callable[[], None]
) -> dict[str, OptionalKinds]:
    """Watch ``kinds`` of machines; without ``kinds``, those that the hub serves. ``changed`` is called when a
    hypervisor begins or ends to be served."""
    return {
        kind: OptionalKinds(
            informers, (each.machines, each.migrations), changed=changed, fixed=kinds is not None
        )
        for kind, each in HYPERVISORS.items()
        if kinds is None or kind in kinds
    }


def served_hypervisors(watched: Mapping[str, OptionalKinds]) -> dict[str, Hypervisor]:
    return {
        kind: Hypervisor(machines=each.informers[0], migrations=each.informers[1])
        for kind, each in watched.items()
        if each.informers
    }


def migrators_of(hypervisors: Hypervisors, objects: MachineObjects) -> dict[str, Migrator]:
    """Return how the machines of each kind are moved."""
    found: dict[str, Migrator] = {}
    if VIRTUAL_MACHINE in hypervisors:
        found[VIRTUAL_MACHINE] = NeonVMMigrator(
            migrations=lambda namespace, name: objects.migrations.get((namespace, name)),
            machines=lambda namespace, name: objects.machines.get((namespace, name)),
            pods=lambda namespace, name: objects.pods.get((namespace, name)),
            hosts=objects.hosts,
        )
    if INSTANCE_KIND in hypervisors:
        found[INSTANCE_KIND] = KubeVirtMigrator(
            migrations=lambda namespace, name: objects.instance_migrations.get((namespace, name)),
            target_pods=objects.pod_of_migration,
            pods=lambda namespace, name: objects.pods.get((namespace, name)),
            hosts=objects.hosts,
        )
    return found
