"""Deletions in plain HTTP: accepted bodies, deleted and remaining objects."""

from typing import Any

import pytest
from clients import boat_crd
from clients.refusals import status
from clients.streams import Collection, names
from clients.talk import Talk


@pytest.fixture(params=["secrets", "boats"])
def collection(request: pytest.FixtureRequest, boats: None, talk: Talk, room: str) -> Collection:
    if request.param == "boats":
        return Collection(talk, boat_crd.path(room), boat_crd.boat(""))
    return Collection(talk, f"/api/v1/namespaces/{room}/secrets", {"stringData": {"word": "home"}})


async def delete(collection: Collection, path: str = "", body: Any = None) -> tuple[int, Any]:
    return await collection.talk.call("DELETE", collection.path + path, body=body)


@pytest.mark.parametrize("path", ["/there", ""])
async def test_invalid_delete_options_delete_nothing(collection: Collection, path: str) -> None:
    there = await collection.create("there")
    version = there["apiVersion"]
    scheme = 'in scheme "pkg/runtime/scheme.go:111"'
    for body, message in (
        (there, f'no kind "{there["kind"]}" is registered for version "{version}" {scheme}'),
        ({"kind": "Order"}, f'no kind "Order" is registered for version "meta.k8s.io/v1" {scheme}'),
        (
            {"dryRun": "All"},
            "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string",
        ),
    ):
        assert await delete(collection, path, body) == (400, status(400, "BadRequest", message))
    causes = [
        {
            "reason": "FieldValueNotSupported",
            "message": 'Unsupported value: "Slowly": supported values: "Foreground", "Background", "Orphan", "nil"',
            "field": "propagationPolicy",
        }
    ]
    words = f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: {causes[0]["message"]}'
    refusal = status(422, "Invalid", words, group="meta.k8s.io", kind="DeleteOptions", causes=causes)
    assert await delete(collection, path, {"propagationPolicy": "Slowly"}) == (422, refusal)
    assert await collection.get("there") == there


@pytest.mark.parametrize(
    "body", [None, {"dryRun": ["All"]}, {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}]
)
async def test_dry_run_deletes_nothing(collection: Collection, body: Any) -> None:
    there = await collection.create("there")
    query = "" if body else "?dryRun=All"
    code, answer = await delete(collection, f"/there{query}", body)
    assert (code, answer["details"]["uid"]) == (200, there["metadata"]["uid"])
    code, answer = await delete(collection, query, body)
    assert (code, names(answer)) == (200, ["there"])
    assert await collection.get("there") == there


async def test_deletecollection_honours_limit(collection: Collection) -> None:
    for index in range(4):
        await collection.create(f"n{index}", odd=str(index % 2))
    code, answer = await delete(collection, "?limit=1")
    assert (code, names(answer)) == (200, ["n0"])
    assert answer["metadata"]["remainingItemCount"] == 3
    token = answer["metadata"]["continue"]
    code, answer = await delete(collection, f"?limit=1&continue={token}")
    assert (code, names(answer)) == (200, ["n1"])
    code, answer = await delete(collection, "?labelSelector=odd%3D1")
    assert (code, names(answer)) == (200, ["n3"])
    assert await collection.names() == ["n2"]
    code, answer = await delete(collection)
    assert (code, names(answer)) == (200, ["n2"])
    assert (await delete(collection))[1]["items"] == []


async def test_deletecollection_marks_objects_with_finalizers(collection: Collection) -> None:
    await collection.create("free")
    await collection.create("held")
    await collection.merge("held", {"metadata": {"finalizers": ["suite.fairway.dev/wait"]}})
    code, answer = await delete(collection)
    assert (code, names(answer)) == (200, ["free", "held"])
    assert await collection.names() == ["held"]
    held = await collection.get("held")
    assert held["metadata"]["deletionTimestamp"]
    again = await collection.delete("held")
    assert again == held  # asking twice changes nothing
