"""Scores, clusters, sets and decisions that make no sense."""

import pytest

from controllers.bad_input.conftest import Bystander
from controllers.hub_fleet import HubFleet
from fairway.api.placement import PlacementSpec
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
)
from fairway.controllers.manager import Manager
from fairway.testing import builders
from kubewire.api.selector import LabelSelector, LabelSelectorRequirement
from kubewire.client import Invalid

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
async def test_rejected_scores_leave_the_earlier_ones_in_force(manager: Manager, fleet: HubFleet) -> None:
    await fleet.score("b", {"cpu": 7})
    await fleet.place("p", PlacementSpec(numberOfClusters=1, prioritizerPolicy=BY_CPU))
    await fleet.chooses("p", "b")
    for message, scores in REJECTED_SCORES.items():
        body = {"status": {"scores": scores}}
        with pytest.raises(Invalid) as refusal:
            await fleet.edit(ADD_ON_PLACEMENT_SCORES, "default", body, namespace=fleet.name("b"), status=True)
        assert message in str(refusal.value)
    assert fleet.chosen("p") == ["b"]


@pytest.mark.usefixtures("bystander")
async def test_score_of_a_missing_cluster_counts_once_the_cluster_exists(
    manager: Manager, fleet: HubFleet
) -> None:
    await fleet.score("later", {"cpu": 9})
    await fleet.place("p", PlacementSpec(numberOfClusters=1, prioritizerPolicy=BY_CPU))
    await fleet.chooses("p", "a")
    await fleet.cluster("later")
    await fleet.chooses("p", "later")


@pytest.mark.both_hubs
async def test_cluster_with_an_invalid_name_is_rejected(fleet: HubFleet) -> None:
    for name in ("../../secrets", "a/b", "..", ".", "%2e%2e%2f", "A", "a b", "", "\N{SNOWMAN}"):
        body = {
            "apiVersion": MANAGED_CLUSTERS.api_version,
            "kind": MANAGED_CLUSTERS.kind,
            "metadata": {"name": name},
        }
        with pytest.raises(Invalid, match="name"):
            await fleet.client.request("POST", MANAGED_CLUSTERS.path(), body=body)


@pytest.mark.usefixtures("bystander")
async def test_odd_but_valid_cluster_names_are_selected(manager: Manager, fleet: HubFleet) -> None:
    words = ["1.2.3", "a.b.c", "xn--nxasmq6b", "p-decision-1", "0x7f", "9" * 200]
    await fleet.clusters(*words)
    await fleet.place("p")
    await fleet.chooses("p", *sorted([*words, "a", "b"], key=fleet.name))


@pytest.mark.both_hubs
@pytest.mark.usefixtures("bystander")
async def test_decisions_about_impossible_clusters_count_for_no_cluster(
    manager: Manager, fleet: HubFleet
) -> None:
    """Hubs accept any cluster name in a decision."""
    await fleet.hold("foreign")
    names = ["../../secrets", "", "a/b", "\N{SNOWMAN}", "x" * 5000, fleet.name("a"), fleet.name("a")]
    written = await fleet.edit(
        PLACEMENT_DECISIONS,
        "foreign",
        {"status": {"decisions": [{"clusterName": name, "reason": ""} for name in names]}},
        namespace=fleet.namespace,
        status=True,
    )
    await fleet.after(manager, PLACEMENT_DECISIONS, written)
    await fleet.place("p", PlacementSpec(numberOfClusters=1))
    await fleet.chooses("p", "b")


async def test_broken_set_freezes_the_placements_that_may_use_it(
    manager: Manager, fleet: HubFleet, bystander: Bystander
) -> None:
    """They keep their decisions and report the reason until the set is repaired."""
    room = await fleet.create_namespace("elsewhere")
    await fleet.cluster_set("x", selector=LabelSelector(matchLabels={"kind": "x"}))
    await fleet.bind("x", namespace=room)
    await fleet.bind("s", namespace=room)
    await fleet.cluster("x1", labels={"kind": "x"}, member_of="")
    await fleet.place("p", namespace=room)
    await fleet.chooses("p", "a", "b", "x1", namespace=room)
    selector = {"matchExpressions": [{"key": "k", "operator": "Near"}], "matchLabels": None}
    await fleet.edit(
        MANAGED_CLUSTER_SETS, fleet.name("x"), {"spec": {"clusterSelector": {"labelSelector": selector}}}
    )
    await fleet.eventually(lambda: fleet.reason("p", namespace=room) == "NotAllDecisionsScheduled")
    assert fleet.condition("p", namespace=room) == (
        "False",
        "NotAllDecisionsScheduled",
        f'failed to get clusters from ClusterSet "{fleet.name("x")}": "Near" is not a valid label selector operator',
    )
    await fleet.cluster("c")
    await fleet.eventually(lambda: "c" in fleet.chosen("bystander"))
    await fleet.settled(manager)
    assert fleet.chosen("p", namespace=room) == ["a", "b", "x1"]
    mended = {"matchExpressions": None, "matchLabels": {"kind": "x"}}
    await fleet.edit(
        MANAGED_CLUSTER_SETS, fleet.name("x"), {"spec": {"clusterSelector": {"labelSelector": mended}}}
    )
    await fleet.chooses("p", "a", "b", "c", "x1", namespace=room)
    assert fleet.reason("p", namespace=room) == "AllDecisionsScheduled"


@pytest.mark.usefixtures("bystander")
async def test_broken_set_does_not_affect_placements_that_do_not_use_it(
    manager: Manager, fleet: HubFleet
) -> None:
    await fleet.cluster_set("x", selector=BROKEN)
    await fleet.place("p", PlacementSpec(clusterSets=("s",)))
    await fleet.chooses("p", "a", "b")
    before = await fleet.versions()
    await fleet.bind("x", namespace=await fleet.create_namespace("elsewhere"))
    await fleet.cluster("other", member_of="")
    await fleet.settled(manager)
    assert await fleet.versions() == before


@pytest.mark.both_hubs
@pytest.mark.usefixtures("bystander")
async def test_unknown_selector_type_of_a_set_is_rejected(fleet: HubFleet) -> None:
    with pytest.raises(Invalid) as refusal:
        await fleet.edit(
            MANAGED_CLUSTER_SETS,
            fleet.name("s"),
            {"spec": {"clusterSelector": {"selectorType": "Telepathy"}}},
        )
    assert "spec.clusterSelector.selectorType" in str(refusal.value)
