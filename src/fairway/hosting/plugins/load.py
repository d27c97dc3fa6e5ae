"""HostedClusters, Headroom and Balance: which of the hosts with room is best.

Each returns 0 to 100. With the strategy Spread more room is better, with Pack less.
"""

from typing import Final

from fairway.api.hosting_policy import PACK
from fairway.engine.points import Context, Reads, Timeless
from fairway.fleet.resources import grantable
from fairway.hosting.capacity import Capacity
from fairway.hosting.plugins.row import cluster_at, spec_in
from fairway.hosting.resources import DIMENSIONS, HOSTED, MILLI
from fairway.hosting.state import HostingState, unseen_others

HOSTED_CLUSTERS: Final = "HostedClusters"
HEADROOM: Final = "Headroom"
BALANCE: Final = "Balance"
HIGHEST: Final = 100


class _Load(Timeless):
    name = ""

    def __init__(self, *, state: HostingState) -> None:
        self._state = state

    def shares(self, context: Context, row: int) -> dict[str, float]:
        """Return the share of each limiting dimension that stays free with the hosted cluster."""
        name = cluster_at(context, row).metadata.name
        facts = self._state.facts.get(name)
        if facts is None or not isinstance(facts.capacity, Capacity):
            return {}
        free = self._state.free(facts.key)
        # Reported, but perhaps counted twice: for the ranking, the likely number is better than the safe one.
        free[HOSTED] = free.get(HOSTED, 0) + unseen_others(self._state, facts) * MILLI
        asked = facts.capacity.amounts_for(spec_in(context, self.name).need)
        return {
            each: (free[each] - asked.get(each, 0)) / total
            for each, total in facts.capacity.total.items()
            if total
        }

    def rated(self, context: Context, share: float) -> int:
        score = round(HIGHEST * min(1.0, max(0.0, share)))
        return HIGHEST - score if spec_in(context, self.name).policy.strategy == PACK else score

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset(grantable(each) for each in DIMENSIONS))


class HostedClusters(_Load):
    """Prefers hosts with fewer hosted clusters, as a share of the maximum."""

    name = HOSTED_CLUSTERS

    def score(self, context: Context, row: int, /) -> int:
        return self.rated(context, self.shares(context, row).get(HOSTED, 0.0))


class Headroom(_Load):
    """Prefers hosts whose fullest dimension has the largest free share."""

    name = HEADROOM

    def score(self, context: Context, row: int, /) -> int:
        return self.rated(context, min(self.shares(context, row).values(), default=0.0))


class Balance(_Load):
    """Prefers hosts whose dimensions are used evenly, so that none runs out while others are free."""

    name = BALANCE

    def score(self, context: Context, row: int, /) -> int:
        shares = [min(1.0, max(0.0, each)) for each in self.shares(context, row).values()]
        return round(HIGHEST * (1 - (max(shares) - min(shares)))) if shares else 0
