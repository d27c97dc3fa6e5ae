"""Stability: keeps the selected clusters as the stability contract of the Placement says.

It stands between the ranking and the decision: the contract changes totals before the choice, and no score. So it works
with every mode and weight, and together with Spread. A cluster that failed a filter is not among the candidates, and is
left at once; a cluster that comes for it, or because more are wanted, is no *move*. A move replaces a feasible cluster
by a better one.

A move waits while one of these holds: quiet hours, the dwell of the cluster to leave, or a limit that is used up. When
it ends, the placement is decided again. What the limits count is recorded in the decision (``hosts.clusters.tenures``).
A recorded time in the future was written by a wrong clock, and is ignored.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairway.engine import ranking
from fairway.engine.outcome import Outcome
from fairway.engine.points import NEVER_CHANGES, Context, Prioritization, Reads, Scores
from fairway.engine.profile import Profile
from fairway.hosts.bitmap import Rows
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.snapshot import clusters_of
from fairway.hosts.clusters.tenures import UNKNOWN, Tenure
from fairway.hosts.instant import SECOND, Micros, from_micros
from fairway.workloads.placement.plugins.balance import NAME as BALANCE
from fairway.workloads.placement.plugins.contract import (
    DWELL,
    HOUR,
    MIN_GAIN,
    MOVES_PER_HOUR,
    OCM,
    QUIET_HOURS,
    SANE,
    Contract,
    ceil_second,
    contract_of,
    parse_dwell,
    parse_hours,
    parse_limit,
    parse_moves,
    parse_points,
)
from fairway.workloads.placement.plugins.prioritizer_policy import NAME as POLICY
from fairway.workloads.placement.plugins.spread import Spread
from fairway.workloads.placement.plugins.steady import INCUMBENT
from fairway.workloads.placement.plugins.steady import NAME as STEADY
from fairway.workloads.placement.workload import PlacementWorkload, placement_of
from kubewire.api.meta import format_time

NAME: Final = "Stability"

SKEW: Final[Micros] = 300 * SECOND
"""How far ahead the clock of an earlier leader may have been."""
SHARED_RETRY: Final[Micros] = 300 * SECOND
"""Least wait for a limit of the namespace or the fleet. All placements that wait for it would be decided at once, and
all but one of them in vain."""

GAIN: Final = "MinGain"
QUIET: Final = "QuietHours"
DWELLS: Final = "Dwell"
LIMIT: Final = "MovesPerHour"

TOO_LITTLE: Final = "gains {gain} points over a selected cluster, and {annotation} requires {least}"
WAITS: Final = "is better than a selected cluster, which stays until {until} by {why}"
WRONG_ARGUMENT: Final = "{name}: {error}"
WRONG_FLAG: Final = "default: {text!r} must be true or false"


@dataclass(frozen=True, slots=True)
class Stay:
    """What the contract did in one cycle."""

    tenures: dict[str, Tenure]
    """What the decision records of the selected clusters."""
    suppressed: frozenset[str] = frozenset()
    """Better clusters, which would be selected without the contract."""
    cause: str = ""
    """Why; empty if nothing was suppressed."""
    ends: Micros = NEVER_CHANGES
    """When more moves may be possible without a change of the fleet. Nothing else of a contract ends: what does not
    hold a better cluster back changes no decision."""
    points: int = 1
    """Points of the total that are one point of the contract."""
    steady: int = 0
    """Points of the total for selected clusters that the least gain replaces."""


class Stability:
    name = NAME

    def __init__(
        self,
        *,
        default: bool = False,
        minGain: int | None = None,  # noqa: N803 -- the names in the file
        dwell: str | None = None,
        movesPerHour: float | None = None,  # noqa: N803
        namespaceMovesPerHour: int | None = None,  # noqa: N803
        fleetMovesPerHour: int | None = None,  # noqa: N803
        quietHours: str | None = None,  # noqa: N803
    ) -> None:
        """Contract of all placements of the profile. ``default`` is that of the annotation of the same value, with the
        other arguments instead of its values."""
        if not isinstance(default, bool):
            raise ValueError(WRONG_FLAG.format(text=default))
        given: dict[str, Any] = {}
        arguments: tuple[tuple[str, str, Callable[[object], object], object], ...] = (
            ("minGain", "min_gain", parse_points, minGain),
            ("dwell", "dwell", parse_dwell, dwell),
            ("movesPerHour", "moves", parse_moves, movesPerHour),
            ("namespaceMovesPerHour", "namespace_moves", parse_limit, namespaceMovesPerHour),
            ("fleetMovesPerHour", "fleet_moves", parse_limit, fleetMovesPerHour),
            ("quietHours", "quiet", parse_hours, quietHours),
        )
        for name, field, parse, value in arguments:
            if value is not None:
                try:
                    given[field] = parse(value)
                except ValueError as error:
                    raise ValueError(WRONG_ARGUMENT.format(name=name, error=error)) from None
        self._base = replace(SANE if default else OCM, **given)

    def contract_of(self, workload: PlacementWorkload) -> Contract:
        return contract_of(workload, self._base)

    def choose(self, context: Context, rows: Rows, totals: Scores, /) -> Rows | None:
        """Return the selected rows, best first; None without a contract."""
        workload = placement_of(context)
        contract = self.contract_of(workload)
        if contract == OCM or workload.wanted is None:
            return None
        chosen, stay = _Choice(context, contract, rows, totals).make()
        context.state.write(NAME, stay)
        return chosen

    def explain_choice(
        self, context: Context, chosen: Rows, rows: Rows, totals: Scores, /
    ) -> Callable[[int], str | None]:
        """Explain why the contract kept a selected cluster instead of a better one; otherwise Spread explains."""
        contract = self.contract_of(placement_of(context))
        stay = context.state.find(NAME, Stay) or Stay({})
        spread = Spread().explain_choice(context, chosen, rows, totals) if _is_spread(context) else None
        worst = int(totals[np.searchsorted(rows, chosen)].min()) if len(chosen) else 0
        worst -= stay.steady
        names = context.snapshot.hosts.names

        def objection(row: int) -> str | None:
            gain = int(totals[np.searchsorted(rows, row)]) - worst
            if not stay.cause or (names[row] not in stay.suppressed and (gain <= 0 or spread is not None)):
                return None if spread is None else spread(row)
            if stay.cause == GAIN:
                points = f"{gain / stay.points:.3g}"
                return TOO_LITTLE.format(gain=points, annotation=MIN_GAIN, least=contract.min_gain)
            return waits(stay)

        return objection

    def reads(self, context: Context, /) -> Reads:
        return Reads(shared=frozenset({(cells.OWN_DECISIONS, *placement_of(context).owner)}))

    def basis(self, _context: Context, /) -> object:
        return None

    def until(self, context: Context, _rows: Rows, /) -> Micros:
        stay = context.state.find(NAME, Stay)
        return NEVER_CHANGES if stay is None else stay.ends


_WHY: Final = {QUIET: QUIET_HOURS, DWELLS: DWELL, LIMIT: MOVES_PER_HOUR}


def stability_of(profile: Profile, workload: PlacementWorkload) -> Contract:
    """Return the contract of a placement; that of OCM if the profile does not enable the plugin."""
    plugins = (calls.plugin for calls in profile.choosers)
    stability = next((plugin for plugin in plugins if isinstance(plugin, Stability)), None)
    return OCM if stability is None else stability.contract_of(workload)


def waits(stay: Stay) -> str:
    """Explain why a better cluster is not selected yet."""
    return WAITS.format(until=format_time(from_micros(stay.ends)), why=_WHY[stay.cause])


def stay_of(outcome: Outcome) -> Stay | None:
    """Return what the contract of a placement did; None without one."""
    return outcome.context.state.find(NAME, Stay)


def recent_moves(moments: Sequence[Micros], now: Micros, *, window: Micros = HOUR) -> Sequence[Micros]:
    """Return the ascending times that count against limits."""
    return moments[bisect_right(moments, now - window) : bisect_right(moments, now + SKEW)]


class _Choice:
    def __init__(self, context: Context, contract: Contract, rows: Rows, totals: Scores) -> None:
        self._context, self._contract, self._rows, self._totals = context, contract, rows, totals
        self._now, self._owner = context.now, placement_of(context).owner
        self._snapshot = clusters_of(context.snapshot)
        self._before = self._snapshot.decisions.counted(self._owner)
        self._tenures = self._snapshot.decisions.tenures_of(self._owner)
        self._names = self._snapshot.hosts.names
        self._held = np.isin(rows, self._snapshot.held(self._owner))

    def make(self) -> tuple[Rows, Stay]:
        contract, held = self._contract, self._held
        scale, steady = _weights(self._context)
        if not contract.min_gain:
            steady = 0
        plain = self._choose(self._totals - steady * held)
        # Twice the totals, and an odd advantage: a gain of just the margin moves, and no tie is decided by name.
        totals = 2 * self._totals
        if contract.min_gain:
            totals[held] += 2 * (contract.min_gain * scale - steady) - 1
        free = self._choose(totals)
        ends = {int(row): self._dwells_until(int(row)) for row in self._rows[held]}
        quiet = contract.quiet_until(self._now)
        dwelling = [row for row, end in ends.items() if end > self._now]
        locked, cause, end = dwelling, DWELLS, min((ends[row] for row in dwelling), default=NEVER_CHANGES)
        if quiet is not None:
            locked, cause, end = list(ends), QUIET, quiet
        chosen = self._choose_with(totals, locked)
        allowed, release = self._budget()
        left, moves = self._moves(chosen)
        if moves > allowed:
            if release == NEVER_CHANGES:  # the moves of this cycle use up what is left
                release = ceil_second(self._now) + HOUR
            # The worst clusters leave first.
            at = np.searchsorted(self._rows, left)
            order = left[_order(totals[at], self._snapshot.hosts.rank[left])]
            locked, cause, end = [*locked, *order[: moves - allowed].tolist()], LIMIT, release
            chosen = self._choose_with(totals, locked)
            if self._moves(chosen)[1] > allowed:
                chosen = self._choose_with(totals, list(ends))
        names = {self._names[row] for row in chosen.tolist()}
        suppressed = [row for row in plain.tolist() if self._names[row] not in names]
        # What would be chosen without the locks waits for them; what would not has too little gain.
        if suppressed and not set(suppressed) & set(free.tolist()):
            cause, end = GAIN, NEVER_CHANGES
        return chosen, Stay(
            tenures=self._recorded(chosen),
            suppressed=frozenset(self._names[row] for row in suppressed),
            cause=cause if suppressed else "",
            ends=end if suppressed else NEVER_CHANGES,
            points=scale,
            steady=steady,
        )

    def _choose(self, totals: Scores) -> Rows:
        context, rows = self._context, self._rows
        chosen = Spread().choose(context, rows, totals)
        if chosen is None:
            ranks = self._snapshot.hosts.rank[rows]
            chosen = ranking.best(rows, totals, ranks, wanted=context.workload.wanted)
        return chosen

    def _choose_with(self, totals: Scores, locked: Sequence[int]) -> Rows:
        """Choose with these rows before all others; return them in the order of the real totals."""
        if locked:
            totals = totals.copy()
            totals[np.searchsorted(self._rows, locked)] += int(totals.max()) - int(totals.min()) + 1
        chosen = self._choose(totals)
        at = np.searchsorted(self._rows, chosen)
        return chosen[_order(self._totals[at], self._snapshot.hosts.rank[chosen])]

    def _moves(self, chosen: Rows) -> tuple[Rows, int]:
        """Return the feasible rows that are left, and how many of them for better ones."""
        held = self._rows[self._held]
        left = held[~np.isin(held, chosen)]
        return left, max(0, len(left) - max(0, len(held) - len(chosen)))

    def _dwells_until(self, row: int) -> Micros:
        since = self._tenures.get(self._names[row], UNKNOWN).since
        if self._contract.dwell is None or since is None or since > self._now + SKEW:
            return 0
        return since + self._contract.dwell

    def _budget(self) -> tuple[int, Micros]:
        """Return how many moves are allowed now, and when there may be more."""
        contract, now = self._contract, self._now
        allowed, release = len(self._rows), NEVER_CHANGES
        own = sorted(moment for tenure in self._tenures.values() for moment in tenure.moves)
        most, window = contract.moves or (None, HOUR)
        decisions = self._snapshot.decisions
        limits: tuple[tuple[int | None, Micros, Sequence[Micros], Micros], ...] = (
            (most, window, own, 0),
            (contract.namespace_moves, HOUR, decisions.moves_in(self._owner[0]), SHARED_RETRY),
            (contract.fleet_moves, HOUR, decisions.moves_in(None), SHARED_RETRY),
        )
        for limit, time, moments, least in limits:
            if limit is None:
                continue
            recent = recent_moves(moments, now, window=time)
            left = max(0, limit - len(recent))
            if left < allowed:
                allowed = left
            if not left:
                release = _later(release, max(recent[len(recent) - limit] + time, now + least))
        if most is not None:
            # Whatever was counted before a decision without clusters is not recorded.
            for tenure in self._tenures.values():
                if tenure.after_none and tenure.since is not None:
                    end = tenure.since + window
                    if now < end <= now + window + SKEW:
                        allowed, release = 0, _later(release, end)
        return allowed, release

    def _recorded(self, chosen: Rows) -> dict[str, Tenure]:
        names = [self._names[row] for row in chosen.tolist()]
        kept = {name: self._tenures.get(name, UNKNOWN) for name in names if name in self._before}
        coming = [name for name in names if name not in self._before]
        now = ceil_second(self._now)
        _, moves = self._moves(chosen)
        after_none = not self._before and self._snapshot.decisions.has(self._owner)
        for at, name in enumerate(reversed(coming)):
            kept[name] = Tenure(
                now, after_none and self._contract.moves is not None, (now,) if at < moves else ()
            )
        # Moves that a cluster recorded count on after it is left.
        inherited: list[Micros] = []
        window = HOUR if self._contract.moves is None else max(HOUR, self._contract.moves[1])
        for name, tenure in self._tenures.items():
            if name not in kept:
                inherited += tenure.moves[bisect_left(tenure.moves, self._now - window) :]
                if tenure.after_none and tenure.since is not None and coming:
                    kept[coming[0]] = kept[coming[0]]._replace(after_none=True)
        if inherited and names:
            heir = min(coming or names)
            kept[heir] = kept[heir]._replace(moves=tuple(sorted((*kept[heir].moves, *inherited))))
        return kept


def _order(totals: Scores, ranks: Scores) -> Rows:
    return np.lexsort((ranks, -totals))


def _later(release: Micros, moment: Micros) -> Micros:
    """Return the later of two times at which limits allow a move; NEVER_CHANGES stands for no limit."""
    return moment if release == NEVER_CHANGES else max(release, moment)


def _is_spread(context: Context) -> bool:
    return bool(placement_of(context).placement.spec.spreadPolicy.spreadConstraints)


def _weights(context: Context) -> tuple[int, int]:
    """Return the largest weight of a prioritizer that compares clusters, and the points of Steady."""
    prioritization = context.state.find(POLICY, Prioritization)
    scores = () if prioritization is None else prioritization.scores
    measured = [abs(score.weight) for score in scores if score.plugin.name not in (BALANCE, STEADY)]
    steady = sum(INCUMBENT * score.weight for score in scores if score.plugin.name == STEADY)
    return max(measured, default=1), steady
