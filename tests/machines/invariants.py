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
from fairway.machines import events
from fairway.machines.events import Event
from fairway.machines.instructions import Instruction, Reply
from fairway.machines.machine import Machine
from fairway.machines.migration import BEFORE_CUTOVER
from fairway.machines.permit_protocol import Permit
from fairway.machines.size import approve, exceeds
from fairway.machines.state import MachineState

EXTERNAL = (events.HostObserved, events.MachineObserved, events.Loaded)
"""Events that report what is, whatever it does to the sums."""
STRANGER = WorkloadKey("ns", "new", "uid-new")
ONE_EACH = {"cpu": 1, "memory": 1}

Accounts = Mapping[HostKey, HostAccount]


def accounts(state: MachineState) -> Accounts:
    found = ((host, state.ledger.account(host)) for host in state.ledger.hosts())
    return {host: account for host, account in found if account is not None}


def check_state(state: MachineState, event: Event | None, before: Accounts) -> None:
    """Check I1 to I4 after an event; None for a rebuilt state."""
    external = event is None or isinstance(event, EXTERNAL)
    for host, account in accounts(state).items():
        if state.permits.ready and account.earmarks:
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
    kept = sum(each.amounts.get(resource, 0) for each in account.earmarks.values() if each.freed)
    return account.used.get(resource, 0) + kept


def _check_earmarks(state: MachineState, account: HostAccount) -> None:
    """I3: room that a source left is consumed, unless its beneficiary cannot grow now."""
    for earmark in account.earmarks.values():
        machine = state.permits.machines.get(earmark.beneficiary)
        if not earmark.freed or machine is None or state.migrations.is_frozen(machine.key):
            continue
        assert not could_grow(state, machine, account), f"I3: {earmark.id} is freed, but not consumed"


def could_grow(state: MachineState, machine: Machine, account: HostAccount) -> bool:
    demand = state.permits.demands[machine.key]
    size = approve(
        approved=demand.approved,
        requested=demand.requested,
        unit=demand.unit,
        held=account.holding(machine.key),
        grantable=account.grantable(machine.key),
        factors=machine.factors,
    )
    return size != demand.approved


def _check_identities(state: MachineState) -> None:
    migrations, permits = list(state.migrations.records.values()), state.permits
    sources = [each.source for each in migrations]
    assert len(sources) == len(set(sources)), "I4: two migrations of one machine"
    for identity, owner in permits.owners.items():
        assert permits.machines[owner].identity == identity
    for each in migrations:
        if each.phase in BEFORE_CUTOVER:
            assert permits.owners.get(each.identity) in (None, each.source), (
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
    machines = {(key.namespace, key.name): machine for key, machine in state.permits.machines.items()}
    for each in out:
        machine = machines.get((each.namespace, each.name)) if isinstance(each, Reply) else None
        if machine is not None and isinstance(each, Reply) and isinstance(each.answer, Permit):
            permit, asked = each.answer.resources, state.permits.demands[machine.key].requested
            assert not exceeds(permit, asked), "I6: the permit exceeds the request"
            assert not exceeds(_smaller(machine.using, asked), permit), "I6: the permit is below the use"


def _smaller(first: ResourceList, second: ResourceList) -> ResourceList:
    return {name: min(amount, second.get(name, 0)) for name, amount in first.items()}
