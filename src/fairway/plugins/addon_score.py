"""AddOn/<resource>/<score>: a score that anybody may publish for a cluster, as long as it is true.

A cluster without the score, or whose score has run out, counts 0. Scores that have run out are named in a
warning.
"""

from fairway.engine.points import NEVER_CHANGES, Context, Raw, Reads, Timeless
from fairway.engine.status import OK, Status, warning
from fairway.fleet import cells
from fairway.fleet.bitmap import Rows
from fairway.fleet.column import NEVER
from fairway.fleet.instant import Micros

EXPIRED = "AddOnPlacementScores {scores} expired"


class AddOnScore(Timeless):
    def __init__(self, *, resource: str, score: str) -> None:
        self.name = f"AddOn/{resource}/{score}"
        self._resource = resource
        self._column = (cells.SCORE, resource, score)

    def pre_score(self, context: Context, rows: Rows, /) -> Status:
        return self.caution(context, self.doubtful(context, rows))

    def doubtful(self, context: Context, rows: Rows, /) -> Rows:
        column = context.snapshot.score_column(self._column)
        return rows[column.expires[rows] < context.now] if column.earliest() < context.now else rows[:0]

    def caution(self, context: Context, rows: Rows, /) -> Status:
        if not len(rows):
            return OK

        def words() -> str:
            names = context.snapshot.hosts.names
            scores = sorted(f"{names[row]}/{self._resource}" for row in rows.tolist())
            return EXPIRED.format(scores=" ".join(scores))

        return warning(words, plugin=self.name)

    def score(self, context: Context, row: int, /) -> int:
        column = context.snapshot.score_column(self._column)
        return 0 if column.expires[row] < context.now else int(column.values[row])

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        column = context.snapshot.score_column(self._column)
        values = column.values[rows]
        if column.earliest() < context.now:
            values[column.expires[rows] < context.now] = 0
        return Raw(values)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({self._column}))

    def until(self, context: Context, rows: Rows, /) -> Micros:
        expires = context.snapshot.score_column(self._column).expires[rows]
        ahead = expires[(expires >= context.now) & (expires != NEVER)]
        return int(ahead.min()) + 1 if len(ahead) else NEVER_CHANGES
