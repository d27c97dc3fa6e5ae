"""Scores, clusters, sets and decisions that make no sense."""

import pytest

from controllers.bad_input.conftest import Bystander
from controllers.world import World
from fairway.api.placement import PlacementSpec
from fairway.api.selector import LabelSelector, LabelSelectorRequirement
from fairway.controllers.manager import Manager
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    Invalid,
)
from fairway.testing import builders

pytestmark = pytest.mark.embedded

BROKEN = LabelSelector(matchExpressions=(LabelSelectorRequirement(key="k", operator="Near"),))
BY_CPU = builders.policy(builders.addon("cpu"), mode="Exact")


REJECTED_SCORES: dict[str, list[dict[str, object]]] = {
    'status.scores[1]: Duplicate value: {"name":"cpu"}': [
        {"name": "cpu", "value": 1},
        {"name": "cpu", "value": 2},
    ],
    "scores[0].value in body should be less than or equal to 100": [{"name": "cpu", "value": 101}],
    "status.scores[0].name: Required value": [{"value": 1}],
    "status.scores[0].value: Invalid value": [{"name": "cpu", "value": "high"}],
}


@pytest.mark.both_hubs
@pytest.mark.usefixtures("bystander")
async def test_rejected_scores_leave_the_earlier_ones_in_force(manager: Manager, world: World) -> None:
    await world.score("b", {"cpu": 7})
    await world.place("p", PlacementSpec(numberOfClusters=1, prioritizerPolicy=BY_CPU))
    await world.chooses("p", "b")
    for message, scores in REJECTED_SCORES.items():
        body = {"status": {"scores": scores}}
        with pytest.raises(Invalid) as refusal:
            await world.edit(ADD_ON_PLACEMENT_SCORES, "default", body, namespace=world.full("b"), status=True)
        assert message in str(refusal.value)
    assert world.chosen("p") == ["b"]


@pytest.mark.usefixtures("bystander")
async def test_score_of_a_missing_cluster_counts_once_the_cluster_exists(
    manager: Manager, world: World
) -> None:
    await world.score("later", {"cpu": 9})
    await world.place("p", PlacementSpec(numberOfClusters=1, prioritizerPolicy=BY_CPU))
    await world.chooses("p", "a")
    await world.cluster("later")
    await world.chooses("p", "later")


@pytest.mark.both_hubs
async def test_cluster_with_an_invalid_name_is_rejected(world: World) -> None:
    for name in ("../../secrets", "a/b", "..", ".", "%2e%2e%2f", "A", "a b", "", "\N{SNOWMAN}"):
        body = {
            "apiVersion": MANAGED_CLUSTERS.api_version,
            "kind": MANAGED_CLUSTERS.kind,
            "metadata": {"name": name},
        }
        with pytest.raises(Invalid, match="name"):
            await world.client.request("POST", MANAGED_CLUSTERS.path(), body=body)


@pytest.mark.usefixtures("bystander")
async def test_odd_but_valid_cluster_names_are_selected(manager: Manager, world: World) -> None:
    words = ["1.2.3", "a.b.c", "xn--nxasmq6b", "p-decision-1", "0x7f", "9" * 200]
    await world.clusters(*words)
    await world.place("p")
    await world.chooses("p", *sorted([*words, "a", "b"], key=world.full))


@pytest.mark.both_hubs
@pytest.mark.usefixtures("bystander")
async def test_decisions_about_impossible_clusters_count_for_no_cluster(
    manager: Manager, world: World
) -> None:
    """Hubs accept any cluster name in a decision."""
    await world.hold("foreign")
    names = ["../../secrets", "", "a/b", "\N{SNOWMAN}", "x" * 5000, world.full("a"), world.full("a")]
    written = await world.edit(
        PLACEMENT_DECISIONS,
        "foreign",
        {"status": {"decisions": [{"clusterName": name, "reason": ""} for name in names]}},
        namespace=world.namespace,
        status=True,
    )
    await world.after(manager, PLACEMENT_DECISIONS, written)
    await world.place("p", PlacementSpec(numberOfClusters=1))
    await world.chooses("p", "b")


async def test_broken_set_freezes_the_placements_that_may_use_it(
    manager: Manager, world: World, bystander: Bystander
) -> None:
    """They keep their decisions and report the reason until the set is repaired."""
    room = await world.room("elsewhere")
    await world.cluster_set("x", selector=LabelSelector(matchLabels={"kind": "x"}))
    await world.bind("x", namespace=room)
    await world.bind("s", namespace=room)
    await world.cluster("x1", labels={"kind": "x"}, member_of="")
    await world.place("p", namespace=room)
    await world.chooses("p", "a", "b", "x1", namespace=room)
    selector = {"matchExpressions": [{"key": "k", "operator": "Near"}], "matchLabels": None}
    await world.edit(
        MANAGED_CLUSTER_SETS, world.full("x"), {"spec": {"clusterSelector": {"labelSelector": selector}}}
    )
    await world.eventually(lambda: world.reason("p", namespace=room) == "NotAllDecisionsScheduled")
    assert world.condition("p", namespace=room) == (
        "False",
        "NotAllDecisionsScheduled",
        f'failed to get clusters from ClusterSet "{world.full("x")}": "Near" is not a valid label selector operator',
    )
    await world.cluster("c")
    await world.eventually(lambda: "c" in world.chosen("bystander"))
    await world.settled(manager)
    assert world.chosen("p", namespace=room) == ["a", "b", "x1"]
    mended = {"matchExpressions": None, "matchLabels": {"kind": "x"}}
    await world.edit(
        MANAGED_CLUSTER_SETS, world.full("x"), {"spec": {"clusterSelector": {"labelSelector": mended}}}
    )
    await world.chooses("p", "a", "b", "c", "x1", namespace=room)
    assert world.reason("p", namespace=room) == "AllDecisionsScheduled"


@pytest.mark.usefixtures("bystander")
async def test_broken_set_does_not_affect_placements_that_do_not_use_it(
    manager: Manager, world: World
) -> None:
    await world.cluster_set("x", selector=BROKEN)
    await world.place("p", PlacementSpec(clusterSets=("s",)))
    await world.chooses("p", "a", "b")
    before = await world.versions()
    await world.bind("x", namespace=await world.room("elsewhere"))
    await world.cluster("other", member_of="")
    await world.settled(manager)
    assert await world.versions() == before


@pytest.mark.both_hubs
@pytest.mark.usefixtures("bystander")
async def test_unknown_selector_type_of_a_set_is_rejected(world: World) -> None:
    with pytest.raises(Invalid) as refusal:
        await world.edit(
            MANAGED_CLUSTER_SETS,
            world.full("s"),
            {"spec": {"clusterSelector": {"selectorType": "Telepathy"}}},
        )
    assert "spec.clusterSelector.selectorType" in str(refusal.value)
