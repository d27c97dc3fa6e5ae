"""Create synthetic nodes and virtual machines on a hub. Existing objects are kept."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from fairway.api.resources import NODES, VIRTUAL_MACHINES
from fairway.api.virtual_machine import AUTO_MIGRATION_LABEL, AUTOSCALING_LABEL
from fairway.simulation.creation import NAMESPACES, ensure
from fairway.simulation.machines.agents import guest_size, scaled
from fairway.simulation.machines.kubelet import SYNTHETIC
from fairway.simulation.machines.neonvm import HOSTNAME, SCHEDULER
from kubewire.api.meta import TRUE, format_time
from kubewire.client import SYSTEM_CLOCK, Client, Clock, Patch

NAMESPACE: Final = "machines"
"""Namespace of synthetic machines."""
NODE_UNITS: Final = 40
"""Compute units of a node: 10 CPUs and 40 GiB."""
FILLED: Final = 0.65
"""Share of all nodes that the machines use when they start."""
ZONES: Final = 3
_MOST_UNITS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    """``machines``: 4 for each node by default. ``period`` is the mean time between changes of a machine's load."""

    nodes: int = 0
    machines: int | None = None
    seed: int = 0
    period: float = 60.0

    @property
    def count(self) -> int:
        return 4 * self.nodes if self.machines is None else self.machines


async def create_machines(
    client: Client,
    options: MachineOptions,
    *,
    clock: Clock = SYSTEM_CLOCK,
    advance: Callable[[float], None] = lambda _: None,
) -> None:
    """Create missing nodes and machines, and call ``advance(1)`` after each. Raises KubeError."""
    now = format_time(clock.wall())
    for body, status in nodes(options.nodes, now=now):
        await ensure(client, NODES, body)
        name = body["metadata"]["name"]
        await client.patch(NODES, name, {"status": status}, kind=Patch.MERGE, subresource="status")
        advance(1)
    if options.count:
        await ensure(client, NAMESPACES, {"metadata": {"name": NAMESPACE}})
    for body in machines(options):
        await ensure(client, VIRTUAL_MACHINES, body, namespace=NAMESPACE)
        advance(1)


def nodes(count: int, *, now: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each node, and the status that its kubelet reports."""
    amounts = {"cpu": f"{NODE_UNITS // 4}", "memory": f"{NODE_UNITS}Gi", "pods": "110"}
    for number in range(1, count + 1):
        name = f"node-{number}"
        labels = {
            SYNTHETIC: "true",
            HOSTNAME: name,
            "topology.kubernetes.io/zone": f"zone-{1 + (number - 1) % ZONES}",
        }
        ready = {
            "type": "Ready",
            "status": TRUE,
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        yield {"metadata": {"name": name, "labels": labels}}, status


def machines(options: MachineOptions) -> Iterator[dict[str, Any]]:
    """Yield the VirtualMachines of a seed. They may move, and their agents ask for permits."""
    dice = random.Random(f"fairway machines {options.seed}")
    mean = max(1, round(options.nodes * NODE_UNITS * FILLED / max(1, options.count)))
    for number in range(1, options.count + 1):
        units = min(_MOST_UNITS, dice.randint(max(1, mean // 2), max(1, mean * 3 // 2)))
        yield machine(f"vm-{number}", units=units, most=min(_MOST_UNITS, 4 * units), synthetic=True)


def machine(name: str, *, units: int, most: int, synthetic: bool = False) -> dict[str, Any]:
    size, largest = guest_size(scaled(units)), guest_size(scaled(most))
    labels = {AUTOSCALING_LABEL: "true", AUTO_MIGRATION_LABEL: "true"}
    return {
        "metadata": {"name": name, "labels": {**labels, **({SYNTHETIC: "true"} if synthetic else {})}},
        "spec": {
            "schedulerName": SCHEDULER,
            "guest": {
                "cpus": {"min": "250m", "max": largest["cpus"]["use"], **size["cpus"]},
                "memorySlots": {"min": 1, "max": most, **size["memorySlots"]},
                "memorySlotSize": "1Gi",
                "rootDisk": {"image": "disk"},
            },
        },
    }
