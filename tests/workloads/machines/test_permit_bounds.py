"""What a machine may be permitted at most, and what one without an agent counts."""

from dataclasses import replace

import pytest

from fairway.workloads.machines import events
from fairway.workloads.machines.machine import Machine
from fairway.workloads.machines.permit_protocol import BAD_REQUEST, Permit, PermitError, PermitRequest
from fairway.workloads.machines.policy import MachinePolicy
from workloads.machines.world import N1, World, cu, key


def change(world: World, name: str, **changes: object) -> None:
    """Report a machine that changed."""
    pod = world.running[f"vm-{name}"]
    world.pods[pod] = replace(world.pods[pod], **changes)  # type: ignore[arg-type]
    world.send(world.observed(pod))
    world.run()


def bounded_world(using: int = 2, **bounds: int) -> World:
    """Return a world with the machine ``a`` of 2 to 5 units on a node of 10."""
    world = World()
    world.add("a", using)
    world.load()
    change(world, "a", smallest=cu(bounds.get("least", 2)), largest=cu(bounds.get("most", 5)))
    return world


def answer(world: World) -> Permit | PermitError:
    return world.replies[-1][1]


def test_permit_ends_at_the_maximum_of_the_machine() -> None:
    world = bounded_world()
    world.ask("a", 9)
    world.run()
    permit = answer(world)
    assert isinstance(permit, Permit)
    assert (permit.resources, permit.denied, world.holding("a")) == (cu(5), {}, 5)
    assert world.migrations == [], "what cannot be permitted is no demand"


def test_request_below_the_minimum_is_refused_and_changes_nothing() -> None:
    world = bounded_world(4)
    request = PermitRequest(namespace="ns", name="a", unit=cu(1), resources=cu(1))
    world.send(events.PermitRequested(request))
    world.run()
    refusal = answer(world)
    assert isinstance(refusal, PermitError)
    assert refusal.status == BAD_REQUEST
    assert str(refusal) == (
        "resources.vCPUs must be at least 2m, the minimum of VirtualMachine ns/vm-a; got 1m"
    )
    assert world.holding("a") == 4


@pytest.mark.parametrize(("together", "granted"), [(False, {"cpu": 4, "memory": 6}), (True, cu(4))])
def test_memory_is_granted_where_cpu_is_lacking_unless_they_grow_together(
    together: bool, granted: dict[str, int]
) -> None:
    world = World(MachinePolicy(together=together))
    world.hosts[N1] = {"cpu": 4, "memory": 10}
    world.send(events.HostObserved(N1, world.hosts[N1]))
    world.add("a", 3)
    world.load()
    world.ask("a", 6)
    world.run()
    assert world.vms["vm-a"].approved == granted


def test_machine_that_is_smaller_than_its_minimum_may_say_so() -> None:
    world = bounded_world(1)
    world.ask("a", 1)
    world.run()
    assert isinstance(answer(world), Permit)


def test_lower_maximum_ends_the_demand_for_more() -> None:
    world = bounded_world(most=9)
    world.add("b", 6)
    world.ask("a", 8)
    world.run()
    assert (world.permit("a"), world.state.permit(key("a")).denied) == (4, cu(4))
    change(world, "a", largest=cu(3))
    assert (world.permit("a"), world.state.permit(key("a")).denied) == (3, {})
    assert world.vms["vm-a"].approved == cu(3)


@pytest.mark.parametrize("size", [1, 3, 13])
def test_machine_that_no_agent_scales_counts_what_it_uses(size: int) -> None:
    world = bounded_world(4)
    change(world, "a", grows=False)
    change(world, "a", using=cu(size))
    assert (world.holding("a"), world.account(N1).free()["cpu"]) == (size, 10 - size)


def test_machine_whose_agent_has_not_asked_counts_what_it_uses() -> None:
    world = World()
    pod = key("a")
    for size in (4, 13, 2):
        machine = Machine(key=pod, host=N1, using=cu(size), vm="vm-a")
        world.send(events.MachineObserved(machine))
        assert world.holding("a") == size


def test_permit_ends_when_the_label_is_removed_and_begins_again_with_it() -> None:
    world = bounded_world(2)
    world.ask("a", 5)
    world.run()
    assert world.permit("a") == 5
    change(world, "a", grows=False, using=cu(2))
    assert world.holding("a") == 2
    world.ask("a", 5)
    world.run()
    permit = answer(world)
    assert isinstance(permit, PermitError)
    assert "set its label autoscaling.neon.tech/enabled to true" in str(permit)
    change(world, "a", grows=True)
    world.ask("a", 4)
    world.run()
    assert (world.permit("a"), world.vms["vm-a"].approved) == (4, cu(4))


def test_permit_is_at_least_what_the_spec_took_without_asking() -> None:
    world = bounded_world(most=20)
    world.add("b", 8)
    change(world, "a", using=cu(6))
    world.ask("a", 7)
    world.run()
    permit = answer(world)
    assert isinstance(permit, Permit)
    assert permit.resources == cu(6), "an agent fails on a permit below the size of its machine"
