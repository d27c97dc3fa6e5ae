"""Annotations that disable a placement, or keep its decision while it is misconfigured."""

from typing import Any

import pytest

from controllers.figures import writes
from controllers.hub_fleet import HubFleet
from fairway.api.placement import SCHEDULING_DISABLED_ANNOTATION, PlacementStatus
from fairway.api.resources import MANAGED_CLUSTERS, PLACEMENT_DECISIONS, PLACEMENTS
from fairway.controllers.manager import Manager
from fairway.workloads.placement.conditions import MISCONFIGURED
from fairway.workloads.placement.reconcile_plan import KEEP, ON_MISCONFIGURATION

pytestmark = pytest.mark.embedded

DISABLED = {SCHEDULING_DISABLED_ANNOTATION: "true"}
WRONG = [{"key": "gpu", "operator": "Exists", "value": "big"}]


async def test_disabled_placement_is_not_written(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a")
    made = await fleet.place("p", annotations=DISABLED)
    await fleet.after(manager, PLACEMENTS, made)
    assert fleet.status("p") == PlacementStatus()
    assert fleet.decisions("p") == []
    assert not writes(manager)


async def test_disabling_a_placement_freezes_its_decision(manager: Manager, fleet: HubFleet) -> None:
    """Nothing is created, updated or deleted until the placement is enabled again."""
    await fleet.clusters("a", "b")
    await fleet.place()
    await fleet.chooses("p", "a", "b")
    frozen = await annotate(fleet, **DISABLED)
    await fleet.after(manager, PLACEMENTS, frozen)
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("a"))
    await fleet.settled(manager)
    assert fleet.chosen("p") == ["a", "b"]
    await fleet.delete(PLACEMENT_DECISIONS, "p-decision-1")
    await fleet.settled(manager)
    assert fleet.decisions("p") == []
    await annotate(fleet, **{SCHEDULING_DISABLED_ANNOTATION: None})
    await fleet.chooses("p", "b")


@pytest.mark.parametrize("value", ["false", "True", "yes", ""])
async def test_only_the_value_true_disables_scheduling(manager: Manager, fleet: HubFleet, value: str) -> None:
    await fleet.clusters("a")
    await fleet.place("p", annotations={SCHEDULING_DISABLED_ANNOTATION: value})
    await fleet.chooses("p", "a")


async def test_misconfigured_placement_loses_its_decision(manager: Manager, fleet: HubFleet) -> None:
    await fleet.clusters("a")
    await fleet.place("p", annotations={ON_MISCONFIGURATION: "evict"})
    await fleet.chooses("p", "a")
    await fleet.replace("p", tolerations=WRONG)
    await fleet.chooses("p")
    assert fleet.mistake("p")


async def test_misconfigured_placement_keeps_its_decision_by_annotation(
    manager: Manager, fleet: HubFleet
) -> None:
    """The status reports the decision and the error; the corrected placement continues from there."""
    await fleet.clusters("a", "b")
    await fleet.place("p", annotations={ON_MISCONFIGURATION: KEEP})
    await fleet.chooses("p", "a", "b")
    (before,) = fleet.decisions("p")
    groups = fleet.status("p").decisionGroups
    await fleet.replace("p", tolerations=WRONG)
    await fleet.eventually(lambda: bool(fleet.mistake("p")))
    await fleet.clusters("c")
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("a"))
    await fleet.settled(manager)
    (kept,) = fleet.decisions("p")
    assert kept.metadata.resourceVersion == before.metadata.resourceVersion
    assert fleet.status("p").numberOfSelectedClusters == 2
    assert fleet.status("p").decisionGroups == groups
    assert fleet.condition("p", MISCONFIGURED)[:2] == ("True", "Misconfigured")
    await fleet.replace("p", tolerations=[])
    await fleet.chooses("p", "b", "c")
    await fleet.eventually(lambda: not fleet.mistake("p"))


async def test_keep_annotation_does_not_restore_a_removed_decision(manager: Manager, fleet: HubFleet) -> None:
    """The deleted decision stays deleted; the first valid decision after that is kept."""
    await fleet.clusters("a")
    await fleet.place()
    await fleet.replace("p", tolerations=WRONG)
    await fleet.chooses("p")
    await annotate(fleet, **{ON_MISCONFIGURATION: KEEP})
    await fleet.replace("p", tolerations=[])
    await fleet.chooses("p", "a")
    await fleet.replace("p", tolerations=WRONG)
    await fleet.eventually(lambda: bool(fleet.mistake("p")))
    assert fleet.chosen("p") == ["a"]
    await annotate(fleet, **{ON_MISCONFIGURATION: None})
    await fleet.chooses("p")


async def annotate(fleet: HubFleet, **annotations: str | None) -> Any:
    body = {"metadata": {"annotations": annotations}}
    return await fleet.edit(PLACEMENTS, "p", body, namespace=fleet.namespace)
