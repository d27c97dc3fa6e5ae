"""A pod of higher priority takes room that is kept for a migration, if the settings allow it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controllers.machines.machine_rig import HIGH, MachineRig, machine_rig
from fairway.simulation.machines.neonvm import Step
from fairway.workloads.machines.state import EARMARK_PREEMPTED

pytestmark = [pytest.mark.embedded, pytest.mark.usefixtures("no_error_logs")]

ON_N2: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "n2"}}


@asynccontextmanager
async def scene(hub: Path, *, allowed: bool) -> AsyncIterator[MachineRig]:
    """A asks for the room of B on n1. B waits for its target pod, for which n2 keeps 3 of its 10 units."""
    settings = {"preemptEarmarks": allowed, "settleDelaySeconds": 0}
    async with machine_rig(hub, migration=settings) as rig:
        await rig.add_node("n1", 10)
        await rig.add_node("n2", 10)
        await rig.add_vm("a", 4, "n1")
        await rig.add_vm("b", 3, "n1", movable=True)
        await rig.add_pod("x", 3, node="n1")
        rig.neonvm.hold(Step.TARGET)
        async with rig.controlling():
            await rig.ask("a", 6)
            await rig.until(lambda: rig.is_held(Step.TARGET))
            assert rig.account("n2").kept_room()["cpu"] == 3000
            yield rig


async def test_pod_of_higher_priority_takes_the_room_and_the_migration_is_planned_again_when_it_leaves(
    machine_hub: Path,
) -> None:
    async with scene(machine_hub, allowed=True) as rig:
        await rig.add_pod("low", 9, **ON_N2)
        await rig.until(lambda: rig.condition("low") == "Unschedulable")
        await rig.add_pod("high", 9, priorityClassName=HIGH, **ON_N2)
        await rig.until(lambda: rig.scheduled("high") == "n2")
        await rig.until(lambda: not rig.migrations.store)
        assert (rig.scheduled("low"), rig.approved("a"), rig.node_of("b")) == ("", 4, "n1")
        await rig.reported("a", EARMARK_PREEMPTED)
        await rig.reported("b", "MigrationCancelled")
        rig.check()
        rig.neonvm.release()
        await rig.delete_pod("low")
        await rig.delete_pod("high")
        await rig.until(lambda: rig.approved("a") == 6)
        rig.check()


async def test_room_of_a_migration_is_kept_from_every_pod_by_default(machine_hub: Path) -> None:
    async with scene(machine_hub, allowed=False) as rig:
        await rig.add_pod("high", 9, priorityClassName=HIGH, **ON_N2)
        await rig.until(lambda: rig.condition("high") == "Unschedulable")
        rig.neonvm.release()
        await rig.until(lambda: rig.approved("a") == 6)
        assert rig.scheduled("high") == ""
