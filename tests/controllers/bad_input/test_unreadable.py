"""Fields that pass the schema and cannot be decoded: the other fields of the object still take effect."""

from typing import Any

import pytest

from controllers.conftest import Start
from controllers.hub_fleet import HubFleet
from fairway.api.placement import PlacementSpec
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS, PLACEMENTS
from fairway.controllers.manager import Manager
from fairway.testing import builders
from kubewire.api.meta import TRUE
from kubewire.client import Invalid
from metric_values import values

pytestmark = [pytest.mark.usefixtures("bystander"), pytest.mark.embedded]

BAD_TIME = "2026-11-16T05:00:00+25:00"
FIELD = "status.conditions[].lastTransitionTime"
REGION = PlacementSpec(predicates=(builders.predicate(labels=builders.selector(labels={"region": "eu"})),))


async def write_odd_status(fleet: HubFleet, word: str) -> None:
    odd: dict[str, Any] = {
        "type": "Odd",
        "status": TRUE,
        "reason": "Odd",
        "message": "",
        "lastTransitionTime": BAD_TIME,
    }
    await fleet.edit(MANAGED_CLUSTERS, fleet.name(word), {"status": {"conditions": [odd]}}, status=True)


async def test_taints_and_labels_take_effect_although_the_status_cannot_be_read(
    manager: Manager, start: Start, fleet: HubFleet
) -> None:
    await fleet.cluster("c", labels={"region": "eu"})
    await fleet.cluster("d", labels={"region": "eu"})
    await fleet.place("p", REGION)
    await fleet.chooses("p", "c", "d")
    await write_odd_status(fleet, "c")
    await write_odd_status(fleet, "d")
    await fleet.chooses("p", "c", "d")
    taints = [{"key": "quarantine", "effect": "NoSelect"}]
    await fleet.edit(MANAGED_CLUSTERS, fleet.name("c"), {"spec": {"taints": taints}})
    await fleet.chooses("p", "d")
    await fleet.edit(MANAGED_CLUSTERS, fleet.name("d"), {"metadata": {"labels": {"region": "us"}}})
    await fleet.chooses("p")
    async with start() as later:
        assert later.informers.unreadable()["ManagedCluster", FIELD] == 2
        await fleet.edit(MANAGED_CLUSTERS, fleet.name("d"), {"metadata": {"labels": {"region": "eu"}}})
        await fleet.chooses("p", "d")


@pytest.mark.both_hubs
async def test_unreadable_field_is_reported_by_an_event_and_a_metric(
    manager: Manager, fleet: HubFleet
) -> None:
    await fleet.place("p")
    await fleet.chooses("p", "a", "b")
    odd = {"status": {"lastScoreUpdateTime": BAD_TIME}}
    await fleet.edit(PLACEMENTS, "p", odd, namespace=fleet.namespace, status=True)
    await fleet.eventually(lambda: bool(fleet.events("UnreadableField")))
    assert fleet.last_event("UnreadableField").note == (
        "Fields that cannot be read are ignored: status.lastScoreUpdateTime: Invalid RFC3339 encoded datetime"
    )
    await write_odd_status(fleet, "a")
    manager.measure()
    shown = values(manager.meters.expose())
    series = f'fairway_unreadable_fields{{field="{FIELD}",kind="ManagedCluster"}}'
    assert shown[series] == 1
    await fleet.edit(MANAGED_CLUSTERS, fleet.name("a"), {"status": {"conditions": []}}, status=True)
    manager.measure()
    assert values(manager.meters.expose())[series] == 0


async def test_score_whose_end_cannot_be_read_has_expired(manager: Manager, fleet: HubFleet) -> None:
    await fleet.score("a", {"cpu": 90})
    await fleet.score("b", {"cpu": 10})
    policy = builders.policy(builders.addon("cpu"), mode="Exact")
    await fleet.place("p", PlacementSpec(numberOfClusters=1, prioritizerPolicy=policy))
    await fleet.chooses("p", "a")
    odd = {"status": {"validUntil": BAD_TIME}}
    await fleet.edit(ADD_ON_PLACEMENT_SCORES, "default", odd, namespace=fleet.name("a"), status=True)
    await fleet.chooses("p", "b")


ODD_TIMES = (
    *(
        "2026-11-16T05:00:00+25:00",
        "2026-11-16T05:00:00-99:59",
        "0000-01-01T00:00:00Z",
        "2026-02-31T00:00:00Z",
    ),
    *("2026-11-16T05:00:60Z", "2026-11-16t05:00:00z", "2026-11-16T05:00:00.123456789123456789Z"),
    *(
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "2026-11-16T24:00:00Z",
        "10000-01-01T00:00:00Z",
    ),
)


@pytest.mark.both_hubs
async def test_every_spec_change_takes_effect_whatever_status_the_hub_accepts(
    manager: Manager, fleet: HubFleet
) -> None:
    await fleet.place("p")
    accepted = 0
    for at, odd in enumerate(ODD_TIMES):
        condition = {"type": "Odd", "status": TRUE, "reason": "Odd", "message": "", "lastTransitionTime": odd}
        try:
            status = {"status": {"conditions": [condition]}}
            await fleet.edit(MANAGED_CLUSTERS, fleet.name("a"), status, status=True)
        except Invalid:
            continue
        accepted += 1
        taints = [{"key": "k", "effect": "NoSelect", "timeAdded": odd}] if at % 2 == 0 else []
        await fleet.edit(MANAGED_CLUSTERS, fleet.name("a"), {"spec": {"taints": taints}})
        await fleet.chooses("p", *(["b"] if taints else ["a", "b"]))
    assert accepted >= 5
