"""Migrators: how a virtual machine is moved, depending on what runs it.

A migrator turns a step of a migration into objects to write, and reports from objects how far the migration is. It has
no state of its own, except the simulated one, which stands for the hypervisor.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fairway.api.kubevirt import VirtualMachineInstanceMigration
from fairway.api.virtual_machine import VirtualMachineMigration
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.workloads.machines.events import Observation, Stage
from fairway.workloads.machines.migration import Migration, Phase

OBJECT_DELETED: Final = "the {kind} was deleted"


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object. One of ours that exists already, with the same name, is the same object."""

    object: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete an object; with a uid, only that one."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


Write = Create | Delete


class Migrator(Protocol):
    def prepare(self, migration: Migration, /) -> Sequence[Write]:
        """Create the target pod, or what creates it."""

    def transfer(self, migration: Migration, /) -> Sequence[Write]:
        """Start the copy."""

    def cutover(self, migration: Migration, /) -> Sequence[Write]:
        """Let the target run the machine. There is no way back."""

    def abort(self, migration: Migration, /) -> Sequence[Write]:
        """Give up before the cutover: the machine keeps running at its source."""

    def observe(self, migration: Migration, /) -> Observation:
        """Report how far the migration is."""


def has_created(migration: Migration) -> bool:
    """Return whether the hypervisor has had an object of this migration, and must still have it."""
    return migration.phase in (Phase.TARGET_PENDING, Phase.TARGET_BOUND, Phase.COPYING)


class SelfDriven:
    """The steps of a migrator whose controller does everything by itself once an object exists, and cancels with it.

    ``find`` returns the object with this namespace and name; None if it does not exist.
    """

    def __init__(
        self,
        *,
        api_version: str,
        kind: str,
        object_of: Callable[[Migration], dict[str, Any]],
        find: Callable[[str, str], VirtualMachineMigration | VirtualMachineInstanceMigration | None],
    ) -> None:
        self._api_version, self._kind = api_version, kind
        self._object_of, self._find = object_of, find

    def prepare(self, migration: Migration, /) -> Sequence[Write]:
        return (Create(self._object_of(migration)),)

    def transfer(self, _migration: Migration, /) -> Sequence[Write]:
        return ()

    def cutover(self, _migration: Migration, /) -> Sequence[Write]:
        return ()

    def abort(self, migration: Migration, /) -> Sequence[Write]:
        namespace = migration.source.namespace
        created = self._find(namespace, migration.id)
        if created is None:
            return ()
        return (
            Delete(
                api_version=self._api_version,
                kind=self._kind,
                namespace=namespace,
                name=migration.id,
                uid=created.metadata.uid,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    stage: Stage
    target: WorkloadKey
    host: HostKey | None = None
    message: str = ""


class SimulatedMigrator:
    """A hypervisor in memory. The caller decides when a target is bound, a copy is complete, or a step fails."""

    def __init__(self) -> None:
        self.copies: dict[str, Copy] = {}
        self.second_copies = 0
        """How often a copy was started that was already under way."""
        self._created = 0

    def prepare(self, migration: Migration, /) -> Sequence[Write]:
        if migration.id not in self.copies:
            self._created += 1
            target = migration.target._replace(uid=f"{migration.id}-{self._created}")
            self.copies[migration.id] = Copy(stage=Stage.PENDING, target=target)
        return ()

    def bind(self, id_: str, host: HostKey) -> None:
        copy = self.copies[id_]
        self.copies[id_] = Copy(stage=Stage.BOUND, target=copy.target, host=host)

    def transfer(self, migration: Migration, /) -> Sequence[Write]:
        copy = self.copies.get(migration.id)
        if copy is not None:
            self.second_copies += copy.stage in (Stage.COPYING, Stage.COPIED, Stage.SWITCHED)
            if copy.stage is Stage.BOUND:
                self._reach(migration.id, Stage.COPYING)
        return ()

    def complete(self, id_: str) -> None:
        self._reach(id_, Stage.COPIED)

    def cutover(self, migration: Migration, /) -> Sequence[Write]:
        copy = self.copies.get(migration.id)
        if copy is not None and copy.stage is Stage.COPIED:
            self._reach(migration.id, Stage.SWITCHED)
        return ()

    def abort(self, migration: Migration, /) -> Sequence[Write]:
        copy = self.copies.get(migration.id)
        if copy is not None and copy.stage is not Stage.SWITCHED:
            del self.copies[migration.id]
        return ()

    def fail(self, id_: str, message: str) -> None:
        copy = self.copies[id_]
        self.copies[id_] = Copy(stage=Stage.FAILED, target=copy.target, host=copy.host, message=message)

    def observe(self, migration: Migration, /) -> Observation:
        copy = self.copies.get(migration.id)
        if copy is None:
            return Observation(stage=Stage.ABSENT)
        return Observation(stage=copy.stage, target=copy.target, target_host=copy.host, message=copy.message)

    def _reach(self, id_: str, stage: Stage) -> None:
        copy = self.copies[id_]
        self.copies[id_] = Copy(stage=stage, target=copy.target, host=copy.host)
