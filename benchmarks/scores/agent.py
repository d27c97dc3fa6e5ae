"""`fairway agent run` as a process, and the nodes and pods of its cluster."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fairway.api.score import AddOnPlacementScore
from kubewire.client import Client
from rigs.processes import Process

SCORE = "resource-usage-score"
PODS_NAMESPACE = "bench-pods"
LOOK_SECONDS = 0.5


class AgentEnded(Exception):
    """The agent ended; the message has its status and last output."""


@asynccontextmanager
async def agent(*, hub: Path, cluster: Path, name: str, folder: Path) -> AsyncIterator[Process]:
    """Run an agent without the Lease on its cluster. ``name`` is that of the ManagedCluster."""
    command = (
        *(sys.executable, "-m", "fairway", "agent", "run", "--no-lease"),
        *("--hub-kubeconfig", str(hub), "--cluster-name", name, "--kubeconfig", str(cluster)),
    )
    process = Process(command, log=folder / "agent.log")
    try:
        # Do not wait for writes of an agent that ended.
        async with asyncio.TaskGroup() as group:
            guarding = group.create_task(_guard(process))
            yield process
            guarding.cancel()
    except Exception as error:
        error.add_note(f"last output of the agent:\n{process.tail(10)}")
        raise
    finally:
        await process.stop()


async def _guard(process: Process) -> None:
    while process.alive:
        await asyncio.sleep(LOOK_SECONDS)
    raise AgentEnded(f"the agent ended with status {process.status}")


def value_of(score: AddOnPlacementScore, name: str) -> int | None:
    return next((entry.value for entry in score.status.scores if entry.name == name), None)


def raw_of(score: AddOnPlacementScore, name: str) -> float | None:
    """Return the raw value, which is in the message of the condition."""
    for condition in score.status.conditions:
        for part in condition.message.split(", "):
            words = part.split()
            if len(words) > 1 and words[0] == name:
                return float(words[1])
    return None


def kubeconfig_without_secrets(path: Path, server: str) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": {"server": server}}],
        "users": [{"name": "anybody", "user": {}}],
        "contexts": [{"name": "cluster", "context": {"cluster": "cluster", "user": "anybody"}}],
        "current-context": "cluster",
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


async def add_node(client: Client, name: str, room: Mapping[str, str]) -> None:
    """Create a node that is ready."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    status = {"allocatable": room, "capacity": room, "conditions": [ready]}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    await client.request("POST", "/api/v1/nodes", body={**body, "status": status})
    # An API server taints a new node until a controller finds it ready.
    await client.request(
        "PATCH",
        f"/api/v1/nodes/{name}",
        body={"spec": {"taints": None}},
        content_type="application/merge-patch+json",
    )
    await client.request(
        "PATCH",
        f"/api/v1/nodes/{name}/status",
        body={"status": status},
        content_type="application/merge-patch+json",
    )


def pod(name: str, *, node: str, requests: Mapping[str, str]) -> dict[str, Any]:
    container = {"name": "app", "image": "registry/app:1.2.3", "resources": {"requests": dict(requests)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": PODS_NAMESPACE},
        "spec": {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0},
    }
