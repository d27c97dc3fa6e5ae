"""A migration that became unnecessary is cancelled before its cutover, and never after it."""

from dataclasses import replace

import pytest

from fairway.workloads.machines.migration import Phase
from fairway.workloads.machines.policy import MachinePolicy
from workloads.machines.world import N1, N2, World, cu, fixture, key


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


def observe_use(world: World, amount: int) -> None:
    """Change the use of the pod without a machine."""
    x = key("x")
    world.pods[x] = replace(world.pods[x], using=cu(amount))
    world.send(world.observed(x))


def claimed(world: World) -> list[tuple[str, int, bool]]:
    """Beneficiary, amount and origin of each claim of the migration."""
    return [
        (claim.beneficiary.name, claim.amounts["cpu"], claim.from_source) for claim in world.migration.claims
    ]


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
    observe_use(world, 2)
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
    observe_use(world, 1)
    world.run()
    assert (world.permit("a"), world.migration.phase) == (6, Phase.COPYING)
    world.pass_time(4)
    assert world.migration.phase is Phase.COPYING
    world.pass_time(1)
    world.run()
    assert world.migrations == []


def test_u6_time_without_need_restarts_when_another_machine_claims_the_room() -> None:
    world = at(Phase.COPYING)
    observe_use(world, 1)
    world.run()
    world.pass_time(4)
    world.add("d", 0)
    world.ask("d", 1)
    world.run()
    assert [claim.beneficiary for claim in world.migration.claims] == [key("d")]
    observe_use(world, 0)
    world.run()
    world.pass_time(4)
    assert world.migration.phase is Phase.COPYING
    world.pass_time(1)
    world.run()
    assert world.migrations == []


def test_u6_time_without_need_restarts_when_the_node_exceeds_its_watermark_again() -> None:
    world = fixture()
    world.pass_time(10)
    world.run()
    assert world.migration.reason == "AboveWatermark"
    world.pass_time(10)
    assert world.migration.phase is Phase.COPYING, "without it the node would exceed its watermark"
    for use in (1, 3, 1):
        observe_use(world, use)
        world.run()
        world.pass_time(4)
    assert world.migration.phase is Phase.COPYING
    world.pass_time(1)
    world.run()
    assert world.migrations == []


def test_u7_free_room_is_given_back_before_room_of_the_source() -> None:
    world = World(MachinePolicy(watermark=1000))
    world.add("a", 4)
    world.add("b", 3, migratable=True)
    world.add("x", 2, vm=False)
    world.load()
    world.ask("a", 8, unit=4)
    world.run()
    assert claimed(world) == [("a", 3, True), ("a", 1, False)]
    world.ask("a", 7, unit=3)
    world.run()
    assert (claimed(world), world.free(N1)) == ([("a", 3, True)], 1)


def test_u7_claims_share_what_a_source_that_shrank_still_has() -> None:
    world = World(MachinePolicy(watermark=1000))
    world.add("a", 2)
    world.add("d", 2)
    world.add("b", 4, migratable=True)
    world.add("x", 2, vm=False)
    world.load()
    world.ask("a", 4, unit=2)
    world.ask("d", 4, unit=2)
    world.run()
    assert claimed(world) == [("a", 2, True), ("d", 2, True)]
    world.ask("b", 3)
    world.run()
    assert claimed(world) == [("a", 2, True), ("d", 1, True)]


def test_u6_no_migration_starts_soon_after_one_was_cancelled() -> None:
    world = at(Phase.COPYING)
    world.ask("a", 4)
    world.run()
    world.ask("a", 6)
    world.run()
    assert world.migrations == []
    world.pass_time(MachinePolicy().settle_delay / 1_000_000)
    assert world.migration.vm == "vm-b"
