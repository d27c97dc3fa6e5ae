"""A large cluster for ``benchmarks.scores.usage``, as a process: nodes and pods of realistic size.

    python -m benchmarks.scores.usage_cluster --nodes 5000 --pods 100000

Answers ``address``, and ``many N`` with the time at which it sent N changes at once. Changes are, in turn, a deleted
pod, a created one in its place, and a pod whose status changes.
"""

import argparse
import asyncio
import time
from collections.abc import Iterator
from typing import Any

import msgspec
from aiohttp import web

from benchmarks.controllers.process import answer, questions

CHUNK = 1 << 20
SIZES = (("250m", "512Mi"), ("100m", "128Mi"), ("1", "2Gi"), ("500m", "1536Mi"))
END = {"k8s.io/initial-events-end": "true"}


class Cluster:
    """The cluster. ``version`` is its current resource version."""

    def __init__(self, *, nodes: int, pods: int) -> None:
        self.nodes, self.pods = nodes, pods
        self.version = nodes + pods + 10
        self.changes = 0
        self.watches: set[asyncio.Queue[bytes]] = set()

    def node(self, number: int) -> dict[str, Any]:
        room = {"cpu": "64", "memory": "263856532Ki", "pods": "110", "ephemeral-storage": "95491281146"}
        if number % 20 == 0:
            room["nvidia.com/gpu"] = "8"
        name = f"ip-10-{number // 250}-{number % 250}.eu-central-1.compute.internal"
        return {
            "metadata": {
                "name": name,
                "uid": f"9a1c0d2e-0000-4000-8000-{number:012d}",
                "resourceVersion": str(number + 1),
                "labels": {f"topology.example.com/label-{key}": f"value-{number % 7}" for key in range(18)},
                "annotations": {f"example.com/annotation-{key}": "x" * 60 for key in range(6)},
            },
            "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {
                "capacity": room,
                "allocatable": room,
                "conditions": [
                    {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-03-01T12:00:00Z"}
                ],
                "images": [
                    {"names": [f"registry/{key}@sha256:{'a' * 64}"], "sizeBytes": 9} for key in range(40)
                ],
            },
        }

    def pod(
        self, number: int, *, life: int = 0, version: int | None = None, phase: str = "Running"
    ) -> dict[str, Any]:
        cpu, memory = SIZES[number % len(SIZES)]
        containers = [self._container("app", cpu, memory), self._container("proxy", "100m", "64Mi")]
        statuses = [
            {
                "name": container["name"],
                "ready": True,
                "restartCount": 0,
                "imageID": f"registry/app@sha256:{'b' * 64}",
                "state": {"running": {"startedAt": "2026-03-01T12:00:00Z"}},
                "allocatedResources": container["resources"]["requests"],
                "resources": container["resources"],
            }
            for container in containers
        ]
        return {
            "metadata": {
                "name": f"service-{number % 997}-7d9c5b8f6d-{number:06d}",
                "namespace": f"team-{number % 200}",
                "uid": f"{life:08x}-0000-4000-8000-{number:012d}",
                "resourceVersion": str(self.nodes + number + 1 if version is None else version),
                "labels": {f"app.kubernetes.io/label-{key}": f"service-{number % 997}" for key in range(8)},
                "annotations": {f"example.com/annotation-{key}": "x" * 120 for key in range(4)},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}],
            },
            "spec": {
                "nodeName": self.node_of(number),
                "containers": containers,
                "volumes": [{"name": "token", "projected": {"sources": [{"configMap": {"name": "ca"}}]}}],
                "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
            },
            "status": {
                "phase": phase,
                "conditions": [
                    {"type": condition, "status": "True", "lastTransitionTime": "2026-03-01T12:00:00Z"}
                    for condition in ("Ready", "Initialized", "ContainersReady", "PodScheduled")
                ],
                "containerStatuses": statuses,
            },
        }

    def node_of(self, number: int) -> str:
        at = number % self.nodes
        return f"ip-10-{at // 250}-{at % 250}.eu-central-1.compute.internal"

    @staticmethod
    def _container(name: str, cpu: str, memory: str) -> dict[str, Any]:
        resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}
        environment = [{"name": f"VARIABLE_{key}", "value": "some value"} for key in range(8)]
        return {"name": name, "image": "registry/app:1.2.3", "resources": resources, "env": environment}

    def change(self) -> bytes:
        """Return the next change as a line of a watch."""
        self.changes += 1
        self.version += 1
        number, step = divmod(self.changes - 1, 3)
        at = number * 7919 % self.pods
        if step == 0:
            return _line("DELETED", self.pod(at, version=self.version))
        if step == 1:
            return _line("ADDED", self.pod(at, life=self.changes, version=self.version))
        return _line("MODIFIED", self.pod(at, life=self.changes - 1, version=self.version, phase="Running"))

    def everything(self, path: str) -> Iterator[bytes]:
        """Yield the objects as lines, many at a time, and the final bookmark."""
        count, make = (self.nodes, self.node) if path.endswith("nodes") else (self.pods, self.pod)
        lines: list[bytes] = []
        size = 0
        for number in range(count):
            lines.append(_line("ADDED", make(number)))
            size += len(lines[-1])
            if size > CHUNK:
                yield b"".join(lines)
                lines, size = [], 0
        mark = {"kind": "Pod", "metadata": {"resourceVersion": str(self.version), "annotations": END}}
        yield b"".join([*lines, _line("BOOKMARK", mark)])

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": str(self.version)}, "items": []})
        response = web.StreamResponse()
        await response.prepare(request)
        news: asyncio.Queue[bytes] = asyncio.Queue()
        if request.path.endswith("pods"):
            self.watches.add(news)
        if "sendInitialEvents" in request.query:
            for lines in self.everything(request.path):
                await response.write(lines)
        while True:
            await response.write(await news.get())

    def tell(self, lines: bytes) -> None:
        for watch in self.watches:
            watch.put_nowait(lines)


def _line(type_: str, obj: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": type_, "object": obj}) + b"\n"


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=100_000)
    given = parser.parse_args()
    cluster = Cluster(nodes=given.nodes, pods=given.pods)
    app = web.Application()
    app.router.add_get("/api/v1/nodes", cluster.serve)
    app.router.add_get("/api/v1/pods", cluster.serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async for asked in questions():
        word, _, count = asked.partition(" ")
        if word == "address":
            answer({"address": f"http://{host}:{port}", "pod_bytes": len(_line("ADDED", cluster.pod(0)))})
            continue
        lines = b"".join(cluster.change() for _ in range(int(count)))
        at = time.monotonic()
        cluster.tell(lines)
        answer({"sent": at, "bytes": len(lines)})
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
