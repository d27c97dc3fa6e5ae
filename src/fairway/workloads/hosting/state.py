"""The hosting clusters, their capacity and their residents: what a decision is made from.

``HostingState`` takes objects of the hub (``upsert``, ``delete``) and keeps the ledger in step with them: capacity
from telemetry and policies, use from the statuses of requests, which are the record of all reservations, and from
decisions of Placements that the telemetry does not include yet. So a new leader has the ledger as soon as it has listed
the objects. It does no I/O; the time is an argument.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from fairway.api.cluster import ManagedCluster
from fairway.api.decision import PlacementDecision
from fairway.api.hosted_request import DEFAULT_POLICY, HostedClusterRequest
from fairway.api.hosting_policy import HostingPolicy
from fairway.api.placement import Placement
from fairway.api.score import AddOnPlacementScore
from fairway.engine.dependencies import Event, event_of
from fairway.engine.ledger import HostAccount, Ledger, Speculation, Transaction
from fairway.engine.profile import Profile
from fairway.engine.queue.heap import Heap
from fairway.engine.workload import HostKey, ResourceList, Workload, WorkloadKey
from fairway.hosts.clusters import objects
from fairway.hosts.clusters.debits import NO_RULES, DebitRules
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.instant import SECOND, Micros
from fairway.hosts.journal import NOTHING
from fairway.hosts.resources import grantable
from fairway.workloads.hosting.fleet.capacity import Capacity, capacity_of
from fairway.workloads.hosting.fleet.columns import LARGEST_HOST, UNAVAILABLE, counted_twice
from fairway.workloads.hosting.fleet.departures import Departures, changed_room
from fairway.workloads.hosting.fleet.facts import (
    HostFacts,
    add_on_state,
    host_key,
    is_available,
    is_full,
    is_hosting,
    why_unavailable,
)
from fairway.workloads.hosting.fleet.outages import Outage, outage_of
from fairway.workloads.hosting.fleet.placement_promises import PlacementPromises
from fairway.workloads.hosting.fleet.residents import HostResidents
from fairway.workloads.hosting.fleet.snapshot import HostingSnapshot
from fairway.workloads.hosting.fleet.table import HostingTable
from fairway.workloads.hosting.fleet.telemetry import ADD_ON_AVAILABLE, Telemetry, Unknown, telemetry_of
from fairway.workloads.hosting.fleet.tenant_usage import Account, Claimant, quota_column
from fairway.workloads.hosting.profile import default_profile
from fairway.workloads.hosting.requests.demand import SMALL, DemandError, size_demand
from fairway.workloads.hosting.resources import HOSTED, SLOTS
from fairway.workloads.hosting.rules.policy import Policy, conflict_of, policy_of, strictest
from fairway.workloads.hosting.workload import (
    HostingSpec,
    Resident,
    key_of,
    policy_name,
    resident_of,
    resident_on,
    spec_of,
    workload_of,
)

SETTLE: Final[Micros] = 30 * SECOND
"""A score that is published this time after a hosted cluster was reported includes it: providers measure just before
they publish."""


class HostingState:
    """``tracks_age``: whether ``upsert`` is called when a score changes, so that its age is known."""

    def __init__(
        self, *, tracks_age: bool = False, debits: DebitRules = NO_RULES, profile: Profile | None = None
    ) -> None:
        """``debits`` are the rules of the profile of Placements. ``profile`` decides; None for the default one."""
        self.profile = default_profile() if profile is None else profile
        """Without plugins after the decision: what-ifs reserve by themselves."""
        self._use(HostingTable())
        self.ledger: Ledger | Speculation = Ledger()
        self.placements: dict[tuple[str, str], Placement] = {}
        self.promises = PlacementPromises(debits=debits)
        self._freed: set[Account] = set()
        """Accounts of tenants that have more room since the last events."""
        self._departures = Departures()
        self._seen: dict[tuple[str, str], Micros] = {}
        self._deadlines: Heap[str] = Heap()
        """When the facts of hosts change by time. They are asked for with each batch of changes, of which every
        published score may be one. To look at all hosts took up to 57 ms for 10,000 of them."""
        self._in_conflict: dict[str, None] = {}
        """Hosts whose policies conflict: usually none. Each request that is queued asks for them, and all hosts are too
        many to look at."""
        self._tracks_age = tracks_age
        self._view: HostingSnapshot | None = None

    def _use(self, table: HostingTable) -> None:
        self.table = table
        # These are parts of the table: each snapshot has them as they are then.
        self.policies, self.facts, self.residents = table.policies, table.facts, table.residents
        self.usage, self.offers = table.usage, table.offers

    def fork(self) -> "HostingState":
        """Return a copy for what-if questions, whose reservations do not reach this one. It must not be updated."""
        copy = HostingState.__new__(HostingState)
        copy._use(self.table.fork())
        copy.placements, copy.promises, copy._seen = self.placements, self.promises, self._seen
        copy._freed, copy.profile = set(), self.profile
        copy._deadlines = Heap()  # it is not updated
        copy._in_conflict = self._in_conflict.copy()
        copy._tracks_age, copy._view = self._tracks_age, None
        copy.ledger = self.ledger.speculate()
        return copy

    def snapshot(self) -> HostingSnapshot:
        """Return the current snapshot; the same one while nothing changes."""
        if self._view is None or self._view.generation != self.table.generation:
            self._view = self.table.snapshot()
        return self._view

    # Objects

    def load(self, things: Iterable[object], *, now: Micros) -> None:
        """Fill an empty state at once: policies and clusters first, so that each host is computed once."""
        everything = list(things)
        requests: list[HostedClusterRequest] = []
        others: list[object] = []
        for thing in everything:
            match thing:
                case HostingPolicy():
                    self.policies[thing.metadata.name] = policy_of(thing)
                    self.usage.map_again()
                case Placement():
                    self.placements[thing.metadata.namespace, thing.metadata.name] = thing
                    self.promises.put_placement(thing)
                case PlacementDecision():
                    self.promises.put_decision(thing)
                case HostedClusterRequest():
                    requests.append(thing)
                case AddOnPlacementScore():
                    self._seen[thing.metadata.namespace, thing.metadata.name] = now
                    others.append(thing)
                case _:
                    others.append(thing)
        objects.load(self.table, others)
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
                return self._set_policy(policy.name, policy) + self._refresh_all(now)
            case Placement():
                self.placements[obj.metadata.namespace, obj.metadata.name] = obj
                return self._refresh_promised(self.promises.put_placement(obj), now)
            case PlacementDecision():
                return self._refresh_promised(self.promises.put_decision(obj, observed=now), now)
            case HostedClusterRequest():
                return self._refresh_hosts(self._settle(obj), now) + self._quota_events()
        change = objects.upsert(self.table, obj)
        if change is NOTHING:
            return []
        # What only hosting reads of a cluster, such as its availability, changes no column that the table reports.
        events = [event_of(change, label=_label(obj))] if change.columns else []
        match obj:
            case ManagedCluster():
                return events + self._refresh((obj.metadata.name,), now)
            case AddOnPlacementScore():
                self._seen[obj.metadata.namespace, obj.metadata.name] = now
                return events + self._refresh((obj.metadata.namespace,), now)
        return events + self._refresh_all(now)

    def delete(self, obj: object, *, now: Micros) -> list[Event]:
        match obj:
            case HostingPolicy():
                return self._set_policy(obj.metadata.name, None) + self._refresh_all(now)
            case Placement():
                meta = obj.metadata
                self.placements.pop((meta.namespace, meta.name), None)
                return self._refresh_promised(self.promises.delete_placement(meta.namespace, meta.name), now)
            case PlacementDecision():
                return self._refresh_promised(self.promises.delete_decision(obj), now)
            case HostedClusterRequest():
                left, reserved = self._leave(key_of(obj)), self._unreserve(key_of(obj))
                return self._refresh_hosts(left | reserved, now, freed=bool(reserved)) + self._quota_events()
        change = objects.delete(self.table, obj)
        if not change.columns:
            return []
        events = [event_of(change, label=_label(obj))]
        match obj:
            case ManagedCluster():
                return events + self._refresh((obj.metadata.name,), now)
            case AddOnPlacementScore():
                self._seen.pop((obj.metadata.namespace, obj.metadata.name), None)
                return events + self._refresh((obj.metadata.namespace,), now)
        return events + self._refresh_all(now)

    def advance(self, *, now: Micros) -> list[Event]:
        """Treat telemetry whose time is over as unknown, and old decisions as measured."""
        due: list[str] = []
        while (first := self._deadlines.peek()) is not None and first[0][0] <= now:
            self._deadlines.pop()
            due.append(first[1])
        events = self._refresh(due, now)
        for name in due:
            # Also if nothing changed: facts that are unchanged at their end are not computed again by themselves.
            self._set_deadline(name, self.facts.get(name))
        return events

    def next_deadline(self) -> Micros | None:
        first = self._deadlines.peek()
        return None if first is None else first[0][0]

    def _index(self, name: str) -> None:
        """Follow a change of a host's facts."""
        facts = self.facts.get(name)
        if facts is not None and facts.conflict:
            self._in_conflict[name] = None
        else:
            self._in_conflict.pop(name, None)
        self._set_deadline(name, facts)

    def _set_deadline(self, name: str, facts: HostFacts | None) -> None:
        until = None if facts is None else facts.until
        if until is None:
            self._deadlines.discard(name)
        else:
            self._deadlines.push(name, (until,))

    # Questions

    def spec_of(self, request: HostedClusterRequest) -> HostingSpec:
        name = request.spec.policy or DEFAULT_POLICY
        conflict = self.conflict_of(name) if name in self.policies else ""
        return spec_of(request, policies=self.policies, placements=self.placements, conflict=conflict)

    def workload_of(self, request: HostedClusterRequest) -> Workload[HostingSpec]:
        return workload_of(self.spec_of(request))

    def outage(self, host: HostKey) -> Outage | None:
        """Return why a hosting cluster is unavailable, deleted or being deleted; None if it is available."""
        snapshot = self.snapshot()
        row = snapshot.hosts.row_of.get(host.name)
        cluster = None if row is None else snapshot.cluster(row)
        if cluster is None or host_key(cluster) != host:
            return Outage(host=host, is_deleted=True)
        return outage_of(cluster)

    def lost_after(self, host: HostKey) -> Micros:
        """Return after which time of an outage a host counts as lost for all policies that cover it."""
        facts = self.facts.get(host.name)
        names = facts.policies if facts is not None and facts.key == host else ()
        return max((self.policies[name].lost_after for name in names), default=Policy().lost_after)

    def conflict_of(self, policy: str) -> str:
        """Return why a policy conflicts with another one on a host; empty if it does not."""
        for name in self._in_conflict:
            facts = self.facts.get(name)  # a what-if may have closed the host
            if facts is not None and policy in facts.policies:
                return facts.conflict
        return ""

    def tenant_of_request(self, request: HostedClusterRequest) -> str:
        """Return the tenant of a request, also of one whose policy does not exist."""
        return self.table.tenant_of(
            Claimant(policy_name(request), request.metadata.namespace, request.spec.tenant)
        )

    def account(self, host: HostKey) -> HostAccount:
        return self.ledger.account(host) or HostAccount(host=host)

    def free(self, host: HostKey) -> dict[str, int]:
        """Return what is left by dimension; empty if the capacity is unknown."""
        return self.account(host).free()

    def deficits(self, host: HostKey) -> dict[str, int]:
        """Return by how much a host is certainly beyond its capacity: more than what may be counted twice."""
        facts = self.facts.get(host.name)
        if facts is None or facts.key != host or not isinstance(facts.capacity, Capacity):
            return {}
        twice = counted_twice(facts, self.on(host))
        beyond = {
            resource: -left - twice.get(resource, 0) for resource, left in self.free(host).items() if left < 0
        }
        return {resource: amount for resource, amount in beyond.items() if amount > 0}

    def offer(self, host: HostKey) -> ResourceList:
        """Return the most that one hosted cluster can get of a host, however empty it is."""
        facts = self.facts.get(host.name)
        return {} if facts is None else facts.offer

    def amounts_on(self, workload: Workload[HostingSpec], host: HostKey) -> ResourceList:
        """Return what a workload takes on a host."""
        facts = self.facts.get(host.name)
        if facts is None or not isinstance(facts.capacity, Capacity):
            return workload.demand
        return facts.capacity.amounts_for(workload.spec.need)

    def on(self, host: HostKey) -> HostResidents:
        return self.residents.on(host)

    def countable(self, cluster: str, *, now: Micros) -> Iterator[Resident]:
        """Yield the residents that a score, which was published just now, certainly includes."""
        facts = self.facts.get(cluster)
        if facts is None or not isinstance(facts.telemetry, Telemetry):
            return
        only_count = not facts.telemetry.slots and facts.telemetry.free is None
        for resident in self.on(facts.key):
            if resident.counted or resident.confirmed is None:
                continue
            since: Micros = resident.confirmed
            if not only_count:
                # Its pods request resources one after the other, until it is available.
                since = (
                    resident.confirmed + 10 * 60 * SECOND
                    if resident.available is None
                    else resident.available
                )
            if since + SETTLE <= now:
                yield resident

    # Changes

    def reserve(self, workload: Workload[HostingSpec], host: HostKey) -> None:
        """Reserve a place, from now on for every rule. Raises InsufficientCapacity."""
        key, amounts = workload.key, self.amounts_on(workload, host)
        before = self.residents.reserved_on(key)

        def write(view: Transaction | Speculation) -> None:
            if before is not None:
                view.release(before, key)  # a decision replaces the one before
            view.reserve(host, key, amounts)

        self._write(write)
        self.residents.unreserve(key)
        self.residents.reserve(resident_on(workload, host, amounts))
        self._count(key, {host} if before is None else {host, before})

    def unreserve(self, key: WorkloadKey) -> None:
        """Give back a place that was reserved. What the hub shows of the request stays."""
        self._unreserve(key)
        self._freed.clear()  # the commit reports what it gives back

    def expire(self, key: WorkloadKey, *, now: Micros) -> list[Event]:
        """Give back a place whose commit ended although the hub never showed it. Return what that may help."""
        return self._refresh_hosts(self._unreserve(key), now, freed=True) + self._quota_events()

    def vacate(self, key: WorkloadKey) -> None:
        """Remove a resident in a what-if."""
        self._leave(key)
        self._unreserve(key)

    def occupy(self, resident: Resident) -> None:
        """Put a resident back in a what-if."""
        self.residents.observe(resident)
        self._write(lambda view: view.confirm(resident.host, resident.key, resident.amounts))
        self._count(resident.key, {resident.host})

    def close(self, host: HostKey) -> HostFacts | None:
        """Take nothing more on a host in a what-if. Return what ``reopen`` needs."""
        facts = self.facts.get(host.name)
        if facts is None or facts.key != host:
            return None
        del self.facts[host.name]
        self.table.close(host.name)
        return facts

    def reopen(self, facts: HostFacts) -> None:
        self.facts[facts.key.name] = facts
        self._publish(facts.key.name)

    def _publish(self, name: str, *, also: Mapping[Key, Direction] | None = None) -> None:
        """Show in the next snapshot what changed on the host that has this name now."""
        # A snapshot that no cycle has any more would make the table copy each column that is written.
        self._view = None
        facts = self.facts.get(name)
        self.table.publish(name, None if facts is None else self.account(facts.key), also=also)

    def _write(self, change: Callable[[Transaction | Speculation], None]) -> None:
        if isinstance(self.ledger, Ledger):
            with self.ledger.transaction() as transaction:
                change(transaction)
        else:
            change(self.ledger)

    def _settle(self, request: HostedClusterRequest) -> set[HostKey]:
        """Record the place that a request has. Return the hosts whose use changed.

        A reservation on another host stays: the commit that made it still runs, and gives it back.
        """
        resident = resident_of(request, policies=self.policies)
        key = key_of(request)
        if resident is None:
            return self._leave(key)
        old_host = self.residents.observed_on(key)
        changed = set() if old_host in (None, resident.host) else self._leave(key)
        if self.residents.find(key) == resident:
            return changed
        self.residents.observe(resident)
        self._write(lambda view: view.confirm(resident.host, key, resident.amounts))
        self._count(key, {resident.host})
        return changed | {resident.host}

    def _leave(self, key: WorkloadKey) -> set[HostKey]:
        """Remove the place that the hub showed."""
        host = self.residents.leave(key)
        if host is None:
            return set()
        self._write(lambda view: view.observe(host, key, None))
        self._count(key, {host})
        return {host}

    def _unreserve(self, key: WorkloadKey) -> set[HostKey]:
        host = self.residents.unreserve(key)
        if host is None:
            return set()
        self._write(lambda view: view.release(host, key))
        self._count(key, {host})
        return {host}

    def _count(self, key: WorkloadKey, changed: Iterable[HostKey]) -> None:
        """Count what a request holds, observed or reserved, in the account of its tenant.

        ``changed``: hosts on which it got or lost a place.
        """
        places = [
            place
            for place in (self.residents.find(key), self.residents.find_reserved(key))
            if place is not None
        ]
        if places:
            # During a move a request may hold two places, and counts once.
            amounts: dict[str, int] = {}
            for resource, amount in (item for place in places for item in _in_quota(place).items()):
                amounts[resource] = max(amounts.get(resource, 0), amount)
            freed = self.usage.put(key, places[-1].claimant, amounts)
        else:
            freed = self.usage.remove(key)
        if freed is not None:
            self._freed.add(freed)
        for host in changed:
            self._publish(host.name)

    def _quota_events(self) -> list[Event]:
        freed, self._freed = self._freed, set()
        return [
            Event(
                label=f"tenant {account.tenant} gave a place back",
                columns={quota_column(account): Direction.UP},
            )
            for account in sorted(freed)
            if (policy := self.policies.get(account.policy)) is not None
            and policy.tenancy.quota_of(account.tenant)
        ]

    def _set_policy(self, name: str, policy: Policy | None) -> list[Event]:
        """Return what other tenants may help. Requests that name the policy change with it."""
        old = self.policies.pop(name, None)
        if policy is not None:
            self.policies[name] = policy
        tenants = [version.tenancy.tenants if version is not None else () for version in (old, policy)]
        if tenants[0] == tenants[1]:
            return []
        self.usage.map_again()
        self.table.publish_tenants()
        hosts = frozenset(self.facts)
        return [
            Event(
                label=f"tenants of policy {name} changed",
                hosts=hosts,
                columns={grantable(HOSTED): Direction.UP},
            )
        ]

    def _refresh_hosts(self, hosts: set[HostKey], now: Micros, *, freed: bool = False) -> list[Event]:
        return self._refresh(sorted(host.name for host in hosts), now, changed=True, freed=freed)

    def _refresh_promised(self, clusters: set[str], now: Micros) -> list[Event]:
        return self._refresh(sorted(clusters & self.facts.keys()), now)

    def _refresh_all(self, now: Micros) -> list[Event]:
        return self._refresh(sorted({*self.snapshot().hosts.row_of, *self.facts}), now)

    def _refresh(
        self, names: Iterable[str], now: Micros, *, changed: bool = False, freed: bool = False
    ) -> list[Event]:
        """Compute the capacity of hosts again. ``changed``: their use has changed. ``freed``: a reservation ended."""
        # One snapshot for all: what is read of it does not change here, and columns are copied once for each snapshot.
        snapshot = self.snapshot()
        return [
            event
            for name in names
            for event in self._refresh_host(name, snapshot, now, changed=changed, freed=freed)
        ]

    def _refresh_host(
        self, name: str, snapshot: HostingSnapshot, now: Micros, *, changed: bool, freed: bool
    ) -> list[Event]:
        old = self.facts.get(name)
        row = snapshot.hosts.row_of.get(name)
        cluster = None if row is None else snapshot.cluster(row)
        if cluster is None or not is_hosting(cluster):
            if old is not None:
                del self.facts[name]
                self._index(name)
                self._close(old)
                none_left = self.offers.remove(name)
                self._publish(name, also={LARGEST_HOST: Direction.UP} if none_left else None)
                if none_left:
                    return [Event(label="no hosting cluster is left", columns={LARGEST_HOST: Direction.UP})]
            return []
        facts = self._facts(cluster, snapshot, now)
        if facts == old and not changed:
            return []
        self.facts[name] = facts
        self._index(name)
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
        freed = self._departures.observe(facts.key, self.on(facts.key)) or freed
        columns = dict(changed_room(before, self.free(facts.key), freed=freed))
        if old is None or old.unavailable != facts.unavailable:
            columns[UNAVAILABLE] = Direction.ANY
        # A host whose load is unknown for a while still offers what it offered before.
        if isinstance(capacity, Capacity) and self.offers.put(name, capacity.offer):
            columns[LARGEST_HOST] = Direction.UP
        self._publish(name, also={LARGEST_HOST: Direction.ANY})
        if not columns:
            return []
        return [Event(label=f"capacity of {name} changed", hosts=frozenset({name}), columns=columns)]

    def _close(self, facts: HostFacts) -> None:
        """Grant nothing more on a deleted host."""

        def write(view: Transaction | Speculation) -> None:
            # Only the capacity: the hub still shows the residents there, and the host may return with them.
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

    def _facts(self, cluster: ManagedCluster, snapshot: HostingSnapshot, now: Micros) -> HostFacts:
        key = host_key(cluster)
        covering = [policy for policy in self.policies.values() if snapshot.covers(policy, cluster)]
        limits = strictest(covering)
        score = snapshot.score_object(key.name, limits.resource)
        seen = self._seen.get((key.name, limits.resource)) if self._tracks_age else None
        telemetry = telemetry_of(cluster, score, limits, now=now, seen=seen)
        pending = {
            placement: promise
            for placement, promise in self.promises.pending(
                key.name, score, resource=limits.resource, now=now
            ).items()
            if any(policy.counts_placements_of(placement.namespace) for policy in covering)
        }
        residents = tuple(self.on(key))
        capacity = (
            telemetry
            if isinstance(telemetry, Unknown)
            else capacity_of(
                telemetry,
                limits,
                counted=[resident.amounts for resident in residents if resident.counted],
                reported=sum(resident.confirmed is not None for resident in residents),
            )
        )
        return HostFacts(
            key=key,
            limits=limits,
            policies=tuple(sorted(policy.name for policy in covering)),
            telemetry=telemetry,
            capacity=capacity,
            conflict=_conflict(covering, key.name),
            promised=tuple(sorted(pending)),
            promised_until=min((promise.until + 1 for promise in pending.values()), default=None),
            unavailable=why_unavailable(cluster),
            is_available=is_available(cluster),
            is_full=is_full(cluster),
            is_unhealthy=add_on_state(cluster) != ADD_ON_AVAILABLE,
        )


def _in_quota(resident: Resident) -> ResourceList:
    """Return what a resident counts in a quota. The share of room that it takes on its host is not in its request."""
    own = resident.amounts if resident.demand is None else resident.demand.amounts
    return {**resident.amounts, SLOTS: own.get(SLOTS, 0)}


def _conflict(covering: list[Policy], host: str) -> str:
    ordered = sorted(covering, key=lambda policy: policy.name)
    for at, first in enumerate(ordered):
        for second in ordered[at + 1 :]:
            if (words := conflict_of(first, second, host=host)) is not None:
                return words
    return ""


def _label(obj: object) -> str:
    meta = getattr(obj, "metadata", None)
    return f"{type(obj).__name__} {getattr(meta, 'name', '')} changed"
