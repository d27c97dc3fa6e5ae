"""Room that a migration frees belongs to the machine it was started for."""

import pytest

from fairway.engine.ledger import InsufficientCapacity
from fairway.workloads.machines import events, instructions
from fairway.workloads.machines.migration import Phase
from fairway.workloads.machines.policy import MachinePolicy
from fairway.workloads.machines.state import EARMARK_EXPIRED, EARMARK_KEPT, EARMARK_PREEMPTED
from workloads.machines.world import N1, N2, N3, World, cu, fixture, key


def two_migrations(*, e: int = 2, policy: MachinePolicy | None = None) -> World:
    """B moves for A, E moves for D; both copies are under way, and n1 is full."""
    world = World(policy or MachinePolicy(watermark=1000), hosts=(N1, N2, N3))
    world.add("a", 2)
    world.add("d", 1)
    world.add("b", 2, migratable=True)
    world.add("e", e, migratable=True)
    world.add("x", 4 - e, vm=False)
    world.add("y", 1, vm=False)
    world.load()
    world.ask("a", 4)
    world.run()
    world.ask("d", 3)
    world.run()
    assert sorted(migration.vm for migration in world.migrations) == ["vm-b", "vm-e"]
    assert {migration.phase for migration in world.migrations} == {Phase.COPYING}
    return world


def of_vm(world: World, vm: str) -> str:
    return next(migration.id for migration in world.migrations if migration.vm == vm)


def test_n1_room_of_another_migration_is_not_taken() -> None:
    world = two_migrations()
    world.complete(of_vm(world, "vm-e"))
    world.run()
    assert (world.permit("a"), world.permit("d")) == (2, 3)


def test_n2_unrelated_room_is_granted_to_waiting_machines_in_order() -> None:
    world = two_migrations()
    world.delete("y")
    assert (world.holding("a"), world.holding("d"), world.grantable("new")) == (3, 1, 0)


def test_n3_room_beyond_the_earmark_goes_to_everyone() -> None:
    world = two_migrations(e=3)
    world.complete(of_vm(world, "vm-e"))
    world.run()
    assert (world.permit("d"), world.permit("a")) == (3, 3)


def freed_but_not_consumed(policy: MachinePolicy | None = None) -> World:
    """E was deleted while the scheduler was down. It has not loaded everything yet, so that D cannot grow."""
    world = two_migrations(policy=policy)
    world.complete(of_vm(world, "vm-e"))
    world.run(until=instructions.DeleteSource)
    world.pods.pop(key("e"))
    world.crash(load=False)
    assert [earmark.beneficiary for earmark in world.account(N1).earmarks.values() if earmark.freed] == [
        key("d")
    ]
    return world


def test_n4_new_pod_is_refused_with_the_earmark_until_it_closes() -> None:
    world = freed_but_not_consumed()
    with pytest.raises(InsufficientCapacity, match=r"kept for ns/d 2m \(vm-e-"):
        world.state.ledger.speculate().reserve(N1, key("new"), cu(2))
    world.run()
    world.delete("d")
    world.run()
    assert world.grantable("new") >= 2


def test_n5_earmark_ends_with_its_beneficiary_in_one_transaction() -> None:
    world = freed_but_not_consumed()
    generation = world.state.ledger.generation
    world.delete("d")
    assert world.state.ledger.generation == generation + 1
    assert not any(earmark.beneficiary == key("d") for earmark in world.account(N1).earmarks.values())


def test_n6_earmark_past_its_deadline_is_released_and_reported() -> None:
    world = freed_but_not_consumed()
    world.pass_time(3600)
    world.run()
    assert EARMARK_EXPIRED in {alert.reason for alert in world.alerts}
    assert not any(earmark.freed for earmark in world.account(N1).earmarks.values())


@pytest.mark.parametrize(("allowed", "priority"), [(False, 9), (True, 0), (True, 9)])
def test_n7_earmark_is_preempted_only_by_a_higher_priority_and_if_the_policy_says_so(
    allowed: bool, priority: int
) -> None:
    world = freed_but_not_consumed(MachinePolicy(watermark=1000, preempt_earmarks=allowed))
    earmark = next(kept for kept in world.account(N1).earmarks.values() if kept.freed)
    taken = allowed and priority > 0
    preemptible = world.state.preemptible(N1, by=key("new"), priority=priority)
    assert [other.id for other in preemptible] == [earmark.id] * taken
    world.nominated[N1] = {key("new"): cu(2)}
    world.send(events.EarmarksPreempted(host=N1, earmarks=(earmark.id,), by=key("new"), priority=priority))
    assert world.grantable("new") == (2 if taken else 0)
    world.run()
    (alert,) = (raised for raised in world.alerts if raised.key == key("d"))
    assert alert.reason == (EARMARK_PREEMPTED if taken else EARMARK_KEPT)


@pytest.mark.parametrize("priority", [0, 9])
def test_migration_whose_target_room_is_preempted_is_cancelled_with_an_event(priority: int) -> None:
    world = fixture(MachinePolicy(watermark=1000, preempt_earmarks=True))
    world.ask("a", 6)
    world.run(until=instructions.Prepare)
    (migration,) = world.migrations
    target = migration.target_host
    world.nominated[target] = {key("new"): cu(9)}
    world.send(
        events.EarmarksPreempted(host=target, earmarks=(migration.hold_id,), by=key("new"), priority=priority)
    )
    world.run()
    told = {alert.key: alert.reason for alert in world.alerts}
    assert told[key("a")] == (EARMARK_PREEMPTED if priority else EARMARK_KEPT)
    assert (migration.id in {other.id for other in world.migrations}) is not bool(priority)


def test_room_of_preempted_pods_belongs_to_the_pod_that_preempted_them() -> None:
    world = fixture(MachinePolicy(for_demand=False, for_pressure=False))
    world.ask("a", 6)
    world.run()
    waiting = {key("preemptor"): cu(2)}
    world.nominated[N1] = waiting
    world.delete("x")
    assert (world.holding("a"), world.grantable("preemptor"), world.grantable("new")) == (5, 2, 0)
    waiting.clear()
    world.send(events.HostObserved(N1, cu(10)))
    assert (world.holding("a"), world.grantable("new")) == (6, 1)
