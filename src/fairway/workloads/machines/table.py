"""The state of machines, migrations and nodes: one entry for each, and indexes of those that wait.

``permits``, ``migrations`` and ``relief`` share this table and decide what happens to its entries. The table decides
nothing: it keeps its indexes consistent with the entries, and answers what follows from several of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fairway.engine.ledger import HostAccount
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.instant import Micros
from fairway.workloads.machines.events import Observation
from fairway.workloads.machines.machine import Demand, Identity, Machine
from fairway.workloads.machines.migration import Claim, Migration, Phase


@dataclass(slots=True, eq=False, kw_only=True)
class MachineEntry:
    """A pod on a node: a virtual machine with its permit, or another pod, which only uses room."""

    machine: Machine
    """As last observed."""
    demand: Demand | None = None
    """What its agent asks for, and what is approved of that. None if no virtual machine runs in the pod."""
    written: Demand | None = None
    """The demand that its VirtualMachine is known to record; None if that records none."""
    writing: Demand | None = None
    """The demand that is being written. There is one write at a time: its result names the pod, not the demand."""
    promised: ResourceList = field(default_factory=dict)
    """The most that its VirtualMachine may record as approved: the agent may use that much, so it stays booked until a
    lower permit is written."""
    retry_at: Micros | None = None
    """When a failed write is sent again. Set by ``MachineTable.retry``, which keeps the index."""
    is_unrecorded: bool = False
    """Whether its VirtualMachine records no permit: another scheduler may have given one, which the first request of
    the agent reports."""
    reported: int | None = None
    """Generation of the demand for which the capacity-needed signal was raised: once for each request."""


@dataclass(slots=True, eq=False, kw_only=True)
class Handover:
    """Request and permit of a virtual machine whose source pod was deleted, until the target pod runs it."""

    demand: Demand
    written: Demand | None


@dataclass(slots=True, eq=False, kw_only=True)
class VirtualMachineEntry:
    """What belongs to a virtual machine, whichever pod runs it."""

    owner: WorkloadKey | None = None
    """The pod that runs it. The target of a migration becomes the owner when the source has left: until then only one
    of the two may ask and grow."""
    handover: Handover | None = None


@dataclass(frozen=True, slots=True)
class Failures:
    """What failed for a machine, so that the next attempt is another one."""

    count: int
    not_before: Micros
    targets: frozenset[HostKey]


@dataclass(slots=True, eq=False, kw_only=True)
class MigrationEntry:
    """A migration that has not ended."""

    migration: Migration
    """What its MachineMigration records, or is about to."""
    observation: Observation | None = None
    """The last report of its progress; None if nothing is known, as after a restart."""
    is_written: bool = False
    """Whether the MachineMigration has exactly this. No step is taken before: a restart continues at the record."""
    begun: Phase | None = None
    """The phase whose effect was last asked for, so that each effect is asked for once."""
    uncertain: Phase | None = None
    """The phase at the last restart or timeout, whose effect may have begun unnoticed: it is asked for only after an
    observation shows that it has not."""
    retry_at: Micros | None = None
    """When a failed write of the record is sent again."""
    unneeded_since: Micros | None = None
    """Since when nothing needs it. It is cancelled after the settle delay: room that appears often disappears again."""


@dataclass(slots=True, eq=False, kw_only=True)
class SourceEntry:
    """What is remembered of the migrations of one pod. It outlives the pod until the last of them has ended."""

    migration: MigrationEntry | None = None
    """The one that moves it now."""
    attempts: int = 0
    """Makes the names of its migrations unique: the object of the last one may still exist."""
    failures: Failures | None = None
    """Of its attempts since the last that succeeded."""


@dataclass(slots=True, eq=False, kw_only=True)
class NodeEntry:
    """The machines on a node, and what was planned to relieve it."""

    host: HostKey
    machines: dict[WorkloadKey, MachineEntry] = field(default_factory=dict)
    """In the order in which they were observed."""
    denied: dict[WorkloadKey, MachineEntry] = field(default_factory=dict)
    """Those with denied demand."""
    above_since: Micros | None = None
    """Since when it exceeds its watermark."""
    is_short: bool = False
    """Whether it needs more room than the migrations under way make."""
    tried_at: Micros | None = None
    """When it was last planned for."""
    appearances: int = 0
    """How often room had appeared anywhere by then: without more of it, another plan would have the same result."""
    is_stirred: bool = False
    """Whether other targets may have become feasible for its machines since."""
    cancelled_at: Micros | None = None
    """When a migration from here was last cancelled. The next one waits for the settle delay, so that demand which
    rises and falls does not start and cancel migrations in turns."""
    room: tuple[HostAccount, dict[str, int]] | None = None
    """Its room below the watermark, and the account that it was computed from, which is replaced when it changes. Plans
    of other nodes visit it thousands of times between two changes."""


class MachineTable:
    def __init__(self) -> None:
        self.is_loaded = False
        """Whether all objects were reported. Nothing is approved, and no migration starts, before."""
        self.machines: dict[WorkloadKey, MachineEntry] = {}
        self.virtual_machines: dict[Identity, VirtualMachineEntry] = {}
        self.migrations: dict[str, MigrationEntry] = {}
        """By id."""
        self.sources: dict[WorkloadKey, SourceEntry] = {}
        self.nodes: dict[HostKey, NodeEntry] = {}
        self.assumed: dict[WorkloadKey, HostKey] = {}
        """The node of each pod whose binding is under way: the ledger has its reservation there, until an observation
        confirms it, or the scheduler gives up."""
        self.asking: set[WorkloadKey] = set()
        """Machines whose agents wait for a reply."""
        self.retrying: dict[WorkloadKey, MachineEntry] = {}
        """Machines whose permit could not be written."""
        self.above: dict[HostKey, NodeEntry] = {}
        """Nodes that exceed their watermark, those first that do for longest."""
        self.short: dict[HostKey, NodeEntry] = {}
        """Nodes that are short of room."""
        self._names: dict[tuple[str, str], WorkloadKey] = {}
        """Agents name a pod without its uid."""
        self._targets: dict[tuple[str, str], MigrationEntry] = {}
        """By namespace and name of the target pod, which has no uid until it exists."""

    # Machines

    def machine(self, key: WorkloadKey) -> Machine | None:
        entry = self.machines.get(key)
        return None if entry is None else entry.machine

    def find(self, namespace: str, name: str) -> MachineEntry | None:
        """Return the entry of the pod that has a name now."""
        key = self._names.get((namespace, name))
        return None if key is None else self.machines[key]

    def demand(self, key: WorkloadKey) -> Demand:
        """Return the demand of a virtual machine that exists."""
        return demand_of(self.machines[key])

    def put_machine(self, machine: Machine) -> MachineEntry:
        """Add a machine, or replace what was observed of one. It must not have changed its node."""
        key = machine.key
        entry = self.machines.get(key)
        if entry is None:
            entry = self.machines[key] = MachineEntry(machine=machine)
        else:
            entry.machine = machine
        self._names[key.namespace, key.name] = key
        self.node(machine.host).machines[key] = entry
        return entry

    def set_demand(self, entry: MachineEntry, demand: Demand | None) -> None:
        entry.demand = demand
        key, denied = entry.machine.key, self.node(entry.machine.host).denied
        if demand is not None and demand.denied:
            denied[key] = entry
        else:
            denied.pop(key, None)

    def retry(self, entry: MachineEntry, at: Micros | None) -> None:
        """Send a permit again at a time; None to stop."""
        entry.retry_at = at
        if at is None:
            self.retrying.pop(entry.machine.key, None)
        else:
            self.retrying[entry.machine.key] = entry

    def remove_machine(self, key: WorkloadKey) -> MachineEntry | None:
        """Remove a pod from the table and all indexes but ``asking``, which the caller answers."""
        entry = self.machines.pop(key, None)
        if entry is None:
            return None
        node = self.node(entry.machine.host)
        node.machines.pop(key, None)
        node.denied.pop(key, None)
        self.retrying.pop(key, None)
        # A pod that was recreated under the same name may have been observed before the deletion of this one.
        if self._names.get((key.namespace, key.name)) == key:
            del self._names[key.namespace, key.name]
        if self.owner_of(entry.machine.identity) == key:
            self.set_owner(entry.machine.identity, None)
        return entry

    def on_host(self, host: HostKey) -> Iterator[Machine]:
        node = self.nodes.get(host)
        return iter(()) if node is None else (entry.machine for entry in node.machines.values())

    def waiters(self, host: HostKey) -> list[MachineEntry]:
        """Return the machines with denied demand, in the order in which they are served."""
        node = self.nodes.get(host)
        if node is None or not node.denied:
            return []
        waiting = [entry for key, entry in node.denied.items() if not self.is_frozen(key)]
        if len(waiting) > 1:
            waiting.sort(key=_precedence)
        return waiting

    # Virtual machines

    def owner_of(self, identity: Identity) -> WorkloadKey | None:
        """Return the pod that runs a virtual machine."""
        entry = self.virtual_machines.get(identity)
        return None if entry is None else entry.owner

    def set_owner(self, identity: Identity, owner: WorkloadKey | None) -> None:
        entry = self.virtual_machines.setdefault(identity, VirtualMachineEntry())
        entry.owner = owner
        self._drop_unused(identity, entry)

    def begin_handover(self, identity: Identity, handover: Handover) -> None:
        self.virtual_machines.setdefault(identity, VirtualMachineEntry()).handover = handover

    def end_handover(self, identity: Identity) -> Handover | None:
        """Return what the last pod of a virtual machine left for the next one, and forget it."""
        entry = self.virtual_machines.get(identity)
        if entry is None:
            return None
        handover, entry.handover = entry.handover, None
        self._drop_unused(identity, entry)
        return handover

    def _drop_unused(self, identity: Identity, entry: VirtualMachineEntry) -> None:
        if entry.owner is None and entry.handover is None:
            del self.virtual_machines[identity]

    # Migrations

    def migration(self, id_: str) -> Migration | None:
        entry = self.migrations.get(id_)
        return None if entry is None else entry.migration

    def all_migrations(self) -> list[Migration]:
        """Return the migrations that have not ended, in the order in which they were started."""
        return [entry.migration for entry in self.migrations.values()]

    def migration_of(self, source: WorkloadKey) -> Migration | None:
        """Return the migration that moves a pod's machine."""
        entry = self.sources.get(source)
        return None if entry is None or entry.migration is None else entry.migration.migration

    def migration_to(self, namespace: str, name: str) -> Migration | None:
        """Return the migration whose target is the pod with this name."""
        entry = self._targets.get((namespace, name))
        return None if entry is None else entry.migration

    def migrations_from(self, host: HostKey) -> list[Migration]:
        return [entry.migration for entry in self.migrations.values() if entry.migration.source_host == host]

    def count_incoming(self) -> Counter[HostKey]:
        """Return how many migrations each node is about to receive."""
        return Counter(
            migration.target_host
            for migration in self.all_migrations()
            if migration.phase not in (Phase.SWAP_COMMITTED, Phase.CANCELLING)
        )

    def claims_of(self, key: WorkloadKey) -> Iterator[tuple[Migration, Claim]]:
        """Yield what migrations are going to give to a machine. A source that left has given it already."""
        for entry in self.migrations.values():
            migration = entry.migration
            if migration.claims and migration.leaving and migration.source in self.machines:
                for claim in migration.claims:
                    if claim.beneficiary == key:
                        yield migration, claim

    def is_frozen(self, key: WorkloadKey) -> bool:
        """Return whether a machine must not grow: it migrates, or is a target that does not run it yet."""
        migration = self.migration_of(key)
        if migration is not None:
            # A copy of more than was booked for the target would not fit there.
            return migration.leaving or migration.phase is Phase.CANCELLING
        migration = self.migration_to(key.namespace, key.name)
        return migration is not None and migration.phase not in (Phase.SWAP_COMMITTED, Phase.CLEANED)

    def put_migration(self, migration: Migration) -> MigrationEntry:
        """Add a migration, or replace its record by a later one."""
        entry = self.migrations.get(migration.id)
        if entry is None:
            entry = self.migrations[migration.id] = MigrationEntry(migration=migration)
            source = self.sources.setdefault(migration.source, SourceEntry())
            source.attempts = max(migration.attempt, source.attempts)
            source.migration = entry
        elif entry.migration.target != migration.target:
            # Some migrators choose the name of the target pod.
            old = entry.migration.target
            self._targets.pop((old.namespace, old.name), None)
        entry.migration = migration
        self._targets[migration.target.namespace, migration.target.name] = entry
        return entry

    def remove_migration(self, migration: Migration) -> None:
        """Remove a migration that ended. What its source must remember stays until ``forget_source``."""
        entry = self.migrations.pop(migration.id)
        source = self.sources.get(migration.source)
        if source is not None and source.migration is entry:
            source.migration = None
        self._targets.pop((migration.target.namespace, migration.target.name), None)

    def forget_source(self, key: WorkloadKey) -> None:
        """Drop what is remembered of the migrations of a deleted pod, unless one of them goes on."""
        source = self.sources.get(key)
        if source is not None and source.migration is None:
            del self.sources[key]

    def failures_of(self, key: WorkloadKey) -> Failures | None:
        source = self.sources.get(key)
        return None if source is None else source.failures

    # Nodes

    def node(self, host: HostKey) -> NodeEntry:
        """Return the entry of a node, which begins with its first machine or plan."""
        node = self.nodes.get(host)
        if node is None:
            node = self.nodes[host] = NodeEntry(host=host)
        return node

    def set_above(self, node: NodeEntry, since: Micros | None) -> None:
        node.above_since = since
        if since is None:
            self.above.pop(node.host, None)
        else:
            self.above[node.host] = node

    def set_short(self, node: NodeEntry, short: bool) -> None:
        node.is_short = short
        if short:
            self.short[node.host] = node
        else:
            self.short.pop(node.host, None)

    def in_need(self) -> Iterable[NodeEntry]:
        """Return the nodes that are above their watermark or short of room."""
        return {**self.above, **self.short}.values()

    def remove_node(self, host: HostKey) -> None:
        """Remove a node, whose machines were removed before."""
        self.nodes.pop(host, None)
        self.above.pop(host, None)
        self.short.pop(host, None)


def demand_of(entry: MachineEntry) -> Demand:
    """Return the demand of a virtual machine."""
    assert entry.demand is not None, f"pod {entry.machine.key} runs no virtual machine"
    return entry.demand


def _precedence(entry: MachineEntry) -> tuple[int, Micros, WorkloadKey]:
    """Sort by priority, then by how long the demand has waited. The key makes the order the same after a restart."""
    return -entry.machine.priority, demand_of(entry).since or 0, entry.machine.key
