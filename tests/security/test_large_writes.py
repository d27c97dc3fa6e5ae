"""The hub computes large writes in slices, and loses no write of another request between two slices."""

import asyncio

import pytest

from kubehub import slicing
from security.wire import Hub, ask

MERGE = "application/merge-patch+json"


async def test_large_patch_keeps_concurrent_writes(
    hub: Hub, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slicing, "SLICE", 0.0)
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    assert (await ask(hub, "POST", maps, body={"metadata": {"name": "x"}})).code == 201
    large = {"data": {f"key-{number}": "x" * 40 for number in range(2000)}}

    writing = asyncio.create_task(ask(hub, "PATCH", f"{maps}/x", body=large, type_=MERGE))
    written = 0
    while not writing.done():
        body = {"metadata": {"labels": {f"small-{written}": "x"}}}
        assert (await ask(hub, "PATCH", f"{maps}/x", body=body, type_=MERGE)).code == 200
        written += 1
    assert (await writing).code == 200
    live = (await ask(hub, "GET", f"{maps}/x")).document
    assert (len(live["data"]), len(live["metadata"]["labels"])) == (2000, written)


async def test_concurrent_large_creates_of_one_name_make_one_object(
    hub: Hub, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slicing, "SLICE", 0.0)
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    large = {"metadata": {"name": "x"}, "data": {f"key-{number}": "x" * 40 for number in range(2000)}}
    answers = await asyncio.gather(*(ask(hub, "POST", maps, body=large) for _ in range(4)))
    assert sorted(answer.code for answer in answers) == [201, 409, 409, 409]
