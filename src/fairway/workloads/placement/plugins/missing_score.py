"""MissingScore: rejects clusters without a valid score, for placements with the annotation value ``exclude``."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from fairway.engine.points import NEVER_CHANGES, Context, Prioritization, Reads, Timeless, Weighted
from fairway.engine.remedies import MoveNumber
from fairway.engine.status import OK, SKIPPED, Status, unschedulable, warning
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Mask, Rows
from fairway.hosts.clusters import cells
from fairway.hosts.column import Key
from fairway.hosts.instant import Micros
from fairway.workloads.placement.plugins import prioritizer_policy, trust
from fairway.workloads.placement.plugins.addon_score import AddOnScore
from fairway.workloads.placement.plugins.calculator import Calculator
from fairway.workloads.placement.plugins.trust import MISSING_SCORE, NO_CALCULATOR, Missing
from fairway.workloads.placement.workload import placement_of

NAME: Final = "MissingScore"
KEPT_OUT: Final = f"{{why}}, and by annotation {MISSING_SCORE} such clusters are excluded"
EXPIRED: Final = (
    f"AddOnPlacementScores {{scores}} expired, so annotation {MISSING_SCORE} excludes the clusters"
)


class Wanted(Protocol):
    """A required score."""

    @property
    def reads(self) -> frozenset[Key]: ...

    def present(self, context: Context, rows: Rows) -> Mask:
        """Return which of the rows have the score, valid or not."""

    def lapsed(self, context: Context, rows: Rows) -> Mask:
        """Return which of the rows have an expired score."""

    def why_not(self, context: Context, row: int) -> str:
        """Return why the score is missing; empty if it is valid."""

    def until(self, context: Context, rows: Rows) -> Micros: ...

    @property
    def resource(self) -> str: ...

    @property
    def plugin(self) -> str:
        """Name of the Score plugin that reads the score."""

    def publish(self, *, up: bool) -> MoveNumber: ...


@dataclass(frozen=True, slots=True)
class AddOn:
    resource: str
    score: str

    @property
    def plugin(self) -> str:
        return f"AddOn/{self.resource}/{self.score}"

    @property
    def reads(self) -> frozenset[Key]:
        return frozenset({self._column, (cells.SCORES, self.resource)})

    def publish(self, *, up: bool) -> MoveNumber:
        return MoveNumber(self._column, up=up, silent_is_missing=True)

    @property
    def _column(self) -> Key:
        return (cells.SCORE, self.resource, self.score)

    def present(self, context: Context, rows: Rows) -> Mask:
        present: Mask = context.snapshot.score_column(self._column).present[rows]
        return present

    def why_not(self, context: Context, row: int) -> str:
        return trust.why_missing(context.snapshot, self.resource, self.score, row, now=context.now)

    def until(self, context: Context, rows: Rows) -> Micros:
        return trust.lapses(context.snapshot, self.resource, rows, now=context.now)

    def lapsed(self, context: Context, rows: Rows) -> Mask:
        return trust.lapsed(context.snapshot, self.resource, rows, now=context.now)


@dataclass(frozen=True, slots=True)
class Calculated:
    calculator: str

    @property
    def resource(self) -> str:
        return self.calculator

    @property
    def plugin(self) -> str:
        return self.calculator

    @property
    def reads(self) -> frozenset[Key]:
        return frozenset({self._column})

    def publish(self, *, up: bool) -> MoveNumber:
        return MoveNumber(self._column, up=up, title=self.calculator)

    @property
    def _column(self) -> Key:
        return (cells.CALCULATOR, self.calculator.lower())

    def present(self, context: Context, rows: Rows) -> Mask:
        present: Mask = context.snapshot.score_column(self._column).present[rows]
        return present

    def why_not(self, context: Context, row: int) -> str:
        if context.snapshot.score_column(self._column).present[row]:
            return ""
        return NO_CALCULATOR.format(calculator=self.calculator)

    def until(self, _context: Context, _rows: Rows) -> Micros:
        return NEVER_CHANGES

    def lapsed(self, _context: Context, rows: Rows) -> Mask:
        return np.zeros(len(rows), dtype=np.bool_)


class MissingScore(Timeless):
    name = NAME

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        """Skip the filter if the placement requires no score."""
        if not placement_of(context).trust.excludes:
            return SKIPPED, None
        prioritization = context.state.find(prioritizer_policy.NAME, Prioritization)
        wanted = () if prioritization is None else tuple(dict.fromkeys(_required(prioritization.scores)))
        if not wanted:
            return SKIPPED, None
        context.state.write(NAME, wanted)
        return OK, None

    def admits(self, _context: Context, _row: int, /) -> Status:
        return OK

    def filter(self, context: Context, row: int, /) -> Status:
        for score in wanted_scores(context):
            why = score.why_not(context, row)
            if why:
                return unschedulable(KEPT_OUT.format(why=why), plugin=NAME)
        return OK

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        rows = bitmap.rows_of(candidates)
        known = np.ones(len(rows), dtype=np.bool_)
        for score in wanted_scores(context):
            known &= score.present(context, rows)
            known &= ~score.lapsed(context, rows)
        return OK, candidates if known.all() else bitmap.from_rows(rows[known], context.snapshot.capacity)

    def warned_rows(self, context: Context, rows: Rows, /) -> Rows:
        """Return the rows that would pass if their score had not expired.

        A score that never existed is not reported.
        """
        present = np.ones(len(rows), dtype=np.bool_)
        late = np.zeros(len(rows), dtype=np.bool_)
        for score in wanted_scores(context):
            present &= score.present(context, rows)
            late |= score.lapsed(context, rows)
        return rows[present & late]

    def warning(self, context: Context, rows: Rows, /) -> Status:
        def words() -> str:
            names = context.snapshot.hosts.names
            scores = {
                f"{names[row]}/{score.resource}"
                for score in wanted_scores(context)
                for row in rows[score.lapsed(context, rows)].tolist()
            }
            return EXPIRED.format(scores=" ".join(sorted(scores)))

        return warning(words, plugin=NAME) if len(rows) else OK

    def filter_remedies(self, context: Context, row: int, /) -> Iterator[MoveNumber]:
        """Propose to publish the first missing score; which value is sufficient depends on the other clusters."""
        missing = next((score for score in wanted_scores(context) if score.why_not(context, row)), None)
        prioritization = context.state.find(prioritizer_policy.NAME, Prioritization)
        if missing is not None and prioritization is not None:
            weight = sum(
                weighted.weight
                for weighted in prioritization.scores
                if weighted.plugin.name == missing.plugin
            )
            yield missing.publish(up=weight >= 0)

    def reads(self, context: Context, /) -> Reads:
        return Reads(cells=frozenset(key for score in wanted_scores(context) for key in score.reads))

    def until(self, context: Context, rows: Rows, /) -> Micros:
        return min((score.until(context, rows) for score in wanted_scores(context)), default=NEVER_CHANGES)


def wanted_scores(context: Context) -> tuple[Wanted, ...]:
    """Return the scores that a cluster must have to be feasible."""
    return context.state.find(NAME, tuple) or ()


def _required(scores: Iterable[Weighted]) -> Iterator[Wanted]:
    for weighted in scores:
        plugin = weighted.plugin
        if isinstance(plugin, AddOnScore) and plugin.missing is Missing.EXCLUDE:
            yield AddOn(plugin.resource, plugin.score_name)
        elif isinstance(plugin, Calculator) and plugin.missing is Missing.EXCLUDE:
            yield Calculated(plugin.name)
