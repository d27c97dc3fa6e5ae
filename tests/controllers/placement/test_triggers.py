"""Whom a change wakes, and whom it does not.

Who is woken and has nothing to change writes nothing, so that alone would show little: here it is counted how often
placements are woken at all.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controllers.figures import wakes, writes
from controllers.world import World
from fairway.api.cluster import Taint
from fairway.api.meta import Condition
from fairway.api.placement import PlacementSpec, Toleration
from fairway.api.selector import LabelSelector, LabelSelectorRequirement
from fairway.controllers.manager import Manager
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.kube.transport import Response, Transport
from fairway.testing import builders

pytestmark = pytest.mark.embedded

RED = builders.predicate(labels=LabelSelector(matchLabels={"colour": "red"}))
EUROPEAN = builders.predicate(
    claims=(LabelSelectorRequirement(key="region", operator="In", values=("europe",)),)
)
BY_CPU = builders.policy(builders.addon("cpu"), mode="Exact")


@asynccontextmanager
async def waking(world: World, manager: Manager, count: int) -> AsyncIterator[None]:
    """What happens in the block wakes so many placements, each once. It must end with ``after``."""
    await world.settled(manager)
    before = wakes(manager)
    yield
    assert wakes(manager) - before == count


@pytest.fixture
async def two(manager: Manager, world: World) -> None:
    """Placements ``reds``, ``europeans`` and ``fastest`` over the clusters ``a`` and ``b``, and ``all``."""
    await world.cluster("a", labels={"colour": "red"}, claims={"region": "europe"})
    await world.cluster("b", labels={"colour": "blue"}, claims={"region": "asia"})
    await world.score("a", {"cpu": 1})
    await world.place("reds", PlacementSpec(predicates=(RED,)))
    await world.place("europeans", PlacementSpec(predicates=(EUROPEAN,)))
    await world.place("fastest", PlacementSpec(numberOfClusters=1, prioritizerPolicy=BY_CPU))
    await world.place("all")
    await world.chooses("reds", "a")
    await world.chooses("europeans", "a")
    await world.chooses("fastest", "a")
    await world.chooses("all", "a", "b")
    await world.settled(manager)


@pytest.mark.usefixtures("two")
async def test_a_label_wakes_those_who_read_it(manager: Manager, world: World) -> None:
    async with waking(world, manager, 1):
        changed = await world.change_cluster("b", labels={"colour": "red"})
        await world.after(manager, MANAGED_CLUSTERS, changed)
    assert world.chosen("reds") == ["a", "b"]


@pytest.mark.usefixtures("two")
async def test_a_claim_wakes_those_who_read_it(manager: Manager, world: World) -> None:
    async with waking(world, manager, 1):
        changed = await world.change_cluster("b", claims={"region": "europe"})
        await world.after(manager, MANAGED_CLUSTERS, changed)
    assert world.chosen("europeans") == ["a", "b"]


@pytest.mark.usefixtures("two")
async def test_a_score_wakes_those_who_read_it(manager: Manager, world: World) -> None:
    async with waking(world, manager, 1):
        await world.after(manager, ADD_ON_PLACEMENT_SCORES, await world.score("a", {"cpu": 2}))


@pytest.mark.usefixtures("two")
async def test_what_nobody_reads_wakes_nobody(manager: Manager, world: World) -> None:
    before, written = await world.versions(), writes(manager)
    ready = Condition(type="ManagedClusterJoined", status="True", reason="Joined", message="")
    heartbeat = {
        "type": ready.type,
        "status": ready.status,
        "reason": ready.reason,
        "message": "again",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    async with waking(world, manager, 0):
        await world.change_cluster("a", labels={"shape": "round"})
        await world.change_cluster("a", claims={"region": "europe", "zone": "1"})
        await world.change_cluster("a", allocatable={"cpu": "5"})
        await world.score("a", {"cpu": 1, "memory": 5})
        await world.after(
            manager, ADD_ON_PLACEMENT_SCORES, await world.score("a", {"cpu": 1}, resource="another")
        )
        changed = await world.edit(
            MANAGED_CLUSTERS, world.full("a"), {"status": {"conditions": [heartbeat]}}, status=True
        )
        await world.after(manager, MANAGED_CLUSTERS, changed)
    assert await world.versions() == before
    assert writes(manager) == written


@pytest.mark.both_hubs
@pytest.mark.usefixtures("two")
async def test_a_score_that_is_written_again_as_it_was_wakes_nobody(manager: Manager, world: World) -> None:
    """As agents do every minute."""
    async with waking(world, manager, 0):
        again = await world.edit(
            ADD_ON_PLACEMENT_SCORES,
            "default",
            {"metadata": {"annotations": {"written": "again"}}},
            namespace=world.full("a"),
        )
        await world.after(manager, ADD_ON_PLACEMENT_SCORES, again)


async def test_a_score_of_a_cluster_that_is_not_in_the_running_wakes_nobody(
    manager: Manager, world: World
) -> None:
    await world.cluster("a", labels={"colour": "red"})
    await world.cluster("b", labels={"colour": "blue"})
    await world.cluster("c", member_of="")
    for word in "abc":
        await world.score(word, {"cpu": 1})
    await world.place("p", PlacementSpec(numberOfClusters=1, predicates=(RED,), prioritizerPolicy=BY_CPU))
    await world.chooses("p", "a")
    async with waking(world, manager, 0):
        await world.score("b", {"cpu": 99})
        await world.after(manager, ADD_ON_PLACEMENT_SCORES, await world.score("c", {"cpu": 99}))
    async with waking(world, manager, 1):
        await world.after(manager, ADD_ON_PLACEMENT_SCORES, await world.score("a", {"cpu": 99}))


@pytest.mark.usefixtures("two")
async def test_a_taint_wakes_all(manager: Manager, world: World) -> None:
    async with waking(world, manager, 4):
        changed = await world.change_cluster("a", taints=(Taint(key="gpu", effect="NoSelect"),))
        await world.after(manager, MANAGED_CLUSTERS, changed)
    assert world.chosen("all") == ["b"]


@pytest.mark.usefixtures("two")
async def test_a_new_cluster_wakes_all_that_may_choose_it(manager: Manager, world: World) -> None:
    async with waking(world, manager, 4):
        await world.after(manager, MANAGED_CLUSTERS, await world.cluster("c", labels={"colour": "red"}))
    assert world.chosen("reds") == ["a", "c"]
    async with waking(world, manager, 4):
        await world.delete(MANAGED_CLUSTERS, world.full("c"))
        await world.settled(manager)
    assert world.chosen("reds") == ["a"]


@pytest.mark.usefixtures("two")
async def test_placements_of_other_namespaces_sleep_on(manager: Manager, world: World) -> None:
    """A set wakes those it is bound to, and of these those that want it."""
    room = await world.room("elsewhere")
    await world.cluster_set("x")
    await world.place("p", PlacementSpec(clusterSets=("x",)), namespace=room)
    await world.chooses("p", namespace=room)
    async with waking(world, manager, 1):
        await world.after(manager, MANAGED_CLUSTER_SET_BINDINGS, await world.bind("x", namespace=room))
    assert world.reason("p", namespace=room) == "AllManagedClusterSetsEmpty"
    before = await world.versions()
    await world.after(manager, MANAGED_CLUSTERS, await world.cluster("c", member_of="x"))
    assert world.chosen("p", namespace=room) == ["c"]
    changed = {key[1] for key, version in (await world.versions()).items() if before[key] != version}
    assert changed == {room}
    async with waking(world, manager, 1):
        await world.delete(MANAGED_CLUSTER_SETS, world.full("x"))
        await world.settled(manager)
    assert world.chosen("p", namespace=room) == []


@pytest.mark.usefixtures("two")
async def test_what_others_decide_wakes_nobody(manager: Manager, world: World) -> None:
    """It counts whenever a placement is looked at for another reason."""
    async with waking(world, manager, 0):
        await world.after(manager, PLACEMENT_DECISIONS, await world.hold("foreign", "a"))


@pytest.mark.usefixtures("two")
async def test_a_placement_wakes_itself_alone(manager: Manager, world: World) -> None:
    async with waking(world, manager, 1):
        changed = await world.replace("all", numberOfClusters=1)
        await world.after(manager, PLACEMENTS, changed)
    assert len(world.chosen("all")) == 1


@pytest.mark.both_hubs
@pytest.mark.usefixtures("two")
async def test_own_writes_wake_nobody(manager: Manager, world: World) -> None:
    """Neither by their answers nor by the watch that tells of them."""
    async with waking(world, manager, 1):
        await world.place("new")
        await world.chooses("new", "a", "b")
        await world.after(manager, PLACEMENT_DECISIONS, world.decisions("new")[0])
        placement = world.placement("new")
        assert placement is not None
        await world.after(manager, PLACEMENTS, placement)


async def test_a_burst_is_one_look(manager: Manager, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens while a placement's decision is being written waits for its turn, and is one change then."""
    await world.place("p", PlacementSpec(tolerations=(Toleration(operator="Exists"),)))
    await world.chooses("p")
    await world.settled(manager)
    before = writes(manager)
    over, send = asyncio.Event(), Transport.request

    async def request(transport: Transport, method: str, path: str, **options: Any) -> Response:
        if method == "PATCH" and PLACEMENT_DECISIONS.plural in path:
            await over.wait()
        return await send(transport, method, path, **options)

    monkeypatch.setattr(Transport, "request", request)
    words = [f"c{number:02}" for number in range(40)]
    await world.clusters(*words)
    over.set()
    await world.chooses("p", *words)
    await world.settled(manager)
    assert (writes(manager) - before)["patch placementdecisions"] == 2


async def test_a_set_that_is_broken_wakes_only_its_own(manager: Manager, world: World) -> None:
    """Others go on being woken, too."""
    room = await world.room("elsewhere")
    broken = LabelSelector(matchExpressions=(LabelSelectorRequirement(key="k", operator="Near"),))
    await world.cluster_set("x", selector=broken)
    await world.bind("x", namespace=room)
    await world.clusters("a")
    await world.place("bad", namespace=room)
    await world.place("good")
    await world.chooses("good", "a")
    await world.eventually(lambda: bool(world.reason("bad", namespace=room)))
    await world.clusters("b")
    await world.chooses("good", "a", "b")
