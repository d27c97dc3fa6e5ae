"""BestHosts: picks the hosts with the highest totals, by name where they are equal. The default of every profile."""

from fairway.engine import ranking
from fairway.engine.points import Context, Scores
from fairway.fleet.bitmap import Rows

NAME = "BestHosts"


class BestHosts:
    name = NAME

    def choose(self, context: Context, rows: Rows, totals: Scores, /) -> Rows:
        return ranking.best(rows, totals, context.snapshot.hosts.rank[rows], wanted=context.workload.wanted)
