"""Nodes and machines for readers: what is booked, kept, denied and moving, from the state of the machines."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from fairway.engine.ledger import HostAccount
from fairway.engine.workload import HostKey, ResourceList
from fairway.machines.machine import Demand, Machine
from fairway.machines.migration import Migration
from fairway.machines.size import added, missing
from fairway.machines.state import MachineState

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
    return [_node(state, host) for host in sorted(state.ledger.hosts(), key=lambda each: natural(each.name))]


def machine_reports(state: MachineState) -> list[MachineReport]:
    """Return all virtual machines: those with denied demand first, then those that move, then by name.

    Numbers in names are compared by value: vm-2 is before vm-10. The target of a migration is left out
    until it runs its machine.
    """
    found = [
        _machine(state, machine)
        for machine in state.permits.machines.values()
        if machine.vm and state.permits.owners.get(machine.identity, machine.key) == machine.key
    ]
    return sorted(
        found,
        key=lambda each: (
            not each.denied,
            not each.moving,
            natural(each.namespace),
            natural(each.vm),
            each.kind,
        ),
    )


def natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Return a sort key that compares the numbers in names by value, however long they are."""
    # Every second part is a number.
    parts = [
        (len(number := each.lstrip("0")), number) if index % 2 else (0, each)
        for index, each in enumerate(_NUMBERS.split(name))
    ]
    return parts, name


def _node(state: MachineState, host: HostKey) -> NodeReport:
    account = state.ledger.account(host) or HostAccount(host=host)
    machines = list(state.permits.on_host(host))
    committed: dict[str, int] = {}
    denied: dict[str, int] = {}
    for machine in machines:
        demand = state.permits.demands.get(machine.key)
        committed = added(committed, _committed(machine, demand))
        if demand is not None and demand.denied:
            denied = added(denied, demand.missing(machine.factors))
    promised: dict[str, int] = {}
    for earmark in account.earmarks.values():
        if not earmark.freed:
            promised = added(promised, earmark.amounts)
    watermark = state.permits.watermark(account) if account.capacity is not None else {}
    leaving = [each for each in state.migrations.from_host(host) if each.leaving]
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
        machines=sum(bool(each.vm) for each in machines),
        pods=sum(not each.vm for each in machines),
        leaving=len(leaving),
        arriving=state.migrations.to_host(host),
    )


def _committed(machine: Machine, demand: Demand | None) -> ResourceList:
    if demand is None:
        return machine.using
    return {
        name: max(machine.using.get(name, 0), demand.approved.get(name, 0))
        for name in {*machine.using, *demand.approved}
    }


def _machine(state: MachineState, machine: Machine) -> MachineReport:
    key = machine.key
    demand = state.permits.demands[key]
    migration = state.migrations.of_source(key)
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
        waits_for=_ids(each for each, _ in state.migrations.claims_of(key)),
    )


def _ids(migrations: Iterable[Migration]) -> tuple[str, ...]:
    return tuple(sorted({each.id for each in migrations}))
