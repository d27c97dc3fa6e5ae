"""State of a cluster's nodes and pods, updated incrementally: readiness as shares, restarts as a rate. No I/O."""

from collections.abc import Callable
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Final

from fairway.providers.health.objects import NodeHealth, PodHealth
from fairway.providers.health.window import Count
from kubewire.api.resource import Key, key_of
from kubewire.client import Added, Batch, Deleted, Updated

HOUR: Final = 3600.0


class ClusterState:
    """``now`` is monotonic time; ``wall`` returns the wall time of the same moment."""

    def __init__(self, *, namespaces: tuple[str, ...], window: float) -> None:
        self._patterns, self._window = namespaces, window
        self._matches: dict[str, bool] = {}
        self._nodes: dict[Key, float] = {}
        self._add_ons: dict[Key, bool] = {}
        self._ready = 0
        self._containers = 0
        self._restarted = Count(seconds=window)

    def update_nodes(self, batch: Batch[NodeHealth]) -> bool:
        """Return whether a score may change."""
        changed = False
        for change in batch.changes:
            node = change.object
            readiness = None if isinstance(change, Deleted) else node.readiness
            changed |= self._nodes.get(key_of(node)) != readiness
            if readiness is None:
                self._nodes.pop(key_of(node), None)
            else:
                self._nodes[key_of(node)] = readiness
        return changed

    def update_pods(self, batch: Batch[PodHealth], *, now: float, wall: Callable[[], datetime]) -> bool:
        """Return whether readiness changed. Restarts alone do not cause an early reading."""
        changed = False
        for change in batch.changes:
            match change:
                case Added(pod):
                    self._containers += _running(pod)
                    self._count_earlier_restarts(pod, now=now, wall=wall)
                    changed |= self._update_add_on(pod)
                case Updated(old, pod):
                    self._containers += _running(pod) - _running(old)
                    self._restarted.add(pod.restarts - old.restarts, at=now, now=now)
                    if pod.evicted and not old.evicted:
                        self._restarted.add(max(1, pod.containers, old.containers), at=now, now=now)
                    changed |= self._update_add_on(pod)
                case Deleted(pod):
                    self._containers -= _running(pod)
                    changed |= self._update_add_on(pod, deleted=True)
        return changed

    def _count_earlier_restarts(self, pod: PodHealth, *, now: float, wall: Callable[[], datetime]) -> None:
        """Count restarts before the first list: the last one of each container is known."""
        for moment in pod.ended:
            age = max(0.0, (wall() - moment).total_seconds())
            self._restarted.add(1, at=now - age, now=now)

    def _update_add_on(self, pod: PodHealth, *, deleted: bool = False) -> bool:
        key = key_of(pod)
        if not self._is_add_on(pod.metadata.namespace):
            return False
        # A terminating or finished pod is not counted.
        now = pod.ready if not deleted and not (pod.over or pod.terminating) else None
        before = self._add_ons.get(key)
        if now == before:
            return False
        self._ready += bool(now) - bool(before)
        if now is None:
            del self._add_ons[key]
        else:
            self._add_ons[key] = now
        return True

    def _is_add_on(self, namespace: str) -> bool:
        known = self._matches.get(namespace)
        if known is None:
            known = any(fnmatchcase(namespace, pattern) for pattern in self._patterns)
            self._matches[namespace] = known
        return known

    def nodes_ready(self) -> float | None:
        """Percentage; None without nodes."""
        return 100.0 * sum(self._nodes.values()) / len(self._nodes) if self._nodes else None

    def add_ons_ready(self) -> float | None:
        """Percentage; None without such pods."""
        return 100.0 * self._ready / len(self._add_ons) if self._add_ons else None

    def restarts(self, *, now: float) -> float | None:
        """Restarts per 100 containers and hour; None without containers."""
        if not self._containers:
            return None
        return 100.0 * self._restarted.total(now=now) / self._containers * HOUR / self._window


def _running(pod: PodHealth) -> int:
    return 0 if pod.over else pod.containers
