"""A migration that became unnecessary is cancelled before its cutover, and never after it."""

from dataclasses import replace

import pytest

from fairway.machines.migration import Phase
from fairway.machines.policy import MachinePolicy
from machines.world import N1, N2, World, cu, fixture, key


def at(phase: Phase) -> World:
    """Return the story with the migration in this phase."""
    world = fixture()
    world.binds_targets = phase is not Phase.TARGET_PENDING
    world.ask("a", 6)
    for _ in range(30):
        if world.migrations and world.migration.phase is phase:
            return world
        if not world.queue:
            world.complete(world.migration.id)
        world.step()
    raise AssertionError(phase)


@pytest.mark.parametrize("phase", [Phase.PLANNED, Phase.TARGET_PENDING, Phase.TARGET_BOUND, Phase.COPYING])
def test_u1_u2_deleted_workload_cancels_the_migration_and_its_room_is_granted(phase: Phase) -> None:
    world = at(phase)
    world.delete("x")
    assert world.migration.phase is Phase.CANCELLING
    assert world.holding("a") == 6, "granted by the same event"
    world.run()
    assert (world.migrations, world.records, world.migrator.copies) == ([], {}, {})
    assert (world.used(N2), world.permit("a")) == (0, 6)
    assert world.running["vm-b"] == key("b")
    world.ask("b", 4)
    world.run()
    assert world.permit("b") == 4, "the machine is scalable again"


def test_u3_after_cutover_the_migration_goes_on_and_the_beneficiary_grows_from_free_room() -> None:
    world = at(Phase.CUTOVER)
    world.delete("x")
    assert world.holding("a") == 6
    assert not world.account(N1).earmarks
    world.run()
    assert (world.migrations, world.holding("b"), world.free(N1)) == ([], 0, 4)
    assert world.running["vm-b"] != key("b")


def test_u4_part_of_the_room_shrinks_the_earmark_and_keeps_the_migration() -> None:
    world = at(Phase.COPYING)
    x = key("x")
    world.pods[x] = replace(world.pods[x], using=cu(2))
    world.send(world.observed(x))
    assert (world.holding("a"), world.migration.phase) == (5, Phase.COPYING)
    (earmark,) = world.account(N1).earmarks.values()
    assert earmark.amounts == cu(1)
    world.run()
    assert world.record(world.migration.id).claims[0].amounts == cu(1)


def test_u5_lowered_request_cancels_before_cutover() -> None:
    world = at(Phase.COPYING)
    world.ask("a", 4)
    world.run()
    assert (world.migrations, world.permit("a"), world.used(N2)) == ([], 4, 0)


def test_u5_deleted_beneficiary_cancels_before_cutover() -> None:
    world = at(Phase.COPYING)
    world.delete("a")
    world.run()
    assert (world.migrations, world.account(N1).earmarks) == ([], {})


def test_u5_after_cutover_the_room_is_granted_to_waiting_machines_in_order() -> None:
    world = at(Phase.CUTOVER)
    world.add("low", 0, priority=1)
    world.add("high", 0, priority=2)
    world.ask("low", 2)
    world.ask("high", 2)
    world.ask("a", 4)
    world.run()
    assert (world.permit("high"), world.permit("low"), world.free(N1)) == (2, 1, 0)


def test_u6_room_without_a_deletion_must_last_before_it_cancels() -> None:
    world = at(Phase.COPYING)
    x = key("x")
    world.pods[x] = replace(world.pods[x], using=cu(1))
    world.send(world.observed(x))
    world.run()
    assert (world.permit("a"), world.migration.phase) == (6, Phase.COPYING)
    world.pass_time(4)
    assert world.migration.phase is Phase.COPYING
    world.pass_time(1)
    world.run()
    assert world.migrations == []


def test_u6_no_migration_starts_soon_after_one_was_cancelled() -> None:
    world = at(Phase.COPYING)
    world.ask("a", 4)
    world.run()
    world.ask("a", 6)
    world.run()
    assert world.migrations == []
    world.pass_time(MachinePolicy().settle_delay / 1_000_000)
    assert world.migration.vm == "vm-b"
