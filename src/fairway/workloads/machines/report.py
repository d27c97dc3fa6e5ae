"""Nodes and machines for readers: what is booked, kept, denied and moving, from the state of the machines."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from fairway.engine.ledger import HostAccount
from fairway.engine.workload import HostKey, ResourceList
from fairway.workloads.machines.machine import Demand, Machine
from fairway.workloads.machines.migration import Migration
from fairway.workloads.machines.size import added, missing
from fairway.workloads.machines.state import MachineState
from fairway.workloads.machines.table import MachineEntry, demand_of

_NUMBERS: Final = re.compile(r"([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """Amounts by resource, in milli-units."""

    node: str
    capacity: ResourceList | None
    reserved: ResourceList
    """What counts as used: permits and use, divided by the overcommit factors, and the requests of other pods."""
    committed: ResourceList
    """The same before overcommitment."""
    kept: ResourceList
    """Free room that belongs to a beneficiary already."""
    promised: ResourceList
    """Room of machines that leave, which will belong to a beneficiary."""
    watermark: ResourceList
    denied: ResourceList
    """What machines on this node asked for and did not get."""
    above: ResourceList
    """By how much reserved exceeds the watermark."""
    machines: int
    pods: int
    """Pods that are no virtual machines."""
    leaving: int
    """Migrations from this node."""
    arriving: int
    """Migrations to this node."""

    @property
    def earmarked(self) -> ResourceList:
        return added(self.kept, self.promised)

    @property
    def pressure(self) -> ResourceList:
        return added(self.denied, self.above)

    def share(self, resource: str) -> float | None:
        """Return the share of a resource that is reserved; None if the capacity is unknown."""
        capacity = (self.capacity or {}).get(resource, 0)
        return self.reserved.get(resource, 0) / capacity if capacity else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReport:
    namespace: str
    vm: str
    kind: str
    pod: str
    node: str
    using: ResourceList
    permit: ResourceList
    """Empty for a machine without permits, as is ``demand``."""
    demand: ResourceList
    denied: ResourceList
    moving: str = ""
    """Id of the migration that moves this machine."""
    moving_to: str = ""
    phase: str = ""
    waits_for: tuple[str, ...] = field(default=())
    """Migrations that make room for it."""


def node_reports(state: MachineState) -> list[NodeReport]:
    """Return all nodes, by name; node-2 is before node-10."""
    return [_node(state, host) for host in sorted(state.ledger.hosts(), key=lambda host: natural(host.name))]


def machine_reports(state: MachineState) -> list[MachineReport]:
    """Return all virtual machines: those with denied demand first, then those that move, then by name.

    Numbers in names are compared by value: vm-2 is before vm-10. The target of a migration is left out
    until it runs its machine.
    """
    reports = [
        _machine(state, entry)
        for key, entry in state.table.machines.items()
        if entry.machine.vm and state.table.owner_of(entry.machine.identity) in (None, key)
    ]
    return sorted(
        reports,
        key=lambda report: (
            not report.denied,
            not report.moving,
            natural(report.namespace),
            natural(report.vm),
            report.kind,
        ),
    )


def natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Return a sort key that compares the numbers in names by value, however long they are."""
    # Every second part is a number.
    parts = [
        (len(number := part.lstrip("0")), number) if index % 2 else (0, part)
        for index, part in enumerate(_NUMBERS.split(name))
    ]
    return parts, name


def _node(state: MachineState, host: HostKey) -> NodeReport:
    account = state.ledger.account(host) or HostAccount(host=host)
    node = state.table.nodes.get(host)
    entries = [] if node is None else list(node.machines.values())
    committed: dict[str, int] = {}
    denied: dict[str, int] = {}
    for entry in entries:
        machine, demand = entry.machine, entry.demand
        committed = added(committed, _committed(machine, demand))
        if demand is not None and demand.denied:
            denied = added(denied, demand.missing(machine.factors))
    promised: dict[str, int] = {}
    for earmark in account.earmarks.values():
        if not earmark.freed:
            promised = added(promised, earmark.amounts)
    watermark = state.policy.watermark_of(account.capacity)
    leaving = [migration for migration in state.table.migrations_from(host) if migration.leaving]
    return NodeReport(
        node=host.name,
        capacity=account.capacity,
        reserved=dict(account.used),
        committed=committed,
        kept=account.kept_room(),
        promised=promised,
        watermark=watermark,
        denied=denied,
        above=missing(account.used, watermark) if watermark else {},
        machines=sum(bool(entry.machine.vm) for entry in entries),
        pods=sum(not entry.machine.vm for entry in entries),
        leaving=len(leaving),
        arriving=state.table.count_incoming()[host],
    )


def _committed(machine: Machine, demand: Demand | None) -> ResourceList:
    if demand is None:
        return machine.using
    return {
        name: max(machine.using.get(name, 0), demand.approved.get(name, 0))
        for name in {*machine.using, *demand.approved}
    }


def _machine(state: MachineState, entry: MachineEntry) -> MachineReport:
    machine, demand, key = entry.machine, demand_of(entry), entry.machine.key
    migration = state.table.migration_of(key)
    moving: Migration | None = migration if migration is not None and migration.active else None
    return MachineReport(
        namespace=key.namespace,
        vm=machine.vm,
        kind=machine.kind,
        pod=key.name,
        node=machine.host.name,
        using=machine.using,
        permit=demand.approved if machine.grows else {},
        demand=demand.requested if machine.grows else {},
        denied=missing(demand.requested, demand.approved),
        moving="" if moving is None else moving.id,
        moving_to="" if moving is None else moving.target_host.name,
        phase="" if moving is None else moving.phase,
        waits_for=_ids(migration for migration, _ in state.table.claims_of(key)),
    )


def _ids(migrations: Iterable[Migration]) -> tuple[str, ...]:
    return tuple(sorted({migration.id for migration in migrations}))
