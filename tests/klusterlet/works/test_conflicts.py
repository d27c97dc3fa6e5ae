"""Works that have the same object and do not agree."""

from typing import Any, cast

from fairway.api.meta import ObjectMeta
from fairway.api.work import ManifestWork, ManifestWorkSpec, Workload
from fairway.klusterlet.works import messages
from fairway.klusterlet.works.conflicts import ConflictIndex
from fairway.klusterlet.works.discovery import Discovery
from fairway.kube import Added, Batch, Change, Deleted, Updated
from klusterlet.works.world import World


async def test_older_work_wins_conflict_and_younger_reports_it(small_world: World) -> None:
    world = small_world
    # With one worker the older work is undone before the younger one is looked at.
    async with world.agent(workers=1) as agent:
        await world.give("a", world.config_map("one", {"k": "old"}))
        await world.applied("a")
        await world.give("b", world.config_map("one", {"k": "young"}), world.config_map("two", {}))
        message = await world.refused("b", 0)
        assert message == (
            f"Failed to apply manifest: manifest 0 (ConfigMap {world.name}/one): is also in ManifestWork "
            f"{world.full('a')} with other content, which takes precedence because it is older; "
            f"{messages.CONFLICT_REMEDY}"
        )
        await agent.quiet()
        assert await world.there() == {"one": {"k": "old"}, "two": {}}
        # The younger one has it as soon as the older one is gone, and it was never away.
        before = await world.get(world.at("one"))
        await world.take_back("a")
        await world.gone("a")
        await world.applied("b")
    after = await world.get(world.at("one"))
    assert before is not None
    assert after is not None
    assert after["data"] == {"k": "young"}
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_conflict_ends_when_manifests_become_equal(small_world: World) -> None:
    world = small_world
    async with world.agent():
        await world.give("a", world.config_map("one", {"k": "old"}))
        await world.applied("a")
        await world.give("b", world.config_map("one", {"k": "young"}))
        await world.refused("b", 0)
        await world.give("a", world.config_map("one", {"k": "young"}))
        await world.applied("b")
        await world.eventually(lambda: world.maps() == {"one": {"k": "young"}})


async def test_object_moves_between_works(small_world: World) -> None:
    world = small_world
    rule = {"resource": "configmaps", "namespace": world.name, "name": "one"}
    option = {"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [rule]}}
    async with world.agent():
        await world.give("a", world.config_map("one", {"k": "1"}), world.config_map("two", {}))
        await world.applied("a")
        await world.give("b", world.config_map("one", {"k": "2"}))
        await world.refused("b", 0)
        # A work that would leave it behind gives way to the one that keeps it.
        await world.give(
            "a", world.config_map("one", {"k": "1"}), world.config_map("two", {}), deleteOption=option
        )
        await world.applied("b")
        assert messages.KEEPS in await world.refused("a", 0)
        await world.give("a", world.config_map("two", {}), deleteOption=option)
        await world.applied("a")
        await world.take_back("a")
        await world.gone("a")
        assert await world.there() == {"one": {"k": "2"}}


async def test_works_with_different_managers_share_an_object(small_world: World) -> None:
    world = small_world

    def config(manager: str) -> list[Any]:
        identifier = {"resource": "configmaps", "namespace": world.name, "name": "o*"}
        apply = {"type": "ServerSideApply", "serverSideApply": {"fieldManager": manager}}
        return [{"resourceIdentifier": identifier, "updateStrategy": apply}]

    async with world.agent():
        await world.give("a", world.config_map("one", {"a": "1"}), manifestConfigs=config("work-agent-a"))
        await world.give("b", world.config_map("one", {"b": "2"}), manifestConfigs=config("work-agent-b"))
        await world.applied("a")
        await world.applied("b")
        await world.eventually(lambda: world.maps() == {"one": {"a": "1", "b": "2"}})


def work(name: str, *objects: str) -> ManifestWork:
    manifests = tuple(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": each}} for each in objects
    )
    return ManifestWork(
        metadata=ObjectMeta(name=name, namespace="c"),
        spec=ManifestWorkSpec(workload=Workload(manifests=manifests)),
    )


def test_work_that_dropped_an_object_is_not_woken_about_it() -> None:
    index = ConflictIndex({}, cast("Discovery", None))

    def hear(change: Change[ManifestWork]) -> set[str]:
        return index.update(Batch(changes=(change,), epoch=0, listed=False, resource_version="1"))

    before, after = work("a", "one", "two"), work("a", "two")
    assert hear(Added(before)) == {"a"}
    assert hear(Updated(before, after)) == {"a"}
    assert hear(Added(work("b", "one"))) == {"b"}
    assert hear(Added(work("c", "two"))) == {"a", "c"}
    assert hear(Deleted(after)) == {"c"}
