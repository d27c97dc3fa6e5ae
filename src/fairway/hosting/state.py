"""The hosting clusters, their capacity and their residents: what a decision is made from.

``HostingState`` takes objects of the hub (``upsert``, ``delete``) and keeps the ledger in step with them: capacity
from telemetry and policies, use from the statuses of requests, which are the record of all reservations, and from
decisions of Placements that the telemetry does not include yet. So a new leader has the ledger as soon as it has listed
the objects. It does no I/O; the time is an argument.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from fairway.api.cluster import CONDITION_AVAILABLE, ManagedCluster
from fairway.api.decision import PlacementDecision
from fairway.api.hosted_request import DEFAULT_POLICY, HostedClusterRequest
from fairway.api.hosting_policy import HostingPolicy
from fairway.api.meta import TRUE, find_condition
from fairway.api.placement import Placement
from fairway.api.score import AddOnPlacementScore
from fairway.clusters import ClusterSnapshot, Fleet, cells, objects
from fairway.clusters.debits import NO_DEBITS, Deltas
from fairway.engine.dependencies import Event, event_of
from fairway.engine.ledger import HostAccount, Ledger, Speculation, Transaction
from fairway.engine.workload import HostKey, ResourceList, Workload, WorkloadKey
from fairway.fleet.direction import ANY
from fairway.fleet.instant import SECOND, Micros
from fairway.fleet.resources import grantable
from fairway.hosting.capacity import Capacity, capacity_of
from fairway.hosting.demand import SMALL, DemandError, size_demand
from fairway.hosting.placement_promises import PlacementPromises, promise_key
from fairway.hosting.policy import Limits, Policy, conflict_of, policy_of, strictest
from fairway.hosting.resources import DIMENSIONS, HOSTED
from fairway.hosting.telemetry import HOSTING_CLAIM, Telemetry, Unknown, telemetry_of
from fairway.hosting.workload import (
    HostingSpec,
    Resident,
    key_of,
    objects_of,
    resident_of,
    spec_of,
    workload_of,
)

SETTLE: Final[Micros] = 30 * SECOND
"""A score that is published so long after a hosted cluster was reported includes it: providers measure just before they
publish."""
QUIET_HOURS: Final = "quiet-hours"
"""Column that changes when the quiet hours of a policy end. Never a column, only reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What is known of one hosting cluster."""

    key: HostKey
    limits: Limits
    policies: tuple[str, ...]
    """Names of the HostingPolicies that cover it."""
    telemetry: Telemetry | Unknown
    capacity: Capacity | Unknown
    conflict: str = ""
    """Why the policies that cover it conflict."""
    promised: tuple[WorkloadKey, ...] = ()
    """Placements that selected it, which the telemetry does not include yet."""
    promised_until: Micros | None = None
    """When the first of these no longer counts."""

    @property
    def until(self) -> Micros | None:
        """When it changes without an observation."""
        ends = [self.promised_until, self.telemetry.until if isinstance(self.telemetry, Telemetry) else None]
        return min((each for each in ends if each is not None), default=None)


def host_key(cluster: ManagedCluster) -> HostKey:
    return HostKey(cluster.metadata.name, cluster.metadata.uid)


def is_hosting(cluster: ManagedCluster) -> bool:
    return cells.claims_of(cluster).get(HOSTING_CLAIM) == "true"


def is_available(cluster: ManagedCluster) -> bool:
    condition = find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
    return condition is not None and condition.status == TRUE and cluster.metadata.deletionTimestamp is None


class HostingState:
    """``tracks_age``: whether ``upsert`` is called when a score changes, so that its age is known."""

    def __init__(self, *, epoch: int = 0, tracks_age: bool = False, debits: Deltas = NO_DEBITS) -> None:
        """``debits`` are the score debits of the profile of Placements."""
        self.fleet = Fleet()
        self.ledger: Ledger | Speculation = Ledger(epoch=epoch)
        self.policies: dict[str, Policy] = {}
        self.placements: dict[tuple[str, str], Placement] = {}
        self.promises = PlacementPromises(debits=debits)
        self.facts: dict[str, HostFacts] = {}
        """By cluster; only those with the hosting claim."""
        self.residents: dict[HostKey, dict[WorkloadKey, Resident]] = {}
        self._hosts_of: dict[WorkloadKey, HostKey] = {}
        self._seen: dict[tuple[str, str], Micros] = {}
        self._tracks_age = tracks_age
        self._view: ClusterSnapshot | None = None

    def fork(self) -> "HostingState":
        """Return a copy for what-if questions, whose reservations do not reach this one. It must not be updated."""
        copy = HostingState.__new__(HostingState)
        copy.fleet, copy.policies, copy.placements = self.fleet, self.policies, self.placements
        copy.promises, copy.facts = self.promises, dict(self.facts)
        copy.residents = {host: dict(each) for host, each in self.residents.items()}
        copy._hosts_of, copy._seen = dict(self._hosts_of), self._seen
        copy._tracks_age, copy._view = self._tracks_age, None
        copy.ledger = self.ledger.speculate()
        return copy

    def snapshot(self) -> ClusterSnapshot:
        """Return the current snapshot; the same one while nothing changes."""
        if self._view is None or self._view.generation != self.fleet.generation:
            self._view = self.fleet.snapshot()
        return self._view

    # Objects

    def load(self, found: Iterable[object], *, now: Micros) -> None:
        """Fill an empty state at once: policies and clusters first, so that each host is computed once."""
        everything = list(found)
        requests: list[HostedClusterRequest] = []
        others: list[object] = []
        for each in everything:
            match each:
                case HostingPolicy():
                    self.policies[each.metadata.name] = policy_of(each)
                case Placement():
                    self.placements[each.metadata.namespace, each.metadata.name] = each
                    self.promises.put_placement(each)
                case PlacementDecision():
                    self.promises.put_decision(each)
                case HostedClusterRequest():
                    requests.append(each)
                case AddOnPlacementScore():
                    self._seen[each.metadata.namespace, each.metadata.name] = now
                    others.append(each)
                case _:
                    others.append(each)
        objects.load(self.fleet, others)
        for request in requests:
            self._settle(request)
        self._refresh_all(now)

    def upsert(self, obj: object, *, now: Micros) -> list[Event]:
        """Create or replace an object. Return what that may help. A recreated object must be deleted before."""
        match obj:
            case HostingPolicy():
                policy = policy_of(obj)
                if self.policies.get(policy.name) == policy:
                    return []
                self.policies[policy.name] = policy
                return self._refresh_all(now)
            case Placement():
                self.placements[obj.metadata.namespace, obj.metadata.name] = obj
                return self._refresh_promised(self.promises.put_placement(obj), now)
            case PlacementDecision():
                return self._refresh_promised(self.promises.put_decision(obj, observed=now), now)
            case HostedClusterRequest():
                return self._refresh_hosts(self._settle(obj), now)
        change = objects.upsert(self.fleet, obj)
        if not change.columns:
            return []
        events = [event_of(change, label=_label(obj))]
        match obj:
            case ManagedCluster():
                return events + self._refresh(obj.metadata.name, now)
            case AddOnPlacementScore():
                self._seen[obj.metadata.namespace, obj.metadata.name] = now
                return events + self._refresh(obj.metadata.namespace, now)
        return events + self._refresh_all(now)

    def delete(self, obj: object, *, now: Micros) -> list[Event]:
        match obj:
            case HostingPolicy():
                self.policies.pop(obj.metadata.name, None)
                return self._refresh_all(now)
            case Placement():
                meta = obj.metadata
                self.placements.pop((meta.namespace, meta.name), None)
                return self._refresh_promised(self.promises.delete_placement(meta.namespace, meta.name), now)
            case PlacementDecision():
                return self._refresh_promised(self.promises.delete_decision(obj), now)
            case HostedClusterRequest():
                hosts = self._leave(key_of(obj)) | self._release_all(key_of(obj))
                return self._refresh_hosts(hosts, now)
        change = objects.delete(self.fleet, obj)
        if not change.columns:
            return []
        events = [event_of(change, label=_label(obj))]
        match obj:
            case ManagedCluster():
                return events + self._refresh(obj.metadata.name, now)
            case AddOnPlacementScore():
                self._seen.pop((obj.metadata.namespace, obj.metadata.name), None)
                return events + self._refresh(obj.metadata.namespace, now)
        return events + self._refresh_all(now)

    def advance(self, *, now: Micros) -> list[Event]:
        """Treat telemetry whose time is over as unknown, and old decisions as measured."""
        due = [name for name, each in self.facts.items() if each.until is not None and each.until <= now]
        return [event for name in due for event in self._refresh(name, now)]

    def next_deadline(self) -> Micros | None:
        return min((each.until for each in self.facts.values() if each.until is not None), default=None)

    # Questions

    def spec_of(self, request: HostedClusterRequest) -> HostingSpec:
        name = request.spec.policy or DEFAULT_POLICY
        conflict = self.conflict_of(name) if name in self.policies else ""
        return spec_of(request, policies=self.policies, placements=self.placements, conflict=conflict)

    def workload_of(self, request: HostedClusterRequest) -> Workload[HostingSpec]:
        return workload_of(self.spec_of(request))

    def conflict_of(self, policy: str) -> str:
        """Return why a policy conflicts with another one on a host; empty if it does not."""
        for each in self.facts.values():
            if each.conflict and policy in each.policies:
                return each.conflict
        return ""

    def covers(self, policy: Policy, cluster: ManagedCluster) -> bool:
        if not policy.cluster_sets:
            return True
        sets = self.snapshot().sets
        labels = cluster.metadata.labels
        return any(name in sets and sets[name].selector.matches(labels) for name in policy.cluster_sets)

    def account(self, host: HostKey) -> HostAccount:
        return self.ledger.account(host) or HostAccount(host=host)

    def free(self, host: HostKey) -> dict[str, int]:
        """Return what is left by dimension; empty if the capacity is unknown."""
        return self.account(host).free()

    def amounts_on(self, workload: Workload[HostingSpec], host: HostKey) -> ResourceList:
        """Return what a workload takes on a host."""
        facts = self.facts.get(host.name)
        if facts is None or not isinstance(facts.capacity, Capacity):
            return workload.demand
        return facts.capacity.amounts_for(workload.spec.need)

    def on(self, host: HostKey) -> Iterator[Resident]:
        yield from self.residents.get(host, {}).values()

    def countable(self, cluster: str, *, now: Micros) -> Iterator[Resident]:
        """Yield the residents that a score, which was published just now, certainly includes."""
        facts = self.facts.get(cluster)
        if facts is None or not isinstance(facts.telemetry, Telemetry):
            return
        only_count = not facts.telemetry.slots and facts.telemetry.free is None
        for each in self.on(facts.key):
            if each.counted or each.confirmed is None:
                continue
            since: Micros = each.confirmed
            if not only_count:
                # Its pods request resources one after the other, until it is available.
                since = each.confirmed + 10 * 60 * SECOND if each.available is None else each.available
            if since + SETTLE <= now:
                yield each

    # Changes

    def reserve(self, workload: Workload[HostingSpec], host: HostKey) -> None:
        """Reserve in a what-if. Raises InsufficientCapacity."""
        amounts = self.amounts_on(workload, host)
        self._write(lambda view: view.reserve(host, workload.key, amounts))
        resident = Resident(
            key=workload.key,
            host=host,
            tenant=workload.spec.tenant,
            amounts=amounts,
            demand=workload.spec.demand,
            phase="",
            counted=False,
            confirmed=None,
            available=None,
            deadline=None,
            objects=objects_of(workload.spec.request),
        )
        self.residents.setdefault(host, {})[workload.key] = resident
        self._hosts_of[workload.key] = host

    def vacate(self, key: WorkloadKey) -> None:
        """Remove a resident in a what-if."""
        self._leave(key)

    def occupy(self, resident: Resident) -> None:
        """Put a resident back in a what-if."""
        self.residents.setdefault(resident.host, {})[resident.key] = resident
        self._hosts_of[resident.key] = resident.host
        self._write(lambda view: view.confirm(resident.host, resident.key, resident.amounts))

    def _write(self, change: Callable[[Transaction | Speculation], None]) -> None:
        if isinstance(self.ledger, Ledger):
            with self.ledger.transaction(epoch=self.ledger.epoch) as transaction:
                change(transaction)
        else:
            change(self.ledger)

    def _settle(self, request: HostedClusterRequest) -> set[HostKey]:
        """Record the place that a request has. Return the hosts whose use changed."""
        resident = resident_of(request, policies=self.policies)
        key = key_of(request)
        old_host = self._hosts_of.get(key)
        if resident is None:
            return self._leave(key)
        changed = set() if old_host in (None, resident.host) else self._leave(key)
        host = resident.host
        at = self.residents.setdefault(host, {})
        if at.get(key) == resident:
            return changed
        at[key] = resident
        self._hosts_of[key] = host
        self._write(lambda view: view.confirm(host, key, resident.amounts))
        return changed | {host}

    def _leave(self, key: WorkloadKey) -> set[HostKey]:
        host = self._hosts_of.pop(key, None)
        if host is None:
            return set()
        self.residents[host].pop(key, None)
        if not self.residents[host]:
            del self.residents[host]

        def write(view: Transaction | Speculation) -> None:
            view.observe(host, key, None)
            view.release(host, key)

        self._write(write)
        return {host}

    def _release_all(self, key: WorkloadKey) -> set[HostKey]:
        """Drop the reservations of a deleted request whose place was never observed."""
        assert isinstance(self.ledger, Ledger)
        held = set(self.ledger.hosts())
        found = {host for host in held if key in self.account(host).reservations}

        def write(view: Transaction | Speculation) -> None:
            for host in found:
                view.release(host, key)

        if found:
            self._write(write)
        return found

    def _refresh_hosts(self, hosts: set[HostKey], now: Micros) -> list[Event]:
        return [event for host in sorted(hosts) for event in self._refresh(host.name, now, changed=True)]

    def _refresh_promised(self, clusters: set[str], now: Micros) -> list[Event]:
        return [event for name in sorted(clusters & self.facts.keys()) for event in self._refresh(name, now)]

    def _refresh_all(self, now: Micros) -> list[Event]:
        snapshot = self.snapshot()
        names = {*snapshot.hosts.row_of, *self.facts}
        return [event for name in sorted(names) for event in self._refresh(name, now)]

    def _refresh(self, name: str, now: Micros, *, changed: bool = False) -> list[Event]:
        """Compute the capacity of a host again. ``changed``: its use has changed."""
        old = self.facts.get(name)
        snapshot = self.snapshot()
        row = snapshot.hosts.row_of.get(name)
        cluster = None if row is None else snapshot.cluster(row)
        if cluster is None or not is_hosting(cluster):
            if old is not None:
                del self.facts[name]
                self._close(old)
            return []
        facts = self._facts(cluster, snapshot, now)
        if facts == old and not changed:
            return []
        self.facts[name] = facts
        capacity = facts.capacity
        before = self.free(facts.key)
        room = self._room_of_promise(facts)

        def write(view: Transaction | Speculation) -> None:
            for key in () if old is None else old.promised:
                if key not in facts.promised:
                    view.observe(facts.key, key, None)
            for key in facts.promised:
                view.observe(facts.key, key, room)
            if isinstance(capacity, Capacity):
                view.set_capacity(facts.key, capacity.amounts)
                view.observe_unattributed(facts.key, capacity.others)
            else:
                view.set_capacity(facts.key, None)

        self._write(write)
        if before == self.free(facts.key) and not changed:
            return []
        columns = {grantable(each): ANY for each in DIMENSIONS}
        return [Event(label=f"capacity of {name} changed", hosts=frozenset({name}), columns=columns)]

    def _close(self, facts: HostFacts) -> None:
        """Grant nothing more on a deleted host."""

        def write(view: Transaction | Speculation) -> None:
            view.set_capacity(facts.key, None)
            for key in facts.promised:
                view.observe(facts.key, key, None)

        self._write(write)

    def _room_of_promise(self, facts: HostFacts) -> ResourceList:
        """Return what a hosted cluster takes whose size is unknown: the room of a small one."""
        if not facts.promised:
            return {}
        own = [size for name in facts.policies for size in self.policies[name].sizes]
        try:
            small = size_demand(SMALL, sizes=own)
        except DemandError:
            small = size_demand(SMALL)
        return facts.capacity.amounts_for(small) if isinstance(facts.capacity, Capacity) else small.amounts

    def _facts(self, cluster: ManagedCluster, snapshot: ClusterSnapshot, now: Micros) -> HostFacts:
        key = host_key(cluster)
        covering = [each for each in self.policies.values() if self.covers(each, cluster)]
        limits = strictest(covering)
        score = snapshot.score_object(key.name, limits.resource)
        seen = self._seen.get((key.name, limits.resource)) if self._tracks_age else None
        telemetry = telemetry_of(cluster, score, limits, now=now, seen=seen)
        pending = self.promises.pending(key.name, score, resource=limits.resource, now=now)
        counted = [each.amounts for each in self.on(key) if each.counted]
        capacity = (
            telemetry if isinstance(telemetry, Unknown) else capacity_of(telemetry, limits, counted=counted)
        )
        return HostFacts(
            key=key,
            limits=limits,
            policies=tuple(sorted(each.name for each in covering)),
            telemetry=telemetry,
            capacity=capacity,
            conflict=_conflict(covering, key.name),
            promised=tuple(sorted(map(promise_key, pending))),
            promised_until=min((each.until + 1 for each in pending.values()), default=None),
        )


def unseen_others(state: HostingState, facts: HostFacts) -> int:
    """Return how many hosted clusters of other owners may be residents that are reported, but not counted."""
    if not isinstance(facts.capacity, Capacity):
        return 0
    reported = sum(not each.counted and each.confirmed is not None for each in state.on(facts.key))
    return min(reported, facts.capacity.others.get(HOSTED, 0) // 1000)


def _conflict(covering: list[Policy], host: str) -> str:
    ordered = sorted(covering, key=lambda each: each.name)
    for at, first in enumerate(ordered):
        for second in ordered[at + 1 :]:
            if (words := conflict_of(first, second, host=host)) is not None:
                return words
    return ""


def _label(obj: object) -> str:
    meta = getattr(obj, "metadata", None)
    return f"{type(obj).__name__} {getattr(meta, 'name', '')} changed"
