"""Simulate the kubelets of all nodes with a label: bound pods run, and terminating pods are removed."""

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from fairway.api.node import Node
from fairway.api.pod import PENDING, Pod
from fairway.api.resources import NODES, PODS
from fairway.simulation.machines.reconcile import ReconcileLoop, objects_of
from kubewire.api.meta import TRUE, format_time
from kubewire.api.resource import Key, key_of
from kubewire.client import SYSTEM_CLOCK, Batch, Client, Clock, Informer, NotFound, Patch

SYNTHETIC: Final = "fairway.dev/synthetic"
"""Label of nodes with a simulated kubelet."""
SELECTED: Final = f"{SYNTHETIC}=true"
RUNNING: Final = "Running"
CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


class Kubelets:
    """The kubelets of nodes with the label ``SYNTHETIC``. Pods take ``start`` and ``stop`` seconds."""

    def __init__(
        self, client: Client, *, start: float = 0.0, stop: float = 0.0, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._client, self._clock = client, clock
        self._start, self._stop = start, stop
        self._nodes = Informer(client, NODES, labels=SELECTED)
        self._pods = Informer(client, PODS)
        self._due: dict[str, float] = {}
        """When a step of a pod is due, by uid and step."""
        self._loop: ReconcileLoop[Key] = ReconcileLoop("synthetic kubelets", self._reconcile)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._loop.running(self._nodes, self._pods):
            unsubscribe = [
                self._nodes.subscribe(self._nodes_changed),
                self._pods.subscribe(self._pods_changed),
            ]
            try:
                yield
            finally:
                for stop in unsubscribe:
                    stop()

    def _nodes_changed(self, batch: Batch[Node]) -> None:
        names = {object_.metadata.name for object_ in objects_of(batch)}
        for key, pod in self._pods.store.items():
            if pod.spec.nodeName in names and _needs_kubelet(pod):
                self._loop.add(key)

    def _pods_changed(self, batch: Batch[Pod]) -> None:
        for pod in objects_of(batch):
            if pod.spec.nodeName and _needs_kubelet(pod):
                self._loop.add(key_of(pod))

    async def _reconcile(self, key: Key) -> float | None:
        namespace, name = key
        pod = self._pods.get(name, namespace=namespace)
        if pod is None or not _needs_kubelet(pod) or self._nodes.get(pod.spec.nodeName) is None:
            return None
        uid = pod.metadata.uid
        step = f"{uid}/{'stop' if pod.terminating else 'start'}"
        now = self._clock.monotonic()
        wait = self._due.setdefault(step, now + (self._stop if pod.terminating else self._start)) - now
        if wait > 0:
            return wait
        with suppress(NotFound):
            if pod.terminating:
                await self._client.delete(PODS, name, namespace=namespace, uid=uid, grace_period=0)
            else:
                patched = await self._client.patch(
                    PODS,
                    name,
                    {"status": self._status(pod)},
                    kind=Patch.STRATEGIC,
                    namespace=namespace,
                    subresource="status",
                )
                self._pods.observe(patched)
        self._due.pop(step, None)
        return None

    def _status(self, pod: Pod) -> dict[str, Any]:
        now = format_time(self._clock.wall())
        return {
            "phase": RUNNING,
            "startTime": now,
            "hostIP": address(pod.spec.nodeName),
            "podIP": address(pod.metadata.uid),
            "podIPs": [{"ip": address(pod.metadata.uid)}],
            "conditions": [
                {"type": condition, "status": TRUE, "lastTransitionTime": now} for condition in CONDITIONS
            ],
            "containerStatuses": [
                {
                    "name": container.name,
                    "image": container.image,
                    "imageID": "",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": now}},
                }
                for container in pod.spec.containers
            ],
        }


def address(name: str) -> str:
    """Return an address in 10.0.0.0/8: the same for the same name."""
    number = zlib.crc32(name.encode())
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{1 + number % 254}"


def _needs_kubelet(pod: Pod) -> bool:
    """Whether a bound pod waits to run or to be removed."""
    return pod.terminating or pod.status.phase in ("", PENDING)
