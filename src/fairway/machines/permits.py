"""Machines and their permits, booked in the ledger.

A permit is booked before it is written, and written before the agent gets it. A lower permit is written before its room
is free. So a crash at any point leaves at least as much booked as any agent may use. Denied demand waits in order of
priority, then age, and is served by the event that makes room.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from fairway.engine.ledger import HostAccount, Transaction
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.fleet.instant import Micros
from fairway.machines.instructions import Instruction, Reply, WritePermit
from fairway.machines.machine import Demand, Identity, Machine
from fairway.machines.permit_protocol import (
    BAD_REQUEST,
    FORBIDDEN,
    FOREIGN_POD,
    NO_PERMITS,
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
from fairway.machines.policy import MachinePolicy
from fairway.machines.size import approve, charge, exceeds


@dataclass(slots=True)
class Turn:
    """The handling of one event: one transaction, and the instructions that follow from it."""

    tx: Transaction
    now: Micros
    out: list[Instruction] = field(default_factory=list)
    touched: dict[HostKey, None] = field(default_factory=dict)
    """Nodes to serve and to review."""
    certain: set[HostKey] = field(default_factory=set)
    """Nodes where the cause of a change is not going to reverse, so that a cancellation need not wait."""

    def account(self, host: HostKey) -> HostAccount:
        return self.tx.account(host) or HostAccount(host=host)

    def close(self, host: HostKey, earmark_id: str) -> None:
        """Close an earmark, unless its node was deleted."""
        if self.tx.account(host) is not None:
            self.tx.close(host, earmark_id)

    def touch(self, host: HostKey, *, certain: bool = False) -> None:
        self.touched[host] = None
        if certain:
            self.certain.add(host)


class Permits:
    def __init__(
        self, policy: MachinePolicy, *, epoch: int, is_frozen: Callable[[WorkloadKey], bool]
    ) -> None:
        self._policy = policy
        self._epoch = epoch
        self._is_frozen = is_frozen
        """Whether a machine must not grow now, because it migrates."""
        self.ready = False
        self.machines: dict[WorkloadKey, Machine] = {}
        self.demands: dict[WorkloadKey, Demand] = {}
        self.owners: dict[Identity, WorkloadKey] = {}
        """The pod that runs each VirtualMachine."""
        self._names: dict[tuple[str, str], WorkloadKey] = {}
        self._on_host: dict[HostKey, dict[WorkloadKey, None]] = {}
        self._denied: dict[HostKey, set[WorkloadKey]] = {}
        self._written: dict[WorkloadKey, Demand] = {}
        self._writing: dict[WorkloadKey, Demand] = {}
        self._promised: dict[WorkloadKey, ResourceList] = {}
        """The most that a VirtualMachine may record as approved. It is booked until a lower permit is written."""
        self._retries: dict[WorkloadKey, Micros] = {}
        self._asking: set[WorkloadKey] = set()
        self._stashed: dict[Identity, tuple[Demand, Demand | None]] = {}
        """Request and permit of machines between two pods."""
        self._unrecorded: set[WorkloadKey] = set()
        """Machines whose VirtualMachine records no permit: another scheduler may have given one."""

    def on_host(self, host: HostKey) -> Iterator[Machine]:
        return (self.machines[key] for key in self._on_host.get(host, ()))

    def find(self, namespace: str, name: str) -> WorkloadKey | None:
        return self._names.get((namespace, name))

    def waiters(self, host: HostKey) -> list[Machine]:
        """Return the machines with denied demand, in the order in which they are served."""
        waiting = [self.machines[key] for key in self._denied.get(host, ()) if not self._is_frozen(key)]
        if len(waiting) > 1:
            waiting.sort(key=lambda each: (-each.priority, self.demands[each.key].since or 0, each.key))
        return waiting

    def add(self, turn: Turn, machine: Machine, recorded: Demand | None, *, is_target: bool) -> None:
        """Book a machine that is new or changed."""
        key = machine.key
        old = self.machines.get(key)
        if old is not None and old.host != machine.host:
            self.remove(turn, key)
            old = None
        self.machines[key] = machine
        self._names[key.namespace, key.name] = key
        self._on_host.setdefault(machine.host, {})[key] = None
        if not machine.vm:
            turn.tx.confirm(machine.host, key, charge(machine.using, machine.factors))
        else:
            if not is_target:
                self.owners.setdefault(machine.identity, key)
            demand = self.demands.get(key)
            if demand is None:
                demand = recorded or Demand(requested=machine.using, approved=machine.using)
                if recorded is None:
                    self._unrecorded.add(key)
                else:
                    self._written[key] = recorded
                    self._promised[key] = recorded.approved
            # What it uses beyond the permit it has anyway, as far as it still asks for it.
            approved = {
                resource: min(amount, max(demand.approved.get(resource, 0), machine.using.get(resource, 0)))
                for resource, amount in demand.requested.items()
            }
            self.set(key, demand.approve(approved, now=turn.now))
            self.book(turn, key)
        turn.touch(machine.host)

    def book(self, turn: Turn, key: WorkloadKey) -> None:
        """Book use and permit as they are, even where they exceed the node: both were granted before."""
        machine, demand = self.machines[key], self.demands[key]
        used, approved = charge(machine.using, machine.factors), self._booked(machine, demand.approved)
        account = turn.account(machine.host)
        reservation = account.reservations.get(key)
        if reservation is None or exceeds(approved, reservation.amounts):
            both = {name: max(used.get(name, 0), amount) for name, amount in {**used, **approved}.items()}
            turn.tx.observe(machine.host, key, both)
        if reservation is None or reservation.amounts != approved:
            turn.tx.reserve(machine.host, key, approved)
        turn.tx.observe(machine.host, key, used)

    def _booked(self, machine: Machine, approved: ResourceList) -> dict[str, int]:
        """Return what to book for a permit."""
        promised = self._promised.get(machine.key, {})
        most = {name: max(amount, promised.get(name, 0)) for name, amount in {**promised, **approved}.items()}
        return charge(most, machine.factors)

    def remove(self, turn: Turn, key: WorkloadKey) -> None:
        machine = self.machines.pop(key, None)
        if machine is None:
            return
        self._on_host[machine.host].pop(key, None)
        if self._names.get((key.namespace, key.name)) == key:
            del self._names[key.namespace, key.name]
        if self.owners.get(machine.identity) == key:
            del self.owners[machine.identity]
        self.demands.pop(key, None)
        self._denied.get(machine.host, set()).discard(key)
        for each in (self._written, self._writing, self._promised, self._retries):
            each.pop(key, None)
        self._unrecorded.discard(key)
        if key in self._asking:
            self._asking.discard(key)
            turn.out.append(_refusal(key, NOT_FOUND, UNKNOWN_POD))
        turn.tx.release(machine.host, key)
        turn.tx.observe(machine.host, key, None)
        turn.touch(machine.host, certain=True)

    def stash(self, key: WorkloadKey) -> None:
        """Keep request and permit of a machine that is about to be removed, for the target of its migration."""
        machine = self.machines.get(key)
        if machine is not None and key in self.demands:
            self._stashed[machine.identity] = (self.demands[key], self._written.get(key))

    def drop_stash(self, identity: Identity) -> None:
        self._stashed.pop(identity, None)

    def hand_over(self, turn: Turn, identity: Identity, target: WorkloadKey) -> None:
        """Let the target of a migration run the machine: request and permit are its own from now on."""
        machine = self.machines.get(target)
        if machine is None:
            return
        self.owners[identity] = target
        demand, written = self._stashed.pop(identity, (self.demands[target], self._written.get(target)))
        booked = self.demands[target].approved
        approved = {name: min(amount, booked.get(name, 0)) for name, amount in demand.requested.items()}
        self.set(target, demand.approve(approved, now=turn.now))
        self._unrecorded.discard(target)
        if written is not None:
            self._written[target] = written
            self._promised[target] = written.approved
        self.book(turn, target)
        turn.touch(machine.host)
        self.sync(turn, target)

    def ask(self, turn: Turn, request: PermitRequest, *, node: str) -> None:
        """Take a request: decreases at once, increases when the node is served.

        ``node`` is the one that the agent proved to run on; an agent without one may ask for every pod.
        """
        key = self.find(request.namespace, request.name)
        if key is None:
            refusal = (NOT_FOUND, UNKNOWN_POD) if self.ready else (UNAVAILABLE, STARTING)
            turn.out.append(_refusal(WorkloadKey(request.namespace, request.name), *refusal))
            return
        machine = self.machines[key]
        if not machine.vm:
            turn.out.append(_refusal(key, BAD_REQUEST, NOT_A_MACHINE))
            return
        if not machine.grows:
            turn.out.append(_refusal(key, BAD_REQUEST, NO_PERMITS))
            return
        if node and machine.host.name != node:
            message = FOREIGN_POD.format(node=node, pod=key)
            turn.out.append(Reply(key.namespace, key.name, PermitError(FORBIDDEN, message)))
            return
        if self.owners.get(machine.identity) != key:
            turn.out.append(_refusal(key, UNAVAILABLE, NOT_OWNER))
            return
        demand = self.demands[key]
        lowered = exceeds(demand.requested, request.resources)
        demand = demand.ask(request.resources, request.unit)
        approved = {
            name: min(amount, demand.approved.get(name, 0)) for name, amount in request.resources.items()
        }
        self.set(key, demand.approve(approved, now=turn.now))
        self.book(turn, key)
        if self.ready and key in self._unrecorded:
            self._unrecorded.discard(key)
            self._inherit(turn, machine, request.last_permit or {})
        self._asking.add(key)
        turn.touch(machine.host, certain=lowered)

    def _inherit(self, turn: Turn, machine: Machine, last: ResourceList) -> None:
        """Approve what another scheduler permitted, before all that wait, but never more than there is room for."""
        demand = self.demands[machine.key]
        asked = {name: min(amount, last.get(name, 0)) for name, amount in demand.requested.items()}
        if exceeds(asked, demand.approved):
            wanted = {name: max(amount, demand.approved.get(name, 0)) for name, amount in asked.items()}
            size = self._approvable(machine, turn.account(machine.host), requested=wanted)
            turn.tx.reserve(machine.host, machine.key, self._booked(machine, size))
            self.set(machine.key, demand.approve(size, now=turn.now))

    def set(self, key: WorkloadKey, demand: Demand) -> None:
        self.demands[key] = demand
        denied = self._denied.setdefault(self.machines[key].host, set())
        if demand.denied:
            denied.add(key)
        else:
            denied.discard(key)

    def serve(self, turn: Turn, host: HostKey) -> None:
        """Grant what fits to the machines that wait."""
        if not self.ready:
            return
        for machine in self.waiters(host):
            account = turn.account(host)
            size = self._approvable(machine, account)
            if size != self.demands[machine.key].approved:
                turn.tx.reserve(host, machine.key, self._booked(machine, size))
                self.set(machine.key, self.demands[machine.key].approve(size, now=turn.now))
                self.sync(turn, machine.key)

    def transfer(self, turn: Turn, host: HostKey, earmark_id: str) -> None:
        """Remove the source of an earmark, grow its beneficiary and close the earmark, in one step.

        If the beneficiary cannot grow now, its earmark stays, and keeps the room once the source is deleted.
        """
        account = turn.account(host)
        earmark = account.earmarks.get(earmark_id)
        if earmark is None or not self.ready:
            return
        machine = self.machines.get(earmark.beneficiary)
        if machine is None or self._is_frozen(machine.key):
            return
        if earmark.source is not None:
            account = account.observe(earmark.source, None).release(earmark.source)
        size = self._approvable(machine, account)
        turn.tx.transfer(host, earmark_id, wanted=self._booked(machine, size))
        self.set(machine.key, self.demands[machine.key].approve(size, now=turn.now))
        self.sync(turn, machine.key)

    def _approvable(
        self, machine: Machine, account: HostAccount, *, requested: ResourceList | None = None
    ) -> dict[str, int]:
        demand = self.demands[machine.key]
        return approve(
            approved=demand.approved,
            requested=demand.requested if requested is None else requested,
            unit=demand.unit,
            held=account.holding(machine.key),
            grantable=account.grantable(machine.key),
            factors=machine.factors,
        )

    def is_recorded(self, key: WorkloadKey) -> bool:
        """Return whether the machine's permit is written; True for a deleted one."""
        return key not in self.demands or self._written.get(key) == _persistent(self.demands[key])

    def sync(self, turn: Turn, key: WorkloadKey) -> None:
        """Write a permit that is not written yet, one write at a time."""
        demand = self.demands.get(key)
        if demand is None or key in self._writing or key in self._retries or not self.machines[key].grows:
            return
        demand = _persistent(demand)
        written = self._written.get(key)
        if written == demand:
            return
        self._writing[key] = demand
        promised = self._promised.get(key, {})
        self._promised[key] = {
            name: max(amount, promised.get(name, 0)) for name, amount in demand.approved.items()
        }
        after = 0 if written is None else written.generation
        turn.out.append(WritePermit(key=key, demand=demand, after=after, epoch=self._epoch))

    def note_written(self, turn: Turn, key: WorkloadKey) -> None:
        demand = self._writing.pop(key, None)
        if demand is not None:
            self._written[key] = demand
            if exceeds(self._promised[key], demand.approved):
                # The lower permit is written: the rest is free.
                self._promised[key] = demand.approved
                self.book(turn, key)
                turn.touch(self.machines[key].host, certain=True)
            self.sync(turn, key)

    def note_not_written(self, turn: Turn, key: WorkloadKey) -> None:
        if self._writing.pop(key, None) is None:
            return
        self._retries[key] = turn.now + self._policy.retry_delay
        if key in self._asking:
            self._asking.discard(key)
            turn.out.append(_refusal(key, UNAVAILABLE, NOT_WRITTEN))

    def adopt(self, turn: Turn, key: WorkloadKey, recorded: Demand) -> None:
        """Take over the request that the VirtualMachine has by now, and answer that one."""
        self._writing.pop(key, None)
        if key not in self.demands:
            return
        self._written[key] = _persistent(recorded)
        self._promised[key] = recorded.approved
        mine = self.demands[key]
        # What was written may have reached the agent, so that it counts as granted.
        approved = {
            name: min(amount, max(mine.approved.get(name, 0), recorded.approved.get(name, 0)))
            for name, amount in recorded.requested.items()
        }
        demand = replace(recorded, since=mine.since)
        self.set(key, demand.approve(approved, now=turn.now))
        self.book(turn, key)
        turn.touch(self.machines[key].host, certain=True)
        self.sync(turn, key)

    def retry(self, turn: Turn) -> None:
        for key in [key for key, at in self._retries.items() if at <= turn.now]:
            del self._retries[key]
            self.sync(turn, key)

    def reply(self, turn: Turn, describe: Callable[[WorkloadKey], Permit]) -> None:
        """Answer the agents whose permit is written."""
        for key in sorted(self._asking):
            self.sync(turn, key)
            if self.is_recorded(key):
                self._asking.discard(key)
                turn.out.append(Reply(key.namespace, key.name, describe(key)))

    def deadlines(self) -> Iterator[Micros]:
        return iter(self._retries.values())

    def watermark(self, account: HostAccount) -> dict[str, int]:
        return {
            name: amount * self._policy.watermark // 1000 for name, amount in (account.capacity or {}).items()
        }


def _persistent(demand: Demand) -> Demand:
    """Return the part that is written: when a demand was first denied is not."""
    return demand if demand.since is None else replace(demand, since=None)


def _refusal(key: WorkloadKey, status: int, message: str) -> Reply:
    return Reply(key.namespace, key.name, PermitError(status, message.format(pod=key)))


def room_below(watermark: ResourceList, account: HostAccount) -> dict[str, int]:
    """Return what a node may take until its watermark, without room that is kept for others."""
    kept = account.kept_room() if account.earmarks else {}
    free = account.free()
    return {
        name: min(free.get(name, 0), amount - account.used.get(name, 0) - kept.get(name, 0))
        for name, amount in watermark.items()
    }
