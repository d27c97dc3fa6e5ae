"""The address of the hub changes: the records of the former address are evicted, and objects keep an owner."""

from datetime import timedelta
from typing import Any

import pytest

from controllers.clocks import Stopped
from fairway.api.resources import APPLIED_MANIFEST_WORKS
from fairway.klusterlet.works.applied_works import WORK_UID
from klusterlet.works.harness import WorksHarness

MOVED = "https://moved.example"


@pytest.mark.parametrize("agent_id", [None, ""], ids=["same agent ID", "agent ID of the address"])
async def test_records_of_a_former_address_are_evicted(
    small_world: WorksHarness, agent_id: str | None
) -> None:
    harness, clock = small_world, Stopped()
    options: dict[str, Any] = {"clock": clock, "eviction": 60.0}
    if agent_id is not None:
        options["agent_id"] = agent_id
    async with harness.agent(**options):
        await harness.give("a", harness.config_map("one", {}), harness.config_map("two", {}))
        await harness.give("b", harness.config_map("three", {}))
        await harness.applied("a")
        await harness.applied("b")
    await harness.give("a", harness.config_map("one", {"k": "1"}))
    harness.address = MOVED
    async with harness.agent(**options):
        # Until the grace period has passed, both records own the object, and the address may change back.
        await harness.eventually(
            lambda: [r.status.evictionStartTime for r in harness.records("a")][:1] == [None]
        )
        await harness.eventually(lambda: all(r.status.evictionStartTime for r in harness.records("a")[1:]))
        await harness.applied("a")
        assert len(harness.records("a")) == 2
        # A work that is deleted takes its former record along.
        await harness.take_back("b")
        await harness.eventually(lambda: not harness.records("b") and harness.work("b") is None)
        assert await harness.there() == {"one": {"k": "1"}, "two": {}}
    clock.now += timedelta(seconds=60)
    async with harness.agent(**options):
        await harness.eventually(lambda: len(harness.records("a")) == 1)
        await harness.eventually(lambda: harness.maps() == {"one": {"k": "1"}})
        live = await harness.get(harness.at("one"))
        assert live is not None
        (owner,) = live["metadata"]["ownerReferences"]
        assert owner["name"] == harness.records("a")[0].metadata.name
        await harness.take_back("a")
        await harness.until_deleted("a")
    assert await harness.there() == {}


async def test_record_of_another_hub_with_a_work_of_the_same_name_stays(small_world: WorksHarness) -> None:
    harness = small_world
    uid = "00000000-0000-0000-0000-000000000000"
    other = {
        "metadata": {"name": f"other-{harness.name}", "annotations": {WORK_UID: uid}},
        "spec": {"hubHash": "other", "agentID": "other", "manifestWorkName": harness.full("a")},
    }
    await harness.cluster.create(APPLIED_MANIFEST_WORKS, other)
    async with harness.agent(eviction=0) as agent:
        await harness.give("a", harness.config_map("one", {}))
        await harness.applied("a")
        await harness.take_back("a")
        await harness.eventually(lambda: harness.work("a") is None)
        await agent.wait_until_idle()
    (record,) = harness.records("a")
    assert (record.spec.agentID, record.status.evictionStartTime) == ("other", None)
    await harness.cluster.delete(APPLIED_MANIFEST_WORKS, record.metadata.name)
