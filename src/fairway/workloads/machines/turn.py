"""The handling of one event: a transaction, and what follows from it."""

from dataclasses import dataclass, field

from fairway.engine.ledger import HostAccount, Transaction
from fairway.engine.workload import HostKey
from fairway.hosts.instant import Micros
from fairway.workloads.machines.instructions import Instruction
from fairway.workloads.machines.migration import Migration


@dataclass(slots=True)
class Turn:
    tx: Transaction
    now: Micros
    out: list[Instruction] = field(default_factory=list)
    touched: dict[HostKey, None] = field(default_factory=dict)
    """Nodes to serve and to review."""
    certain: set[HostKey] = field(default_factory=set)
    """Nodes where the cause of a change is not going to reverse, so that a cancellation need not wait."""
    unsaved: dict[str, None] = field(default_factory=dict)
    """Ids of migrations whose record changed. It is written once, at the end of the turn, however many steps the turn
    took: each write costs a round trip before the next step."""
    ended: list[Migration] = field(default_factory=list)
    """Migrations that ended."""

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
