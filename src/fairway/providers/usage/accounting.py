"""Free resources of a cluster, updated incrementally.

A changed pod updates the sums of one node, and that node is evaluated again on the next query. Whatever the order of
events, and even if some arrive twice, the result equals a full count of the latest states.

Pods may be bound to nodes that are not known yet, or deleted: their requests count once the node exists.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, Literal

from fairway.api.pod_requests import PODS, Amounts
from fairway.providers.usage.objects import NodeRoom, PodUse, Vector
from fairway.providers.usage.policy import WAITING, CountingPolicy
from kubewire.api.resource import Key, key_of

Basis = Literal["both", "requests", "usage"]
"""What counts as taken: the larger of requests and use, or one of them."""

_SPARE: Final = 64
"""Stale heap entries allowed in addition to twice the number of nodes, before a heap is rebuilt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A pod shape to count slots for. ``vector`` includes one pod, and no zeros."""

    name: str
    vector: Vector

    def fit(self, free: Mapping[str, int]) -> int:
        """Number of pods that fit on a node with these free resources."""
        return max(min(free.get(name, 0) // amount for name, amount in self.vector), 0)

    def accepts(self, repelled: frozenset[str]) -> bool:
        return not repelled or repelled <= {name for name, _ in self.vector}


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Totals of the nodes that accept pods. Amounts are millicores, bytes, or counts."""

    free: Mapping[str, int]
    """Free on all nodes."""
    largest: Mapping[str, int]
    """Free on the node with the most."""
    slots: Mapping[str, int]
    """Pods that fit, by shape."""
    known: frozenset[str]
    """Resources of any node, also of nodes that accept no pods."""
    pending: Mapping[str, int]
    """Requests of pods without a node."""
    waiting: int
    """Number of pods without a node."""
    whole: Mapping[str, int] = field(default_factory=dict)
    """Allocatable of the nodes that accept pods."""


class _Account:
    """Sums of a node, which may be unknown yet."""

    __slots__ = ("credited", "name", "repelled", "room", "slots", "taken", "used", "whole")

    def __init__(self, name: str) -> None:
        self.name = name
        self.room: NodeRoom | None = None
        self.repelled: frozenset[str] | None = None
        self.taken: dict[str, int] = {}
        self.used: Amounts | None = None
        self.credited: dict[str, int] = {}
        """Its share of the totals."""
        self.slots: tuple[int, ...] = ()
        self.whole: dict[str, int] = {}
        """Its share of the allocatable totals."""

    @property
    def idle(self) -> bool:
        return self.room is None and not self.taken and self.used is None


@dataclass(slots=True, kw_only=True)
class Accounting:
    """``floor``: whether an overcommitted node counts as full; otherwise it reduces the total."""

    policy: CountingPolicy = field(default_factory=CountingPolicy)
    shapes: tuple[Shape, ...] = ()
    basis: Basis = "both"
    floor: bool = True
    _pods: dict[Key, PodUse] = field(default_factory=dict)
    _accounts: dict[str, _Account] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)
    _free: Counter[str] = field(default_factory=Counter)
    _whole: Counter[str] = field(default_factory=Counter)
    _kinds: Counter[str] = field(default_factory=Counter)
    _slots: list[int] = field(default_factory=list)
    _ranks: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Heaps of (-amount, node) with stale entries; ``totals`` removes stale tops."""
    _bad: dict[Key, str] = field(default_factory=dict)
    """Problems by key; nodes have an empty namespace."""

    def __post_init__(self) -> None:
        self._slots = [0] * len(self.shapes)

    @property
    def problems(self) -> Collection[str]:
        return self._bad.values()

    def update_pod(self, pod: PodUse) -> bool:
        """Return whether counted amounts changed, as do the other methods."""
        key = key_of(pod)
        old = self._pods.get(key)
        self._pods[key] = pod
        # Both empty for nearly all pods, and this runs for every event of a pod.
        if pod.problem or self._bad:
            self._set_problem(key, pod.problem)
        return self._move_pod(old, pod)

    def remove_pod(self, pod: PodUse) -> bool:
        """Ignores a pod whose name is used by a newer one."""
        key = key_of(pod)
        old = self._pods.get(key)
        if old is None or old.metadata.uid != pod.metadata.uid:
            return False
        del self._pods[key]
        self._bad.pop(key, None)
        return self._move_pod(old, None)

    def update_node(self, room: NodeRoom) -> bool:
        name = room.metadata.name
        account = self._account(name)
        old = account.room
        account.room, account.repelled = room, self.policy.repelled(room)
        self._set_problem(("", name), room.problem)
        # Kubelets also update the status of a node as a heartbeat: that changes nothing here.
        if old is not None and _is_unchanged(old, room):
            return False
        self._count_kinds(old, room)
        self._changed.add(name)
        return True

    def remove_node(self, room: NodeRoom) -> bool:
        """Ignores a node whose name is used by a newer one."""
        name = room.metadata.name
        account = self._accounts.get(name)
        if account is None or account.room is None or account.room.metadata.uid != room.metadata.uid:
            return False
        self._count_kinds(account.room, None)
        account.room = account.repelled = None
        self._bad.pop(("", name), None)
        self._changed.add(name)
        return True

    def update_usage(self, by_node: Mapping[str, Amounts]) -> bool:
        """Set the actual use of nodes. Other nodes are counted by requests."""
        changed = False
        for name, amounts in by_node.items():
            account = self._account(name)
            if account.used != amounts:
                account.used = amounts
                self._changed.add(name)
                changed = True
        for name, account in self._accounts.items():
            if account.used is not None and name not in by_node:
                account.used = None
                self._changed.add(name)
                changed = True
        return changed

    def totals(self) -> Totals:
        """Evaluate the nodes that changed since the last call."""
        for name in self._changed:
            self._evaluate(self._accounts[name])
        self._changed.clear()
        largest = self._largest()
        for resource in self._free.keys() - largest.keys():
            del self._free[resource]
        waiting = self._accounts.get(WAITING)
        pending = dict(waiting.taken) if waiting is not None else {}
        return Totals(
            free=dict(self._free),
            largest=largest,
            slots={shape.name: count for shape, count in zip(self.shapes, self._slots, strict=True)},
            known=frozenset(name for name, count in self._kinds.items() if count),
            waiting=pending.pop(PODS, 0),
            pending=pending,
            whole={name: amount for name, amount in self._whole.items() if amount},
        )

    def _account(self, name: str) -> _Account:
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = _Account(name)
        return account

    def _move_pod(self, old: PodUse | None, new: PodUse | None) -> bool:
        source = self.policy.place(old) if old is not None else None
        target = self.policy.place(new) if new is not None else None
        # Most changes of a pod concern its status. They must not wake the provider, which would read and publish.
        if old is not None and new is not None and source == target and old.vector == new.vector:
            return False
        if old is not None and source is not None:
            self._add_requests(source, old.vector, -1)
        if new is not None and target is not None:
            self._add_requests(target, new.vector, 1)
        return source is not None or target is not None

    def _add_requests(self, place: str, vector: Vector, sign: int) -> None:
        taken = self._account(place).taken
        for name, amount in vector:
            now = taken.get(name, 0) + sign * amount
            if now:
                taken[name] = now
            else:
                taken.pop(name, None)
        self._changed.add(place)

    def _count_kinds(self, old: NodeRoom | None, new: NodeRoom | None) -> None:
        if old is not None:
            self._kinds.subtract(old.kinds)
        if new is not None:
            self._kinds.update(new.kinds)

    def _evaluate(self, account: _Account) -> None:
        free, slots = self._free_and_slots(account)
        before = account.credited
        for resource in before.keys() | free.keys():
            amount = free.get(resource)
            # The difference only: adding all up again would be a pass over all nodes for every event of a pod.
            self._free[resource] += (amount or 0) - before.get(resource, 0)
            if amount is not None and amount != before.get(resource):
                heappush(self._ranks.setdefault(resource, []), (-amount, account.name))
        for index, count in enumerate(slots):
            self._slots[index] += count - (account.slots[index] if account.slots else 0)
        whole = {} if account.room is None else {name: account.room.allocatable[name] for name in free}
        for resource in account.whole.keys() | whole.keys():
            self._whole[resource] += whole.get(resource, 0) - account.whole.get(resource, 0)
        account.credited, account.slots, account.whole = free, slots, whole
        if account.idle:
            del self._accounts[account.name]

    def _free_and_slots(self, account: _Account) -> tuple[dict[str, int], tuple[int, ...]]:
        room, repelled = account.room, account.repelled
        if room is None or repelled is None:
            return {}, (0,) * len(self.shapes)
        free = self._free_resources(account, room)
        slots = tuple(shape.fit(free) if shape.accepts(repelled) else 0 for shape in self.shapes)
        if repelled:
            free = {name: amount for name, amount in free.items() if repelled <= {name}}
        return free, slots

    def _free_resources(self, account: _Account, room: NodeRoom) -> dict[str, int]:
        taken, used = account.taken, account.used
        if used is None or self.basis == "requests":
            source = {name: amount - taken.get(name, 0) for name, amount in room.allocatable.items()}
        elif self.basis == "usage":
            source = {
                name: amount - (used[name] if name in used else taken.get(name, 0))
                for name, amount in room.allocatable.items()
            }
        else:
            source = {
                name: amount - max(taken.get(name, 0), used.get(name, 0))
                for name, amount in room.allocatable.items()
            }
        return {name: max(amount, 0) for name, amount in source.items()} if self.floor else source

    def _largest(self) -> dict[str, int]:
        largest = {}
        for resource, heap in list(self._ranks.items()):
            # Stale entries are removed when they reach the top. Those below it would grow without end, so a heap of
            # mostly stale entries is built again, at a cost that the pushes before have paid.
            if len(heap) > 2 * len(self._accounts) + _SPARE:
                heap[:] = {
                    (-account.credited[resource], account.name)
                    for account in self._accounts.values()
                    if resource in account.credited
                }
                heapify(heap)
            while heap and self._credited(heap[0][1], resource) != -heap[0][0]:
                heappop(heap)
            if heap:
                largest[resource] = -heap[0][0]
            else:
                del self._ranks[resource]
        return largest

    def _credited(self, name: str, resource: str) -> int | None:
        account = self._accounts.get(name)
        return None if account is None else account.credited.get(resource)

    def _set_problem(self, key: Key, problem: str) -> None:
        if problem:
            self._bad[key] = problem
        else:
            self._bad.pop(key, None)


def _is_unchanged(old: NodeRoom, new: NodeRoom) -> bool:
    return (
        old.allocatable == new.allocatable
        and old.kinds == new.kinds
        and old.ready == new.ready
        and old.cordoned == new.cordoned
        and old.repelling == new.repelling
        and old.control_plane == new.control_plane
    )
