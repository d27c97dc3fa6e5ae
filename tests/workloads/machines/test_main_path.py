"""The story: A asks for more than its node has, B moves away, and its room is A's."""

from fairway.workloads.machines import instructions
from fairway.workloads.machines.migration import Phase
from fairway.workloads.machines.permit_protocol import Permit
from workloads.machines.invariants import check_what_if
from workloads.machines.world import N1, N2, World, cu, fixture, key


def asked() -> World:
    world = fixture()
    world.ask("a", 6)
    return world


def test_m1_denied_part_is_remembered_and_a_migration_is_planned_with_an_earmark() -> None:
    world = asked()
    world.run(until=instructions.Prepare)
    answer = world.replies[-1][1]
    assert isinstance(answer, Permit)
    assert (answer.resources, answer.migrate, answer.denied) == (cu(4), False, cu(2))
    migration = world.migration
    assert (migration.phase, migration.source, migration.target_host) == (Phase.PLANNED, key("b"), N2)
    assert answer.migrations == (migration.id,)
    (earmark,) = world.account(N1).earmarks.values()
    assert (earmark.beneficiary, earmark.source, earmark.amounts) == (key("a"), key("b"), cu(2))
    check_what_if(world.state)


def test_m2_resources_are_held_twice_while_the_target_exists() -> None:
    world = asked()
    world.run()
    assert world.migration.phase is Phase.COPYING
    assert (world.used(N2), world.used(N1)) == (3, 10)


def test_m3_cutover_is_written_before_the_source_is_touched() -> None:
    world = asked()
    world.run()
    world.complete(world.migration.id)
    world.run(until=instructions.Cutover)
    assert world.record(world.migration.id).phase is Phase.CUTOVER
    assert not world.of(instructions.DeleteSource)
    assert key("b") in world.pods


def test_m4_source_leaves_and_beneficiary_grows_in_one_step() -> None:
    world = asked()
    world.run()
    world.complete(world.migration.id)
    world.run(until=instructions.DeleteSource)
    assert (world.holding("a"), world.holding("b")) == (4, 3)
    world.step()
    assert (world.holding("a"), world.holding("b"), world.free(N1)) == (6, 0, 1)
    assert not world.account(N1).earmarks
    assert world.pods[key("a")].using == cu(4), "the machine grows after its permit"


def test_m5_target_owns_the_machine_and_repeated_steps_change_nothing() -> None:
    world = asked()
    world.run()
    id_ = world.migration.id
    world.complete(id_)
    world.run()
    assert (world.migrations, world.records) == ([], {})
    target = world.running["vm-b"]
    assert world.state.table.owner_of(("VirtualMachine", "ns", "vm-b")) == target != key("b")
    assert world.vms["vm-a"].approved == cu(6)
    before = repr((world.account(N1), world.account(N2)))
    world.watch(id_)
    world.send(world.observed(target))
    world.run()
    assert repr((world.account(N1), world.account(N2))) == before
