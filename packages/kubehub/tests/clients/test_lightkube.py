"""lightkube: typed objects of built-in kinds, generic ones, lists in chunks, apply, watches."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import httpx2
import pytest
from clients import boat_crd
from clients.conftest import Suite
from clients.refusals import absent, stale, status
from lightkube import ApiError, AsyncClient, Client, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.autoscaling_v1 import ScaleSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.operators import in_, not_equal
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Namespace
from lightkube.types import CascadeType, PatchType

DEADLINE = 120
PATIENT = httpx2.Timeout(DEADLINE)
"""Left to itself, it gives up on a machine that is busy for ten seconds."""

Boat: Any = create_namespaced_resource(boat_crd.GROUP, boat_crd.VERSION, boat_crd.KIND, boat_crd.PLURAL)


@pytest.fixture
async def client(hub: Suite, room: str) -> AsyncIterator[Any]:
    """Typed answers may lack every field they have; here they are taken as they are."""
    config = KubeConfig.from_file(str(hub.kubeconfig))
    async with AsyncClient(config=config, namespace=room, field_manager="suite", timeout=PATIENT) as made:
        yield made
    await asyncio.sleep(0)  # connections close a moment later


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, labels={"sea": "north"}), data=data)


def deployment(name: str, *, replicas: int) -> Deployment:
    labels = {"app": name}
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[Container(name="main", image="image:1")])
    )
    return Deployment(
        metadata=ObjectMeta(name=name),
        spec=DeploymentSpec(replicas=replicas, selector=LabelSelector(matchLabels=labels), template=template),
    )


@contextmanager
def refused(expected: dict[str, Any]) -> Iterator[None]:
    with pytest.raises(ApiError) as caught:
        yield
    assert json.loads(caught.value.response.content) == expected
    assert caught.value.status.code == expected["code"]
    assert caught.value.status.reason == expected["reason"]


async def test_lightkube_object_lifecycle(client: Any) -> None:
    made = await client.create(config_map("buoy", light="red"))
    assert await client.get(ConfigMap, "buoy") == made
    made.data["light"] = "green"
    replaced = await client.replace(made)
    assert replaced.data == {"light": "green"}
    with refused(stale("configmaps", "buoy")):
        await client.replace(made)
    await client.delete(ConfigMap, "buoy")
    with refused(absent("configmaps", "buoy")):
        await client.get(ConfigMap, "buoy")


async def test_lightkube_synchronous_client(hub: Suite, room: str) -> None:
    def act() -> list[str]:
        config = KubeConfig.from_file(str(hub.kubeconfig))
        with Client(config=config, namespace=room, timeout=PATIENT) as client:
            client.create(config_map("buoy"))
            namespace = client.get(Namespace, room)
            assert namespace.status is not None
            assert namespace.status.phase == "Active"
            listed = client.list(ConfigMap, labels={"sea": "north"})
            return [obj.metadata.name or "" for obj in listed if obj.metadata]

    assert await asyncio.to_thread(act) == ["buoy"]


async def test_lightkube_patches(client: Any) -> None:
    await client.create(deployment("fleet", replicas=1))
    containers = [{"name": "side", "image": "side:1"}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    patched = await client.patch(Deployment, "fleet", patch)
    assert {c.name for c in patched.spec.template.spec.containers} == {"main", "side"}
    patched = await client.patch(Deployment, "fleet", patch, patch_type=PatchType.MERGE)
    assert [c.name for c in patched.spec.template.spec.containers] == ["side"]
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 3}]
    patched = await client.patch(Deployment, "fleet", operations, patch_type=PatchType.JSON)
    assert (patched.spec.replicas, patched.metadata.generation) == (3, 4)


async def test_lightkube_chunks(client: Any) -> None:
    for index in range(7):
        await client.create(config_map(f"n{index}"))
    listing = client.list(ConfigMap, chunk_size=3, labels={"sea": in_(["north", "south"])})
    assert [obj.metadata.name async for obj in listing] == [f"n{index}" for index in range(7)]
    assert int(listing.resourceVersion) > 0
    others = client.list(ConfigMap, labels={"sea": "north"}, fields={"metadata.name": not_equal("n0")})
    assert len([obj async for obj in others]) == 6


async def test_lightkube_generic_objects(client: Any, boats: None) -> None:
    made = await client.create(Boat(boat_crd.boat("kon-tiki")))
    assert (made.spec, made.metadata.generation) == ({"port": "home", "crew": 1}, 1)
    made["spec"]["crew"] = 6
    replaced = await client.replace(made)
    assert replaced.metadata.generation == 2
    with refused(stale("boats", "kon-tiki", group=boat_crd.GROUP)):
        await client.replace(made)
    told = await client.patch(
        Boat.Status, "kon-tiki", {"status": {"phase": "afloat"}}, patch_type=PatchType.MERGE
    )
    assert told.status == {"phase": "afloat"}
    scale = Boat.Scale(metadata=ObjectMeta(name="kon-tiki"), spec=ScaleSpec(replicas=4))
    assert (await client.replace(scale)).spec.replicas == 4
    accepted = ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"]
    words = "the body of the request was in an unknown format - accepted media types include: "
    with refused(status(415, "UnsupportedMediaType", words + ", ".join(accepted))):
        await client.patch(Boat, "kon-tiki", {"spec": {"crew": 1}}, patch_type=PatchType.STRATEGIC)


async def test_lightkube_generic_apply(client: Any, boats: None) -> None:
    def sail(name: str, area: int) -> Any:
        return Boat(
            apiVersion=boat_crd.API_VERSION,
            kind=boat_crd.KIND,
            metadata=ObjectMeta(name="kon-tiki"),
            spec={"sails": [{"name": name, "area": area}]},
        )

    await client.apply(sail("main", 20), field_manager="one")
    merged = await client.apply(sail("jib", 8), field_manager="two")
    assert merged.spec["sails"] == [{"name": "main", "area": 20}, {"name": "jib", "area": 8}]
    left = await client.apply(
        Boat(apiVersion=boat_crd.API_VERSION, kind=boat_crd.KIND, metadata=ObjectMeta(name="kon-tiki")),
        field_manager="one",
    )
    assert left.spec["sails"] == [{"name": "jib", "area": 8}]


async def test_lightkube_watch(client: Any, boats: None) -> None:
    await client.create(Boat(boat_crd.boat("there")))
    listing = client.list(Boat)
    assert [obj.metadata.name async for obj in listing] == ["there"]
    told = []
    async with asyncio.timeout(DEADLINE):
        await client.create(Boat(boat_crd.boat("later")))
        async with aclosing(client.watch(Boat, resource_version=listing.resourceVersion)) as events:
            async for type_, obj in events:
                told.append((type_, obj.metadata.name))
                if len(told) == 1:
                    await client.delete(Boat, "there")
                else:
                    break
    assert told == [("ADDED", "later"), ("DELETED", "there")]


async def test_lightkube_waiting(client: Any) -> None:
    await client.create(deployment("fleet", replicas=1))
    waiting = asyncio.create_task(client.wait(Deployment, "fleet", for_conditions=["Available"]))
    conditions = [{"type": "Available", "status": "True"}]
    await client.patch(Deployment.Status, "fleet", {"status": {"conditions": conditions}})
    async with asyncio.timeout(DEADLINE):
        assert (await waiting).metadata.name == "fleet"


async def test_lightkube_deletion(client: Any, boats: None) -> None:
    for index in range(3):
        await client.create(Boat(boat_crd.boat(f"n{index}")))
    await client.delete(Boat, "n0", dry_run=True)
    await client.delete(Boat, "n1", cascade=CascadeType.BACKGROUND, grace_period=0)
    assert [obj.metadata.name async for obj in client.list(Boat)] == ["n0", "n2"]
    await client.deletecollection(Boat)
    assert [obj async for obj in client.list(Boat)] == []
