"""Incremental cycles: continue from the last cycle of the same workload.

After a cycle, the memory keeps the feasible rows and all totals. If only a few rows changed before the next cycle of
the workload, only those rows are evaluated. The outcome equals that of a full cycle. A full cycle runs whenever
equality is not certain: after a change of shared state, of a normalising prioritizer's range, or by time.

Workloads that are alike, such as placements that differ in their names only, share a memo: what one of them evaluated,
the others need not. ``Alike`` decides which ones are. Where each workload needs a memo of its own although there are
others like it, a memo is only made in the second full cycle: a burst of them changes more rows than a memo can follow.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from fairway.engine import cycle
from fairway.engine.fault import FaultError
from fairway.engine.following import follow
from fairway.engine.memo import Memo, remember
from fairway.engine.outcome import Outcome
from fairway.engine.points import CycleWorkload
from fairway.engine.profile import Profile
from fairway.engine.ranking import ABSENT
from fairway.hosts.instant import Micros
from fairway.hosts.snapshot import Snapshot

DEFAULT_LIMIT: Final = 256 << 20
MOST_ALONE: Final = 1000
"""Signatures that are kept."""
MOST_USES: Final = 1 << 18
"""Workloads of which the last use is known, also of those without a memo."""


class Alike(Protocol):
    """Which workloads may share a memo."""

    def signature(self, workload: CycleWorkload, profile: Profile, /) -> Hashable | None:
        """Workloads with equal signatures get equal outcomes and equal values in the CycleState, unless their cycles
        read something of their own. None if this workload shares nothing, as one for which time changes the results of
        a filter. Asked in every cycle."""

    def reads_own(self, workload: CycleWorkload, memo: Memo, /) -> bool:
        """Return whether the cycle read something that belongs to this workload alone."""


class NoneAlike:
    def signature(self, _workload: CycleWorkload, _profile: Profile, /) -> None:
        return None

    def reads_own(self, _workload: CycleWorkload, _memo: Memo, /) -> bool:
        return True


NONE_ALIKE: Alike = NoneAlike()


class Memory:
    """Keeps memos of workloads, up to ``limit`` bytes.

    A workload gets the place of another one only if it was used twice since that one was used last. Workloads that are
    decided one after the other, because all read a score that changed, are a cyclic sweep: dropping the memo that was
    not used for longest would always drop the one that is needed next, so that a little more than fits leaves none
    incremental. With 20,000 clusters, each of 500 placements cost 12 µs, and each of 1,000 cost 318 µs.
    """

    def __init__(self, *, limit: int = DEFAULT_LIMIT, alike: Alike = NONE_ALIKE) -> None:
        self._limit, self._alike = limit, alike
        self.size = 0
        """Size of all memos in bytes."""
        self._memos: OrderedDict[Hashable, Memo] = OrderedDict()
        """By namespace and name, or by signature. The one that was not used for longest is the first."""
        self._uses: OrderedDict[Hashable, int] = OrderedDict()
        """The number of the last use of each memo, and of workloads that have none."""
        self._number = 0
        self._alone: OrderedDict[Hashable, None] = OrderedDict()
        """Signatures of workloads that each need a memo of their own."""
        self._once: set[Hashable] = set()
        """Workloads with such a signature, by namespace and name, after their first full cycle."""
        # Weak: these live as long as a dependency refers to them. The dependency index groups by their identity, so
        # workloads that share a memo must get the same object.
        self._feasible: WeakValueDictionary[Hashable, FeasibleRows] = WeakValueDictionary()
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
        name, signature = _name_of(workload), self._alike.signature(workload, profile)
        # A burst of such workloads changes more rows than a memo can follow, so the first memo would be
        # dropped unused.
        if signature in self._alone and name not in self._once:
            self._once.add(name)
            return outcome
        memo = make_memo(outcome)
        # A memo larger than the limit would drop all others and still not fit.
        if memo is not None and memo.size <= self._limit:
            key = signature
            if signature is None or self._alike.reads_own(workload, memo):
                key = name
                self._note_alone(signature)
            else:
                memo.shared = True
            self._keep(key, memo)
        return outcome

    def _keep(self, key: Hashable, memo: Memo) -> None:
        """Keep a memo, unless too many others were used since the last cycle of its workload."""
        last = self._uses.get(key, 0)
        # Also if the memo is not kept in the end: the next full cycle of this workload then knows how long ago the
        # last was.
        self._note_use(key)
        if key in self._memos:
            self._drop(key)
        size = memo.size
        while self.size + size > self._limit:
            # There is one: a memo alone is never larger than the limit, so what exceeds it together with others has
            # others.
            oldest = next(iter(self._memos))
            if self._uses.get(oldest, 0) > last:
                return
            self._drop(oldest)
        self._memos[key] = memo
        self._count(memo)

    def _note_use(self, key: Hashable) -> None:
        self._number += 1
        self._uses[key] = self._number
        self._uses.move_to_end(key)
        # Signatures of workloads that no longer exist are never forgotten by name, so only this bounds them.
        if len(self._uses) > MOST_USES:
            self._uses.popitem(last=False)

    def _note_alone(self, signature: Hashable | None) -> None:
        if signature is not None:
            self._alone[signature] = None
            self._alone.move_to_end(signature)
            if len(self._alone) > MOST_ALONE:
                self._alone.popitem(last=False)

    def follow(
        self, snapshot: Snapshot[Any], workload: CycleWorkload, profile: Profile, *, now: Micros
    ) -> Outcome | None:
        """Return the outcome of an incremental cycle; None if a full one is needed."""
        key, memo = self._find(workload, profile)
        if memo is None:
            return None
        # A shared memo was made for another workload: its signature says that both are equal.
        if memo.profile is profile and (memo.workload == workload or key != _name_of(workload)):
            followed = follow_memo(memo, snapshot, workload, now=now)
            if followed is not None:
                self.followed += 1
                self._memos.move_to_end(key)
                self._note_use(key)
                # The front grows and shrinks with the rows that move, so the size is measured after each cycle.
                self._count(memo)
                return followed
        # What could not be followed may be half updated.
        self._drop(key)
        return None

    def memo_of(self, workload: CycleWorkload, profile: Profile) -> int | None:
        """Return the number of the memo from which the next cycle of a workload continues. It is the same as long as
        the cycles of the workload are incremental, and none of another workload that shares it was a full one."""
        _, memo = self._find(workload, profile)
        return None if memo is None else memo.number

    def feasible(self, workload: CycleWorkload, profile: Profile) -> "FeasibleRows":
        """Return the rows that are feasible for a workload at the time of asking; the same object for workloads that
        share a memo."""
        key, _ = self._find(workload, profile)
        feasible = self._feasible.get(key)
        if feasible is None:
            feasible = self._feasible[key] = FeasibleRows(self._memos, key)
        return feasible

    def forget(self, namespace: str, name: str) -> None:
        """Forget a deleted workload."""
        self._once.discard((namespace, name))
        self._uses.pop((namespace, name), None)
        if (namespace, name) in self._memos:
            self._drop((namespace, name))

    def restart(self, workload: CycleWorkload, profile: Profile) -> None:
        """Run a full cycle next, also if other workloads share the memo."""
        key, memo = self._find(workload, profile)
        if memo is not None:
            self._drop(key)

    def _find(self, workload: CycleWorkload, profile: Profile) -> tuple[Hashable, Memo | None]:
        name = _name_of(workload)
        # A memo of its own first: a workload whose cycle read its own decision must not continue from a shared one.
        own = self._memos.get(name)
        if own is not None:
            return name, own
        signature = self._alike.signature(workload, profile)
        shared = None if signature is None else self._memos.get(signature)
        return (name, None) if shared is None else (signature, shared)

    def _count(self, memo: Memo) -> None:
        size = memo.size
        self.size += size - memo.counted
        memo.counted = size
        # The oldest first, without regard to uses: this memo is in use already, and it grew.
        while self.size > self._limit:
            self._drop(next(iter(self._memos)))

    def _drop(self, key: Hashable) -> None:
        self.size -= self._memos.pop(key).counted


class FeasibleRows:
    """The rows that were feasible in the last cycle of a workload; all, if that is unknown."""

    __slots__ = ("__weakref__", "_key", "_memos")

    def __init__(self, memos: Mapping[Hashable, Memo], key: Hashable) -> None:
        self._memos, self._key = memos, key

    def __contains__(self, row: Any) -> bool:
        # Asked of every workload that reads a score, for every score that changes.
        memo = self._memos.get(self._key)
        # A row that is newer than the memo counts as feasible: to wake a workload for nothing is correct, to let it
        # sleep is not.
        return memo is None or row >= memo.capacity or memo.keys.item(row) != ABSENT


def _name_of(workload: CycleWorkload) -> Hashable:
    return (workload.namespace, workload.name)


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
