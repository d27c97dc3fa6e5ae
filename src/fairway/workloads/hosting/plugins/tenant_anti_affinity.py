"""TenantAntiAffinity: keeps hosted clusters of one tenant apart, as a rule or as a preference."""

from typing import Final

import numpy as np

from fairway.api.hosting_policy import PREFERRED, REQUIRED
from fairway.engine.points import Context, Raw, Reads, Scores, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.direction import Direction
from fairway.hosts.resources import grantable
from fairway.workloads.hosting.fleet.columns import RESIDENTS, TENANTS
from fairway.workloads.hosting.fleet.snapshot import hosting_of
from fairway.workloads.hosting.plugins.row import spec_in
from fairway.workloads.hosting.resources import HOSTED

NAME: Final = "TenantAntiAffinity"
SAME_TENANT: Final = "already hosts {count} hosted clusters of tenant {tenant}"
HIGHEST: Final = 100


class TenantAntiAffinity(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        spec = spec_in(context, NAME)
        if spec.policy.anti_affinity != REQUIRED:
            return OK
        count = self._count(context, row)
        if not count:
            return OK
        return unschedulable(SAME_TENANT.format(count=count, tenant=spec.tenant), plugin=NAME)

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        if spec_in(context, NAME).policy.anti_affinity != REQUIRED:
            return OK, candidates
        rows = bitmap.rows_of(candidates)
        return OK, bitmap.from_rows(rows[self._counts(context, rows) == 0], context.snapshot.capacity)

    def score(self, context: Context, row: int, /) -> int:
        if spec_in(context, NAME).policy.anti_affinity != PREFERRED:
            return 0
        return HIGHEST // (1 + self._count(context, row))

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        if spec_in(context, NAME).policy.anti_affinity != PREFERRED:
            return Raw(np.zeros(len(rows), dtype=np.int64))
        return Raw(HIGHEST // (1 + self._counts(context, rows)))

    def _counts(self, context: Context, rows: Rows) -> Scores:
        key, snapshot = context.workload, hosting_of(context.snapshot)
        claimants = snapshot.tenants.claimants(spec_in(context, NAME).tenant)
        without = (key.namespace, key.name)
        counts = [residents.count(claimants, without=without) for residents in snapshot.residents_in(rows)]
        return np.array(counts, dtype=np.int64)

    def _count(self, context: Context, row: int) -> int:
        return int(self._counts(context, np.array([row], dtype=np.int64))[0])

    def reads(self, _context: Context, /) -> Reads:
        helps = {grantable(HOSTED): Direction.UP}
        return Reads(cells=frozenset({RESIDENTS, *helps}), shared=frozenset({TENANTS}), helps=helps)
