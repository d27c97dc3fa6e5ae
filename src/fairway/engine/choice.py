"""BestHosts: picks the hosts with the highest totals, by name where they are equal. The default of every profile."""

from collections.abc import Iterator

from fairway.engine import ranking
from fairway.engine.points import Context, Scores
from fairway.engine.remedies import WantMore
from fairway.hosts.bitmap import Rows

NAME = "BestHosts"


class BestHosts:
    name = NAME

    def choose(self, context: Context, rows: Rows, totals: Scores, /) -> Rows:
        return ranking.best(rows, totals, context.snapshot.hosts.rank[rows], wanted=context.workload.wanted)

    def choice_remedies(
        self, context: Context, row: int, rows: Rows, totals: Scores, /
    ) -> Iterator[WantMore]:
        better = ranking.better_than(row, rows, totals, context.snapshot.hosts.rank[rows])
        yield WantMore(guesses=(int(better.sum()) + 1,))
