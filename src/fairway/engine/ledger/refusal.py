"""Errors of the ledger. A refusal lists what is in the way."""

from collections.abc import Iterable
from dataclasses import dataclass

from fairway.engine.errors import EngineError
from fairway.engine.workload import HostKey, WorkloadKey, format_amount

MOST_HOLDERS = 5
"""Holders that a message names, the largest first."""

UNKNOWN_CAPACITY = "capacity unknown"
TRANSACTION_ENDED = "the transaction has ended"
LEDGER_CHANGED = "the ledger changed during the transaction; start again"
UNKNOWN_EARMARK = "host {host} has no earmark {id}"
SOURCE_TOO_SMALL = "earmarks of {source} on host {host} exceed what it holds: {resource} {asked} of {held}"


class LedgerError(EngineError):
    """A change that the ledger refuses. The transaction is discarded as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    resource: str
    asked: int
    """How much more."""
    grantable: int
    capacity: int | None
    """None if it is unknown."""
    holders: tuple[tuple[str, int], ...]
    """The holders and their amounts, the largest first."""
    earmarks: tuple[tuple[str, str, int], ...]
    """Id, beneficiary and amount of room that is kept for others."""

    def __str__(self) -> str:
        return f"{self._amount(self.asked)} {self.resource}: {self.obstacles}"

    @property
    def obstacles(self) -> str:
        """What is left, and what is in the way."""
        if self.capacity is None:
            return UNKNOWN_CAPACITY
        words = [f"{self._amount(self.grantable)} of {self._amount(self.capacity)} left"]
        if self.holders:
            shown = [f"{name} {self._amount(amount)}" for name, amount in self.holders[:MOST_HOLDERS]]
            rest = self.holders[MOST_HOLDERS:]
            if rest:
                shown.append(f"{len(rest)} more {self._amount(sum(amount for _, amount in rest))}")
            words.append(f"held by {', '.join(shown)}")
        if self.earmarks:
            kept = (
                f"{beneficiary} {self._amount(amount)} ({id_})" for id_, beneficiary, amount in self.earmarks
            )
            words.append(f"kept for {', '.join(kept)}")
        return "; ".join(words)

    def _amount(self, amount: int) -> str:
        return format_amount(self.resource, amount)


class InsufficientCapacity(LedgerError):
    def __init__(self, host: HostKey, workload: WorkloadKey, shortages: Iterable[Shortage]) -> None:
        self.host = host
        self.workload = workload
        self.shortages = tuple(shortages)
        super().__init__(host, workload, self.shortages)

    def __str__(self) -> str:
        return f"host {self.host} cannot grant {self.workload} " + " and ".join(map(str, self.shortages))
