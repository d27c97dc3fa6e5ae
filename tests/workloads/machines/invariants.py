"""The six invariants of the machines' state, which hold after every event.

- I1: no node has more promised than it has, unless others bypassed the scheduler, and then no grant makes it worse.
- I2: room that is kept for a machine is given to no other.
- I3: a source leaves, its beneficiary grows and the earmark ends in one step.
- I4: a machine has at most one migration, and one pod owns a VirtualMachine.
- I5: what-if code changes nothing.
- I6: what a machine uses <= its permit <= its request.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial

from fairway.engine.ledger import HostAccount, LedgerError
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.workloads.machines import events
from fairway.workloads.machines.events import Event
from fairway.workloads.machines.instructions import Instruction, Reply
from fairway.workloads.machines.migration import BEFORE_CUTOVER
from fairway.workloads.machines.permit_protocol import Permit
from fairway.workloads.machines.size import approve, exceeds
from fairway.workloads.machines.state import MachineState
from fairway.workloads.machines.table import MachineEntry, demand_of

EXTERNAL = (events.HostObserved, events.MachineObserved, events.Loaded)
"""Events that report what is, whatever it does to the sums."""
STRANGER = WorkloadKey("ns", "new", "uid-new")
ONE_EACH = {"cpu": 1, "memory": 1}

Accounts = Mapping[HostKey, HostAccount]


def accounts(state: MachineState) -> Accounts:
    known = ((host, state.ledger.account(host)) for host in state.ledger.hosts())
    return {host: account for host, account in known if account is not None}


def check_state(state: MachineState, event: Event | None, before: Accounts) -> None:
    """Check I1 to I4 after an event; None for a rebuilt state."""
    external = event is None or isinstance(event, EXTERNAL)
    for host, account in accounts(state).items():
        if state.table.is_loaded and account.earmarks:
            _check_earmarks(state, account)
        if account is before.get(host):
            continue
        total: dict[str, int] = {}
        for who in {*account.observed, *account.reservations}:
            for resource, amount in account.holding(who).items():
                total[resource] = total.get(resource, 0) + amount
        assert account.used == {name: amount for name, amount in total.items() if amount}
        if not external:
            _check_room(account, before.get(host, HostAccount(host=host)))
    _check_identities(state)


def _check_room(account: HostAccount, before: HostAccount) -> None:
    """I1 and I2: promises and kept room fit, or did not grow."""
    for resource in ("cpu", "memory"):
        room = (account.capacity or {}).get(resource, 0)
        assert promised(account, resource) <= max(room, promised(before, resource)), (
            f"I1/I2: {account.host} {resource}: {promised(account, resource)} of {room}"
        )


def promised(account: HostAccount, resource: str) -> int:
    kept = sum(earmark.amounts.get(resource, 0) for earmark in account.earmarks.values() if earmark.freed)
    return account.used.get(resource, 0) + kept


def _check_earmarks(state: MachineState, account: HostAccount) -> None:
    """I3: room that a source left is consumed, unless its beneficiary cannot grow now."""
    for earmark in account.earmarks.values():
        entry = state.table.machines.get(earmark.beneficiary)
        if not earmark.freed or entry is None or state.table.is_frozen(earmark.beneficiary):
            continue
        assert not could_grow(state, entry, account), f"I3: {earmark.id} is freed, but not consumed"


def could_grow(state: MachineState, entry: MachineEntry, account: HostAccount) -> bool:
    machine, demand = entry.machine, demand_of(entry)
    size = approve(
        approved=demand.approved,
        requested=demand.requested,
        unit=demand.unit,
        held=account.holding(machine.key),
        grantable=account.grantable(machine.key),
        factors=machine.factors,
        together=state.policy.together,
    )
    return size != demand.approved


def _check_identities(state: MachineState) -> None:
    migrations, table = state.table.all_migrations(), state.table
    sources = [migration.source for migration in migrations]
    assert len(sources) == len(set(sources)), "I4: two migrations of one machine"
    for identity, entry in table.virtual_machines.items():
        assert entry.owner is None or table.machines[entry.owner].machine.identity == identity
    for migration in migrations:
        if migration.phase in BEFORE_CUTOVER:
            assert table.owner_of(migration.identity) in (None, migration.source), (
                "I4: a target owns the machine before cutover"
            )


def check_what_if(state: MachineState) -> None:
    """I5: a speculative copy with every kind of change leaves the ledger as it is."""
    known = accounts(state)
    before = repr(known)
    copy = state.ledger.speculate()
    for host, account in known.items():
        for who in [*account.observed, *account.reservations, STRANGER]:
            for change in (
                partial(copy.reserve, host, who, ONE_EACH),
                partial(copy.release, host, who),
                partial(copy.observe, host, who, None),
            ):
                with suppress(LedgerError):
                    change()
    assert repr(accounts(state)) == before, "I5"


def check_replies(state: MachineState, out: Iterable[Instruction]) -> None:
    """I6: permits in replies. An agent lowers the size of its machine before it asks for less, which may be observed
    later."""
    for instruction in out:
        if not isinstance(instruction, Reply) or not isinstance(instruction.answer, Permit):
            continue
        entry = state.table.find(instruction.namespace, instruction.name)
        if entry is not None:
            permit, asked = instruction.answer.resources, demand_of(entry).requested
            using = entry.machine.using
            assert not exceeds(permit, asked), "I6: the permit exceeds the request"
            assert not exceeds(_smaller(using, asked), permit), "I6: the permit is below the use"


def _smaller(first: ResourceList, second: ResourceList) -> ResourceList:
    return {name: min(amount, second.get(name, 0)) for name, amount in first.items()}
