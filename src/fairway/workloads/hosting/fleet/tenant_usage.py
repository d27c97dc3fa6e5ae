"""What the requests of each tenant hold under each policy, from the reservation on.

Use is recorded by *claimant*: what of a request its tenant follows from. When a policy names its tenants otherwise,
only the claimants are mapped again, of which there are about as many as namespaces, and not each hosted cluster.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple, TypeVar

from fairway.engine.workload import ResourceList, WorkloadKey
from fairway.hosts.column import Key

NameT = TypeVar("NameT", str, "Account")


class Claimant(NamedTuple):
    policy: str
    namespace: str
    asked: str
    """The tenant in its spec, if that was granted when the place was recorded."""


class Account(NamedTuple):
    """A quota is of one tenant under one policy."""

    policy: str
    tenant: str


def quota_column(account: Account) -> Key:
    """Return what changes when a tenant gives room of its quota back. Never a column, only reported."""
    return ("tenant-quota", f"{account.policy}/{account.tenant}")


class Tenants:
    """What tenants hold, as cycles read it. Values of its dictionaries are replaced and never modified."""

    __slots__ = ("by_account", "by_tenant", "used_by")

    def __init__(self) -> None:
        self.used_by: dict[Claimant, ResourceList] = {}
        self.by_tenant: dict[str, frozenset[Claimant]] = {}
        self.by_account: dict[Account, frozenset[Claimant]] = {}

    def copy(self) -> "Tenants":
        other = Tenants()
        other.used_by = self.used_by.copy()
        other.by_tenant, other.by_account = self.by_tenant.copy(), self.by_account.copy()
        return other

    def used(self, account: Account) -> dict[str, int]:
        """Return the sum of what the requests of a tenant hold under a policy."""
        total: dict[str, int] = {}
        for claimant in self.by_account.get(account, ()):
            for resource, amount in self.used_by[claimant].items():
                total[resource] = total.get(resource, 0) + amount
        return total

    def claimants(self, tenant: str) -> Collection[Claimant]:
        """Return the claimants that are of a tenant, under any policy."""
        return self.by_tenant.get(tenant, ())


class TenantUsage:
    def __init__(self, tenant_of: Callable[[Claimant], str]) -> None:
        self._tenant_of = tenant_of
        self._held: dict[WorkloadKey, tuple[Claimant, ResourceList]] = {}
        self._count: dict[Claimant, int] = {}
        self._accounts: dict[Claimant, Account] = {}
        self._tenants = Tenants()
        self._shared = False
        """Whether a snapshot or a copy has ``_tenants``, which must then be copied before it changes."""

    def fork(self, tenant_of: Callable[[Claimant], str]) -> "TenantUsage":
        """Return a copy for what-if questions."""
        copy = TenantUsage(tenant_of)
        copy._held, copy._count = self._held.copy(), self._count.copy()
        copy._accounts = self._accounts.copy()
        copy._tenants, copy._shared = self.view(), True
        return copy

    def view(self) -> Tenants:
        """Return what tenants hold now."""
        self._shared = True
        return self._tenants

    def put(self, key: WorkloadKey, claimant: Claimant, amounts: ResourceList) -> Account | None:
        """Set what a request holds. Return the account that has more room now; None if none has."""
        old = self._held.get(key)
        if old == (claimant, amounts):
            return None
        freed = self.remove(key)
        self._held[key] = (claimant, amounts)
        if claimant not in self._count:
            self._map(claimant)
        self._count[claimant] = self._count.get(claimant, 0) + 1
        self._add(claimant, amounts, 1)
        if old is None or freed is None:
            return None
        is_less = any(amounts.get(resource, 0) < amount for resource, amount in old[1].items())
        return freed if is_less or freed != self._accounts[claimant] else None

    def remove(self, key: WorkloadKey) -> Account | None:
        """Return the account that has more room now; None if the request held nothing."""
        held = self._held.pop(key, None)
        if held is None:
            return None
        claimant, amounts = held
        account = self._accounts[claimant]
        self._count[claimant] -= 1
        self._add(claimant, amounts, -1)
        if not self._count[claimant]:
            del self._count[claimant], self._own().used_by[claimant]
            self._unmap(claimant)
        return account

    def map_again(self) -> None:
        """Follow a change of policies."""
        self._accounts.clear()
        tenants = self._own()
        tenants.by_tenant.clear()
        tenants.by_account.clear()
        for claimant in self._count:
            self._map(claimant)

    def _own(self) -> Tenants:
        """Return the tenants for a change."""
        if self._shared:
            self._tenants, self._shared = self._tenants.copy(), False
        return self._tenants

    def _add(self, claimant: Claimant, amounts: ResourceList, sign: int) -> None:
        tenants = self._own()
        used = dict(tenants.used_by.get(claimant, {}))
        for resource, amount in amounts.items():
            used[resource] = used.get(resource, 0) + sign * amount
        tenants.used_by[claimant] = used

    def _map(self, claimant: Claimant) -> None:
        tenant = self._tenant_of(claimant)
        account = self._accounts[claimant] = Account(claimant.policy, tenant)
        tenants = self._own()
        tenants.by_tenant[tenant] = tenants.by_tenant.get(tenant, frozenset()) | {claimant}
        tenants.by_account[account] = tenants.by_account.get(account, frozenset()) | {claimant}

    def _unmap(self, claimant: Claimant) -> None:
        account = self._accounts.pop(claimant)
        tenants = self._own()
        _discard(tenants.by_tenant, account.tenant, claimant)
        _discard(tenants.by_account, account, claimant)


def _discard(index: dict[NameT, frozenset[Claimant]], name: NameT, claimant: Claimant) -> None:
    rest = index[name] - {claimant}
    if rest:
        index[name] = rest
    else:
        del index[name]
