"""The official Python client in its asynchronous form."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from clients import boat_crd
from clients.conftest import Suite
from clients.official import MERGE, aio
from clients.refusals import absent, refused, stale
from clients.streams import hang_up

DEADLINE = 120


@pytest.fixture
async def client(hub: Suite) -> AsyncIterator[Any]:
    made = await aio.config.new_client_from_config(config_file=str(hub.kubeconfig))
    async with made:
        yield made


@pytest.fixture
def core(client: Any) -> Any:
    return aio.client.CoreV1Api(client)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"sea": "north"}}, "data": data}


async def test_official_aio_object_lifecycle(core: Any, room: str) -> None:
    made = await core.create_namespaced_config_map(room, config_map("buoy", light="green"))
    assert await core.read_namespaced_config_map("buoy", room) == made
    made.data["light"] = "red"
    replaced = await core.replace_namespaced_config_map("buoy", room, made)
    assert replaced.data == {"light": "red"}
    with refused(stale("configmaps", "buoy")):
        await core.replace_namespaced_config_map("buoy", room, made)
    patched = await core.patch_namespaced_config_map(
        "buoy", room, {"data": {"bell": "yes"}}, _content_type=MERGE
    )
    assert patched.data == {"light": "red", "bell": "yes"}
    await core.delete_namespaced_config_map("buoy", room)
    with refused(absent("configmaps", "buoy")):
        await core.read_namespaced_config_map("buoy", room)


async def test_official_aio_watch(core: Any, room: str) -> None:
    await core.create_namespaced_config_map(room, config_map("there"))
    told = []
    async with (
        asyncio.timeout(DEADLINE),
        aio.watch.Watch().stream(core.list_namespaced_config_map, room, label_selector="sea") as stream,
    ):
        async for event in stream:
            told.append((event["type"], event["object"].metadata.name))
            if len(told) == 1:
                await core.create_namespaced_config_map(room, config_map("later"))
            elif len(told) == 2:
                await core.delete_namespaced_config_map("there", room)
            else:
                break
        await hang_up(stream.resp)
    assert told == [("ADDED", "there"), ("ADDED", "later"), ("DELETED", "there")]


async def test_official_aio_dynamic(boats: None, client: Any, room: str, tmp_path: Path) -> None:
    # What it finds out it keeps by address, where a hub of another run may have been at the same one.
    async with aio.dynamic.DynamicClient(client, cache_file=str(tmp_path / "found")) as dynamic:
        fleet = await dynamic.resources.get(api_version=boat_crd.API_VERSION, kind=boat_crd.KIND)
        made = await fleet.create(body=boat_crd.boat("kon-tiki"), namespace=room)
        assert made.metadata.generation == 1
        applied = await fleet.server_side_apply(
            body=boat_crd.boat("kon-tiki", crew=6),
            namespace=room,
            field_manager="captain",
            force_conflicts=True,
        )
        assert applied.spec.crew == 6
