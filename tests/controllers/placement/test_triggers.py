"""Which placements a change wakes.

A placement without changes writes nothing, so these tests count how often placements are woken.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controllers.figures import wakes, writes
from controllers.hub_fleet import HubFleet
from fairway.api.cluster import Taint
from fairway.api.placement import PlacementSpec, Toleration
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.controllers.manager import Manager
from fairway.testing import builders
from kubewire.api.meta import Condition
from kubewire.api.selector import LabelSelector, LabelSelectorRequirement
from kubewire.client.transport import Response, Transport

pytestmark = pytest.mark.embedded

RED = builders.predicate(labels=LabelSelector(matchLabels={"colour": "red"}))
EUROPEAN = builders.predicate(
    claims=(LabelSelectorRequirement(key="region", operator="In", values=("europe",)),)
)
BY_CPU = builders.policy(builders.addon("cpu"), mode="Exact")


@asynccontextmanager
async def waking(fleet: HubFleet, manager: Manager, count: int) -> AsyncIterator[None]:
    """Check that the block wakes this number of placements, each once. The block must end with ``after``."""
    await fleet.settled(manager)
    before = wakes(manager)
    yield
    assert wakes(manager) - before == count


@pytest.fixture
async def two(manager: Manager, fleet: HubFleet) -> None:
    """Placements ``reds``, ``europeans`` and ``fastest`` over the clusters ``a`` and ``b``, and ``all``."""
    await fleet.cluster("a", labels={"colour": "red"}, claims={"region": "europe"})
    await fleet.cluster("b", labels={"colour": "blue"}, claims={"region": "asia"})
    await fleet.score("a", {"cpu": 1})
    await fleet.place("reds", PlacementSpec(predicates=(RED,)))
    await fleet.place("europeans", PlacementSpec(predicates=(EUROPEAN,)))
    await fleet.place("fastest", PlacementSpec(numberOfClusters=1, prioritizerPolicy=BY_CPU))
    await fleet.place("all")
    await fleet.chooses("reds", "a")
    await fleet.chooses("europeans", "a")
    await fleet.chooses("fastest", "a")
    await fleet.chooses("all", "a", "b")
    await fleet.settled(manager)


@pytest.mark.usefixtures("two")
async def test_changed_label_wakes_its_readers(manager: Manager, fleet: HubFleet) -> None:
    async with waking(fleet, manager, 1):
        changed = await fleet.change_cluster("b", labels={"colour": "red"})
        await fleet.after(manager, MANAGED_CLUSTERS, changed)
    assert fleet.chosen("reds") == ["a", "b"]


@pytest.mark.usefixtures("two")
async def test_changed_claim_wakes_its_readers(manager: Manager, fleet: HubFleet) -> None:
    async with waking(fleet, manager, 1):
        changed = await fleet.change_cluster("b", claims={"region": "europe"})
        await fleet.after(manager, MANAGED_CLUSTERS, changed)
    assert fleet.chosen("europeans") == ["a", "b"]


@pytest.mark.usefixtures("two")
async def test_changed_score_wakes_its_readers(manager: Manager, fleet: HubFleet) -> None:
    async with waking(fleet, manager, 1):
        await fleet.after(manager, ADD_ON_PLACEMENT_SCORES, await fleet.score("b", {"cpu": 2}))
    assert fleet.chosen("fastest") == ["b"]


@pytest.mark.usefixtures("two")
async def test_score_that_changes_no_decision_wakes_no_placement(manager: Manager, fleet: HubFleet) -> None:
    """The scores that the decision records are written again later."""
    async with waking(fleet, manager, 0):
        await fleet.after(manager, ADD_ON_PLACEMENT_SCORES, await fleet.score("a", {"cpu": 3}))
        await fleet.after(manager, ADD_ON_PLACEMENT_SCORES, await fleet.score("b", {"cpu": 2}))
    async with waking(fleet, manager, 1):
        await fleet.after(manager, ADD_ON_PLACEMENT_SCORES, await fleet.score("b", {"cpu": 4}))
    assert fleet.chosen("fastest") == ["b"]


@pytest.mark.usefixtures("two")
async def test_unread_change_wakes_no_placement(manager: Manager, fleet: HubFleet) -> None:
    before, written = await fleet.versions(), writes(manager)
    ready = Condition(type="ManagedClusterJoined", status="True", reason="Joined", message="")
    heartbeat = {
        "type": ready.type,
        "status": ready.status,
        "reason": ready.reason,
        "message": "again",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    async with waking(fleet, manager, 0):
        await fleet.change_cluster("a", labels={"shape": "round"})
        await fleet.change_cluster("a", claims={"region": "europe", "zone": "1"})
        await fleet.change_cluster("a", allocatable={"cpu": "5"})
        await fleet.score("a", {"cpu": 1, "memory": 5})
        await fleet.after(
            manager, ADD_ON_PLACEMENT_SCORES, await fleet.score("a", {"cpu": 1}, resource="another")
        )
        changed = await fleet.edit(
            MANAGED_CLUSTERS, fleet.name("a"), {"status": {"conditions": [heartbeat]}}, status=True
        )
        await fleet.after(manager, MANAGED_CLUSTERS, changed)
    assert await fleet.versions() == before
    assert writes(manager) == written


@pytest.mark.both_hubs
@pytest.mark.usefixtures("two")
async def test_rewritten_equal_score_wakes_no_placement(manager: Manager, fleet: HubFleet) -> None:
    async with waking(fleet, manager, 0):
        again = await fleet.edit(
            ADD_ON_PLACEMENT_SCORES,
            "default",
            {"metadata": {"annotations": {"written": "again"}}},
            namespace=fleet.name("a"),
        )
        await fleet.after(manager, ADD_ON_PLACEMENT_SCORES, again)


async def test_score_of_an_infeasible_cluster_wakes_no_placement(manager: Manager, fleet: HubFleet) -> None:
    await fleet.cluster("a", labels={"colour": "red"})
    await fleet.cluster("b", labels={"colour": "blue"})
    await fleet.cluster("c", member_of="")
    await fleet.cluster("d", labels={"colour": "red"})
    for word in "abc":
        await fleet.score(word, {"cpu": 1})
    await fleet.place("p", PlacementSpec(numberOfClusters=1, predicates=(RED,), prioritizerPolicy=BY_CPU))
    await fleet.chooses("p", "a")
    async with waking(fleet, manager, 0):
        await fleet.score("b", {"cpu": 99})
        await fleet.after(manager, ADD_ON_PLACEMENT_SCORES, await fleet.score("c", {"cpu": 99}))
    async with waking(fleet, manager, 1):
        await fleet.after(manager, ADD_ON_PLACEMENT_SCORES, await fleet.score("d", {"cpu": 99}))
    assert fleet.chosen("p") == ["d"]


@pytest.mark.usefixtures("two")
async def test_changed_taint_wakes_all_placements(manager: Manager, fleet: HubFleet) -> None:
    async with waking(fleet, manager, 4):
        changed = await fleet.change_cluster("a", taints=(Taint(key="gpu", effect="NoSelect"),))
        await fleet.after(manager, MANAGED_CLUSTERS, changed)
    assert fleet.chosen("all") == ["b"]


@pytest.mark.usefixtures("two")
async def test_new_cluster_wakes_placements_that_may_select_it(manager: Manager, fleet: HubFleet) -> None:
    async with waking(fleet, manager, 4):
        await fleet.after(manager, MANAGED_CLUSTERS, await fleet.cluster("c", labels={"colour": "red"}))
    assert fleet.chosen("reds") == ["a", "c"]
    async with waking(fleet, manager, 4):
        await fleet.delete(MANAGED_CLUSTERS, fleet.name("c"))
        await fleet.settled(manager)
    assert fleet.chosen("reds") == ["a"]


@pytest.mark.usefixtures("two")
async def test_placements_of_other_namespaces_sleep_on(manager: Manager, fleet: HubFleet) -> None:
    """A set wakes the placements of the namespaces it is bound to that may use it."""
    room = await fleet.create_namespace("elsewhere")
    await fleet.cluster_set("x")
    await fleet.place("p", PlacementSpec(clusterSets=("x",)), namespace=room)
    await fleet.chooses("p", namespace=room)
    async with waking(fleet, manager, 1):
        await fleet.after(manager, MANAGED_CLUSTER_SET_BINDINGS, await fleet.bind("x", namespace=room))
    assert fleet.reason("p", namespace=room) == "AllManagedClusterSetsEmpty"
    before = await fleet.versions()
    await fleet.after(manager, MANAGED_CLUSTERS, await fleet.cluster("c", member_of="x"))
    assert fleet.chosen("p", namespace=room) == ["c"]
    changed = {key[1] for key, version in (await fleet.versions()).items() if before[key] != version}
    assert changed == {room}
    async with waking(fleet, manager, 1):
        await fleet.delete(MANAGED_CLUSTER_SETS, fleet.name("x"))
        await fleet.settled(manager)
    assert fleet.chosen("p", namespace=room) == []


@pytest.mark.usefixtures("two")
async def test_decision_of_another_placement_wakes_none(manager: Manager, fleet: HubFleet) -> None:
    """It counts in the next reconcile that has another cause."""
    async with waking(fleet, manager, 0):
        await fleet.after(manager, PLACEMENT_DECISIONS, await fleet.hold("foreign", "a"))


@pytest.mark.usefixtures("two")
async def test_changed_placement_wakes_only_itself(manager: Manager, fleet: HubFleet) -> None:
    async with waking(fleet, manager, 1):
        changed = await fleet.replace("all", numberOfClusters=1)
        await fleet.after(manager, PLACEMENTS, changed)
    assert len(fleet.chosen("all")) == 1


@pytest.mark.both_hubs
@pytest.mark.usefixtures("two")
async def test_own_writes_wake_no_placement(manager: Manager, fleet: HubFleet) -> None:
    """Neither their responses nor their watch events."""
    async with waking(fleet, manager, 1):
        await fleet.place("new")
        await fleet.chooses("new", "a", "b")
        await fleet.after(manager, PLACEMENT_DECISIONS, fleet.decisions("new")[0])
        placement = fleet.placement("new")
        assert placement is not None
        await fleet.after(manager, PLACEMENTS, placement)


async def test_burst_of_changes_is_one_reconcile(
    manager: Manager, fleet: HubFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes during a write of the decision are reconciled together afterwards."""
    await fleet.place("p", PlacementSpec(tolerations=(Toleration(operator="Exists"),)))
    await fleet.chooses("p")
    await fleet.settled(manager)
    before = writes(manager)
    over, send = asyncio.Event(), Transport.request

    async def request(transport: Transport, method: str, path: str, **options: Any) -> Response:
        if method == "PATCH" and PLACEMENT_DECISIONS.plural in path:
            await over.wait()
        return await send(transport, method, path, **options)

    monkeypatch.setattr(Transport, "request", request)
    words = [f"c{number:02}" for number in range(40)]
    await fleet.clusters(*words)
    over.set()
    await fleet.chooses("p", *words)
    await fleet.settled(manager)
    assert (writes(manager) - before)["patch placementdecisions"] == 2


async def test_broken_set_wakes_only_its_placements(manager: Manager, fleet: HubFleet) -> None:
    room = await fleet.create_namespace("elsewhere")
    broken = LabelSelector(matchExpressions=(LabelSelectorRequirement(key="k", operator="Near"),))
    await fleet.cluster_set("x", selector=broken)
    await fleet.bind("x", namespace=room)
    await fleet.clusters("a")
    await fleet.place("bad", namespace=room)
    await fleet.place("good")
    await fleet.chooses("good", "a")
    await fleet.eventually(lambda: bool(fleet.reason("bad", namespace=room)))
    await fleet.clusters("b")
    await fleet.chooses("good", "a", "b")
