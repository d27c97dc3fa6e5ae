"""The scale of things in plain HTTP: one kind for all of them, built-in and custom."""

from typing import Any

import pytest
from clients import boat_crd
from clients.exchanges import MERGE, PATCH, TABLE
from clients.refusals import absent, stale, status
from clients.streams import Collection
from clients.talk import Talk

LABELS = {"app": "fleet"}
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [{"name": "main", "image": "image:1"}]},
        },
    },
}


@pytest.fixture(params=["deployments", "boats"])
async def scaled(
    request: pytest.FixtureRequest, boats: None, talk: Talk, room: str
) -> tuple[Collection, dict[str, Any]]:
    """Something with two replicas, called ``fleet``."""
    if request.param == "boats":
        collection = Collection(talk, boat_crd.path(room), boat_crd.boat("", crew=2))
    else:
        collection = Collection(talk, f"/apis/apps/v1/namespaces/{room}/deployments", DEPLOYMENT)
    return collection, await collection.create("fleet")


def scale(name: str = "fleet", *, replicas: int, **metadata: str) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": name, **metadata},
        "spec": {"replicas": replicas},
    }


def replicas(document: dict[str, Any]) -> Any:
    return document["spec"].get("replicas", document["spec"].get("crew"))


async def test_scale_subresource_is_read(scaled: tuple[Collection, dict[str, Any]]) -> None:
    collection, made = scaled
    shown = await collection.get("fleet/scale")
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    assert shown.pop("status")["replicas"] == 0
    assert shown == {**scale(replicas=2), "metadata": {key: made["metadata"][key] for key in kept}}
    assert await collection.talk.call("GET", f"{collection.path}/ghost/scale") == (
        404,
        absent(made_plural(made), "ghost", group=made["apiVersion"].partition("/")[0]),
    )


def made_plural(document: dict[str, Any]) -> str:
    return {"Deployment": "deployments", "Boat": "boats"}[document["kind"]]


async def test_scale_in_a_table(scaled: tuple[Collection, dict[str, Any]]) -> None:
    collection, _ = scaled
    _, table = await collection.talk.call("GET", f"{collection.path}/fleet/scale", accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name",
        "Desired",
        "Available",
        "Age",
    ]
    (row,) = table["rows"]
    assert row["cells"][:3] == ["fleet", 2, 0]


async def test_scale_is_written(scaled: tuple[Collection, dict[str, Any]]) -> None:
    collection, made = scaled
    path = f"{collection.path}/fleet/scale"
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    code, answer = await collection.talk.call(
        "PUT", path, body=scale(replicas=3, uid=uid, resourceVersion=version)
    )
    assert (code, answer["kind"], replicas(answer)) == (200, "Scale", 3)
    code, answer = await collection.talk.call("PATCH", path, body={"spec": {"replicas": 4}}, type_=MERGE)
    assert (code, replicas(answer)) == (200, 4)
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 5}]
    code, answer = await collection.talk.call("PATCH", path, body=operations, type_=PATCH)
    assert (code, replicas(answer)) == (200, 5)
    code, answer = await collection.talk.call("PUT", f"{path}?dryRun=All", body=scale(replicas=6))
    assert (code, replicas(answer)) == (200, 6)
    parent = await collection.get("fleet")
    assert (replicas(parent), parent["metadata"]["generation"]) == (5, 4)
    assert {entry.get("subresource") for entry in parent["metadata"]["managedFields"]} == {None, "scale"}


async def test_invalid_scale_is_rejected(scaled: tuple[Collection, dict[str, Any]]) -> None:
    collection, made = scaled
    path = f"{collection.path}/fleet/scale"
    group = made["apiVersion"].partition("/")[0]

    async def answer(body: dict[str, Any]) -> tuple[int, Any]:
        return await collection.talk.call("PUT", path, body=body)

    message = "the name of the object (raft) does not match the name on the URL (fleet)"
    assert await answer(scale("raft", replicas=1)) == (400, status(400, "BadRequest", message))
    assert await answer(scale(replicas=1, resourceVersion="1")) == (
        409,
        stale(made_plural(made), "fleet", group=group),
    )
    code, refusal = await answer(scale(replicas=1, uid="another"))
    assert (code, refusal["reason"]) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: another" in refusal["message"]
    code, refusal = await answer(made)
    assert (code, refusal["reason"]) == (400, "BadRequest")
    code, refusal = await collection.talk.call("PATCH", path, body={"spec": {"replicas": "x"}}, type_=MERGE)
    assert (code, refusal["reason"]) == (422, "Invalid")
    assert refusal["details"]["causes"][0]["field"] == "patch"
    code, refusal = await answer(scale(replicas=-1))
    assert (code, refusal["reason"]) == (422, "Invalid")
    assert replicas(await collection.get("fleet")) == 2
