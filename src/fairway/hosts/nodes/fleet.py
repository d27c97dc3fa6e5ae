"""Nodes as a table, with the pods on them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

from msgspec import structs

from fairway.api.node import Node
from fairway.api.persistent_volume import (
    BOUND,
    SELECTED_NODE,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from fairway.api.pod import Pod
from fairway.api.pod_disruption_budget import PodDisruptionBudget
from fairway.api.storage import (
    CSIDriver,
    CSINode,
    CSINodeDriver,
    CSIStorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from fairway.hosts.column import Column, CountColumn, Key
from fairway.hosts.direction import ANY, DOWN, UP, Direction
from fairway.hosts.journal import NOTHING, Change
from fairway.hosts.nodes import cells
from fairway.hosts.nodes.pod_columns import (
    ADDED,
    CLAIM,
    CSI_DRIVER,
    HELD,
    NAMESPACES,
    NOMINATED,
    OF_LOWER_PRIORITY,
    OF_NOMINATED,
    PARTIAL,
    POD_GROUP,
    POD_TERMS,
    PODS_MATCHING,
    STORAGE_CAPACITY,
    STORAGE_CLASS,
    STORAGE_COLUMNS,
    VOLUME,
    VOLUMES,
    attached_volumes,
    pod_claim,
    volume_limit,
)
from fairway.hosts.nodes.pod_selection import query_of
from fairway.hosts.nodes.pod_template import PodInfo, info_of
from fairway.hosts.nodes.pods import PodIndex, PodKey, group_matches, nominated_amount
from fairway.hosts.nodes.snapshot import NodeSnapshot, storage_cell, volumes_attached
from fairway.hosts.nodes.storage import FreeCapacity, Storage, claim_of
from fairway.hosts.resources import LARGEST
from fairway.hosts.snapshot import Snapshot
from fairway.hosts.steps import Steps, strides
from fairway.hosts.table import Table

MATCHING_LIMIT: Final = 512
"""Maximum number of columns of pods that match a query: each makes changes of pods slower."""
PARTIAL_LIMIT: Final = 64
"""Maximum number of columns of ``PARTIAL``."""
KEPT_GROUPS: Final = 1 << 14
"""Maximum number of groups of pods for which the matching columns are cached."""

_NOTHING: Mapping[Key, int] = {}


class NodeFleet(Table[Node]):
    def __init__(self) -> None:
        super().__init__(schema=cells)
        self._pods = PodIndex()
        self._placed: dict[PodKey, tuple[str, PodInfo]] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._budgets: dict[PodKey, PodDisruptionBudget] = {}
        self.nominations: Mapping[PodKey, str] = {}
        """The nominated node of each pod that waits for room there."""
        self._nominated: Mapping[str, Mapping[PodKey, PodInfo]] = {}
        """The same by node."""
        self._nominated_with_terms: frozenset[PodKey] = frozenset()
        """Those that have affinity terms."""
        self._evicting: frozenset[PodKey] = frozenset()
        self.storage = Storage()
        self._taken_volumes: dict[str, tuple[PersistentVolume, ClaimReference]] = {}
        """Volumes that pods in progress bind: as observed, and with the claim that they get."""
        self._provisioned_claims: dict[PodKey, tuple[PersistentVolumeClaim, str]] = {}
        """Claims that pods in progress have provisioned: as observed, and for which node."""
        self._storage_columns: dict[Key, None] = {}
        """The columns of ``STORAGE_COLUMNS`` that exist."""
        self._matching: dict[Key, tuple[Key, ...]] = {}
        """Columns that count the pods of a group, by group."""
        self._partial: dict[Key, None] = {}
        """The columns of ``PARTIAL`` that exist."""

    def snapshot(self) -> NodeSnapshot:
        view = NodeSnapshot(self)
        self._snapshots.add(view)
        return view

    def load(self, nodes: Iterable[Node]) -> None:
        """Fill a fleet without nodes at once; several times faster than upserts."""
        if self._hosts.row_of:
            for node in nodes:
                self.upsert_node(node)
        else:
            self._load({node.metadata.name: node for node in nodes})
            self._forget_derived()

    def _forget_derived(self) -> None:
        """Forget what is derived from columns that do not exist any more."""
        self._matching.clear()
        self._partial.clear()
        self._storage_columns.clear()

    def load_others(
        self,
        *,
        namespaces: Mapping[str, Mapping[str, str]],
        claims: Iterable[PersistentVolumeClaim] = (),
        volumes: Iterable[PersistentVolume] = (),
        classes: Iterable[StorageClass] = (),
        drivers: Iterable[CSIDriver] = (),
        csi_nodes: Iterable[CSINode] = (),
        capacities: Iterable[CSIStorageCapacity] = (),
        attachments: Iterable[VolumeAttachment] = (),
        budgets: Iterable[PodDisruptionBudget] = (),
    ) -> None:
        """Set what the fleet has beside nodes and pods. Upserts copy all objects of a kind, for earlier snapshots."""
        self._namespaces = {name: dict(labels) for name, labels in namespaces.items()}
        self.storage = Storage(stamp=self._journal.generation + 1)
        self.storage.load(
            claims=claims,
            volumes=volumes,
            classes=classes,
            drivers=drivers,
            csi_nodes=csi_nodes,
            capacities=capacities,
            attachments=attachments,
        )
        self._budgets = {(budget.metadata.namespace, budget.metadata.name): budget for budget in budgets}
        self._record(Change((), {NAMESPACES: ANY, VOLUMES: ANY}))

    def upsert_node(self, node: Node) -> Change:
        return self._put(node.metadata.name, node)

    def find_node(self, name: str) -> Node | None:
        row = self._hosts.row_of.get(name)
        return None if row is None else self._hosts.objects[row]

    def delete_node(self, name: str) -> Change:
        """Delete a node. Its pods are kept until they are deleted, too: the node may be created again."""
        return self._drop(name)

    def _write_others(self, row: int, name: str) -> Iterator[Key]:
        for key in self._columns:
            if key[0] in ADDED or key[0] == PODS_MATCHING or key[0] in STORAGE_COLUMNS:
                amount = self._cell(name, key)
                if amount:
                    self._own_column(key).write(row, min(amount, LARGEST))
                    yield key
        self._write_partial({name: None})

    def _cell(self, node: str, key: Key) -> int:
        """Return the cell of a column that other objects than nodes fill."""
        if key[0] in STORAGE_COLUMNS:
            return storage_cell(self._pods, self.storage, node, key)
        return self._pods.cell(node, key)

    # Namespaces

    def upsert_namespace(self, name: str, labels: Mapping[str, str]) -> Change:
        """Add or update a namespace, which affinity terms may select by its labels."""
        if self._namespaces.get(name) == labels:
            return NOTHING
        self._namespaces = {**self._namespaces, name: dict(labels)}
        return self._record(Change((), {NAMESPACES: ANY}))

    def delete_namespace(self, name: str) -> Change:
        if name not in self._namespaces:
            return NOTHING
        self._namespaces = {other: labels for other, labels in self._namespaces.items() if other != name}
        return self._record(Change((), {NAMESPACES: ANY}))

    # Disruption budgets, which only preemption reads: no change of them is reported

    def upsert_budget(self, budget: PodDisruptionBudget) -> None:
        meta = budget.metadata
        self._budgets = {**self._budgets, (meta.namespace, meta.name): budget}

    def delete_budget(self, namespace: str, name: str) -> None:
        self._budgets = {key: budget for key, budget in self._budgets.items() if key != (namespace, name)}

    # Nominations: replaced as a whole, so that snapshots keep theirs

    def nominated_to(self, node: str) -> list[PodInfo]:
        return list(self._nominated.get(node, {}).values())

    def nominate(self, pod: Pod, node: str) -> Change:
        """Keep room on a node for a pod that waits until other pods there are deleted; no node ends that."""
        key = (pod.metadata.namespace, pod.metadata.name)
        old = self.nominations.get(key, "")
        if old == node:
            return NOTHING
        nominated, nominations = dict(self._nominated), dict(self.nominations)
        if old:
            nominated[old] = {other: info for other, info in nominated[old].items() if other != key}
            del nominations[key]
            if not nominated[old]:
                del nominated[old]
        if node:
            nominated[node] = {**nominated.get(node, {}), key: info_of(pod)}
            nominations[key] = node
        self._nominated, self.nominations = nominated, nominations
        has_terms = bool(node and nominated[node][key].template.term_keys)
        if has_terms or key in self._nominated_with_terms:
            self._nominated_with_terms = self._nominated_with_terms - {key} | ({key} if has_terms else set())
        self._write_partial(dict.fromkeys((old, node)), OF_NOMINATED)
        return self._record(Change((), {NOMINATED: ANY}))

    def begin_eviction(self, keys: Iterable[PodKey]) -> None:
        """Note that these pods are being evicted, until they are observed to terminate. No change is reported."""
        self._evicting |= {key for key in keys if key in self._placed}

    # Storage

    def upsert_claim(self, claim: PersistentVolumeClaim) -> Change:
        key = (claim.metadata.namespace, claim.metadata.name)
        # An event may be older than what the binder has just written: the assumption stays on top of what is
        # observed.
        if (assumed := self._provisioned_claims.get(key)) is not None:
            self._provisioned_claims[key] = (claim, assumed[1])
            claim = _for_node(claim, assumed[1])
        return self._put_claim(claim)

    def delete_claim(self, namespace: str, name: str) -> Change:
        key = (namespace, name)
        if key not in self.storage.claims:
            return NOTHING
        self._provisioned_claims.pop(key, None)
        del self._own_storage().claims[key]
        return self._storage_changed({(CLAIM, *key): DOWN}, self._nodes_with(key))

    def _put_claim(self, claim: PersistentVolumeClaim, direction: Direction = ANY) -> Change:
        key = (claim.metadata.namespace, claim.metadata.name)
        self._own_storage().claims[key] = claim
        return self._storage_changed({(CLAIM, *key): direction}, self._nodes_with(key))

    def upsert_volume(self, volume: PersistentVolume) -> Change:
        name = volume.metadata.name
        if (assumed := self._taken_volumes.get(name)) is not None:
            self._taken_volumes[name] = (volume, assumed[1])
            volume = _with_claim(volume, assumed[1])
        return self._put_volume(volume)

    def delete_volume(self, name: str) -> Change:
        old = self.storage.volumes.get(name)
        if old is None:
            return NOTHING
        self._taken_volumes.pop(name, None)
        self._own_storage().drop_volume(name)
        return self._storage_changed({VOLUMES: DOWN, (VOLUME, name): DOWN}, self._nodes_of_volume(old))

    def _put_volume(self, volume: PersistentVolume, direction: Direction = ANY) -> Change:
        name = volume.metadata.name
        old = self.storage.volumes.get(name)
        self._own_storage().put_volume(volume)
        changed: dict[Key, Direction] = {(VOLUME, name): direction}
        if _may_be_bound(volume) or (old is not None and _may_be_bound(old)):
            changed[VOLUMES] = direction
        return self._storage_changed(changed, self._nodes_of_volume(volume))

    def take_volume(self, name: str, claim: ClaimReference) -> Change:
        """Assume that a volume gets this claim, until ``release_volume``."""
        known = self.storage.volumes.get(name)
        if known is None:
            return NOTHING
        # The observed volume, not the assumed one: to release it must restore what the hub shows.
        if name in self._taken_volumes:
            known = self._taken_volumes[name][0]
        self._taken_volumes[name] = (known, claim)
        return self._put_volume(_with_claim(known, claim), DOWN)

    def release_volume(self, name: str) -> Change:
        assumed = self._taken_volumes.pop(name, None)
        if assumed is None or self.storage.volumes.get(name) == assumed[0]:
            return NOTHING
        return self._put_volume(assumed[0], UP)

    def provision_claim(self, key: PodKey, node: str) -> Change:
        """Assume that a claim is provisioned for a node, until ``release_claim``."""
        known = self.storage.claims.get(key)
        if known is None:
            return NOTHING
        if key in self._provisioned_claims:
            known = self._provisioned_claims[key][0]
        self._provisioned_claims[key] = (known, node)
        return self._put_claim(_for_node(known, node), DOWN)

    def release_claim(self, key: PodKey) -> Change:
        assumed = self._provisioned_claims.pop(key, None)
        if assumed is None or self.storage.claims.get(key) == assumed[0]:
            return NOTHING
        return self._put_claim(assumed[0], UP)

    def upsert_class(self, class_: StorageClass) -> Change:
        name = class_.metadata.name
        if self.storage.classes.get(name) == class_:
            return NOTHING
        self._own_storage().classes[name] = class_
        return self._class_changed(name, ANY)

    def delete_class(self, name: str) -> Change:
        if name not in self.storage.classes:
            return NOTHING
        del self._own_storage().classes[name]
        return self._class_changed(name, DOWN)

    def _class_changed(self, name: str, direction: Direction) -> Change:
        # Claims without a volume count for the driver of their class.
        storage = self.storage
        nodes = {
            node
            for key, claim in (storage.claims.items() if self._storage_columns else ())
            if claim.storage_class == name and claim.spec.volumeName not in storage.volumes
            for node in self._nodes_with(key)
        }
        return self._storage_changed({(STORAGE_CLASS, name): direction}, nodes)

    def upsert_driver(self, driver: CSIDriver) -> Change:
        name = driver.metadata.name
        if self.storage.drivers.get(name) == driver:
            return NOTHING
        self._own_storage().drivers[name] = driver
        return self._record(Change((), {(CSI_DRIVER, name): ANY}))

    def delete_driver(self, name: str) -> Change:
        if name not in self.storage.drivers:
            return NOTHING
        del self._own_storage().drivers[name]
        return self._record(Change((), {(CSI_DRIVER, name): ANY}))

    def upsert_capacity(self, capacity: CSIStorageCapacity) -> Change:
        meta, class_ = capacity.metadata, capacity.storageClassName
        old = self.storage.capacities.get(class_, {}).get((meta.namespace, meta.name))
        new = FreeCapacity.of(capacity)
        if old == new:
            return NOTHING
        self._own_storage().put_capacity(capacity)
        direction = ANY
        if old is not None and old.nodes == new.nodes:
            fell = new.limit is None or (old.limit is not None and new.limit < old.limit)
            direction = DOWN if fell else UP
        return self._record(Change((), {(STORAGE_CAPACITY, class_): direction}))

    def delete_capacity(self, capacity: CSIStorageCapacity) -> Change:
        self._own_storage().drop_capacity(capacity)
        return self._record(Change((), {(STORAGE_CAPACITY, capacity.storageClassName): DOWN}))

    def upsert_csi_node(self, csi_node: CSINode) -> Change:
        name = csi_node.metadata.name
        old = self.storage.csi_nodes.get(name)
        self._own_storage().csi_nodes[name] = csi_node
        return self._csi_node_changed(name, {driver.name for driver in (*_drivers(old), *_drivers(csi_node))})

    def delete_csi_node(self, name: str) -> Change:
        old = self.storage.csi_nodes.get(name)
        if old is None:
            return NOTHING
        del self._own_storage().csi_nodes[name]
        return self._csi_node_changed(name, {driver.name for driver in _drivers(old)})

    def _csi_node_changed(self, name: str, drivers: Iterable[str]) -> Change:
        # Results may be kept that read a column which does not exist any more: they are stale as well.
        return self._storage_changed({volume_limit(driver): ANY for driver in drivers}, {name})

    def upsert_attachment(self, attachment: VolumeAttachment) -> Change:
        self._own_storage().put_attachment(attachment)
        return self._storage_changed({}, {attachment.spec.nodeName})

    def delete_attachment(self, attachment: VolumeAttachment) -> Change:
        self._own_storage().drop_attachment(attachment)
        return self._storage_changed({}, {attachment.spec.nodeName})

    def _own_storage(self) -> Storage:
        self.storage = self._own(self.storage)
        return self.storage

    def _nodes_with(self, claim: PodKey) -> Iterable[str]:
        """Return the nodes whose pods use a claim."""
        return self._pods.holders(pod_claim(*claim))

    def _nodes_of_volume(self, volume: PersistentVolume) -> set[str]:
        """Return the nodes to which a volume is attached, or whose pods use its claim."""
        claim, attached = (
            claim_of(volume),
            set(self.storage.attached_to.get(volume.metadata.name, {}).values()),
        )
        return attached if claim is None else attached | set(self._nodes_with(claim))

    def _storage_changed(self, changed: dict[Key, Direction], nodes: Iterable[str]) -> Change:
        """Record a change of the storage, after which these nodes may have other volumes."""
        written, rows = self._write_storage(nodes)
        for key, direction in written.items():
            changed[key] = changed.get(key, Direction.NONE) | direction
        return self._record(Change(tuple(rows), changed, tuple(rows.values())))

    def _write_storage(self, nodes: Iterable[str]) -> tuple[dict[Key, Direction], dict[int, str]]:
        """Write the cells of these nodes in ``STORAGE_COLUMNS``. Return the changed columns and rows."""
        changed: dict[Key, Direction] = {}
        rows: dict[int, str] = {}
        if not self._storage_columns:
            return changed, rows
        newest = self._newest_view()
        for node in nodes:
            row = self._hosts.row_of.get(node)
            if row is None:
                continue
            for key in self._storage_columns:
                amount = storage_cell(self._pods, self.storage, node, key)
                old = cast("CountColumn", self._columns[key]).values.item(row)
                if old != amount:
                    self._counts(key, newest).write(row, amount)
                    changed[key] = changed.get(key, Direction.NONE) | (UP if old < amount else DOWN)
                    rows[row] = node
        return changed, rows

    # Pods

    def upsert_pod(self, pod: Pod) -> Change:
        """Add or update a pod. One that has finished, or has no node yet, requests nothing."""
        meta, node = pod.metadata, pod.spec.nodeName
        placed = None if pod.finished or not node else (node, info_of(pod))
        return self._place((meta.namespace, meta.name), placed)

    def load_pods(self, pods: Iterable[Pod]) -> Steps[None]:
        """Add the pods of a fleet that has none; several times faster than upserts. No snapshot may be alive."""
        on_nodes: dict[str, dict[PodKey, PodInfo]] = {}
        for some in strides(pods):
            yield
            for pod in some:
                if pod.spec.nodeName and not pod.finished:
                    key = (pod.metadata.namespace, pod.metadata.name)
                    on_nodes.setdefault(pod.spec.nodeName, {})[key] = info_of(pod)
        for nodes in strides(on_nodes.items()):
            yield
            for node, infos in nodes:
                self._pods.load(node, infos)
                self._placed.update({key: (node, info) for key, info in infos.items()})
        derived = ADDED | PARTIAL | STORAGE_COLUMNS | {PODS_MATCHING}
        for column in [key for key in self._columns if key[0] in derived]:
            del self._columns[column]
        self._forget_derived()
        self._journal.forget()
        yield from self._count_attached()

    def _count_attached(self) -> Steps[None]:
        """Fill the columns of attached volumes for the drivers that have limits: the first cycle that needs one would
        look at all volumes at once."""
        limits = {
            driver.name
            for csi_node in self.storage.csi_nodes.values()
            for driver in csi_node.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }
        columns = {
            driver: CountColumn(capacity=self._hosts.capacity, stamp=self.generation) for driver in limits
        }
        for rows in strides(list(self._hosts.row_of.items()) if columns else ()):
            yield
            for node, row in rows:
                attached = volumes_attached(self._pods, self.storage, node)
                for driver, count in Counter(volume.driver for volume in attached).items():
                    if driver in columns:
                        columns[driver].write(row, count)
        for driver, column in columns.items():
            self._columns[attached_volumes(driver)] = column
            self._storage_columns[attached_volumes(driver)] = None

    def pods_on(self, node: str) -> Iterable[PodKey]:
        """Return the pods that count on a node, whether that exists or not."""
        return self._pods.on(node).pods.keys()

    def shows(self, pod: Pod) -> bool:
        """Return whether the fleet has exactly this version of a pod."""
        placed = self._placed.get((pod.metadata.namespace, pod.metadata.name))
        return placed is not None and placed[1].pod is pod

    def delete_pod(self, namespace: str, name: str) -> Change:
        return self._place((namespace, name), None)

    def _place(self, key: PodKey, placed: tuple[str, PodInfo] | None) -> Change:
        old = self._placed.get(key)
        if old == placed:
            if placed is not None:
                self._placed[key] = placed  # for ``shows``: an observed pod may equal the assumed one
            return NOTHING
        if key in self._evicting and (placed is None or placed[1].pod.terminating):
            self._evicting -= {key}
        index = self._pods = self._own(self._pods)
        terms = False
        before = after = _NOTHING
        if old is not None:
            terms = index.remove(old[0], key)
            before = old[1].template.amounts
            del self._placed[key]
        if placed is not None:
            terms = index.add(placed[0], key, placed[1]) or terms
            after = placed[1].template.amounts
            self._placed[key] = placed
        if old is not None and placed is not None:
            # The last pod with a term was removed and added again: the set of terms is the same.
            terms = terms and old[1].template.term_keys != placed[1].template.term_keys
        if old is not None and placed is not None and old[0] == placed[0]:
            return self._recount({old[0]: _difference(before, after)}, terms=terms)
        moved: dict[str, Mapping[Key, int]] = {}
        if old is not None:
            moved[old[0]] = {column: -amount for column, amount in before.items()}
        if placed is not None:
            moved[placed[0]] = after
        return self._recount(moved, terms=terms)

    def _recount(self, moved: Mapping[str, Mapping[Key, int]], *, terms: bool) -> Change:
        """Write the new totals of these nodes, whose amounts changed by these differences."""
        rows: dict[int, str] = {}
        changed: dict[Key, Direction] = {}
        newest = self._newest_view()
        written = self._write_partial(moved)
        for node, differences in moved.items():
            if not differences:
                continue
            row = self._hosts.row_of.get(node)
            if row is not None:
                rows[row] = node
            total = self._pods.on(node).total
            for key, difference in differences.items():
                direction = UP if difference > 0 else DOWN
                changed[key] = changed[key] | direction if key in changed else direction
                if row is not None and key in self._columns:
                    self._counts(key, newest).write(row, min(total.get(key, 0), LARGEST))
                if key[0] == POD_GROUP:
                    known = self._matching.get(key)
                    for matching in self._find_matching(key) if known is None else known:
                        changed[matching] = (
                            changed[matching] | direction if matching in changed else direction
                        )
                        if row is not None:
                            column = self._counts(matching, newest)
                            column.write(row, int(column.values[row]) + difference)
        if terms:
            changed[POD_TERMS] = ANY
        if self._storage_columns:
            holding = [
                node for node, differences in moved.items() if any(key[0] in HELD for key in differences)
            ]
            attached, more = self._write_storage(holding)
            changed.update(attached)
            rows.update(more)
        if not changed and not written:
            return NOTHING
        # Written parts alone, as of a recreated pod with another priority, are a new generation for snapshots.
        return self._record(Change(tuple(rows), changed, tuple(rows.values())))

    def _write_partial(self, nodes: Iterable[str], kind: str = "") -> bool:
        """Write the cells of these nodes in columns of ``PARTIAL``, before the change is recorded. Return whether one
        differs."""
        if not self._partial:
            return False
        written = False
        newest = self._newest_view()
        rows = [(node, row) for node in nodes if (row := self._hosts.row_of.get(node)) is not None]
        for key in self._partial:
            if kind and key[0] != kind:
                continue
            priority, part = int(key[1]), key[2:]
            for node, row in rows:
                if key[0] == OF_LOWER_PRIORITY:
                    amount = self._pods.on(node).below(priority, part)
                else:
                    amount = nominated_amount(self._nominated, self._pods, node, priority, part)
                amount = min(amount, LARGEST)
                if cast("CountColumn", self._columns[key]).values.item(row) != amount:
                    self._counts(key, newest).write(row, amount)
                    written = True
        return written

    def _counts(self, key: Key, newest: int) -> CountColumn:
        """Return a column that may be written, given the newest snapshot: finding that takes longer than a write."""
        column = cast("CountColumn", self._columns[key])
        if column.stamp <= newest:
            column = column.fork()
            column.stamp = self._journal.generation + 1
            self._columns[key] = column
        return column

    def _find_matching(self, group: Key) -> tuple[Key, ...]:
        """Return the columns that count the pods of a group, and cache them."""
        columns = tuple(
            key for key in self._columns if key[0] == PODS_MATCHING and group_matches(query_of(key), group)
        )
        if len(self._matching) >= KEPT_GROUPS:
            self._matching.clear()
        self._matching[group] = columns
        return columns

    def _keep(self, view: Snapshot[Node], key: Key) -> Column | None:
        if key[0] == PODS_MATCHING and key not in self._columns:
            self._matching.clear()
            kept = [column for column in self._columns if column[0] == PODS_MATCHING]
            # Half of them at once: to forget the journal makes all results stale, which must not happen with each new
            # query.
            if len(kept) >= MATCHING_LIMIT:
                for oldest in kept[: MATCHING_LIMIT // 2]:
                    del self._columns[oldest]
                # Changes of the dropped columns are not reported any more: results that depend on them are stale.
                self._journal.forget()
                return None
        if key[0] in PARTIAL and key not in self._columns and view.generation == self.generation:
            # Changes of these columns are not reported, so no result has to become stale with them.
            if len(self._partial) >= PARTIAL_LIMIT:
                oldest = next(iter(self._partial))
                del self._partial[oldest], self._columns[oldest]
            self._partial[key] = None
        if key[0] in STORAGE_COLUMNS and view.generation == self.generation:
            self._storage_columns[key] = None
        return super()._keep(view, key)


def _may_be_bound(volume: PersistentVolume) -> bool:
    """Return whether a claim may bind the volume: it has none yet, or one that is not bound to it."""
    return volume.spec.claimRef is None or volume.status.phase != BOUND


def _with_claim(volume: PersistentVolume, claim: ClaimReference) -> PersistentVolume:
    """Return a volume with its future claim. One that names a claim by its uid keeps it."""
    if volume.spec.claimRef is not None and volume.spec.claimRef.uid:
        return volume
    return structs.replace(volume, spec=structs.replace(volume.spec, claimRef=claim))


def _for_node(claim: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim:
    meta = claim.metadata
    annotations = {**meta.annotations, SELECTED_NODE: node}
    return structs.replace(claim, metadata=structs.replace(meta, annotations=annotations))


def _drivers(csi_node: CSINode | None) -> tuple[CSINodeDriver, ...]:
    return () if csi_node is None else csi_node.spec.drivers


def _difference(old: Mapping[Key, int], new: Mapping[Key, int]) -> dict[Key, int]:
    if old is new:
        return {}
    differences: dict[Key, int] = {}
    for key in old.keys() | new.keys():
        difference = new.get(key, 0) - old.get(key, 0)
        if difference:
            differences[key] = difference
    return differences
