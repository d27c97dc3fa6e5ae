"""The columns that hosting adds to those of clusters: what hosting clusters publish, and what is left there.

Cells follow from ``HostFacts``, from the ledger and from the residents of a host, and are written together whenever one
of these changes: an observation, a reservation, or a change in a what-if. So plugins read what was reserved a moment
ago from the snapshot, and a cycle depends on nothing else.

Attributes that each cycle reads have a cell here although a label or a claim has them: a column of labels or claims has
a cell for each cluster of the hub, which takes 17 to 70 ms to fill for 100,000 clusters, of
which few host.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from fairway.api.cluster import ManagedCluster
from fairway.engine.ledger import HostAccount
from fairway.hosts.clusters import cells
from fairway.hosts.column import Column, CountColumn, Key
from fairway.hosts.resources import LARGEST, grantable
from fairway.workloads.hosting.fleet.capacity import Capacity
from fairway.workloads.hosting.fleet.facts import HostFacts
from fairway.workloads.hosting.fleet.telemetry import Telemetry
from fairway.workloads.hosting.resources import DIMENSIONS, HOSTED, MILLI, UNLIMITED
from fairway.workloads.hosting.workload import Resident

KNOWN: Final[Key] = ("load-known",)
"""1 for hosting clusters whose load is known. The others take nothing: silence is no empty host."""
UNAVAILABLE: Final[Key] = ("unavailable",)
"""1 for hosting clusters that take no work. Reported when the reason changes, too."""
FULL: Final[Key] = ("full",)
"""1 for hosting clusters that claim to be full."""
UNHEALTHY: Final[Key] = ("add-on-unhealthy",)
"""1 for hosting clusters whose hypershift add-on is not available."""
USED: Final[Key] = ("hosted-used",)
"""Hosted clusters and reservations, in thousandths."""
UNCOUNTED: Final[Key] = ("hosted-twice",)
"""How much of ``USED`` is perhaps counted twice: as a resident, and in the published number."""
_OFFERED: Final = "offered"
_TOTAL: Final = "total"
_SHARE: Final = "slot-share"
_AMOUNTS: Final = frozenset(
    {
        *(KNOWN[0], UNAVAILABLE[0], FULL[0], UNHEALTHY[0], USED[0], UNCOUNTED[0]),
        *(_OFFERED, _TOTAL, _SHARE),
    }
)

RESIDENTS: Final[Key] = ("residents",)
"""Changes with the residents of a host. Never a column, only reported."""
TENANTS: Final[Key] = ("tenants",)
"""Changes with what any tenant holds. Never a column, only reported."""
LARGEST_HOST: Final[Key] = ("largest-host", "")
"""Changes when the largest hosting cluster grows. Never a column, only reported."""
QUIET_HOURS: Final = "quiet-hours"
"""Column that changes when the quiet hours of a policy end. Never a column, only reported."""


def offered(resource: str) -> Key:
    """Return the column of the most that one hosted cluster can get of a host, however empty it is."""
    return (_OFFERED, resource)


def total(resource: str) -> Key:
    """Return the column of the whole capacity; 0 where the resource does not limit the host."""
    return (_TOTAL, resource)


def slot_share(score: str) -> Key:
    """Return the column of the slots that a hosted cluster takes at least, by the published score of its size."""
    return (_SHARE, score)


def is_amount(key: Key) -> bool:
    """Return whether only ``Table.set_amounts`` fills a column."""
    return key[0] in _AMOUNTS


def amounts_of(facts: HostFacts, account: HostAccount, residents: Iterable[Resident]) -> dict[Key, int]:
    """Return the cells of a hosting cluster that are not 0 by definition."""
    amounts = {grantable(resource): max(-LARGEST, left) for resource, left in account.free().items()}
    amounts[USED] = account.used.get(HOSTED, 0)
    amounts |= {UNAVAILABLE: bool(facts.unavailable), FULL: facts.is_full, UNHEALTHY: facts.is_unhealthy}
    capacity = facts.capacity
    if not isinstance(capacity, Capacity):
        return amounts
    amounts[KNOWN] = 1
    # For the ranking, the likely number is better than the safe one.
    amounts[UNCOUNTED] = counted_twice(facts, residents).get(HOSTED, 0)
    for resource in DIMENSIONS:
        amounts[offered(resource)] = min(LARGEST, capacity.offer.get(resource, UNLIMITED))
        amounts[total(resource)] = min(LARGEST, capacity.total.get(resource, 0))
    for score in capacity.slots:
        amounts[slot_share(score)] = min(LARGEST, capacity.slot_share(score))
    return amounts


def counted_twice(facts: HostFacts, residents: Iterable[Resident]) -> dict[str, int]:
    """Return how much is perhaps counted twice: as a resident that its host has reported, and in what the host
    publishes, which certainly includes it only later."""
    capacity, telemetry = facts.capacity, facts.telemetry
    if not isinstance(capacity, Capacity):
        return {}
    reported = [resident for resident in residents if not resident.counted and resident.confirmed is not None]
    twice: dict[str, int] = {}
    for resident in reported:
        for resource, amount in resident.amounts.items():
            twice[resource] = twice.get(resource, 0) + amount
    # Where the number of requests is published, it is known which ones the count includes.
    is_known = isinstance(telemetry, Telemetry) and telemetry.of_requests is not None
    others = capacity.others.get(HOSTED, 0)
    twice[HOSTED] = 0 if is_known else min(len(reported) * MILLI, others)
    return twice


class HostingSchema:
    """What clusters mean as columns, and the columns that follow from no object of a cluster."""

    def new_column(self, key: Key, *, capacity: int, stamp: int) -> Column:
        if is_amount(key):
            return CountColumn(capacity=capacity, stamp=stamp)
        return cells.new_column(key, capacity=capacity, stamp=stamp)

    def cell_reader(self, key: Key) -> Callable[[ManagedCluster], Any]:
        return cells.cell_reader(key)

    def changed_columns(self, old: ManagedCluster, new: ManagedCluster) -> set[Key]:
        return cells.changed_columns(old, new)

    def all_columns(self, host: ManagedCluster) -> set[Key]:
        return cells.all_columns(host)

    def is_compared(self, key: Key) -> bool:
        return cells.is_compared(key)
