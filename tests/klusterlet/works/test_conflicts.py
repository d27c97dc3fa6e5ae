"""Works that have the same object and do not agree."""

from typing import Any, cast

from fairway.api.work import ManifestWork, ManifestWorkSpec, Workload
from fairway.klusterlet.works import messages
from fairway.klusterlet.works.applied_works import AppliedWorks
from fairway.klusterlet.works.conflicts import ConflictIndex
from fairway.klusterlet.works.discovery import Discovery
from klusterlet.works.harness import WorksHarness
from kubewire.api.meta import ObjectMeta
from kubewire.client import Added, Batch, Change, Deleted, Updated


async def test_owner_wins_conflict_and_other_work_reports_it(small_world: WorksHarness) -> None:
    harness = small_world
    # With one worker the older work is removed before the younger one is reconciled.
    async with harness.agent(workers=1) as agent:
        await harness.give("a", harness.config_map("one", {"k": "old"}))
        await harness.applied("a")
        await harness.give("b", harness.config_map("one", {"k": "young"}), harness.config_map("two", {}))
        message = await harness.refused("b", 0)
        assert message == (
            f"Failed to apply manifest: manifest 0 (ConfigMap {harness.name}/one): is also in ManifestWork "
            f"{harness.full('a')} with other content, which {messages.OWNS}; "
            f"{messages.CONFLICT_REMEDY}"
        )
        await agent.wait_until_idle()
        assert await harness.there() == {"one": {"k": "old"}, "two": {}}
        # The younger one owns it once the older one is deleted, and it was never deleted.
        before = await harness.get(harness.at("one"))
        await harness.take_back("a")
        await harness.until_deleted("a")
        await harness.applied("b")
    after = await harness.get(harness.at("one"))
    assert before is not None
    assert after is not None
    assert after["data"] == {"k": "young"}
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_conflict_ends_when_manifests_become_equal(small_world: WorksHarness) -> None:
    harness = small_world
    async with harness.agent():
        await harness.give("a", harness.config_map("one", {"k": "old"}))
        await harness.applied("a")
        await harness.give("b", harness.config_map("one", {"k": "young"}))
        await harness.refused("b", 0)
        await harness.give("a", harness.config_map("one", {"k": "young"}))
        await harness.applied("b")
        await harness.eventually(lambda: harness.maps() == {"one": {"k": "young"}})


async def test_object_moves_between_works(small_world: WorksHarness) -> None:
    harness = small_world
    rule = {"resource": "configmaps", "namespace": harness.name, "name": "one"}
    option = {"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [rule]}}
    async with harness.agent():
        await harness.give("a", harness.config_map("one", {"k": "1"}), harness.config_map("two", {}))
        await harness.applied("a")
        await harness.give("b", harness.config_map("one", {"k": "2"}))
        await harness.refused("b", 0)
        # A work that would leave it behind gives way to the one that keeps it.
        await harness.give(
            "a", harness.config_map("one", {"k": "1"}), harness.config_map("two", {}), deleteOption=option
        )
        await harness.applied("b")
        assert messages.KEEPS in await harness.refused("a", 0)
        await harness.give("a", harness.config_map("two", {}), deleteOption=option)
        await harness.applied("a")
        await harness.take_back("a")
        await harness.until_deleted("a")
        assert await harness.there() == {"one": {"k": "2"}}


async def test_works_with_different_managers_share_an_object(small_world: WorksHarness) -> None:
    harness = small_world

    def config(manager: str) -> list[Any]:
        identifier = {"resource": "configmaps", "namespace": harness.name, "name": "o*"}
        apply = {"type": "ServerSideApply", "serverSideApply": {"fieldManager": manager}}
        return [{"resourceIdentifier": identifier, "updateStrategy": apply}]

    async with harness.agent():
        await harness.give("a", harness.config_map("one", {"a": "1"}), manifestConfigs=config("work-agent-a"))
        await harness.give("b", harness.config_map("one", {"b": "2"}), manifestConfigs=config("work-agent-b"))
        await harness.applied("a")
        await harness.applied("b")
        await harness.eventually(lambda: harness.maps() == {"one": {"a": "1", "b": "2"}})


def work(name: str, *objects: str) -> ManifestWork:
    manifests = tuple(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": object_name}}
        for object_name in objects
    )
    return ManifestWork(
        metadata=ObjectMeta(name=name, namespace="c"),
        spec=ManifestWorkSpec(workload=Workload(manifests=manifests)),
    )


def test_change_of_a_removed_object_does_not_requeue_the_work() -> None:
    index = ConflictIndex({}, cast("Discovery", None), cast("AppliedWorks", None))

    def update(change: Change[ManifestWork]) -> set[str]:
        return index.update(Batch(changes=(change,), epoch=0, listed=False, resource_version="1"))

    before, after = work("a", "one", "two"), work("a", "two")
    assert update(Added(before)) == {"a"}
    assert update(Updated(before, after)) == {"a"}
    assert update(Added(work("b", "one"))) == {"b"}
    assert update(Added(work("c", "two"))) == {"a", "c"}
    assert update(Deleted(after)) == {"c"}
