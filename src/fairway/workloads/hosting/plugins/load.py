"""HostedClusters, Headroom and Balance: which of the hosts with room is best.

Each returns 0 to 100. With the strategy Spread more room is better, with Pack less.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from fairway.api.hosting_policy import PACK
from fairway.engine.points import Context, Raw, Reads, Scores, Timeless
from fairway.engine.status import OK, Status
from fairway.hosts.bitmap import Rows
from fairway.hosts.resources import grantable
from fairway.workloads.hosting.fleet.columns import UNCOUNTED, slot_share, total
from fairway.workloads.hosting.fleet.snapshot import hosting_of
from fairway.workloads.hosting.plugins.room import asked
from fairway.workloads.hosting.plugins.row import spec_in
from fairway.workloads.hosting.resources import DIMENSIONS, HOSTED

HOSTED_CLUSTERS: Final = "HostedClusters"
HEADROOM: Final = "Headroom"
BALANCE: Final = "Balance"
HIGHEST: Final = 100
SHARES: Final = "hosting/shares"
"""Of the feasible rows, in the state of a cycle."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shares:
    """The share of each dimension that stays free with the hosted cluster; NaN where it does not limit the host."""

    rows: Rows
    values: Floats
    """A row for each host, a column for each dimension."""


class _Load(Timeless):
    name = ""

    def pre_score(self, context: Context, rows: Rows, /) -> Status:
        """The three plugins read the same shares, which are most of the work of a cycle."""
        if context.state.find(SHARES, Shares) is None:
            context.state.write(SHARES, Shares(rows, self._compute(context, rows)))
        return OK

    def score(self, context: Context, row: int, /) -> int:
        shares = context.state.find(SHARES, Shares)
        at = -1 if shares is None else int(np.searchsorted(shares.rows, row))
        if shares is not None and at < len(shares.rows) and shares.rows[at] == row:
            return int(self._scores(context, shares.values[at : at + 1])[0])
        alone = self._compute(context, np.array([row], dtype=np.int64))
        return int(self._scores(context, alone)[0])

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        shares = context.state.find(SHARES, Shares)
        is_known = shares is not None and np.array_equal(shares.rows, rows)
        values = shares.values if shares is not None and is_known else self._compute(context, rows)
        return Raw(self._scores(context, values))

    def _scores(self, context: Context, shares: Floats) -> Scores:
        raise NotImplementedError

    def _compute(self, context: Context, rows: Rows) -> Floats:
        snapshot, need = hosting_of(context.snapshot), spec_in(context, self.name).need
        shares = np.full((len(rows), len(DIMENSIONS)), np.nan)
        for at, resource in enumerate(DIMENSIONS):
            totals = snapshot.counts(total(resource)).values[rows]
            limits = totals > 0
            if not limits.any():
                continue
            # As floats: where nothing limits, the amounts are the largest ones of 64 bits.
            free = snapshot.counts(grantable(resource)).values[rows].astype(np.float64)
            if resource == HOSTED:
                free += snapshot.counts(UNCOUNTED).values[rows]
            left = free - asked(snapshot, need, resource, rows)
            np.divide(left, totals, out=shares[:, at], where=limits)
        return shares

    def _rated(self, context: Context, shares: Floats) -> Scores:
        scores = np.rint(HIGHEST * np.clip(shares, 0.0, 1.0)).astype(np.int64)
        return HIGHEST - scores if spec_in(context, self.name).policy.strategy == PACK else scores

    def reads(self, context: Context, /) -> Reads:
        columns = {UNCOUNTED, *map(grantable, DIMENSIONS), *map(total, DIMENSIONS)}
        score = spec_in(context, self.name).need.slots_score
        if score is not None:
            columns.add(slot_share(score))
        return Reads(cells=frozenset(columns))


class HostedClusters(_Load):
    """Prefers hosts with fewer hosted clusters, as a share of the maximum."""

    name = HOSTED_CLUSTERS

    def _scores(self, context: Context, shares: Floats) -> Scores:
        return self._rated(context, np.nan_to_num(shares[:, DIMENSIONS.index(HOSTED)]))


class Headroom(_Load):
    """Prefers hosts whose fullest dimension has the largest free share."""

    name = HEADROOM

    def _scores(self, context: Context, shares: Floats) -> Scores:
        fullest = np.where(np.isnan(shares), np.inf, shares).min(axis=1)
        return self._rated(context, np.where(np.isinf(fullest), 0.0, fullest))


class Balance(_Load):
    """Prefers hosts whose dimensions are used evenly, so that none is exhausted while others are free."""

    name = BALANCE

    def _scores(self, _context: Context, shares: Floats) -> Scores:
        limits = ~np.isnan(shares)
        within = np.clip(np.where(limits, shares, 0.0), 0.0, 1.0)
        most = np.where(limits, within, 0.0).max(axis=1)
        least = np.where(limits, within, 1.0).min(axis=1)
        scores = np.rint(HIGHEST * (1 - (most - least))).astype(np.int64)
        return np.where(limits.any(axis=1), scores, 0)
