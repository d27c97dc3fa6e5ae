"""TenantQuota: keeps requests waiting that would exceed what their policy lets their tenant hold."""

from typing import Final

from fairway.api.amount_display import display_milli
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts.bitmap import Bits
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.workloads.hosting.fleet.columns import TENANTS
from fairway.workloads.hosting.fleet.snapshot import hosting_of
from fairway.workloads.hosting.fleet.tenant_usage import Account, quota_column
from fairway.workloads.hosting.plugins.row import spec_in
from fairway.workloads.hosting.resources import DIMENSIONS, IN_WORDS
from fairway.workloads.hosting.workload import HostingSpec

NAME: Final = "TenantQuota"
OVER: Final = "quota of tenant {tenant} in policy {policy}: {excess}"
EXCESS: Final = "{resource}: {used} of {limit} used, and the request needs {asked}"


class TenantQuota(Timeless):
    name = NAME

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        spec = spec_in(context, NAME)
        limits = spec.policy.tenancy.quota_of(spec.tenant)
        if not limits or spec.is_placed:  # a hosted cluster that moves holds what it held
            return OK, None
        asked = spec.need.amounts
        used = hosting_of(context.snapshot).tenants.used(account_of(spec))
        excess = "; ".join(
            EXCESS.format(
                resource=IN_WORDS.get(resource, resource),
                used=display_milli(resource, used.get(resource, 0)),
                limit=display_milli(resource, limits[resource]),
                asked=display_milli(resource, asked.get(resource, 0)),
            )
            for resource in DIMENSIONS
            if resource in limits and used.get(resource, 0) + asked.get(resource, 0) > limits[resource]
        )
        if not excess:
            return OK, None
        words = OVER.format(tenant=spec.tenant, policy=spec.policy.name, excess=excess)
        return unschedulable(words, plugin=NAME), None

    def admits(self, context: Context, _row: int, /) -> Status:
        return self.pre_filter(context)[0]

    def reads(self, context: Context, /) -> Reads:
        column = column_of(spec_in(context, NAME))
        return Reads(shared=frozenset({TENANTS, column}), helps={column: Direction.UP})


def account_of(spec: HostingSpec) -> Account:
    return Account(spec.policy.name, spec.tenant)


def column_of(spec: HostingSpec) -> Key:
    """Return the column that changes when the tenant gives a place back."""
    return quota_column(account_of(spec))
