"""A pod that is about to be bound has its room in the account of its node, as machines have, from the decision on."""

import pytest

from fairway.engine.ledger import InsufficientCapacity
from fairway.workloads.machines import events
from fairway.workloads.machines.policy import MachinePolicy
from workloads.machines.world import N1, N2, World, cu, key

STAYING = MachinePolicy(for_demand=False, for_pressure=False)


def world_with_an_assumed_pod() -> World:
    """On N1 a machine has 6 of 10, and a pod that is about to be bound has 2."""
    world = World(STAYING)
    world.add("a", 6)
    world.load()
    world.send(events.PodAssumed(key("p"), N1, cu(2)))
    return world


def test_machine_does_not_grow_into_the_room_of_an_assumed_pod() -> None:
    world = world_with_an_assumed_pod()
    world.ask("a", 10)
    world.run()
    assert (world.holding("a"), world.holding("p")) == (8, 2)
    world.send(events.PodForgotten(key("p")))
    world.run()
    assert (world.holding("a"), world.state.table.assumed) == (10, {})


def test_pod_without_room_beside_a_permit_is_not_assumed() -> None:
    world = world_with_an_assumed_pod()
    with pytest.raises(InsufficientCapacity):
        world.send(events.PodAssumed(key("q"), N1, cu(3)))
    assert list(world.state.table.assumed) == [key("p")]


def test_assumed_pod_that_is_bound_keeps_its_room_when_it_is_forgotten() -> None:
    world = world_with_an_assumed_pod()
    world.add("p", 2, vm=False)
    assert world.state.table.assumed == {}
    world.send(events.PodForgotten(key("p")))
    assert (world.account(N1).used["cpu"], world.holding("p")) == (8, 2)


def test_assumed_pod_that_is_bound_to_another_node_gives_its_room_back() -> None:
    world = world_with_an_assumed_pod()
    world.add("p", 2, N2, vm=False)
    assert (world.account(N1).used["cpu"], world.account(N2).used["cpu"]) == (6, 2)
