"""The machines controller is killed at every one of its writes, before or after the hub carried it out.

On a real hub, tests/kube/test_pod_scheduler.py kills the process in every step.
"""

from pathlib import Path

import pytest

from controllers.machines.machine_rig import MachineRig, machine_rig
from controllers.machines.test_story import scene
from fairway.simulation.machines.neonvm import Step

pytestmark = [pytest.mark.embedded, pytest.mark.usefixtures("no_error_logs")]

MOST_WRITES = 40


async def play(rig: MachineRig, *, kill_at: tuple[int, bool] | None) -> int:
    """Let A grow into the room of B; return the writes of the controller."""
    async with rig.controlling(kill_at=kill_at):
        assert rig.mortal is not None
        dead = rig.mortal.dead
        if not await rig.asked_or_dead("vm-a", 6):
            return rig.mortal.writes
        await rig.until(lambda: dead.is_set() or (rig.approved("vm-a") == 6 and not rig.has_migrations()))
        return rig.mortal.writes


async def converge(rig: MachineRig) -> None:
    """Run another controller, and check that the story ends as without a crash."""
    async with rig.controlling():
        await rig.ask("vm-a", 6)
        await rig.until(lambda: rig.approved("vm-a") == 6 and not rig.has_migrations())
        await rig.until(lambda: rig.node_of("vm-b") == "n2" and len(rig.runners()) == 2)
        await rig.until(lambda: rig.account("n1").used["cpu"] == 9000)
        await rig.until(lambda: rig.account("n2").used["cpu"] == 3000)
        assert not rig.account("n1").earmarks
        assert not rig.account("n2").earmarks
        rig.check()


async def check_every_write(hub: Path, *, parity: int) -> None:
    """Of the writes with this parity, the hub carries out the one at which the controller dies."""
    async with machine_rig(hub) as rig:
        await scene(rig)
        writes = await play(rig, kill_at=None)
        await converge(rig)
    assert 8 < writes < MOST_WRITES
    for write in range(1, writes + 1):
        async with machine_rig(hub) as rig:
            await scene(rig)
            await play(rig, kill_at=(write, write % 2 == parity))
            await converge(rig)


async def test_controller_that_is_killed_at_any_write_converges(machine_hub: Path) -> None:
    await check_every_write(machine_hub, parity=0)


@pytest.mark.soak
@pytest.mark.both_hubs
async def test_controller_that_is_killed_before_or_after_any_write_converges(machine_hub: Path) -> None:
    await check_every_write(machine_hub, parity=0)
    await check_every_write(machine_hub, parity=1)


@pytest.mark.parametrize("step", list(Step))
async def test_controller_that_is_killed_in_any_step_of_a_migration_converges(
    machine_hub: Path, step: Step
) -> None:
    async with machine_rig(machine_hub) as rig:
        await scene(rig)
        rig.neonvm.hold(step)
        async with rig.controlling():
            await rig.ask("vm-a", 6)
            await rig.until(lambda: rig.is_held(step))
        rig.neonvm.release()
        await converge(rig)
