"""The target must not end up on the node that the machine leaves."""

from dataclasses import replace

from fairway.workloads.machines import events, instructions
from fairway.workloads.machines.migration import Phase
from fairway.workloads.machines.migrations import SAME_HOST
from fairway.workloads.machines.policy import MachinePolicy
from fairway.workloads.machines.state import SOURCE_NODE
from workloads.machines.world import N1, N2, World, cu, fixture, key


def pending(policy: MachinePolicy | None = None) -> World:
    """A migration whose target pod waits for a node."""
    world = fixture(policy)
    world.binds_targets = False
    world.ask("a", 6)
    world.run()
    assert world.migration.phase is Phase.TARGET_PENDING
    return world


def test_c1_source_node_is_rejected_for_the_target() -> None:
    world = pending()
    target = world.migration.target
    reason = world.state.target_rejection(target.namespace, target.name, N1)
    assert reason == SOURCE_NODE.format(host=N1, vm="vm-b")
    assert world.state.target_rejection(target.namespace, target.name, N2) is None
    world.delete("x")
    world.run()
    assert (world.migrations, world.permit("a")) == ([], 6)


def test_c2_room_that_lets_the_target_fit_on_the_source_node_cancels_the_migration() -> None:
    world = pending(MachinePolicy(prevent_same_host=False))
    x = key("x")
    world.pods[x] = replace(world.pods[x], using={})
    world.send(world.observed(x))
    world.run()
    id_ = world.migration.id
    assert world.migration.phase is Phase.TARGET_PENDING, "room without a deletion must last first"
    world.send(events.TargetNominated(id_, N1))
    world.run()
    assert (world.migrations, world.migrator.copies, world.permit("a")) == ([], {}, 6)


def test_c3_target_that_another_scheduler_bound_to_the_source_node_is_cancelled_before_copying() -> None:
    world = pending()
    id_ = world.migration.id
    world.bind(id_, N1)
    world.run()
    assert world.of(instructions.Transfer) == []
    assert not world.account(N1).earmarks
    (deleted,) = world.of(instructions.DeleteRecord)
    assert isinstance(deleted, instructions.DeleteRecord)
    assert deleted.migration.message == SAME_HOST


def test_c4_target_cannot_use_room_that_is_kept_for_the_beneficiary() -> None:
    world = World()
    world.add("a", 4)
    world.add("b", 1, migratable=True)
    world.add("x", 4, vm=False)
    world.load()
    world.ask("a", 6, unit=2)
    world.run(until=instructions.Prepare)
    assert [claim.amounts for claim in world.migration.claims] == [cu(1), cu(1)]
    assert world.account(N1).grantable(world.migration.target) == cu(0)
    assert world.account(N1).grantable(key("a")) == cu(1)
