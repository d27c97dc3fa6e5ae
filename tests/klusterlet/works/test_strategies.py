"""Fields that are left alone, rules that make conditions, works that come to an end by themselves."""

from datetime import timedelta
from typing import Any

import pytest

from controllers.clocks import Stopped
from fairway.kube import MANIFEST_WORKS, Patch
from klusterlet.works.world import World

JOB = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}


def job(world: World) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": world.name},
        "spec": JOB,
    }


def config(
    world: World, *, group: str = "", resource: str = "configmaps", name: str = "one", **rest: Any
) -> Any:
    identifier = {"group": group, "resource": resource, "namespace": world.name, "name": name}
    return {"resourceIdentifier": identifier, **rest}


def ignoring(world: World, **field: Any) -> list[Any]:
    apply = {"type": "ServerSideApply", "serverSideApply": {"force": True, "ignoreFields": [field]}}
    return [config(world, updateStrategy=apply)]


@pytest.mark.parametrize(
    "paths", [{"jsonPaths": [".data.k"]}, {"jsonPointers": ["/data/k"]}, {"jqPathExpressions": [".data.k"]}]
)
async def test_ignored_fields_are_kept_after_creation(small_world: World, paths: dict[str, Any]) -> None:
    world = small_world
    configs = ignoring(world, condition="OnSpokePresent", **paths)
    async with world.agent():
        await world.give("a", world.config_map("one", {"k": "1", "l": "1"}), manifestConfigs=configs)
        await world.applied("a")
        assert await world.there() == {"one": {"k": "1", "l": "1"}}
        await world.edit(world.at("one"), {"data": {"k": "theirs", "l": "theirs"}})
        await world.eventually(lambda: world.maps() == {"one": {"k": "theirs", "l": "1"}})
        await world.give("a", world.config_map("one", {"k": "2", "l": "2"}), manifestConfigs=configs)
        await world.eventually(lambda: world.maps() == {"one": {"k": "theirs", "l": "2"}})


async def test_ignored_fields_are_kept_until_manifest_changes(small_world: World) -> None:
    world = small_world
    configs = ignoring(world, condition="OnSpokeChange", jsonPaths=[".data.k"])
    async with world.agent():
        await world.give("a", world.config_map("one", {"k": "1", "l": "1"}), manifestConfigs=configs)
        await world.applied("a")
        await world.edit(world.at("one"), {"data": {"k": "theirs", "l": "theirs"}})
        await world.eventually(lambda: world.maps() == {"one": {"k": "theirs", "l": "1"}})
        await world.give("a", world.config_map("one", {"k": "2", "l": "1"}), manifestConfigs=configs)
        await world.eventually(lambda: world.maps() == {"one": {"k": "2", "l": "1"}})


async def test_invalid_ignored_path_is_reported(small_world: World) -> None:
    world = small_world
    configs = ignoring(world, condition="OnSpokePresent", jqPathExpressions=["map(.data)"])
    async with world.agent():
        await world.give("a", world.config_map("one", {}), manifestConfigs=configs)
        message = await world.refused("a", 0)
    assert "'map(.data)' is not a jq path" in message
    assert "correct updateStrategy.serverSideApply.ignoreFields" in message
    found = world.condition("a", "Applied", manifest=0)
    assert found is not None
    assert found.reason == "AppliedManifestSSAIgnoreFieldError"


async def test_condition_rules_are_reported(small_world: World) -> None:
    world = small_world
    rules = [
        {
            "condition": "Ready",
            "type": "CEL",
            "celExpressions": ["object.data.k == 'yes'"],
            "message": "see k",
        },
        {"condition": "Odd", "type": "CEL", "celExpressions": ["object.data.missing == 1"]},
        {
            "condition": "Told",
            "type": "CEL",
            "celExpressions": ["has(object.data)"],
            "messageExpression": "result ? 'k is ' + object.data.k : ''",
        },
    ]
    configs = [config(world, conditionRules=rules)]
    async with world.agent():
        await world.give("a", world.config_map("one", {"k": "no"}), manifestConfigs=configs)
        await world.eventually(lambda: world.says("a", "Ready", "False"))
        await world.give("a", world.config_map("one", {"k": "yes"}), manifestConfigs=configs)
        await world.eventually(lambda: world.says("a", "Ready", "True"))
        for type_, status, reason, message in (
            ("Ready", "True", "ConditionRulesAggregated", "see k"),
            ("Odd", "False", "ConditionRulesAggregated", "no such key: missing"),
            ("Told", "True", "ConditionRulesAggregated", "k is yes"),
        ):
            found = world.condition("a", type_)
            assert found is not None
            assert (found.status, found.reason, found.message) == (status, reason, message)
        # Rules that are gone take their conditions with them.
        await world.give("a", world.config_map("one", {"k": "yes"}))
        await world.applied("a")
        work = world.work("a")
    assert work is not None
    assert {each.type for each in work.status.conditions} == {"Applied", "Available"}


async def test_complete_work_is_frozen_and_deleted_after_ttl(small_world: World) -> None:
    world, clock = small_world, Stopped()
    rules = [{"condition": "Complete", "type": "WellKnownConditions"}]
    configs = [config(world, group="batch", resource="jobs", name="job", conditionRules=rules)]
    option = {"ttlSecondsAfterFinished": 100}
    path = f"/apis/batch/v1/namespaces/{world.name}/jobs/job"
    async with world.agent(clock=clock):
        await world.give("a", job(world), world.config_map("one", {"k": "1"}), manifestConfigs=configs)
        await world.eventually(lambda: world.says("a", "Complete", "False"))
        conditions = [{"type": "Complete", "status": "True"}]
        await world.edit(f"{path}/status", {"status": {"succeeded": 1, "conditions": conditions}})
        await world.eventually(lambda: world.says("a", "Complete", "True"))
        found = world.condition("a", "Complete")
        assert found is not None
        assert found.message == "Job is finished"
    clock.now += timedelta(seconds=99)
    await world.give(
        "a", job(world), world.config_map("one", {"k": "2"}), manifestConfigs=configs, deleteOption=option
    )
    async with world.agent(clock=clock) as agent:
        await agent.synced()
        await agent.quiet()
        assert world.work("a") is not None
    assert await world.there() == {"one": {"k": "1"}}
    clock.now += timedelta(seconds=1)
    async with world.agent(clock=clock):
        await world.gone("a")
    assert await world.there() == {}


async def test_objects_of_vanished_work_are_evicted(small_world: World) -> None:
    world, clock = small_world, Stopped()
    async with world.agent(clock=clock):
        await world.give("a", world.config_map("one", {}))
        await world.applied("a")
    # Somebody removes the work by force while no agent is there to see to it.
    await world.hub.patch(
        MANIFEST_WORKS,
        world.full("a"),
        {"metadata": {"finalizers": None}},
        kind=Patch.MERGE,
        namespace=world.name,
    )
    await world.take_back("a")
    await world.eventually(lambda: world.work("a") is None)

    def evicting() -> bool:
        record = world.record("a")
        return record is not None and record.status.evictionStartTime is not None

    async with world.agent(clock=clock, eviction=60.0):
        await world.eventually(evicting)
        # It comes back in time: all is well again.
        await world.give("a", world.config_map("one", {}))
        await world.applied("a")
        await world.eventually(lambda: not evicting())
    assert await world.there() == {"one": {}}
    await world.hub.patch(
        MANIFEST_WORKS,
        world.full("a"),
        {"metadata": {"finalizers": None}},
        kind=Patch.MERGE,
        namespace=world.name,
    )
    await world.take_back("a")
    async with world.agent(clock=clock, eviction=60.0):
        await world.eventually(evicting)
    clock.now += timedelta(seconds=60)
    async with world.agent(clock=clock, eviction=60.0):
        await world.eventually(lambda: world.record("a") is None and not world.maps())
