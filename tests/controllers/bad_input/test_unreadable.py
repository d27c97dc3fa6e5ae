"""Fields that pass the schema and cannot be decoded: the other fields of the object still take effect."""

from typing import Any

import pytest

from controllers.conftest import Start
from controllers.world import World
from fairway.api.meta import TRUE
from fairway.api.placement import PlacementSpec
from fairway.controllers.manager import Manager
from fairway.kube import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS, PLACEMENTS, Invalid
from fairway.observe.meters import values
from fairway.testing import builders

pytestmark = [pytest.mark.usefixtures("bystander"), pytest.mark.embedded]

BAD_TIME = "2026-11-16T05:00:00+25:00"
FIELD = "status.conditions[].lastTransitionTime"
REGION = PlacementSpec(predicates=(builders.predicate(labels=builders.selector(labels={"region": "eu"})),))


async def write_odd_status(world: World, word: str) -> None:
    odd: dict[str, Any] = {
        "type": "Odd",
        "status": TRUE,
        "reason": "Odd",
        "message": "",
        "lastTransitionTime": BAD_TIME,
    }
    await world.edit(MANAGED_CLUSTERS, world.full(word), {"status": {"conditions": [odd]}}, status=True)


async def test_taints_and_labels_take_effect_although_the_status_cannot_be_read(
    manager: Manager, start: Start, world: World
) -> None:
    await world.cluster("c", labels={"region": "eu"})
    await world.cluster("d", labels={"region": "eu"})
    await world.place("p", REGION)
    await world.chooses("p", "c", "d")
    await write_odd_status(world, "c")
    await write_odd_status(world, "d")
    await world.chooses("p", "c", "d")
    taints = [{"key": "quarantine", "effect": "NoSelect"}]
    await world.edit(MANAGED_CLUSTERS, world.full("c"), {"spec": {"taints": taints}})
    await world.chooses("p", "d")
    await world.edit(MANAGED_CLUSTERS, world.full("d"), {"metadata": {"labels": {"region": "us"}}})
    await world.chooses("p")
    async with start() as later:
        assert later.informers.unreadable()["ManagedCluster", FIELD] == 2
        await world.edit(MANAGED_CLUSTERS, world.full("d"), {"metadata": {"labels": {"region": "eu"}}})
        await world.chooses("p", "d")


@pytest.mark.both_hubs
async def test_unreadable_field_is_reported_by_an_event_and_a_metric(manager: Manager, world: World) -> None:
    await world.place("p")
    await world.chooses("p", "a", "b")
    odd = {"status": {"lastScoreUpdateTime": BAD_TIME}}
    await world.edit(PLACEMENTS, "p", odd, namespace=world.namespace, status=True)
    await world.eventually(lambda: bool(world.events("UnreadableField")))
    assert world.last_event("UnreadableField").note == (
        "Fields that cannot be read are ignored: status.lastScoreUpdateTime: Invalid RFC3339 encoded datetime"
    )
    await write_odd_status(world, "a")
    manager.measure()
    shown = values(manager.meters.expose())
    series = f'fairway_unreadable_fields{{field="{FIELD}",kind="ManagedCluster"}}'
    assert shown[series] == 1
    await world.edit(MANAGED_CLUSTERS, world.full("a"), {"status": {"conditions": []}}, status=True)
    manager.measure()
    assert values(manager.meters.expose())[series] == 0


async def test_score_whose_end_cannot_be_read_has_expired(manager: Manager, world: World) -> None:
    await world.score("a", {"cpu": 90})
    await world.score("b", {"cpu": 10})
    policy = builders.policy(builders.addon("cpu"), mode="Exact")
    await world.place("p", PlacementSpec(numberOfClusters=1, prioritizerPolicy=policy))
    await world.chooses("p", "a")
    odd = {"status": {"validUntil": BAD_TIME}}
    await world.edit(ADD_ON_PLACEMENT_SCORES, "default", odd, namespace=world.full("a"), status=True)
    await world.chooses("p", "b")


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
    manager: Manager, world: World
) -> None:
    await world.place("p")
    accepted = 0
    for at, odd in enumerate(ODD_TIMES):
        condition = {"type": "Odd", "status": TRUE, "reason": "Odd", "message": "", "lastTransitionTime": odd}
        try:
            status = {"status": {"conditions": [condition]}}
            await world.edit(MANAGED_CLUSTERS, world.full("a"), status, status=True)
        except Invalid:
            continue
        accepted += 1
        taints = [{"key": "k", "effect": "NoSelect", "timeAdded": odd}] if at % 2 == 0 else []
        await world.edit(MANAGED_CLUSTERS, world.full("a"), {"spec": {"taints": taints}})
        await world.chooses("p", *(["b"] if taints else ["a", "b"]))
    assert accepted >= 5
