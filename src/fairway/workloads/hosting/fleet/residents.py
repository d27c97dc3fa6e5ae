"""The residents of all hosting clusters: what the hub shows, and what is reserved in the meantime.

A decision reserves a place some writes before the status of its request shows it. All rules about who else is on a host
(names, tenants, room for a failing host) read this one collection, so that two decisions of one moment see each other
as two decisions of different days do. Names and tenants are indexed: a rule must not visit all residents of each host.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from fairway.engine.workload import HostKey, WorkloadKey
from fairway.workloads.hosting.fleet.tenant_usage import Claimant
from fairway.workloads.hosting.requests.demand import CUSTOM, Demand
from fairway.workloads.hosting.workload import Resident

ObjectName = tuple[str, str, str]
"""Kind, namespace and name of an object on a host."""
DemandKey = tuple[str, bool, tuple[tuple[str, int], ...]]
"""Equal for equal demands."""


def demand_key(demand: Demand) -> DemandKey:
    return _shared((demand.size, demand.single, tuple(sorted(demand.amounts.items()))))


def _carried(resident: Resident) -> DemandKey:
    if resident.demand is not None:
        return demand_key(resident.demand)
    return _shared((CUSTOM, False, tuple(sorted(resident.amounts.items()))))


@lru_cache(maxsize=4096)
def _shared(key: DemandKey) -> DemandKey:
    """Return the one key that is equal: a union of what all hosts carry compares the demands of each."""
    return key


@dataclass(slots=True)
class HostResidents:
    """The residents of one host. Once a snapshot or a copy has it, it is copied before a change.

    The values of its dictionaries are replaced and never modified, so that a copy need not copy them.
    """

    observed: dict[WorkloadKey, Resident] = field(default_factory=dict)
    reserved: dict[WorkloadKey, Resident] = field(default_factory=dict)
    owners: dict[str, Mapping[ObjectName, Mapping[WorkloadKey, str]]] = field(default_factory=dict)
    """By namespace, which residents create an object, and from which source. Most requests have a namespace of their
    own, so that one lookup shows that no name is taken."""
    sources: dict[ObjectName, str | None] = field(default_factory=dict)
    """The source of each of these objects; None if they have several."""
    claimants: dict[Claimant, frozenset[WorkloadKey]] = field(default_factory=dict)
    demands: dict[WorkloadKey, DemandKey] = field(default_factory=dict)
    carried: dict[DemandKey, int] = field(default_factory=dict)
    """Number of residents by demand; in all, as many as ``demands``."""

    def copy(self) -> "HostResidents":
        return HostResidents(
            self.observed.copy(),
            self.reserved.copy(),
            self.owners.copy(),
            self.sources.copy(),
            self.claimants.copy(),
            self.demands.copy(),
            self.carried.copy(),
        )

    def __iter__(self) -> Iterator[Resident]:
        """Yield each request that has a place here, observed or reserved."""
        yield from self.observed.values()
        for key, resident in self.reserved.items():
            if key not in self.observed:
                yield resident

    def owner_of(self, name: ObjectName, *, source: str) -> WorkloadKey | None:
        """Return a request that creates an object of this name from another source."""
        owners = self.owners.get(namespace_of(name), {}).get(name, {})
        return next((key for key, other in owners.items() if other != source), None)

    def count(self, claimants: Iterable[Claimant], *, without: tuple[str, str]) -> int:
        """Return how many hosted clusters of some claimants are here, without the request of this name."""
        return sum(
            (key.namespace, key.name) != without
            for claimant in claimants
            for key in self.claimants.get(claimant, ())
        )

    def put(self, resident: Resident, *, reserved: bool) -> None:
        """Add or replace what a request holds. An observed place ends the reservation."""
        self.remove(resident.key, observed=not reserved, reserved=True)
        (self.reserved if reserved else self.observed)[resident.key] = resident
        self._index(resident)
        self._count(resident.key)

    def remove(self, key: WorkloadKey, *, observed: bool, reserved: bool) -> None:
        removed = [self.observed.pop(key, None)] if observed else []
        removed += [self.reserved.pop(key, None)] if reserved else []
        for resident in removed:
            if resident is not None:
                self._forget(resident)
        # A place that is observed and reserved again keeps the objects of both.
        for kept in (self.observed.get(key), self.reserved.get(key)):
            if kept is not None:
                self._index(kept)
        self._count(key)

    def _count(self, key: WorkloadKey) -> None:
        """Count the demand of a resident once: as observed, else as reserved."""
        old = self.demands.pop(key, None)
        if old is not None:
            self.carried[old] -= 1
            if not self.carried[old]:
                del self.carried[old]
        resident = self.observed.get(key) or self.reserved.get(key)
        if resident is not None:
            new = self.demands[key] = _carried(resident)
            self.carried[new] = self.carried.get(new, 0) + 1

    def _index(self, resident: Resident) -> None:
        for namespace, names in _by_namespace(resident).items():
            owners = dict(self.owners.get(namespace, {}))
            for name, source in names:
                owners[name] = {**owners.get(name, {}), resident.key: source}
                self.sources[name] = _only(owners[name].values())
            self.owners[namespace] = owners
        known = self.claimants.get(resident.claimant, frozenset())
        self.claimants[resident.claimant] = known | {resident.key}

    def _forget(self, resident: Resident) -> None:
        for namespace, names in _by_namespace(resident).items():
            owners = dict(self.owners.get(namespace, {}))
            for name, _ in names:
                rest = {key: source for key, source in owners.pop(name, {}).items() if key != resident.key}
                if rest:
                    owners[name], self.sources[name] = rest, _only(rest.values())
                else:
                    self.sources.pop(name, None)
            if owners:
                self.owners[namespace] = owners
            else:
                self.owners.pop(namespace, None)
        keys = self.claimants.pop(resident.claimant, frozenset()) - {resident.key}
        if keys:
            self.claimants[resident.claimant] = keys


def namespace_of(name: ObjectName) -> str:
    """Return the namespace of an object on a host; a namespace is in itself."""
    kind, namespace, own = name
    return own if kind == "Namespace" else namespace


def _by_namespace(resident: Resident) -> dict[str, list[tuple[ObjectName, str]]]:
    """Return names and sources of what a resident creates, by namespace."""
    created: dict[str, list[tuple[ObjectName, str]]] = {}
    for kind, namespace, own, source in resident.objects:
        name = (kind, namespace, own)
        created.setdefault(namespace_of(name), []).append((name, source))
    return created


def _only(sources: Collection[str]) -> str | None:
    """Return the source that all have; None if they differ."""
    first = next(iter(sources))
    return first if all(source == first for source in sources) else None


NO_RESIDENTS: Final = HostResidents()


class Residents:
    def __init__(self) -> None:
        self._hosts: dict[HostKey, HostResidents] = {}
        self._observed_on: dict[WorkloadKey, HostKey] = {}
        self._reserved_on: dict[WorkloadKey, HostKey] = {}
        self._shared: set[HostKey] = set()
        """Hosts that a snapshot or a copy reads, too: they are copied before they change."""

    def fork(self) -> "Residents":
        """Return a copy for what-if questions. Hosts are copied when one of both changes them."""
        copy = Residents()
        copy._hosts = dict(self._hosts)
        copy._observed_on, copy._reserved_on = dict(self._observed_on), dict(self._reserved_on)
        self._shared, copy._shared = set(self._hosts), set(self._hosts)
        return copy

    def hosts(self) -> tuple[HostKey, ...]:
        """Return the hosts on which requests have places, also those that were deleted."""
        return tuple(sorted(self._hosts))

    def view(self) -> Mapping[HostKey, HostResidents]:
        """Return the residents by host as they are now."""
        self._shared = set(self._hosts)
        return self._hosts.copy()

    def on(self, host: HostKey) -> HostResidents:
        """Return the residents of a host. They change with the host."""
        return self._hosts.get(host, NO_RESIDENTS)

    def observed_on(self, key: WorkloadKey) -> HostKey | None:
        return self._observed_on.get(key)

    def reserved_on(self, key: WorkloadKey) -> HostKey | None:
        return self._reserved_on.get(key)

    def reserved(self) -> tuple[WorkloadKey, ...]:
        """Return the requests whose place the hub does not show yet."""
        return tuple(self._reserved_on)

    def find(self, key: WorkloadKey) -> Resident | None:
        """Return what the hub shows of a request."""
        host = self._observed_on.get(key)
        return None if host is None else self._hosts[host].observed[key]

    def find_reserved(self, key: WorkloadKey) -> Resident | None:
        """Return what a decision reserves for a request, and the hub does not show yet."""
        host = self._reserved_on.get(key)
        return None if host is None else self._hosts[host].reserved[key]

    def observe(self, resident: Resident) -> None:
        """Record a place that the hub shows. One on another host must be removed before."""
        self._changed(resident.host).put(resident, reserved=False)
        self._observed_on[resident.key] = resident.host
        if self._reserved_on.get(resident.key) == resident.host:
            del self._reserved_on[resident.key]

    def reserve(self, resident: Resident) -> None:
        """Record a place that a decision reserves. One on another host must be removed before."""
        self._changed(resident.host).put(resident, reserved=True)
        self._reserved_on[resident.key] = resident.host

    def leave(self, key: WorkloadKey) -> HostKey | None:
        """Remove the place that the hub showed. Return its host."""
        return self._remove(self._observed_on.pop(key, None), key, observed=True)

    def unreserve(self, key: WorkloadKey) -> HostKey | None:
        """Remove the place that was reserved. Return its host."""
        return self._remove(self._reserved_on.pop(key, None), key, observed=False)

    def _remove(self, host: HostKey | None, key: WorkloadKey, *, observed: bool) -> HostKey | None:
        if host is None:
            return None
        held = self._changed(host)
        held.remove(key, observed=observed, reserved=not observed)
        if not held.observed and not held.reserved:
            del self._hosts[host]
        return host

    def _changed(self, host: HostKey) -> HostResidents:
        """Return a host that may be changed."""
        held = self._hosts.get(host)
        if held is None:
            held = self._hosts[host] = HostResidents()
        elif host in self._shared:
            held = self._hosts[host] = held.copy()
        self._shared.discard(host)
        return held
