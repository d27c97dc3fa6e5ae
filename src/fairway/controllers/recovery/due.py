"""The clusters that have been low for long enough, in the order in which they are tainted.

A fleet may have 100,000 low clusters, and each decision asks which of them come first. So the order is kept while
clusters change: those that still wait are in a heap by time, and those that are due are in sorted lists, one for each
group of clusters that belong to the same sets. The budgets give one answer for a whole group, so that a decision reads
the first clusters of each group instead of all clusters.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush, merge
from itertools import islice
from math import inf

from fairway.controllers.recovery.cluster_state import BudgetGroup, ClusterState, Rank
from fairway.hosts.steps import STRIDE, Steps


class DueClusters:
    """Call ``file`` after every change of a cluster, and ``advance`` before reading."""

    def __init__(self, states: Mapping[str, ClusterState], *, dwell: float) -> None:
        self._states, self._dwell = states, dwell
        self._time = -inf
        self._waiting: list[tuple[float, str]] = []
        """A heap, with at most one valid entry for each cluster: the one at its ``wakes_at``."""
        self._groups: dict[BudgetGroup, list[Rank]] = {}
        self._generation = 0
        """Places of earlier generations are void."""
        self._restarted: list[str] = []
        self._restarted_at = -inf
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def since(self, state: ClusterState) -> float | None:
        """Return since when the cluster is low without interruption."""
        return None if state.low_since is None else max(state.low_since, self._restarted_at)

    def healthy_since(self, state: ClusterState) -> float | None:
        """Return since when the cluster is healthy without interruption."""
        return None if state.healthy_since is None else max(state.healthy_since, self._restarted_at)

    def restart(self, *, now: float) -> None:
        """Restart the times of all clusters. ``advance`` files them again."""
        # Not here, cluster by cluster: while scores cannot be watched, this happens every second. A new generation
        # makes all places invalid at once.
        self._restarted_at = now
        for ranks in self._groups.values():
            self._restarted.extend(name for *_, name in ranks)
        self._groups = {}
        self._generation += 1
        self._count = 0

    def file(self, state: ClusterState) -> None:
        """Put a cluster in its group, or in the heap, according to its state."""
        since = self.since(state)
        due = state.is_candidate and since is not None and since + self._dwell <= self._time
        place = (
            (self._generation, state.group(), state.rank(since=since)) if due and since is not None else None
        )
        if place != state.due_place:
            self._remove(state)
            if place is not None:
                insort(self._groups.setdefault(place[1], []), place[2])
                self._count += 1
            state.due_place = place
        if state.is_candidate and not due and since is not None:
            at = since + self._dwell
            # An earlier entry stays: when its time comes, the cluster is filed again. A heap cannot remove from its
            # middle, and a score that is reported every minute would otherwise add an entry each time.
            if state.wakes_at is None or at < state.wakes_at:
                state.wakes_at = at
                heappush(self._waiting, (at, state.name))

    def _remove(self, state: ClusterState) -> None:
        # The rank it was filed with, not the one it has now: its score has changed since, and the list is sorted.
        if state.due_place is None or state.due_place[0] != self._generation:
            return
        _, group, rank = state.due_place
        ranks = self._groups[group]
        del ranks[bisect_left(ranks, rank)]
        self._count -= 1
        if not ranks:
            del self._groups[group]

    def forget(self, state: ClusterState) -> None:
        """Remove a cluster without state."""
        self._remove(state)
        state.due_place = state.wakes_at = None

    def advance(self, *, now: float) -> Steps[None]:
        """Move the clusters whose time has come."""
        # ``file`` uses this time, not one of its own: a cluster that is due for one decision is due for the next, too.
        self._time = max(self._time, now)
        visited = 0
        while self._restarted:
            self._file_named(self._restarted.pop())
            visited += 1
            if visited % STRIDE == 0:
                yield
        while self._waiting and self._waiting[0][0] <= self._time:
            at, name = heappop(self._waiting)
            state = self._states.get(name)
            if state is not None and state.wakes_at == at:
                state.wakes_at = None
                self.file(state)
            visited += 1
            if visited % STRIDE == 0:
                yield

    def _file_named(self, name: str) -> None:
        if (state := self._states.get(name)) is not None:
            self.file(state)

    def first(self, limit: int | None = None) -> list[str]:
        """Return the first clusters in order, or all."""
        return [name for *_, name in islice(merge(*self._groups.values()), limit)]

    def groups(self) -> Iterator[list[Rank]]:
        """Iterate over the groups whose clusters would use up budgets, each in order."""
        return (ranks for (_, _, attempted), ranks in self._groups.items() if not attempted)

    def attempted(self, limit: int) -> list[str]:
        """Return clusters whose taint was requested, and whose outcome is unknown."""
        ranks = (ranks for (_, _, attempted), ranks in self._groups.items() if attempted)
        return [name for *_, name in islice(merge(*ranks), limit)]
