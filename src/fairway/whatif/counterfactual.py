"""Find the smallest set of edits after which the real cycle selects a cluster.

Of two answers the one with fewer edits is smaller. Then the least preferred edit in each is compared (see
``fairway.whatif.edits`` for the order), then the next, then the changes of numbers, then the descriptions, so
that the answer is unique. An answer is minimal: no edit can be omitted, and no number changed by a step less. Both are
verified by running the cycle, because a cluster that becomes feasible changes the range that other scores are
normalised to, and ties are decided by name.

Edits are applied to the world and reverted at once: cycles are incremental, so trying an edit costs about
as much as one cycle. The search follows barriers (``fairway.whatif.barriers``) and is bounded; without
an answer it reports the edits that it tried.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from typing import Final

from fairway.engine import cycle
from fairway.engine.outcome import Outcome
from fairway.hosts.instant import Micros
from fairway.whatif.advice import advise, disabled_reason
from fairway.whatif.barriers import Barrier, barrier_of
from fairway.whatif.edits import Edit, NumericEdit, applied, cluster_of
from fairway.whatif.proposals import NumericCandidate
from fairway.whatif.world import Key, World

MOST_EDITS: Final = 4
MOST_RUNS: Final = 2000
MOST_SOLUTIONS: Final = 40
MOST_ALTERNATIVES: Final = 4

SCHEDULING_DISABLED: Final = "{why}, so nothing changes its decisions"
FIX_FIRST: Final = "{message}; {remedy}"
CLUSTER_GOES: Final = "the cluster is being deleted, which cannot be undone"
NOTHING_FOUND: Final = "no small change found"
UNSTABLE: Final = (
    "the cycle does not repeat its decision: a plugin fails at times, or depends on more than its input"
)
STOPPED: Final = "gave up after {runs:,} tries"


class State(Enum):
    SELECTED = "Selected"
    """The cluster is already selected."""
    FOUND = "Found"
    BLOCKED = "Blocked"
    """Another problem must be solved first; ``obstacle`` describes it."""
    NOT_FOUND = "NotFound"


@dataclass(frozen=True, slots=True)
class Margin:
    """By how many points the total of a selected cluster may drop before it is no longer selected; None without
    competition."""

    points: int | None
    runner_up: str = ""


@dataclass(frozen=True, slots=True)
class Counterfactual:
    placement: Key
    cluster: str
    state: State
    edits: tuple[Edit, ...] = ()
    alternatives: tuple[tuple[Edit, ...], ...] = ()
    """Other answers with as many edits, next best first, each minimal."""
    displaced: tuple[str, ...] = ()
    """Clusters that would no longer be selected."""
    obstacle: str = ""
    """The obstacle if there are no edits."""
    tried: tuple[str, ...] = ()
    """Without an answer: some of the single edits that were tried."""
    notes: tuple[str, ...] = ()
    """Plugins that propose nothing, among those that decide about the cluster now or bar every answer."""
    runs: int = 0
    """Number of cycles that the search ran."""
    margin: Margin | None = None


def counterfactual(world: World, key: Key, cluster: str, *, now: Micros) -> Counterfactual:
    """Search an answer.

    Raise KeyError if the placement or cluster does not exist. The world is unchanged afterwards.
    """
    source = cluster_of(world, cluster)
    workload = world.workload(key)
    if workload.idle:
        why = SCHEDULING_DISABLED.format(why=disabled_reason(workload.placement))
        return Counterfactual(key, cluster, State.BLOCKED, obstacle=why)
    verdict = world.decide(key, now=now)
    if verdict.status.aborts:
        advice = advise(workload.placement, verdict)[0]
        words = FIX_FIRST.format(message=advice.message, remedy=advice.remedy)
        return Counterfactual(key, cluster, State.BLOCKED, obstacle=words)
    if cluster in verdict.outcome.selected:
        return Counterfactual(key, cluster, State.SELECTED, margin=_margin(verdict.outcome, cluster))
    if source.metadata.deletionTimestamp is not None:
        return Counterfactual(key, cluster, State.BLOCKED, obstacle=CLUSTER_GOES)
    before = frozenset(verdict.outcome.selected)
    del verdict  # Its snapshot would make the fleet copy what it shares before every edit.
    return _Search(world, key, cluster, now=now).answer(before)


class _BudgetError(Exception):
    pass


class _Search:
    def __init__(self, world: World, key: Key, cluster: str, *, now: Micros) -> None:
        self._world = world
        self._key = key
        self._cluster = cluster
        self._now = now
        self._runs = 0
        self._works: dict[frozenset[Edit], bool] = {}
        self._barriers: dict[frozenset[Edit], Barrier | None] = {}
        self._visited: set[frozenset[Edit]] = set()

    def answer(self, before: frozenset[str]) -> Counterfactual:
        solutions: set[tuple[Edit, ...]] = set()
        stopped = False
        for size in range(1, MOST_EDITS + 1):
            # Shorter answers first, so that what a longer one contains is known to be insufficient. The same edits
            # are visited again for each size, because more may follow them now.
            self._visited.clear()
            try:
                for solution in self._solutions((), size):
                    solutions.add(self._minimal(solution))
                    if len(solutions) >= MOST_SOLUTIONS:
                        break
            except _BudgetError:
                stopped = True
            if solutions or stopped:
                break
        # An answer without edits means that the cycle selects the cluster now and did not before: a plugin does not
        # repeat its results.
        ordered = sorted(solutions - {()}, key=_size)
        if not ordered:
            return self._no_answer(stopped=stopped, unstable=bool(solutions))
        best = ordered[0]
        with applied(self._world, best):
            # Results of earlier runs are cached, so an unstable plugin is noticed here at the latest.
            after = frozenset(self._run().selected)
        if self._cluster not in after:
            return self._no_answer(stopped=stopped, unstable=True)
        return Counterfactual(
            placement=self._key,
            cluster=self._cluster,
            state=State.FOUND,
            edits=best,
            alternatives=tuple(_alternatives(ordered)),
            displaced=tuple(sorted(before - after)),
            notes=self._first_notes(),
            runs=self._runs,
        )

    def _no_answer(self, *, stopped: bool, unstable: bool = False) -> Counterfactual:
        """Return the obstacle: the nearest barrier that no edit removes, or else the first."""
        ranked = [
            (
                not barrier.final,
                bool(barrier.edits or barrier.candidates),
                len(edits),
                barrier.words,
                barrier.notes,
            )
            for edits, barrier in self._barriers.items()
            if barrier is not None
        ]
        *_, words, notes = min(ranked, default=(UNSTABLE, ()))
        if unstable:
            words = UNSTABLE
        tried = sorted({edit for edits in self._works for edit in edits}, key=lambda edit: _size((edit,)))
        described = [edit.describe() for edit in tried]
        if stopped:
            described.insert(0, STOPPED.format(runs=self._runs))
        return Counterfactual(
            placement=self._key,
            cluster=self._cluster,
            state=State.NOT_FOUND,
            obstacle=words,
            tried=tuple(described),
            notes=tuple(dict.fromkeys((*self._first_notes(), *notes))),
            runs=self._runs,
        )

    def _first_notes(self) -> tuple[str, ...]:
        """Return the notes of the barrier before any edit."""
        first = self._barriers.get(frozenset())
        return () if first is None else first.notes

    # Running the cycle

    def _run(self) -> Outcome:
        workload = self._world.workload(self._key)
        return cycle.run(self._world.fleet.snapshot(), workload, self._world.profile, now=self._now)

    def _is_selected(self, outcome: Outcome) -> bool:
        row = outcome.snapshot.hosts.row_of[self._cluster]
        return bool((outcome.selected_rows == row).any())

    def works(self, edits: Sequence[Edit]) -> bool:
        name = frozenset(edits)
        known = self._works.get(name)
        if known is None:
            self._runs += 1
            with applied(self._world, edits):
                known = self._works[name] = self._is_selected(self._run())
        return known

    def _barrier(self, edits: Sequence[Edit]) -> Barrier | None:
        """Return the barrier; None if the cluster is selected."""
        name = frozenset(edits)
        if name not in self._barriers:
            self._runs += 1
            with applied(self._world, edits):
                outcome = self._run()
                wins = self._works[name] = self._is_selected(outcome)
                self._barriers[name] = None if wins else barrier_of(outcome, self._world, self._cluster)
        return self._barriers[name]

    # Searching

    def _solutions(self, edits: tuple[Edit, ...], size: int) -> Iterator[tuple[Edit, ...]]:
        """Yield sets of ``size`` edits that begin with the given ones, with minimal numbers."""
        name = frozenset(edits)
        if name in self._visited:
            return
        self._visited.add(name)
        if self._runs >= MOST_RUNS:
            raise _BudgetError
        if len(edits) == size:
            if self.works(edits):
                yield edits
            return
        barrier = self._barrier(edits)
        if barrier is None:
            yield edits
            return
        # One edit per target, because a second one would undo the first.
        used = {edit.target for edit in edits}
        last = len(edits) + 1 == size
        for edit in barrier.edits:
            if edit.target not in used:
                yield from self._solutions((*edits, edit), size)
        for candidate in barrier.candidates:
            if candidate.edit.target in used:
                continue
            if last:
                smallest = self._fewest_steps(edits, candidate)
                if smallest is not None:
                    yield (*edits, smallest)
            else:
                # At its bound while more edits follow; ``_minimal`` reduces the number once all are known.
                yield from self._solutions((*edits, candidate.edit), size)

    def _fewest_steps(self, edits: tuple[Edit, ...], candidate: NumericCandidate) -> NumericEdit | None:
        """Return the fewest steps that select the cluster, or None."""
        most = candidate.edit.steps
        low = 0
        for steps in (*sorted(guess for guess in candidate.guesses if 0 < guess < most), most // 2, most):
            if steps <= low:
                continue
            edit = candidate.edit.with_steps(steps)
            if self.works((*edits, edit)):
                return self._reduced(edits, edit, low=low)
            low = steps
        return None

    def _reduced(self, others: tuple[Edit, ...], edit: NumericEdit, *, low: int) -> NumericEdit:
        """Return the edit with the fewest steps that select the cluster; ``low`` steps are known not to."""
        steps = least(lambda count: self.works((*others, edit.with_steps(count))), low, edit.steps)
        return edit.with_steps(steps)

    def _minimal(self, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
        """Return the smallest subset that selects the cluster, with each number changed as little as possible."""
        # Tried, not deduced: a cluster that becomes feasible changes the range of other scores, so fewer
        # edits may do more.
        for count in range(1, len(edits)):
            for fewer in combinations(edits, count):
                if self.works(fewer):
                    return self._minimal(fewer)
        for at, edit in enumerate(edits):
            if not isinstance(edit, NumericEdit) or edit.steps <= 1:
                continue
            others = (*edits[:at], *edits[at + 1 :])
            less = self._reduced(others, edit, low=0)
            if less.steps < edit.steps:
                # From the start: with this number another edit may have become unnecessary.
                return self._minimal((*edits[:at], less, *edits[at + 1 :]))
        return tuple(sorted(edits, key=lambda edit: (edit.preference, edit.describe())))


def least(works: Callable[[int], bool], low: int, high: int) -> int:
    """Return a number above ``low``, up to ``high``, that works while the one below does not.

    ``high`` is known to work, and ``low`` not to. The number below ``high`` is tried first, because estimates are often
    exact.
    """
    middle = high - 1
    while high - low > 1:
        if works(middle):
            high = middle
        else:
            low = middle
        middle = (low + high) // 2
    return high


def _size(edits: tuple[Edit, ...]) -> tuple[int, list[int], float, list[str]]:
    return (
        len(edits),
        sorted((edit.preference for edit in edits), reverse=True),
        sum(edit.magnitude for edit in edits),
        [edit.describe() for edit in edits],
    )


def _alternatives(ordered: Sequence[tuple[Edit, ...]]) -> Iterator[tuple[Edit, ...]]:
    """Yield one answer for each combination of kinds, among those with as few edits as the best."""
    seen = {_kinds(ordered[0])}
    for edits in ordered[1:]:
        kinds = _kinds(edits)
        if len(edits) > len(ordered[0]) or len(seen) > MOST_ALTERNATIVES:
            return
        if kinds not in seen:
            seen.add(kinds)
            yield edits


def _kinds(edits: tuple[Edit, ...]) -> tuple[tuple[object, ...], ...]:
    return tuple(sorted((type(edit).__name__, *map(str, edit.target)) for edit in edits))


def _margin(outcome: Outcome, cluster: str) -> Margin | None:
    """Return the margin; None if a spread policy decides, which has no margin in points."""
    if outcome.chooser is None or not outcome.chooser.by_rank:
        return None
    chosen = set(outcome.selected)
    totals = outcome.totals_by_name()
    best = min(((-total, name) for name, total in totals.items() if name not in chosen), default=None)
    if best is None:
        return Margin(points=None)
    total, runner_up = -best[0], best[1]
    points = totals[cluster] - total - (0 if cluster < runner_up else 1)
    return Margin(points=points, runner_up=runner_up)
