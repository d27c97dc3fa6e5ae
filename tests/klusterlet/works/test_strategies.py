"""Ignored fields, condition rules, and works that are deleted after completion."""

from datetime import timedelta
from typing import Any

import pytest

from controllers.clocks import Stopped
from fairway.api.resources import MANIFEST_WORKS
from klusterlet.works.harness import WorksHarness
from kubewire.client import Patch

JOB = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}


def job(harness: WorksHarness) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": harness.name},
        "spec": JOB,
    }


def config(
    harness: WorksHarness, *, group: str = "", resource: str = "configmaps", name: str = "one", **rest: Any
) -> Any:
    identifier = {"group": group, "resource": resource, "namespace": harness.name, "name": name}
    return {"resourceIdentifier": identifier, **rest}


def ignoring(harness: WorksHarness, **field: Any) -> list[Any]:
    apply = {"type": "ServerSideApply", "serverSideApply": {"force": True, "ignoreFields": [field]}}
    return [config(harness, updateStrategy=apply)]


@pytest.mark.parametrize(
    "paths", [{"jsonPaths": [".data.k"]}, {"jsonPointers": ["/data/k"]}, {"jqPathExpressions": [".data.k"]}]
)
async def test_ignored_fields_are_kept_after_creation(
    small_world: WorksHarness, paths: dict[str, Any]
) -> None:
    harness = small_world
    configs = ignoring(harness, condition="OnSpokePresent", **paths)
    async with harness.agent():
        await harness.give("a", harness.config_map("one", {"k": "1", "l": "1"}), manifestConfigs=configs)
        await harness.applied("a")
        assert await harness.there() == {"one": {"k": "1", "l": "1"}}
        await harness.edit(harness.at("one"), {"data": {"k": "theirs", "l": "theirs"}})
        await harness.eventually(lambda: harness.maps() == {"one": {"k": "theirs", "l": "1"}})
        await harness.give("a", harness.config_map("one", {"k": "2", "l": "2"}), manifestConfigs=configs)
        await harness.eventually(lambda: harness.maps() == {"one": {"k": "theirs", "l": "2"}})


async def test_ignored_fields_are_kept_until_manifest_changes(small_world: WorksHarness) -> None:
    harness = small_world
    configs = ignoring(harness, condition="OnSpokeChange", jsonPaths=[".data.k"])
    async with harness.agent():
        await harness.give("a", harness.config_map("one", {"k": "1", "l": "1"}), manifestConfigs=configs)
        await harness.applied("a")
        await harness.edit(harness.at("one"), {"data": {"k": "theirs", "l": "theirs"}})
        await harness.eventually(lambda: harness.maps() == {"one": {"k": "theirs", "l": "1"}})
        await harness.give("a", harness.config_map("one", {"k": "2", "l": "1"}), manifestConfigs=configs)
        await harness.eventually(lambda: harness.maps() == {"one": {"k": "2", "l": "1"}})


async def test_invalid_ignored_path_is_reported(small_world: WorksHarness) -> None:
    harness = small_world
    configs = ignoring(harness, condition="OnSpokePresent", jqPathExpressions=["map(.data)"])
    async with harness.agent():
        await harness.give("a", harness.config_map("one", {}), manifestConfigs=configs)
        message = await harness.refused("a", 0)
    assert "'map(.data)' is not a jq path" in message
    assert "correct updateStrategy.serverSideApply.ignoreFields" in message
    condition = harness.condition("a", "Applied", manifest=0)
    assert condition is not None
    assert condition.reason == "AppliedManifestSSAIgnoreFieldError"


async def test_condition_rules_are_reported(small_world: WorksHarness) -> None:
    harness = small_world
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
    configs = [config(harness, conditionRules=rules)]
    async with harness.agent():
        await harness.give("a", harness.config_map("one", {"k": "no"}), manifestConfigs=configs)
        await harness.eventually(lambda: harness.has_condition("a", "Ready", "False"))
        await harness.give("a", harness.config_map("one", {"k": "yes"}), manifestConfigs=configs)
        await harness.eventually(lambda: harness.has_condition("a", "Ready", "True"))
        for type_, status, reason, message in (
            ("Ready", "True", "ConditionRulesAggregated", "see k"),
            ("Odd", "False", "ConditionRulesAggregated", "no such key: missing"),
            ("Told", "True", "ConditionRulesAggregated", "k is yes"),
        ):
            condition = harness.condition("a", type_)
            assert condition is not None
            assert (condition.status, condition.reason, condition.message) == (status, reason, message)
        # Conditions of removed rules are removed.
        await harness.give("a", harness.config_map("one", {"k": "yes"}))
        await harness.applied("a")
        work = harness.work("a")
    assert work is not None
    assert {condition.type for condition in work.status.conditions} == {"Applied", "Available"}


async def test_complete_work_is_frozen_and_deleted_after_ttl(small_world: WorksHarness) -> None:
    harness, clock = small_world, Stopped()
    rules = [{"condition": "Complete", "type": "WellKnownConditions"}]
    configs = [config(harness, group="batch", resource="jobs", name="job", conditionRules=rules)]
    option = {"ttlSecondsAfterFinished": 100}
    path = f"/apis/batch/v1/namespaces/{harness.name}/jobs/job"
    async with harness.agent(clock=clock):
        await harness.give("a", job(harness), harness.config_map("one", {"k": "1"}), manifestConfigs=configs)
        await harness.eventually(lambda: harness.has_condition("a", "Complete", "False"))
        conditions = [{"type": "Complete", "status": "True"}]
        await harness.edit(f"{path}/status", {"status": {"succeeded": 1, "conditions": conditions}})
        await harness.eventually(lambda: harness.has_condition("a", "Complete", "True"))
        condition = harness.condition("a", "Complete")
        assert condition is not None
        assert condition.message == "Job is finished"
    clock.now += timedelta(seconds=99)
    await harness.give(
        "a", job(harness), harness.config_map("one", {"k": "2"}), manifestConfigs=configs, deleteOption=option
    )
    async with harness.agent(clock=clock) as agent:
        await agent.wait_until_synced()
        await agent.wait_until_idle()
        assert harness.work("a") is not None
    assert await harness.there() == {"one": {"k": "1"}}
    clock.now += timedelta(seconds=1)
    async with harness.agent(clock=clock):
        await harness.until_deleted("a")
    assert await harness.there() == {}


async def test_complete_work_of_a_replica_set_is_kept_after_ttl(small_world: WorksHarness) -> None:
    """Its ManifestWorkReplicaSet would create it again."""
    harness, clock = small_world, Stopped()
    await harness.give("a", harness.config_map("one", {}), deleteOption={"ttlSecondsAfterFinished": 0})
    labels = {"work.open-cluster-management.io/manifestworkreplicaset": "ns.set"}
    complete = {
        "type": "Complete",
        "status": "True",
        "reason": "r",
        "message": "",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    for body, subresource in (
        ({"metadata": {"labels": labels}}, None),
        ({"status": {"conditions": [complete]}}, "status"),
    ):
        await harness.hub.patch(
            MANIFEST_WORKS,
            harness.full("a"),
            body,
            kind=Patch.MERGE,
            namespace=harness.name,
            subresource=subresource,
        )
    async with harness.agent(clock=clock) as agent:
        await agent.wait_until_synced()
        await agent.wait_until_idle()
        work = await harness.hub.get(MANIFEST_WORKS, harness.full("a"), namespace=harness.name)
        assert work.metadata.deletionTimestamp is None
        await harness.hub.patch(
            MANIFEST_WORKS,
            harness.full("a"),
            {"metadata": {"labels": None}},
            kind=Patch.MERGE,
            namespace=harness.name,
        )
        await harness.until_deleted("a")


async def test_objects_of_vanished_work_are_evicted(small_world: WorksHarness) -> None:
    harness, clock = small_world, Stopped()
    async with harness.agent(clock=clock):
        await harness.give("a", harness.config_map("one", {}))
        await harness.applied("a")
    # A user removes the work's finalizer while no agent runs.
    await harness.hub.patch(
        MANIFEST_WORKS,
        harness.full("a"),
        {"metadata": {"finalizers": None}},
        kind=Patch.MERGE,
        namespace=harness.name,
    )
    await harness.take_back("a")
    await harness.eventually(lambda: harness.work("a") is None)

    def evicting() -> bool:
        record = harness.record("a")
        return record is not None and record.status.evictionStartTime is not None

    async with harness.agent(clock=clock, eviction=60.0):
        await harness.eventually(evicting)
        # It returns in time.
        await harness.give("a", harness.config_map("one", {}))
        await harness.applied("a")
        await harness.eventually(lambda: not evicting())
    assert await harness.there() == {"one": {}}
    await harness.hub.patch(
        MANIFEST_WORKS,
        harness.full("a"),
        {"metadata": {"finalizers": None}},
        kind=Patch.MERGE,
        namespace=harness.name,
    )
    await harness.take_back("a")
    async with harness.agent(clock=clock, eviction=60.0):
        await harness.eventually(evicting)
    clock.now += timedelta(seconds=60)
    async with harness.agent(clock=clock, eviction=60.0):
        await harness.eventually(lambda: harness.record("a") is None and not harness.maps())
