"""Machines and their permits, booked in the ledger.

A permit is booked before it is written, and written before the agent gets it. A lower permit is written before its room
is free. So a crash at any point leaves at least as much booked as any agent may use. Denied demand waits in order of
priority, then age, and is served by the event that makes room.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from fairway.engine.ledger import HostAccount
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.instant import Micros
from fairway.workloads.machines.instructions import Reply, WritePermit
from fairway.workloads.machines.machine import Demand, Identity, Machine
from fairway.workloads.machines.permit_protocol import (
    BAD_REQUEST,
    FORBIDDEN,
    FOREIGN_POD,
    NOT_A_MACHINE,
    NOT_FOUND,
    NOT_OWNER,
    NOT_WRITTEN,
    STARTING,
    UNAVAILABLE,
    UNKNOWN_POD,
    Permit,
    PermitError,
    PermitRequest,
)
from fairway.workloads.machines.policy import MachinePolicy
from fairway.workloads.machines.refusals import below_minimum, not_scaled, refuse
from fairway.workloads.machines.size import approve, bounded, charge, exceeds
from fairway.workloads.machines.table import Handover, MachineEntry, MachineTable, demand_of
from fairway.workloads.machines.turn import Turn


class Permits:
    def __init__(self, policy: MachinePolicy, table: MachineTable) -> None:
        self._policy = policy
        self._table = table

    def add(self, turn: Turn, machine: Machine, recorded: Demand | None, *, is_target: bool) -> None:
        """Book a machine that is new or changed."""
        key, old = machine.key, self._table.machine(machine.key)
        if old is not None and old.host != machine.host:
            self.remove(turn, key)
            old = None
        entry = self._table.put_machine(machine)
        if not machine.vm:
            turn.tx.confirm(machine.host, key, charge(machine.using, machine.factors))
        else:
            if not is_target and self._table.owner_of(machine.identity) is None:
                self._table.set_owner(machine.identity, key)
            if not machine.grows:
                recorded = None
            if not machine.grows or (old is not None and not old.grows):
                self._forget_demand(turn, entry)
            demand = entry.demand
            if demand is not None and entry.is_unrecorded and demand.generation == 0:
                # Until an agent asks, the spec may change the size in both directions.
                demand = Demand(requested=machine.using, approved=machine.using)
            if demand is None:
                demand = recorded or Demand(requested=machine.using, approved=machine.using)
                if recorded is None:
                    entry.is_unrecorded = True
                else:
                    entry.written = recorded
                    entry.promised = recorded.approved
            shrunk = machine.grows and demand.requested != bounded(demand.requested, machine.largest)
            if shrunk:
                # The maximum was lowered: the machine would wait forever for what it cannot get.
                demand = demand.ask(bounded(demand.requested, machine.largest), demand.unit)
            self._table.set_demand(entry, demand.approve(_with_use(demand, machine), now=turn.now))
            self._book(turn, entry)
            if shrunk and self._table.is_loaded and self._table.owner_of(machine.identity) == key:
                self.sync(turn, entry)
        turn.touch(machine.host)

    def _forget_demand(self, turn: Turn, entry: MachineEntry) -> None:
        """Forget what the agent of a machine asked for: it has none, or just got one."""
        self._table.set_demand(entry, None)
        self._table.retry(entry, None)
        entry.written = entry.writing = None
        entry.promised = {}
        entry.is_unrecorded = False
        key = entry.machine.key
        if key in self._table.asking:
            self._table.asking.discard(key)
            turn.out.append(not_scaled(entry.machine))

    def _book(self, turn: Turn, entry: MachineEntry) -> None:
        """Book use and permit as they are, even where they exceed the node: both were granted before."""
        machine, key = entry.machine, entry.machine.key
        used = charge(machine.using, machine.factors)
        approved = _booked(entry, demand_of(entry).approved)
        account = turn.account(machine.host)
        reservation = account.reservations.get(key)
        if reservation is None or exceeds(approved, reservation):
            # The ledger refuses a reservation that grows beyond the node, but not one within the observed use.
            both = {name: max(used.get(name, 0), amount) for name, amount in {**used, **approved}.items()}
            turn.tx.observe(machine.host, key, both)
        if reservation != approved:
            turn.tx.reserve(machine.host, key, approved)
        turn.tx.observe(machine.host, key, used)

    def remove(self, turn: Turn, key: WorkloadKey) -> None:
        entry = self._table.remove_machine(key)
        if entry is None:
            return
        host = entry.machine.host
        if key in self._table.asking:
            self._table.asking.discard(key)
            turn.out.append(refuse(key, NOT_FOUND, UNKNOWN_POD))
        turn.tx.release(host, key)
        turn.tx.observe(host, key, None)
        turn.touch(host, certain=True)

    def begin_handover(self, key: WorkloadKey) -> None:
        """Keep request and permit of a machine that is about to be removed, for the target of its migration."""
        entry = self._table.machines.get(key)
        if entry is not None and entry.demand is not None:
            handover = Handover(demand=entry.demand, written=entry.written)
            self._table.begin_handover(entry.machine.identity, handover)

    def end_handover(self, turn: Turn, identity: Identity, target: WorkloadKey) -> None:
        """Let the target of a migration run the machine: request and permit are its own from now on."""
        entry = self._table.machines.get(target)
        if entry is None:
            return
        self._table.set_owner(identity, target)
        own = demand_of(entry)
        handover = self._table.end_handover(identity) or Handover(demand=own, written=entry.written)
        demand = handover.demand
        approved = {name: min(amount, own.approved.get(name, 0)) for name, amount in demand.requested.items()}
        self._table.set_demand(entry, demand.approve(approved, now=turn.now))
        entry.is_unrecorded = False
        if handover.written is not None:
            entry.written = handover.written
            entry.promised = handover.written.approved
        self._book(turn, entry)
        turn.touch(entry.machine.host)
        self.sync(turn, entry)

    def ask(self, turn: Turn, request: PermitRequest, *, node: str) -> None:
        """Take a request: decreases at once, increases when the node is served.

        ``node`` is the one that the agent proved to run on; an agent without one may ask for every pod.
        """
        entry = self._table.find(request.namespace, request.name)
        if entry is None:
            refusal = (NOT_FOUND, UNKNOWN_POD) if self._table.is_loaded else (UNAVAILABLE, STARTING)
            turn.out.append(refuse(WorkloadKey(request.namespace, request.name), *refusal))
            return
        machine, key = entry.machine, entry.machine.key
        if not machine.vm:
            turn.out.append(refuse(key, BAD_REQUEST, NOT_A_MACHINE))
            return
        if not machine.grows:
            turn.out.append(not_scaled(machine))
            return
        if node and machine.host.name != node:
            message = FOREIGN_POD.format(node=node, pod=key)
            turn.out.append(Reply(key.namespace, key.name, PermitError(FORBIDDEN, message)))
            return
        if self._table.owner_of(machine.identity) != key:
            turn.out.append(refuse(key, UNAVAILABLE, NOT_OWNER))
            return
        if (refused := below_minimum(machine, request)) is not None:
            turn.out.append(refused)
            return
        demand = demand_of(entry)
        requested = bounded(request.resources, machine.largest)
        lowered = exceeds(demand.requested, requested)
        demand = demand.ask(requested, request.unit)
        self._table.set_demand(entry, demand.approve(_with_use(demand, machine), now=turn.now))
        self._book(turn, entry)
        if self._table.is_loaded and entry.is_unrecorded:
            entry.is_unrecorded = False
            self._inherit(turn, entry, request.last_permit or {})
        self._table.asking.add(key)
        turn.touch(machine.host, certain=lowered)

    def _inherit(self, turn: Turn, entry: MachineEntry, last: ResourceList) -> None:
        """Approve what another scheduler permitted, before all that wait, but never more than there is room for."""
        machine, demand = entry.machine, demand_of(entry)
        asked = {name: min(amount, last.get(name, 0)) for name, amount in demand.requested.items()}
        if exceeds(asked, demand.approved):
            wanted = {name: max(amount, demand.approved.get(name, 0)) for name, amount in asked.items()}
            size = self._approvable(entry, turn.account(machine.host), requested=wanted)
            turn.tx.reserve(machine.host, machine.key, _booked(entry, size))
            self._table.set_demand(entry, demand.approve(size, now=turn.now))

    def serve(self, turn: Turn, host: HostKey) -> None:
        """Grant what fits to the machines that wait."""
        if not self._table.is_loaded:
            return
        for entry in self._table.waiters(host):
            # All that wait, in order: the first ones get scarce room, but one that gets none does not delay a smaller
            # one. Room that migrations make for the first ones is kept by their earmarks.
            demand, size = demand_of(entry), self._approvable(entry, turn.account(host))
            if size != demand.approved:
                turn.tx.reserve(host, entry.machine.key, _booked(entry, size))
                self._table.set_demand(entry, demand.approve(size, now=turn.now))
                self.sync(turn, entry)

    def transfer(self, turn: Turn, host: HostKey, earmark_id: str) -> None:
        """Remove the source of an earmark, grow its beneficiary and close the earmark, in one step.

        If the beneficiary cannot grow now, its earmark stays, and keeps the room once the source is deleted.
        """
        account = turn.account(host)
        earmark = account.earmarks.get(earmark_id)
        if earmark is None or not self._table.is_loaded:
            return
        entry = self._table.machines.get(earmark.beneficiary)
        if entry is None or self._table.is_frozen(earmark.beneficiary):
            return
        if earmark.source is not None:
            account = account.observe(earmark.source, None).release(earmark.source)
        size = self._approvable(entry, account)
        turn.tx.transfer(host, earmark_id, wanted=_booked(entry, size))
        self._table.set_demand(entry, demand_of(entry).approve(size, now=turn.now))
        self.sync(turn, entry)

    def _approvable(
        self, entry: MachineEntry, account: HostAccount, *, requested: ResourceList | None = None
    ) -> dict[str, int]:
        machine, demand = entry.machine, demand_of(entry)
        return approve(
            approved=demand.approved,
            requested=demand.requested if requested is None else requested,
            unit=demand.unit,
            held=account.holding(machine.key),
            grantable=account.grantable(machine.key),
            factors=machine.factors,
            together=self._policy.together,
        )

    def is_recorded(self, key: WorkloadKey) -> bool:
        """Return whether the machine's permit is written; True for a deleted one, and for one that gets none."""
        entry = self._table.machines.get(key)
        if entry is None or entry.demand is None or not entry.machine.grows:
            return True
        return entry.written == _persistent(entry.demand)

    def sync(self, turn: Turn, entry: MachineEntry) -> None:
        """Write a permit that is not written yet, one write at a time."""
        if (
            entry.demand is None
            or entry.writing is not None
            or entry.retry_at is not None
            or not entry.machine.grows
        ):
            return
        demand = _persistent(entry.demand)
        if entry.written == demand:
            return
        entry.writing = demand
        # Until the reply, the VirtualMachine may record either permit, and the agent may use the larger one.
        entry.promised = {
            name: max(amount, entry.promised.get(name, 0)) for name, amount in demand.approved.items()
        }
        after = 0 if entry.written is None else entry.written.generation
        turn.out.append(WritePermit(key=entry.machine.key, demand=demand, after=after))

    def note_written(self, turn: Turn, key: WorkloadKey) -> None:
        entry = self._table.machines.get(key)
        if entry is None or entry.writing is None:
            return
        entry.written, entry.writing = entry.writing, None
        if exceeds(entry.promised, entry.written.approved):
            # The lower permit is written: the rest is free.
            entry.promised = entry.written.approved
            self._book(turn, entry)
            turn.touch(entry.machine.host, certain=True)
        self.sync(turn, entry)

    def note_not_written(self, turn: Turn, key: WorkloadKey) -> None:
        entry = self._table.machines.get(key)
        if entry is None or entry.writing is None:
            return
        entry.writing = None
        self._table.retry(entry, turn.now + self._policy.retry_delay)
        if key in self._table.asking:
            self._table.asking.discard(key)
            turn.out.append(refuse(key, UNAVAILABLE, NOT_WRITTEN))

    def adopt(self, turn: Turn, key: WorkloadKey, recorded: Demand) -> None:
        """Take over the request that the VirtualMachine has by now, and answer that one."""
        entry = self._table.machines.get(key)
        if entry is None or entry.demand is None:
            return
        entry.writing = None
        entry.written = _persistent(recorded)
        entry.promised = recorded.approved
        mine = entry.demand
        # What was written may have reached the agent, so that it counts as granted.
        approved = {
            name: min(amount, max(mine.approved.get(name, 0), recorded.approved.get(name, 0)))
            for name, amount in recorded.requested.items()
        }
        demand = replace(recorded, since=mine.since)
        self._table.set_demand(entry, demand.approve(approved, now=turn.now))
        self._book(turn, entry)
        turn.touch(entry.machine.host, certain=True)
        self.sync(turn, entry)

    def retry(self, turn: Turn) -> None:
        due = [entry for entry in self._table.retrying.values() if (entry.retry_at or 0) <= turn.now]
        for entry in due:
            self._table.retry(entry, None)
            self.sync(turn, entry)

    def reply(self, turn: Turn, describe: Callable[[WorkloadKey], Permit]) -> None:
        """Answer the agents whose permit is written."""
        for key in sorted(self._table.asking):
            self.sync(turn, self._table.machines[key])
            if self.is_recorded(key):
                self._table.asking.discard(key)
                turn.out.append(Reply(key.namespace, key.name, describe(key)))

    def deadlines(self) -> Iterator[Micros]:
        return (entry.retry_at for entry in self._table.retrying.values() if entry.retry_at is not None)


def _booked(entry: MachineEntry, approved: ResourceList) -> dict[str, int]:
    """Return what to book for a permit: never less than the agent may read from its VirtualMachine."""
    promised = entry.promised
    most = {name: max(amount, promised.get(name, 0)) for name, amount in {**promised, **approved}.items()}
    return charge(most, entry.machine.factors)


def _with_use(demand: Demand, machine: Machine) -> dict[str, int]:
    """Return what is approved of a request at least: what the machine uses beyond its permit, it has anyway."""
    return {
        resource: min(amount, max(demand.approved.get(resource, 0), machine.using.get(resource, 0)))
        for resource, amount in demand.requested.items()
    }


def _persistent(demand: Demand) -> Demand:
    """Return the part that is written: when a demand was first denied is not."""
    return demand if demand.since is None else replace(demand, since=None)
