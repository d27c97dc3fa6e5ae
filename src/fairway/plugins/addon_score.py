"""AddOn/<resource>/<score>: a score that a provider publishes for a cluster, with an expiry.

A missing or expired score counts 0, unless the placement's annotation says that it counts as the worst. A warning
names expired scores.
"""

from typing import Final

from fairway.clusters import cells
from fairway.engine.points import NEVER_CHANGES, Context, Raw, Reads, Timeless
from fairway.engine.status import OK, Status, warning
from fairway.fleet.bitmap import Mask, Rows
from fairway.fleet.column import NEVER
from fairway.fleet.instant import Micros
from fairway.plugins import trust
from fairway.plugins.trust import COUNTS_WORST, COUNTS_ZERO, MISSING_SCORE, SILENCED, Missing

EXPIRED: Final = "AddOnPlacementScores {scores} expired"
EXPIRED_WORST: Final = f"{EXPIRED} and count as the worst, by annotation {MISSING_SCORE}"

STAND_IN: Final = "{why}, so its values are not those of its provider"


class AddOnScore(Timeless):
    """With ``missing`` WORST, clusters without a valid score have none, and the profile's default counts. Otherwise
    they count 0."""

    def __init__(self, *, resource: str, score: str, missing: Missing = Missing.ZERO) -> None:
        self.name = f"AddOn/{resource}/{score}"
        self.resource, self.score_name = resource, score
        self._column = (cells.SCORE, resource, score)
        self._worst = missing is Missing.WORST

    def pre_score(self, context: Context, rows: Rows, /) -> Status:
        return self.caution(context, self.doubtful(context, rows))

    def doubtful(self, context: Context, rows: Rows, /) -> Rows:
        if self._worst:
            return rows[trust.lapsed(context.snapshot, self.resource, rows, now=context.now)]
        column = context.snapshot.score_column(self._column)
        return rows[column.expires[rows] < context.now] if column.earliest() < context.now else rows[:0]

    def caution(self, context: Context, rows: Rows, /) -> Status:
        if not len(rows):
            return OK

        def words() -> str:
            names = context.snapshot.hosts.names
            scores = sorted(f"{names[row]}/{self.resource}" for row in rows.tolist())
            return (EXPIRED_WORST if self._worst else EXPIRED).format(scores=" ".join(scores))

        return warning(words, plugin=self.name)

    def score(self, context: Context, row: int, /) -> int | None:
        column = context.snapshot.score_column(self._column)
        if self._worst:
            return None if self._why_missing(context, row) else int(column.values[row])
        return 0 if column.expires[row] < context.now else int(column.values[row])

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        column = context.snapshot.score_column(self._column)
        values = column.values[rows]
        if self._worst:
            known = column.present[rows]
            known &= ~trust.lapsed(context.snapshot, self.resource, rows, now=context.now)
            return Raw(values, None if known.all() else known)
        if column.earliest() < context.now:
            values[column.expires[rows] < context.now] = 0
        return Raw(values)

    def remark(self, context: Context, row: int, /) -> str:
        why = self._why_missing(context, row)
        if not why:
            return ""
        if self._worst:
            return COUNTS_WORST.format(why=why)
        silent = why == SILENCED.format(resource=self.resource)
        return (STAND_IN if silent else COUNTS_ZERO).format(why=why)

    def knows(self, context: Context, rows: Rows, /) -> Mask:
        column = context.snapshot.score_column(self._column)
        known: Mask = column.present[rows]
        if self._worst:
            known &= ~trust.lapsed(context.snapshot, self.resource, rows, now=context.now)
        elif column.earliest() < context.now:
            known &= column.expires[rows] >= context.now
        return known

    def _why_missing(self, context: Context, row: int) -> str:
        return trust.why_missing(context.snapshot, self.resource, self.score_name, row, now=context.now)

    def reads(self, _context: Context, /) -> Reads:
        if self._worst:
            return Reads(cells=frozenset({self._column, (cells.SCORES, self.resource)}))
        return Reads(cells=frozenset({self._column}))

    def until(self, context: Context, rows: Rows, /) -> Micros:
        expires = context.snapshot.score_column(self._column).expires[rows]
        ahead = expires[(expires >= context.now) & (expires != NEVER)]
        return int(ahead.min()) + 1 if len(ahead) else NEVER_CHANGES
