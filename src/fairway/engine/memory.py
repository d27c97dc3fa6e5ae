"""Cycles that go on from where the last one of the same workload stopped.

After a cycle, the memory keeps who was feasible and everybody's total. When the same workload comes again and
only a few rows have changed since, only those are asked again, and the best rows are known without looking at the
rest. The outcome is the same as that of a cycle from scratch, which is what runs whenever this cannot be shown:
after a change of something shared, when a normalising prioritizer's range moved, when time made a difference.
"""

from collections import OrderedDict
from collections.abc import Iterable

from fairway.engine import cycle
from fairway.engine.following import follow
from fairway.engine.memo import Memo, remember
from fairway.engine.outcome import Outcome
from fairway.engine.points import Workload
from fairway.engine.profile import Profile
from fairway.engine.ranking import ABSENT
from fairway.fleet.instant import Micros
from fairway.fleet.snapshot import Snapshot


class Memory:
    """Keeps the most recently used workloads, as many as fit ``limit`` bytes."""

    def __init__(self, *, limit: int = 256 << 20) -> None:
        self._limit = limit
        self.size = 0
        """In bytes, of all it keeps."""
        self._memos: OrderedDict[tuple[str, str], Memo] = OrderedDict()
        self.followed = 0
        """How many cycles went on from the one before."""

    def run(self, snapshot: Snapshot, workload: Workload, profile: Profile, *, now: Micros) -> Outcome:
        """What ``cycle.run`` returns, sooner. The snapshot must be of the same fleet every time."""
        key = (workload.namespace, workload.name)
        memo = self._memos.get(key)
        if memo is not None:
            if memo.profile is profile and memo.since <= now < memo.until:
                followed = follow(memo, snapshot, workload, now=now)
                if followed is not None:
                    self.followed += 1
                    self._memos.move_to_end(key)
                    self._count(memo)
                    return followed
            self._drop(key)
        outcome = cycle.run(snapshot, workload, profile, now=now)
        memo = remember(outcome)
        if memo is not None and memo.size <= self._limit:
            self._memos[key] = memo
            self._count(memo)
        return outcome

    def considers(self, namespace: str, name: str, rows: Iterable[int]) -> bool:
        """Whether one of these rows was feasible in the workload's last cycle. True when that is not known."""
        memo = self._memos.get((namespace, name))
        if memo is None:
            return True
        keys, size = memo.keys, len(memo.keys)
        for row in rows:  # noqa: SIM110 asked of every placement for every score that changes, and any() takes longer
            if row >= size or keys.item(row) != ABSENT:
                return True
        return False

    def forget(self, namespace: str, name: str) -> None:
        """A workload that is gone."""
        if (namespace, name) in self._memos:
            self._drop((namespace, name))

    def _count(self, memo: Memo) -> None:
        self.size += memo.size - memo.counted
        memo.counted = memo.size
        while self.size > self._limit:
            self._drop(next(iter(self._memos)))

    def _drop(self, key: tuple[str, str]) -> None:
        self.size -= self._memos.pop(key).counted
