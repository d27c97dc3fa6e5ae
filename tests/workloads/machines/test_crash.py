"""A crash at each step: the restart reads only objects, continues the migration, and gives no room away."""

import pytest

from fairway.workloads.machines import instructions
from fairway.workloads.machines.migration import Phase
from workloads.machines.invariants import check_what_if
from workloads.machines.world import N1, N2, World, cu, fixture, key


def start() -> World:
    world = fixture()
    world.ask("a", 6)
    return world


def finish(world: World) -> None:
    """Let everything happen that is still to happen."""
    for _ in range(20):
        world.run()
        for migration in world.migrations:
            if migration.phase is Phase.COPYING:
                world.complete(migration.id)
        if not world.queue:
            break


def check_story_ended(world: World) -> None:
    assert (world.migrations, world.records) == ([], {})
    assert (world.holding("a"), world.holding("b"), world.used(N1), world.used(N2)) == (6, 0, 9, 3)
    assert world.vms["vm-a"].approved == cu(6)
    assert world.state.table.owner_of(("VirtualMachine", "ns", "vm-b")) == world.running["vm-b"]
    check_what_if(world.state)


def test_c_1_after_deciding_the_same_plan_is_made_again() -> None:
    world = start()
    world.run(until=instructions.WriteRecord)
    planned = world.migration
    world.crash()
    assert world.migration == planned
    finish(world)
    check_story_ended(world)


def test_c_2_after_the_plan_is_written_it_is_resumed() -> None:
    world = start()
    world.run(until=instructions.Prepare)
    planned = world.migration
    world.crash()
    assert world.migration.id == planned.id
    assert list(world.account(N1).earmarks) == [planned.earmark_id(planned.claims[0])]
    finish(world)
    check_story_ended(world)


def test_c_3_target_that_exists_is_adopted() -> None:
    world = start()
    world.binds_targets = False
    world.run(until=instructions.Prepare)
    world.migrator.prepare(world.migration)
    target = world.migrator.copies[world.migration.id].target
    world.crash()
    world.run()
    assert (world.migration.phase, world.migration.target) == (Phase.TARGET_PENDING, target)
    world.bind(world.migration.id, N2)
    finish(world)
    check_story_ended(world)


def test_c_3_target_that_stays_unschedulable_is_given_up_at_its_deadline() -> None:
    world = start()
    world.binds_targets = False
    world.run()
    world.crash()
    world.run()
    first = world.migration.id
    world.pass_time(60)
    world.run()
    assert [migration.id for migration in world.migrations if migration.id == first] == []
    assert not any(earmark.id.startswith(first) for earmark in world.account(N1).earmarks.values())


def test_c_4_bound_target_is_counted_on_its_node() -> None:
    world = start()
    world.binds_targets = False
    world.run()
    id_ = world.migration.id
    world.migrator.bind(id_, N2)
    target = world.migrator.copies[id_].target
    world.bind(id_, N2)
    world.crash()
    assert (world.used(N2), world.account(N2).earmarks) == (3, {})
    assert world.account(N2).holding(target) == cu(3)
    finish(world)
    check_story_ended(world)


def test_c_5_running_copy_is_awaited_and_not_started_again() -> None:
    world = start()
    world.run()
    world.crash()
    world.run()
    assert len(world.of(instructions.Transfer)) == 1
    finish(world)
    check_story_ended(world)


def test_c_5_copy_that_certainly_did_not_begin_is_started() -> None:
    world = start()
    world.run(until=instructions.Transfer)
    world.crash()
    finish(world)
    assert len(world.of(instructions.Transfer)) == 1
    check_story_ended(world)


def test_c_6_copy_that_completed_meanwhile_is_cut_over() -> None:
    world = start()
    world.run()
    world.migrator.complete(world.migration.id)
    world.crash()
    world.run()
    check_story_ended(world)


def test_c_7_after_cutover_was_written_the_migration_only_goes_forward() -> None:
    world = start()
    world.run()
    world.complete(world.migration.id)
    world.run(until=instructions.Cutover)
    world.crash()
    world.delete("x")
    world.run()
    assert (world.migrations, world.running["vm-b"] != key("b")) == ([], True)


def test_c_8_room_of_a_deleted_source_is_kept_until_its_beneficiary_has_it() -> None:
    world = start()
    world.run()
    world.complete(world.migration.id)
    world.run(until=instructions.DeleteSource)
    world.pods.pop(key("b"))
    world.crash(load=False)
    assert (world.grantable("new"), world.grantable("a")) == (1, 3)
    world.load()
    assert (world.holding("a"), world.account(N1).earmarks) == (6, {})
    finish(world)
    check_story_ended(world)


def test_c_9_permit_that_was_written_closes_the_record() -> None:
    world = start()
    world.run()
    world.complete(world.migration.id)
    world.losing.add(instructions.WritePermit)
    world.run()
    assert (world.vms["vm-a"].approved, world.migration.phase) == (cu(6), Phase.SWAP_COMMITTED)
    world.losing.clear()
    world.crash()
    finish(world)
    check_story_ended(world)


def test_c_10_cancellation_is_finished() -> None:
    world = start()
    world.run()
    world.delete("x")
    world.run(until=instructions.Abort)
    assert world.record(world.migration.id).phase is Phase.CANCELLING
    world.crash()
    world.run()
    assert (world.migrations, world.records, world.migrator.copies) == ([], {}, {})
    assert (world.used(N2), world.running["vm-b"], world.account(N1).earmarks) == (0, key("b"), {})
    world.ask("b", 4)
    world.run()
    assert world.permit("b") == 4


@pytest.mark.parametrize("steps", range(16))
def test_crash_after_every_instruction_converges(steps: int) -> None:
    world = start()
    for _ in range(steps):
        if not world.queue:
            if not world.migrations:
                break
            world.complete(world.migration.id)
        world.step()
    world.crash()
    world.ask("a", 6)  # agents repeat their requests
    finish(world)
    check_story_ended(world)


def test_nothing_is_approved_before_everything_is_loaded() -> None:
    world = World()
    world.add("a", 4)
    world.ask("a", 6)
    world.run()
    assert world.permit("a") == 4
    world.load()
    assert world.holding("a") == 6
    world.run()
    assert world.vms["vm-a"].approved == cu(6)
