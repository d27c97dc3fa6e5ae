"""kr8s: discovery, objects of built-in and of custom kinds, watches."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from importlib import import_module
from typing import Any

import pytest
from clients import boat_crd
from clients.conftest import Suite

DEADLINE = 120

pytestmark = pytest.mark.filterwarnings(
    "ignore:Kubernetes version .* is not supported:UserWarning"  # it warns about newer versions
)

kr8s: Any = import_module("kr8s")
api_of: Any = import_module("kr8s.asyncio").api
objects: Any = import_module("kr8s.asyncio.objects")


@pytest.fixture
async def api(hub: Suite, room: str) -> AsyncIterator[Any]:
    made = await api_of(kubeconfig=str(hub.kubeconfig), namespace=room)
    yield made
    await made._session.aclose()  # it has no way to say so
    await asyncio.sleep(0)


@pytest.fixture(scope="module")
def boat() -> Any:
    return objects.new_class(
        kind=boat_crd.KIND,
        version=boat_crd.API_VERSION,
        plural=boat_crd.PLURAL,
        scalable=True,
        scalable_spec="crew",
    )


def config_map(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "data": {"light": "red"}}


async def test_kr8s_discovery(api: Any, boats: None) -> None:
    assert (await api.version())["minor"] == "36"
    assert await api.lookup_kind("deploy") == ("deployment.apps/v1", "deployments", True)
    assert await api.lookup_kind("bt") == (f"boat.{boat_crd.API_VERSION}", "boats", True)
    assert {"v1", "apps/v1", boat_crd.API_VERSION} <= {version async for version in api.api_versions()}
    kinds = {kind["name"]: kind for kind in await api.api_resources()}
    assert kinds["nodes"]["namespaced"] is False


async def test_kr8s_object_lifecycle(api: Any) -> None:
    made = await objects.ConfigMap(config_map("buoy"), api=api)
    assert not await made.exists()
    await made.create()
    assert await made.exists()
    assert made.metadata.uid
    buoy = await objects.ConfigMap.get("buoy", api=api)
    assert (buoy.data.light, buoy.namespace) == ("red", api.namespace)
    await made.patch({"data": {"bell": "yes"}})
    assert made.data == {"light": "red", "bell": "yes"}
    await made.patch([{"op": "remove", "path": "/data/bell"}], type="json")
    await buoy.refresh()
    assert buoy.data == {"light": "red"}
    assert buoy.metadata.resourceVersion == made.metadata.resourceVersion
    await made.delete()
    with pytest.raises(kr8s.NotFoundError):
        await buoy.refresh()
    with pytest.raises(kr8s.NotFoundError):
        await objects.ConfigMap.get("buoy", api=api, timeout=1)


async def test_kr8s_lists(api: Any) -> None:
    for name, sea in (("a", "north"), ("b", "south"), ("c", "north")):
        await (await objects.ConfigMap(config_map(name, sea=sea), api=api)).create()

    async def names(**query: Any) -> list[str]:
        return [obj.name async for obj in api.get("configmaps", **query)]

    assert await names(label_selector={"sea": "north"}) == ["a", "c"]
    assert await names(label_selector="sea!=north,sea") == ["b"]
    assert await names(field_selector={"metadata.name": "c"}) == ["c"]
    assert [obj.name async for obj in api.get("configmaps", "b", "a")] == ["b", "a"]
    everywhere = [obj async for obj in api.get("configmaps", namespace=kr8s.ALL, label_selector="sea")]
    assert {obj.namespace for obj in everywhere} >= {api.namespace}


async def test_kr8s_scale(api: Any) -> None:
    labels = {"app": "fleet"}
    document = {
        "metadata": {"name": "fleet"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "image:1"}]},
            },
        },
    }
    deployment = await objects.Deployment(document, api=api)
    await deployment.create()
    assert deployment.replicas == 1
    await deployment.scale(4)
    assert deployment.replicas == 4
    assert not await deployment.ready()


async def test_kr8s_custom_kinds(api: Any, boats: None, boat: Any) -> None:
    made = await boat(boat_crd.boat("kon-tiki"), api=api)
    await made.create()
    assert made.spec.crew == 1
    await made.scale(6)
    assert (made.spec.crew, made.metadata.generation) == (6, 2)
    await made.patch({"status": {"phase": "afloat"}}, subresource="status")
    kon_tiki = await boat.get("kon-tiki", api=api)
    assert kon_tiki.status == {"phase": "afloat"}
    with pytest.raises(kr8s.ServerError, match="should be a non-negative integer"):
        await made.patch({"spec": {"crew": -1}})
    assert [obj.name async for obj in boat.list(api=api)] == ["kon-tiki"]
    assert [obj.name async for obj in api.get("boats." + boat_crd.GROUP)] == ["kon-tiki"]


async def test_kr8s_watch(api: Any, boats: None, boat: Any) -> None:
    there = await boat(boat_crd.boat("there"), api=api)
    await there.create()
    told = []
    async with asyncio.timeout(DEADLINE), aclosing(api.watch(boat)) as events:
        async for type_, obj in events:
            told.append((type_, obj.name))
            if len(told) == 1:
                await (await boat(boat_crd.boat("later"), api=api)).create()
            elif len(told) == 2:
                await there.delete()
            else:
                break
    assert told == [("ADDED", "there"), ("ADDED", "later"), ("DELETED", "there")]


async def test_kr8s_waits_for_a_condition(api: Any, boats: None, boat: Any) -> None:
    made = await boat(boat_crd.boat("kon-tiki"), api=api)
    await made.create()
    await made.patch({"status": {"phase": "ashore"}}, subresource="status")
    waiting = asyncio.create_task(made.wait("condition=Afloat", timeout=DEADLINE))
    conditions = [{"type": "Afloat", "status": "True"}]
    other = await boat.get("kon-tiki", api=api)
    await other.patch({"status": {"conditions": conditions}}, subresource="status")
    await waiting
    gone = asyncio.create_task(made.wait("delete", timeout=DEADLINE))
    await (await boat.get("kon-tiki", api=api)).delete()
    await gone


async def test_kr8s_cordon(api: Any, namespace: str) -> None:
    node = await objects.Node({"metadata": {"name": namespace}}, api=api)
    await node.create()
    await node.cordon()
    assert node.unschedulable
    await node.taint("sea", "rough", effect="NoExecute")
    assert {"key": "sea", "value": "rough", "effect": "NoExecute"} in node.taints
    await node.delete()
