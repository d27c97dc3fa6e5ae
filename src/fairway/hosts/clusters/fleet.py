"""ManagedClusters as a table, with the sets, bindings, scores and decisions that placements read."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from fairway.api.cluster import ManagedCluster
from fairway.api.clusterset import ManagedClusterSet, ManagedClusterSetBinding
from fairway.api.decision import PlacementDecision
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.placement import PLACEMENT_LABEL
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.debits import Debits, Deltas
from fairway.hosts.clusters.decisions import Decisions, Holding, Owner
from fairway.hosts.clusters.hostset import HostSet, host_set
from fairway.hosts.clusters.promises import promised_place
from fairway.hosts.clusters.scores import (
    CalculatorTable,
    ScoreTable,
    calculator_cell,
    calculator_of,
    score_cell,
    score_item,
)
from fairway.hosts.clusters.snapshot import ClusterSnapshot
from fairway.hosts.column import CountColumn, Key
from fairway.hosts.direction import ANY, DOWN, NONE, UP, Direction
from fairway.hosts.journal import NOTHING, Change
from fairway.hosts.schema import Schema
from fairway.hosts.table import Table

Published = TypeVar("Published", AddOnPlacementScore, ManagedClusterScore)


class Fleet(Table[ManagedCluster]):
    """Dictionaries that snapshots share are replaced, never modified."""

    def __init__(self, *, schema: Schema[ManagedCluster] = cells) -> None:
        super().__init__(schema=schema)
        self._sets: dict[str, HostSet] = {}
        self._bindings: dict[str, frozenset[str]] = {}
        self._decisions = Decisions()
        self._debits = Debits()
        self._requests: dict[str, tuple[str, ...]] = {}
        self._promised: dict[str, dict[Owner, str]] = {}
        """Uid of the cluster that each request names, by cluster and (namespace, name) of the request."""
        self._place_of: dict[Owner, str] = {}
        self._scores: dict[str, ScoreTable] = {}
        self._calculators: dict[str, CalculatorTable] = {}
        self._stamps: dict[tuple[str, str], int] = {}
        """Generation in which each copy of a score table was created, as for columns."""
        self._columns[cells.DECISIONS] = CountColumn(capacity=self._hosts.capacity)

    def snapshot(self) -> ClusterSnapshot:
        view = ClusterSnapshot(self)
        self._snapshots.add(view)
        return view

    # Clusters

    def load(self, clusters: Iterable[ManagedCluster]) -> None:
        """Fill a fleet without hosts at once; several times faster than upserts."""
        if self._hosts.row_of:
            for cluster in clusters:
                self.upsert_cluster(cluster)
            return
        decisions = self._own_decisions()
        self._load({cluster.metadata.name: cluster for cluster in clusters})
        hosts = self._hosts
        counts = CountColumn(capacity=hosts.capacity, stamp=hosts.stamp)
        # Decisions may be observed before the clusters that they name.
        for name in [name for name in decisions.absent_clusters if name in hosts.row_of]:
            counts.values[hosts.row_of[name]] = decisions.absent_clusters.pop(name)
        self._columns[cells.DECISIONS] = counts
        for name in self._promised:
            self._count_requests(name)

    def upsert_cluster(self, cluster: ManagedCluster) -> Change:
        name = cluster.metadata.name
        change = self._put(name, cluster)
        # A request counts only on the cluster whose uid it names, and a recreated cluster has another one.
        if name in self._promised:
            self._count_requests(name)
        return change

    def delete_cluster(self, name: str) -> Change:
        # Before the row is given up: its debit columns are written, too.
        self._confirm_debits(name)
        return self._drop(name)

    def _write_others(self, row: int, name: str) -> Iterator[Key]:
        for key in self._columns:
            kind = key[0]
            if kind in cells.PUBLISHED:
                self._own_column(key).write(row, score_cell(self._scores, name, key))
            elif kind == cells.CALCULATOR:
                self._own_column(key).write(row, calculator_cell(self._calculators, name, key))
            elif key == cells.DECISIONS and name in self._decisions.absent_clusters:
                self._own_column(key).write(row, self._own_decisions().absent_clusters.pop(name))
            else:
                continue
            yield key

    def _before_clear(self, row: int, name: str) -> None:
        # Decisions still name a deleted cluster. If it is created again, it must not look empty.
        held = int(self._counts().values[row])
        if held:
            self._own_decisions().absent_clusters[name] = held

    # Sets and bindings

    def upsert_set(self, source: ManagedClusterSet) -> Change:
        return self.put_set(host_set(source))

    def put_set(self, compiled: HostSet) -> Change:
        if self._sets.get(compiled.name) == compiled:
            return NOTHING
        self._sets = {**self._sets, compiled.name: compiled}
        return self._record(Change((), {(cells.SETS, compiled.name): ANY}))

    def delete_set(self, name: str) -> Change:
        if name not in self._sets:
            return NOTHING
        self._sets = {key: value for key, value in self._sets.items() if key != name}
        return self._record(Change((), {(cells.SETS, name): ANY}))

    def upsert_binding(self, binding: ManagedClusterSetBinding) -> Change:
        return self._bind(binding.metadata.namespace, binding.metadata.name, bound=True)

    def delete_binding(self, namespace: str, name: str) -> Change:
        return self._bind(namespace, name, bound=False)

    def _bind(self, namespace: str, name: str, *, bound: bool) -> Change:
        known = self._bindings.get(namespace, frozenset())
        if (name in known) == bound:
            return NOTHING
        bindings = self._bindings.copy()
        bindings[namespace] = known | {name} if bound else known - {name}
        if not bindings[namespace]:
            del bindings[namespace]
        self._bindings = bindings
        return self._record(Change((), {(cells.BINDINGS, namespace): ANY}))

    # Scores

    def upsert_score(self, score: AddOnPlacementScore) -> Change:
        return self._put_score(score.metadata.namespace, score.metadata.name, score)

    def delete_score(self, cluster: str, name: str) -> Change:
        return self._put_score(cluster, name, None)

    def load_scores(self, scores: Iterable[AddOnPlacementScore]) -> None:
        """Do the same as upserts at once, to fill a fleet."""
        tables = {name: dict(table) for name, table in self._scores.items()}
        for score in scores:
            tables.setdefault(score.metadata.name, {})[score.metadata.namespace] = score
        self._scores = tables
        # All scores are new versions, which measure what the debits expected.
        self._debits = Debits(stamp=self._journal.generation + 1)
        # Dropped instead of written: the next reader fills a column from all scores at once.
        for key in [key for key in self._columns if key[0] in cells.PUBLISHED or key[0] == cells.DEBIT]:
            del self._columns[key]
        self._journal.forget()

    def _put_score(self, cluster: str, name: str, score: AddOnPlacementScore | None) -> Change:
        old = self._scores.get(name, {}).get(cluster)
        if old == score:
            return NOTHING
        self._scores = self._own_table(self._scores, (cells.SCORE, name))
        _put(self._scores, name, cluster, score)
        row = self._hosts.row_of.get(cluster)
        changed: dict[Key, Direction] = {(cells.SCORES, name): ANY}
        for item in {
            item.name for source in (old, score) if source is not None for item in source.status.scores
        }:
            if old is None or score is None or score_item(old, item) != score_item(score, item):
                changed[cells.SCORE, name, item] = ANY
        for key in self._columns:
            if key[0] in cells.PUBLISHED and key[1] == name and row is not None:
                written = self._own_column(key).write(row, score_cell(self._scores, cluster, key))
                if written and key[0] == cells.SCORE:
                    changed[key] = written
        # This version of the score measures what the debits expected.
        if self._debits.of(cluster):
            changed.update(dict.fromkeys(self._confirm_debits(cluster, resource=name), ANY))
        return self._record_host(cluster, row, changed)

    def upsert_cluster_score(self, score: ManagedClusterScore) -> Change:
        """Ignore a score whose name does not start with its cluster's name."""
        cluster = score.metadata.namespace
        calculator = calculator_of(score)
        return NOTHING if calculator is None else self._put_calculator(cluster, calculator, score)

    def delete_cluster_score(self, cluster: str, calculator: str) -> Change:
        return self._put_calculator(cluster, calculator.lower(), None)

    def _put_calculator(self, cluster: str, calculator: str, score: ManagedClusterScore | None) -> Change:
        if self._calculators.get(calculator, {}).get(cluster) == score:
            return NOTHING
        key = (cells.CALCULATOR, calculator)
        self._calculators = self._own_table(self._calculators, key)
        _put(self._calculators, calculator, cluster, score)
        row = self._hosts.row_of.get(cluster)
        written = NONE
        if row is not None and key in self._columns:
            written = self._own_column(key).write(row, calculator_cell(self._calculators, cluster, key))
        return self._record_host(cluster, row, {key: written or ANY})

    def _record_host(self, name: str, row: int | None, changed: dict[Key, Direction]) -> Change:
        return self._record(Change((), changed) if row is None else Change((row,), changed, (name,)))

    # Decisions

    def upsert_decision(self, decision: PlacementDecision) -> Change:
        meta = decision.metadata
        placement = meta.labels.get(PLACEMENT_LABEL, "")
        return self.hold(
            namespace=meta.namespace,
            name=meta.name,
            holding=Holding.of((meta.namespace, placement) if placement else None, decision.status.decisions),
        )

    def delete_decision(self, namespace: str, name: str) -> Change:
        return self.hold(namespace=namespace, name=name, holding=None)

    def has_decision(self, owner: Owner) -> bool:
        """Return whether a placement has a PlacementDecision, be it empty."""
        return self._decisions.has(owner)

    def hold(self, *, namespace: str, name: str, holding: Holding | None) -> Change:
        """Implement ``upsert_decision`` and ``delete_decision``."""
        if self._decisions.get(namespace, name) == holding:
            return NOTHING
        decisions = self._own_decisions()
        old = decisions.put(namespace, name, holding)
        changed: dict[Key, Direction] = {}
        self._own_column(cells.DECISIONS)
        counts = self._counts()
        before = old.clusters if old is not None else ()
        after = holding.clusters if holding is not None else ()
        rows: set[int] = set()
        if before != after:
            row_of = self._hosts.row_of
            for clusters, step in ((before, -1), (after, 1)):
                for cluster in clusters:
                    row = row_of.get(cluster)
                    if row is not None:
                        counts.values[row] += step
                        rows.add(row)
                    else:
                        left = decisions.absent_clusters.get(cluster, 0) + step
                        if left:
                            decisions.absent_clusters[cluster] = left
                        else:
                            decisions.absent_clusters.pop(cluster, None)
            # Not per cluster: a page that replaces clusters lowers some counts and raises others.
            fewer, more = DOWN if before else 0, UP if after else 0
            changed[cells.DECISIONS] = Direction(fewer | more)
            if self._debits:
                changed.update(dict.fromkeys(self._release_unselected(old, before), ANY))
        for source in (old, holding):
            if source is not None and source.owner is not None:
                changed[cells.OWN_DECISIONS, *source.owner] = ANY
        names = self._hosts.names
        return self._record(Change(tuple(rows), changed, tuple([names[row] for row in rows])))

    # Debits

    def debit(self, owner: Owner, clusters: Iterable[str], deltas: Deltas) -> Change:
        """Expect a placement's new decisions to change scores of these clusters, until the scores are published."""
        debited: dict[int, str] = {}
        changed: set[Key] = set()
        deltas = {key: delta for key, delta in deltas.items() if delta}
        for cluster in clusters:
            if (row := self._hosts.row_of.get(cluster)) is not None:
                changed |= self._put_debit(cluster, owner, deltas)
                debited[row] = cluster
        if not changed:
            return NOTHING
        return self._record(Change(tuple(debited), dict.fromkeys(changed, ANY), tuple(debited.values())))

    @contextmanager
    def selecting(self, owner: Owner, deltas: Deltas) -> Iterator[None]:
        """Debit the clusters that a placement's decisions name after the block and did not name before it.

        Clusters that only moved to another page keep their debits.
        """
        if not deltas and not self._debits:
            yield
            return
        before = {
            cluster: self._debits.of(cluster).get(owner, {}) for cluster in self._decisions.counted(owner)
        }
        yield
        for cluster in tuple(self._decisions.counted(owner)):
            wanted = before.get(cluster, deltas)
            if self._debits.of(cluster).get(owner, {}) != wanted:
                self.debit(owner, (cluster,), wanted)

    def release_debits(self, owner: Owner) -> Change:
        """End all debits of a placement, which gives up its clusters."""
        clusters = [cluster for cluster in self._debits.clusters() if owner in self._debits.of(cluster)]
        return self.debit(owner, clusters, {})

    def _release_unselected(self, old: Holding | None, before: Iterable[str]) -> set[Key]:
        """End a placement's debits of clusters that its decisions no longer name."""
        changed: set[Key] = set()
        if old is not None and old.owner is not None:
            held = self._decisions.counted(old.owner)
            for cluster in before:
                if cluster not in held and old.owner in self._debits.of(cluster):
                    changed |= self._put_debit(cluster, old.owner, {})
        return changed

    def _confirm_debits(self, cluster: str, *, resource: str | None = None) -> set[Key]:
        """End the debits of a cluster that a new version of an AddOnPlacementScore measures; all of a deleted one."""
        changed: set[Key] = set()
        for owner, deltas in self._debits.of(cluster).items():
            kept = {
                key: delta for key, delta in deltas.items() if resource is not None and key[0] != resource
            }
            changed |= self._put_debit(cluster, owner, kept)
        return changed

    def _put_debit(self, cluster: str, owner: Owner, deltas: Deltas) -> set[Key]:
        self._debits = self._own(self._debits)
        changed = self._debits.put(cluster, owner, deltas)
        row = self._hosts.row_of.get(cluster)
        for key in changed:
            if row is not None and key in self._columns:
                self._own_column(key).write(row, self._debits.total(cluster, key))
        return changed

    # Requests

    def upsert_request(self, request: HostedClusterRequest) -> Change:
        """Count a request on its hosting cluster, until the published load includes it."""
        meta, place = request.metadata, promised_place(request)
        return self._promise((meta.namespace, meta.name), None if place is None else (place.name, place.uid))

    def delete_request(self, namespace: str, name: str) -> Change:
        return self._promise((namespace, name), None)

    def _promise(self, request: Owner, place: tuple[str, str] | None) -> Change:
        """``place``: name and uid of the hosting cluster."""
        old = self._place_of.pop(request, None)
        change = NOTHING
        if old is not None:
            del self._promised[old][request]
            if not self._promised[old]:
                del self._promised[old]
            if place is None or place[0] != old:
                change = self._count_requests(old)
        if place is not None:
            self._place_of[request] = place[0]
            self._promised.setdefault(place[0], {})[request] = place[1]
            change = self._count_requests(place[0])
        return change

    def _count_requests(self, cluster: str) -> Change:
        """Requests of a deleted cluster do not count on a new one of the same name."""
        row = self._hosts.row_of.get(cluster)
        host = None if row is None else self._hosts.objects[row]
        uids = self._promised.get(cluster, {})
        names = tuple(
            sorted(
                "/".join(request) for request, uid in uids.items() if host is None or uid == host.metadata.uid
            )
        )
        if names == self._requests.get(cluster, ()):
            return NOTHING
        self._requests = {**self._requests, cluster: names}
        if not names:
            del self._requests[cluster]
        return self.set_amounts(cluster, {cells.PROMISED: len(names)})

    # Copy on write

    def _counts(self) -> CountColumn:
        counts = self._columns[cells.DECISIONS]
        assert isinstance(counts, CountColumn)
        return counts

    def _own_decisions(self) -> Decisions:
        if self._snapshots:
            self._decisions = self._own(self._decisions)
        return self._decisions

    def _own_table(
        self, tables: dict[str, dict[str, Published]], key: tuple[str, str]
    ) -> dict[str, dict[str, Published]]:
        """Return the tables and the table of this key, both safe to modify."""
        if not self._snapshots:
            return tables
        tables = tables.copy()
        if self._pinned(self._stamps.get(key, 0)):
            tables[key[1]] = tables.get(key[1], {}).copy()
            self._stamps[key] = self._journal.generation + 1
        return tables


def _put(tables: dict[str, dict[str, Published]], name: str, cluster: str, score: Published | None) -> None:
    """Drop empty tables: the existence of a calculator's table means that it has published."""
    if score is not None:
        tables.setdefault(name, {})[cluster] = score
        return
    del tables[name][cluster]
    if not tables[name]:
        del tables[name]
