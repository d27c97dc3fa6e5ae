"""Incremental cycles: continue from the last cycle of the same workload.

After a cycle, the memory keeps the feasible rows and all totals. If only a few rows changed before the next cycle of
the workload, only those rows are evaluated. The outcome equals that of a full cycle. A full cycle runs whenever
equality is not certain: after a change of shared state, of a normalising prioritizer's range, or by time.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from fairway.engine import cycle
from fairway.engine.fault import FaultError
from fairway.engine.following import follow
from fairway.engine.memo import Memo, remember
from fairway.engine.outcome import Outcome
from fairway.engine.points import CycleWorkload
from fairway.engine.profile import Profile
from fairway.engine.ranking import ABSENT
from fairway.fleet.instant import Micros
from fairway.fleet.snapshot import Snapshot


class Memory:
    """Keeps memos of the most recently used workloads, up to ``limit`` bytes."""

    def __init__(self, *, limit: int = 256 << 20) -> None:
        self._limit = limit
        self.size = 0
        """Size of all memos in bytes."""
        self._memos: OrderedDict[tuple[str, str], Memo] = OrderedDict()
        self.followed = 0
        """Number of incremental cycles."""

    def run(
        self, snapshot: Snapshot[Any], workload: CycleWorkload, profile: Profile, *, now: Micros
    ) -> Outcome:
        """Return the same as ``cycle.run``, faster. All snapshots must be of the same fleet.

        A workload whose spec changed must not be equal to the one before.
        """
        followed = self.follow(snapshot, workload, profile, now=now)
        if followed is not None:
            return followed
        outcome = cycle.run(snapshot, workload, profile, now=now)
        memo = make_memo(outcome)
        if memo is not None and memo.size <= self._limit:
            self._memos[workload.namespace, workload.name] = memo
            self._count(memo)
        return outcome

    def follow(
        self, snapshot: Snapshot[Any], workload: CycleWorkload, profile: Profile, *, now: Micros
    ) -> Outcome | None:
        """Return the outcome of an incremental cycle; None if a full one is needed."""
        key = (workload.namespace, workload.name)
        memo = self._memos.get(key)
        if memo is None:
            return None
        if memo.profile is profile and memo.workload == workload:
            followed = follow_memo(memo, snapshot, workload, now=now)
            if followed is not None:
                self.followed += 1
                self._memos.move_to_end(key)
                self._count(memo)
                return followed
        self._drop(key)
        return None

    def feasible(self, namespace: str, name: str) -> "FeasibleRows":
        """Return the rows that are feasible for a workload at the time of asking."""
        return FeasibleRows(self._memos, (namespace, name))

    def forget(self, namespace: str, name: str) -> None:
        """Forget a deleted workload."""
        if (namespace, name) in self._memos:
            self._drop((namespace, name))

    def _count(self, memo: Memo) -> None:
        size = memo.size
        self.size += size - memo.counted
        memo.counted = size
        while self.size > self._limit:
            self._drop(next(iter(self._memos)))

    def _drop(self, key: tuple[str, str]) -> None:
        self.size -= self._memos.pop(key).counted


class FeasibleRows:
    """The rows that were feasible in the last cycle of a workload; all, if that is unknown."""

    __slots__ = ("_key", "_memos")

    def __init__(self, memos: Mapping[tuple[str, str], Memo], key: tuple[str, str]) -> None:
        self._memos, self._key = memos, key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeasibleRows) and self._key == other._key and self._memos is other._memos

    def __hash__(self) -> int:
        return hash(self._key)

    def __contains__(self, row: Any) -> bool:
        # Asked of every workload that reads a score, for every score that changes.
        memo = self._memos.get(self._key)
        return memo is None or row >= memo.capacity or memo.keys.item(row) != ABSENT


def follow_memo(
    memo: Memo, snapshot: Snapshot[Any], workload: CycleWorkload, *, now: Micros
) -> Outcome | None:
    """Continue from a memo; None if a full cycle is needed."""
    if not memo.since <= now < memo.until:
        return None
    try:
        return follow(memo, snapshot, workload, now=now)
    except FaultError:
        return None  # a full cycle handles the fault as the profile says


def make_memo(outcome: Outcome) -> Memo | None:
    try:
        return None if outcome.faults else remember(outcome)
    except FaultError:
        return None
