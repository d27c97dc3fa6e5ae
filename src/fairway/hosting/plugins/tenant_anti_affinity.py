"""TenantAntiAffinity: keeps hosted clusters of one tenant apart, as a rule or as a preference."""

from typing import Final

from fairway.api.hosting_policy import PREFERRED, REQUIRED
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.fleet.direction import Direction
from fairway.fleet.resources import grantable
from fairway.hosting.plugins.row import cluster_at, spec_in
from fairway.hosting.resources import HOSTED
from fairway.hosting.state import HostingState, host_key

NAME: Final = "TenantAntiAffinity"
SAME_TENANT: Final = "already hosts {count} hosted clusters of tenant {tenant}"
HIGHEST: Final = 100


class TenantAntiAffinity(Timeless):
    name = NAME

    def __init__(self, *, state: HostingState) -> None:
        self._state = state

    def filter(self, context: Context, row: int, /) -> Status:
        spec = spec_in(context, NAME)
        if spec.policy.tenants != REQUIRED:
            return OK
        count = self._count(context, row)
        if not count:
            return OK
        return unschedulable(SAME_TENANT.format(count=count, tenant=spec.tenant), plugin=NAME)

    def score(self, context: Context, row: int, /) -> int:
        if spec_in(context, NAME).policy.tenants != PREFERRED:
            return 0
        return HIGHEST // (1 + self._count(context, row))

    def _count(self, context: Context, row: int) -> int:
        tenant = spec_in(context, NAME).tenant
        key = context.workload
        return sum(
            each.tenant == tenant and (each.key.namespace, each.key.name) != (key.namespace, key.name)
            for each in self._state.on(host_key(cluster_at(context, row)))
        )

    def reads(self, _context: Context, /) -> Reads:
        helps = {grantable(HOSTED): Direction.UP}
        return Reads(cells=frozenset(helps), helps=helps)
