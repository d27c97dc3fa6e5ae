"""Changes of decisions and statuses by other clients are reverted."""

import pytest

from controllers.hub_fleet import HubFleet
from fairway.api.placement import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL, PlacementSpec
from fairway.api.resources import MANAGED_CLUSTERS, PLACEMENT_DECISIONS, PLACEMENTS
from fairway.controllers.manager import Manager
from fairway.testing import builders
from fairway.workloads.placement.conditions import MISCONFIGURED, SATISFIED
from kubewire.api.meta import Condition

pytestmark = pytest.mark.embedded

BY_NAME = builders.policy(builders.addon("nobody-publishes"), mode="Exact")
LABELS = {PLACEMENT_LABEL: "p", GROUP_INDEX_LABEL: "0", GROUP_NAME_LABEL: ""}


@pytest.fixture
async def placed(manager: Manager, fleet: HubFleet) -> None:
    """The placement ``p`` has selected ``a`` and ``b``; ``c`` exists, too."""
    await fleet.clusters("a", "b", "c")
    await fleet.place("p", PlacementSpec(numberOfClusters=2, prioritizerPolicy=BY_NAME))
    await fleet.chooses("p", "a", "b")
    await fleet.settled(manager)


@pytest.mark.usefixtures("placed")
async def test_deleted_decision_is_created_again(manager: Manager, fleet: HubFleet) -> None:
    (old,) = fleet.decisions("p")
    await fleet.delete(PLACEMENT_DECISIONS, "p-decision-1")
    await fleet.eventually(
        lambda: fleet.chosen("p") == ["a", "b"] and fleet.decisions("p")[0].metadata.uid != old.metadata.uid
    )


@pytest.mark.usefixtures("placed")
async def test_changed_clusters_of_a_decision_are_repaired(manager: Manager, fleet: HubFleet) -> None:
    for words in ("", "c", "a", "ba", "abc", "aab"):
        await fleet.after(manager, PLACEMENT_DECISIONS, await fleet.overwrite("p-decision-1", *words))
        assert fleet.chosen("p") == ["a", "b"], words


@pytest.mark.usefixtures("placed")
async def test_changed_scores_and_reasons_are_repaired(manager: Manager, fleet: HubFleet) -> None:
    invented = [
        {"clusterName": fleet.name(word), "reason": "I like it", "score": 12345} for word in ("a", "b")
    ]
    written = await fleet.edit(
        PLACEMENT_DECISIONS,
        "p-decision-1",
        {"status": {"decisions": invented}},
        namespace=fleet.namespace,
        status=True,
    )
    await fleet.after(manager, PLACEMENT_DECISIONS, written)
    assert 12345 not in fleet.scores("p").values()
    assert all(decision.reason.startswith("Rank ") for decision in fleet.decisions("p")[0].status.decisions)


@pytest.mark.usefixtures("placed")
async def test_changed_labels_of_a_decision_are_repaired(manager: Manager, fleet: HubFleet) -> None:
    (old,) = fleet.decisions("p")
    changed: tuple[dict[str, str | None], ...] = (
        {GROUP_NAME_LABEL: "mine"},
        {GROUP_INDEX_LABEL: "7"},
        {GROUP_INDEX_LABEL: None},
        {"foreign": "label"},
        {PLACEMENT_LABEL: None},
        {PLACEMENT_LABEL: "another"},
    )
    for labels in changed:
        body = {"metadata": {"labels": labels}}
        written = await fleet.edit(PLACEMENT_DECISIONS, "p-decision-1", body, namespace=fleet.namespace)
        await fleet.after(manager, PLACEMENT_DECISIONS, written)
        (new,) = fleet.decisions("p")
        assert new.metadata.labels == LABELS, labels
        assert new.metadata.uid == old.metadata.uid
        assert fleet.chosen("p") == ["a", "b"]


@pytest.mark.both_hubs
@pytest.mark.usefixtures("placed")
async def test_changed_owners_of_a_decision_are_repaired(manager: Manager, fleet: HubFleet) -> None:
    """The placement is an owner again; other owners stay unless they claim control."""
    placement = fleet.placement("p")
    assert placement is not None
    owners = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": f"{fleet.prefix}-1"},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "y",
            "uid": f"{fleet.prefix}-2",
            "controller": True,
        },
    ]
    written = await fleet.edit(
        PLACEMENT_DECISIONS,
        "p-decision-1",
        {"metadata": {"ownerReferences": owners, "finalizers": ["fairway.dev/keep"]}},
        namespace=fleet.namespace,
    )
    await fleet.after(manager, PLACEMENT_DECISIONS, written)
    (new,) = fleet.decisions("p")
    in_control = [reference.name for reference in new.metadata.ownerReferences if reference.controller]
    await fleet.edit(
        PLACEMENT_DECISIONS,
        "p-decision-1",
        {"metadata": {"finalizers": None}},
        namespace=fleet.namespace,
    )
    assert in_control == ["p"]


@pytest.mark.both_hubs
@pytest.mark.usefixtures("placed")
async def test_foreign_metadata_and_conditions_stay(manager: Manager, fleet: HubFleet) -> None:
    """Annotations and finalizers of decisions and placements, and conditions of other types."""
    mine = {"annotations": {"example.com/mine": "yes"}, "finalizers": ["example.com/mine"]}
    await fleet.edit(PLACEMENT_DECISIONS, "p-decision-1", {"metadata": mine}, namespace=fleet.namespace)
    own = {**mine, "labels": {"example.com/mine": "yes"}}
    await fleet.edit(PLACEMENTS, "p", {"metadata": own}, namespace=fleet.namespace)
    other = Condition(type="Other", status="True", reason="Mine", message="stays")
    known = [*fleet.status("p").conditions, other]
    conditions = [
        {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for condition in known
    ]
    await fleet.edit(
        PLACEMENTS, "p", {"status": {"conditions": conditions}}, namespace=fleet.namespace, status=True
    )
    await fleet.replace("p", numberOfClusters=1)
    await fleet.chooses("p", "a")
    decision, placement = fleet.decisions("p")[0], fleet.placement("p")
    assert placement is not None
    assert {condition.type for condition in placement.status.conditions} >= {
        MISCONFIGURED,
        SATISFIED,
        "Other",
    }
    for meta in (decision.metadata, placement.metadata):
        assert meta.annotations["example.com/mine"] == "yes"
        assert meta.finalizers == ("example.com/mine",)
    assert placement.metadata.labels == {"example.com/mine": "yes"}
    for resource, name in ((PLACEMENT_DECISIONS, "p-decision-1"), (PLACEMENTS, "p")):
        await fleet.client.request(
            "PATCH",
            resource.path(namespace=fleet.namespace, name=name),
            body={"metadata": {"finalizers": None}},
            content_type="application/merge-patch+json",
        )


@pytest.mark.usefixtures("placed")
async def test_changed_status_of_a_placement_is_repaired(manager: Manager, fleet: HubFleet) -> None:
    right = fleet.status("p")
    changed: tuple[dict[str, object], ...] = (
        {"numberOfSelectedClusters": 99},
        {"decisionGroups": []},
        {"decisionGroups": None, "numberOfSelectedClusters": None, "conditions": None},
        {"conditions": []},
    )
    for status in changed:
        written = await fleet.edit(
            PLACEMENTS, "p", {"status": status}, namespace=fleet.namespace, status=True
        )
        await fleet.after(manager, PLACEMENTS, written)
        now = fleet.status("p")
        assert (now.numberOfSelectedClusters, now.decisionGroups) == (2, right.decisionGroups), status
        assert fleet.condition("p") == ("True", "AllDecisionsScheduled", "All cluster decisions scheduled")
        assert fleet.condition("p", MISCONFIGURED)[0] == "False"


@pytest.mark.usefixtures("placed")
async def test_inverted_condition_is_corrected(manager: Manager, fleet: HubFleet) -> None:
    wrong = {
        "type": SATISFIED,
        "status": "False",
        "reason": "NoManagedClusterMatched",
        "message": "so they say",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    written = await fleet.edit(
        PLACEMENTS, "p", {"status": {"conditions": [wrong]}}, namespace=fleet.namespace, status=True
    )
    await fleet.after(manager, PLACEMENTS, written)
    assert fleet.condition("p") == ("True", "AllDecisionsScheduled", "All cluster decisions scheduled")


# Decisions that no controller made for this placement


@pytest.mark.usefixtures("placed")
async def test_foreign_decision_with_the_placement_label_is_deleted(
    manager: Manager, fleet: HubFleet
) -> None:
    await fleet.hold("foreign", "c")
    claimed = {"metadata": {"labels": {PLACEMENT_LABEL: "p"}}}
    await fleet.edit(PLACEMENT_DECISIONS, "foreign", claimed, namespace=fleet.namespace)
    await fleet.eventually(lambda: fleet.decision("foreign") is None)
    assert fleet.chosen("p") == ["a", "b"]
    await fleet.eventually(
        lambda: (
            [event.note for event in fleet.events("DecisionDelete")]
            == [f"Decision foreign is deleted with placement p in namespace {fleet.namespace}"]
        )
    )


@pytest.mark.usefixtures("placed")
async def test_foreign_decision_without_the_placement_label_stays(manager: Manager, fleet: HubFleet) -> None:
    held = await fleet.hold("foreign", "c")
    await fleet.after(manager, PLACEMENT_DECISIONS, held)
    stray = fleet.decision("foreign")
    assert stray is not None
    assert stray.metadata.resourceVersion == held.metadata.resourceVersion


@pytest.mark.both_hubs
async def test_page_adopts_an_existing_decision_of_its_name(manager: Manager, fleet: HubFleet) -> None:
    """Its clusters are correct before it gets the label by which consumers find it."""
    await fleet.clusters("a", "b")
    taken = await fleet.hold("p-decision-1", "b")
    await fleet.after(manager, PLACEMENT_DECISIONS, taken)
    await fleet.place("p", PlacementSpec(numberOfClusters=1))
    await fleet.chooses("p", "a")
    (page,) = fleet.decisions("p")
    assert page.metadata.uid == taken.metadata.uid
    assert page.metadata.labels == LABELS
    assert [reference.name for reference in page.metadata.ownerReferences if reference.controller] == ["p"]


async def test_placement_named_like_a_decision_is_decided(manager: Manager, fleet: HubFleet) -> None:
    """``p-decision-1`` is a page of ``p``; a placement of that name has pages of its own."""
    await fleet.clusters("a")
    await fleet.place("p")
    await fleet.place("p-decision-1")
    await fleet.chooses("p", "a")
    await fleet.chooses("p-decision-1", "a")
    assert set(fleet.pages("p-decision-1")) == {"p-decision-1-decision-1"}


@pytest.mark.both_hubs
@pytest.mark.usefixtures("placed")
async def test_simultaneous_damages_are_repaired(manager: Manager, fleet: HubFleet) -> None:
    await fleet.edit(
        PLACEMENT_DECISIONS,
        "p-decision-1",
        {"metadata": {"labels": {PLACEMENT_LABEL: None}}},
        namespace=fleet.namespace,
    )
    await fleet.overwrite("p-decision-1", "c")
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("a"))
    await fleet.hold("foreign", "c")
    claimed = {"metadata": {"labels": {PLACEMENT_LABEL: "p"}}}
    await fleet.edit(PLACEMENT_DECISIONS, "foreign", claimed, namespace=fleet.namespace)
    await fleet.edit(PLACEMENTS, "p", {"status": {"conditions": []}}, namespace=fleet.namespace, status=True)
    await fleet.chooses("p", "b", "c")
    await fleet.eventually(lambda: set(fleet.pages("p")) == {"p-decision-1"})
    await fleet.eventually(lambda: fleet.reason("p") == "AllDecisionsScheduled")
