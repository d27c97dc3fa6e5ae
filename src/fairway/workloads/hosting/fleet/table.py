"""The clusters as a table, with what cycles read of those that host."""

from collections.abc import Mapping
from typing import Self

from fairway.engine.ledger import HostAccount
from fairway.hosts.clusters import Fleet
from fairway.hosts.column import Key
from fairway.hosts.direction import ANY, Direction
from fairway.hosts.journal import Change
from fairway.workloads.hosting.fleet.columns import KNOWN, RESIDENTS, TENANTS, HostingSchema, amounts_of
from fairway.workloads.hosting.fleet.facts import HostFacts
from fairway.workloads.hosting.fleet.largest_offers import LargestOffers
from fairway.workloads.hosting.fleet.residents import Residents
from fairway.workloads.hosting.fleet.roster import Rosters
from fairway.workloads.hosting.fleet.snapshot import HostingSnapshot
from fairway.workloads.hosting.fleet.tenant_usage import Claimant, TenantUsage
from fairway.workloads.hosting.rules.policy import NO_TENANCY, Policy


class HostingTable(Fleet):
    """After a change of facts, residents or usage, ``publish`` must be called before the next snapshot is taken."""

    def __init__(self) -> None:
        super().__init__(schema=HostingSchema())
        self.policies: dict[str, Policy] = {}
        self.facts: dict[str, HostFacts] = {}
        """By cluster; only those with the hosting claim."""
        self.residents = Residents()
        self.usage = TenantUsage(self.tenant_of)
        self.offers = LargestOffers()
        self._rosters = Rosters()
        self._written: dict[str, frozenset[Key]] = {}
        """Columns in which a host has a cell other than 0."""

    def fork(self) -> Self:
        other = super().fork()
        other.facts, other.residents = self.facts.copy(), self.residents.fork()
        other._rosters = self._rosters.fork()
        other.usage = self.usage.fork(other.tenant_of)
        other._written = self._written.copy()
        return other

    def snapshot(self) -> HostingSnapshot:
        view = HostingSnapshot(self)
        self._snapshots.add(view)
        return view

    def tenant_of(self, claimant: Claimant) -> str:
        policy = self.policies.get(claimant.policy)
        tenancy = NO_TENANCY if policy is None else policy.tenancy
        return tenancy.tenant_for(claimant.namespace, claimant.asked)

    def publish(
        self, name: str, account: HostAccount | None, *, also: Mapping[Key, Direction] | None = None
    ) -> None:
        """Write the cells of a cluster after a change of its facts, its account or its residents.

        ``account``: of the cluster that has this name now; None if that hosts nothing. ``also``: what else to report.
        """
        facts = self.facts.get(name)
        self._rosters.observe(name, facts)
        amounts: dict[Key, int] = {}
        if facts is not None and account is not None:
            amounts = amounts_of(facts, account, self.residents.on(facts.key))
        written, keys = self._written.get(name, frozenset()), frozenset(amounts)
        if written != keys:
            self._written[name] = keys
            amounts |= dict.fromkeys(written - keys, 0)
        self.set_amounts(name, amounts)
        row = self._hosts.row_of.get(name)
        columns = {RESIDENTS: ANY, TENANTS: ANY, **(also or {})}
        self._record(Change((), columns) if row is None else Change((row,), columns, (name,)))

    def close(self, name: str) -> None:
        """Show the load of a host as unknown in a what-if. All else stays, and with it the reasons of other filters."""
        self._rosters.observe(name, None)
        self.set_amounts(name, {KNOWN: 0})

    def publish_tenants(self) -> None:
        """Report that the same use is of other tenants."""
        self._record(Change((), {TENANTS: ANY}))
