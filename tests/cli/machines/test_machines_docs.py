"""docs/how-to/machines.md: the story happens as the page tells it."""

from pathlib import Path
from typing import Any

import pytest

from cli.machines.walkthrough import console_blocks, normalized, walkthrough
from fairway.api.resources import MACHINE_MIGRATIONS, PODS, VIRTUAL_MACHINES
from fairway.simulation.machines.neonvm import Step
from kubewire.client.events import CORE_EVENTS

PAGE = "docs/how-to/machines.md"


def is_copying(migrations: dict[str, Any]) -> bool:
    return any(migration.spec.phase == "Copying" for migration in migrations.values())


def has_grown(machines: dict[str, Any]) -> bool:
    return bool(machines["vm-a"].status.memorySize == "24Gi")


async def test_machines_page_matches_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    up, create, before, grow, during, moving, after, moved, batch, explained = console_blocks(PAGE)
    assert up[0] == "fairway up --nodes 2 --vms 0"
    async with walkthrough(tmp_path, nodes=2) as hub:
        hub.neonvm.hold(Step.COMPLETE)

        async def shows(block: tuple[str, str]) -> None:
            command, output = block
            assert normalized(await hub.type(command)) == normalized(output), command

        await shows(create)
        await hub.until(
            VIRTUAL_MACHINES,
            lambda machines: all(
                machines[name].status.phase == "Running" for name in ("vm-a", "vm-b", "vm-x")
            ),
        )
        await shows(before)
        await shows(grow)
        await hub.until(VIRTUAL_MACHINES, lambda machines: machines["vm-a"].status.memorySize == "20Gi")
        await hub.until(MACHINE_MIGRATIONS, is_copying)
        await shows(during)
        await shows(moving)
        hub.neonvm.release()
        await hub.until(VIRTUAL_MACHINES, has_grown)
        await hub.until(MACHINE_MIGRATIONS, lambda migrations: not migrations)
        await hub.until(
            CORE_EVENTS,
            lambda events: any(event.reason == "MigrationCompleted" for event in events.values()),
        )
        await shows(after)
        await shows(moved)
        await shows(batch)
        await hub.until(PODS, lambda pods: pods["batch"].status.conditions)
        await shows(explained)
