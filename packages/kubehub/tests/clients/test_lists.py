"""Lists at a version and in pages: a walk through pages sees one moment, however long it takes."""

from typing import Any

import pytest
from clients import boat_crd
from clients.streams import INITIAL, Collection, names, version, watching
from clients.talk import Talk

FUTURE = 9_000_000_000_000_000
TOO_LARGE_WORDS = f"Timeout: Too large resource version: {FUTURE}, current: "
TOO_LARGE = {
    "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
    "retryAfterSeconds": 1,
}


@pytest.fixture(params=["secrets", "boats"])
def collection(request: pytest.FixtureRequest, boats: None, talk: Talk, room: str) -> Collection:
    if request.param == "boats":
        return Collection(talk, boat_crd.path(room), boat_crd.boat(""))
    return Collection(talk, f"/api/v1/namespaces/{room}/secrets", {"stringData": {"word": "home"}})


async def refused(collection: Collection, query: str) -> tuple[int, Any, str]:
    code, answer = await collection.talk.call("GET", f"{collection.path}?{query}")
    assert (answer["kind"], answer["status"], answer["code"]) == ("Status", "Failure", code)
    return code, answer.get("reason"), answer["message"]


async def filled(collection: Collection, count: int) -> dict[str, Any]:
    return [await collection.create(f"n{index}") for index in range(count)][-1]


def complete(listing: dict[str, Any]) -> bool:
    """Lists of custom kinds have an empty continue token, other lists have none."""
    expected = {"resourceVersion": listing["metadata"]["resourceVersion"]}
    if listing["kind"] == f"{boat_crd.KIND}List":
        expected["continue"] = ""
    return bool(listing["metadata"] == expected)


async def test_list_at_an_exact_resource_version(collection: Collection) -> None:
    last = await filled(collection, 3)
    await collection.delete("n1")
    await collection.label("n0", tide="high")
    await collection.create("n9")
    listing = await collection.listing(f"resourceVersion={version(last)}&resourceVersionMatch=Exact")
    assert names(listing) == ["n0", "n1", "n2"]
    assert version(listing) == version(last)
    assert "tide" not in listing["items"][0]["metadata"].get("labels", {})


@pytest.mark.parametrize("match", ["&resourceVersionMatch=NotOlderThan", ""])
async def test_list_not_older_than_a_resource_version(collection: Collection, match: str) -> None:
    first = await collection.create("first")
    second = await collection.create("second")
    listing = await collection.listing(f"resourceVersion={version(second)}{match}")
    assert names(listing) == ["first", "second"]
    assert version(listing) >= version(second)
    listing = await collection.listing(f"resourceVersion={version(first)}{match}")
    assert "first" in names(listing)
    assert version(listing) >= version(first)


@pytest.mark.parametrize("query", ["resourceVersion=0", "resourceVersion=0&limit=1"])
async def test_list_at_resource_version_zero(collection: Collection, query: str) -> None:
    """Version 0 may be served from a cache, which returns all objects at once."""
    await filled(collection, 2)
    await collection.listing()  # as new as can be, and so is the cache
    listing = await collection.listing(query)
    assert names(listing) == ["n0", "n1"]
    assert complete(listing)


async def test_list_in_pages(collection: Collection) -> None:
    await filled(collection, 5)
    first = await collection.listing("limit=2")
    assert names(first) == ["n0", "n1"]
    assert first["metadata"]["remainingItemCount"] == 3
    second = await collection.listing(f"limit=2&continue={first['metadata']['continue']}")
    assert names(second) == ["n2", "n3"]
    assert second["metadata"]["remainingItemCount"] == 1
    third = await collection.listing(f"limit=2&continue={second['metadata']['continue']}")
    assert names(third) == ["n4"]
    assert complete(third)
    assert version(first) == version(second) == version(third)


async def test_list_pages_of_any_size(collection: Collection) -> None:
    await filled(collection, 4)
    first = await collection.listing("limit=1")
    rest = await collection.listing(f"continue={first['metadata']['continue']}")
    assert names(first) + names(rest) == ["n0", "n1", "n2", "n3"]
    assert complete(await collection.listing("limit=4"))


async def test_list_pages_show_one_resource_version(collection: Collection) -> None:
    await filled(collection, 4)
    first = await collection.listing("limit=2")
    await collection.delete("n3")
    await collection.create("n21")
    await collection.label("n2", tide="high")
    rest = await collection.listing(f"limit=5&continue={first['metadata']['continue']}")
    assert names(rest) == ["n2", "n3"]
    assert "tide" not in rest["items"][0]["metadata"].get("labels", {})
    assert version(rest) == version(first)
    assert await collection.names() == ["n0", "n1", "n2", "n21"]


async def test_list_pages_at_an_exact_resource_version(collection: Collection) -> None:
    last = await filled(collection, 3)
    await collection.delete("n2")
    query = f"resourceVersion={version(last)}&resourceVersionMatch=Exact&limit=2"
    first = await collection.listing(query)
    rest = await collection.listing(f"limit=2&continue={first['metadata']['continue']}")
    assert (names(first), names(rest)) == (["n0", "n1"], ["n2"])


async def test_list_pages_with_a_selector(collection: Collection) -> None:
    for index in range(6):
        await collection.create(f"n{index}", odd=str(index % 2))
    first = await collection.listing("limit=2&labelSelector=odd%3D1")
    assert names(first) == ["n1", "n3"]
    assert first["metadata"].keys() == {"resourceVersion", "continue"}
    rest = await collection.listing(f"limit=2&labelSelector=odd%3D1&continue={first['metadata']['continue']}")
    assert names(rest) == ["n5"]
    assert complete(rest)


async def test_list_pages_over_all_namespaces(collection: Collection, room: str) -> None:
    for index in range(3):
        await collection.create(f"n{index}", room=room)
    everywhere = collection.path.replace(f"/namespaces/{room}", "")
    query = f"limit=2&labelSelector=room%3D{room}"
    _, first = await collection.talk.call("GET", f"{everywhere}?{query}")
    token = first["metadata"]["continue"]
    _, rest = await collection.talk.call("GET", f"{everywhere}?{query}&continue={token}")
    assert names(first) + names(rest) == ["n0", "n1", "n2"]


@pytest.mark.parametrize(
    ("path", "more"),
    [("/api/v1/namespaces", "&resourceVersionMatch=Exact"), (f"/apis/{boat_crd.API_VERSION}/boats", "")],
)
async def test_list_at_a_future_resource_version_is_rejected(
    boats: None, talk: Talk, path: str, more: str
) -> None:
    code, answer = await talk.call("GET", f"{path}?resourceVersion={FUTURE}{more}")
    assert (code, answer["reason"], answer["details"]) == (504, "Timeout", TOO_LARGE)
    assert answer["message"].removeprefix(TOO_LARGE_WORDS).isdecimal()


async def test_watch_from_a_future_resource_version_is_rejected(talk: Talk) -> None:
    query = {**INITIAL, "resourceVersion": str(FUTURE)}
    async with watching(talk, "/api/v1/namespaces", **query) as stream:
        (event,) = await stream.rest()
    assert (stream.status, event["type"]) == (200, "ERROR")
    answer = event["object"]
    assert (answer["code"], answer["reason"], answer["details"]) == (504, "Timeout", TOO_LARGE)
    assert answer["message"].removeprefix(TOO_LARGE_WORDS).isdecimal()


async def test_broken_continue_token_is_rejected(collection: Collection) -> None:
    words = "invalid continue token: continue key is not valid: "
    assert await refused(collection, "continue=abc") == (
        400,
        "BadRequest",
        f"{words}invalid character 'i' looking for beginning of value",
    )
    assert await refused(collection, "continue=%21") == (
        400,
        "BadRequest",
        f"{words}illegal base64 data at input byte 0",
    )


async def test_continue_token_excludes_a_resource_version(collection: Collection) -> None:
    await filled(collection, 2)
    token = (await collection.listing("limit=1"))["metadata"]["continue"]
    assert await refused(collection, f"continue={token}&resourceVersion=7") == (
        400,
        "BadRequest",
        "specifying resource version is not allowed when using continue",
    )


INVALID = 'ListOptions.meta.k8s.io "" is invalid: '


async def test_watch_with_contradictory_options_is_rejected(collection: Collection) -> None:
    message = (
        "[resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, "
        'resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]'
    )
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=Exact"
    assert await refused(collection, query) == (422, "Invalid", INVALID + message)


@pytest.mark.parametrize("number", ["abc", "-1"])
async def test_watch_from_an_invalid_resource_version_is_rejected(
    collection: Collection, number: str
) -> None:
    message = (
        f'resourceVersion: Invalid value: "{number}": strconv.ParseUint: parsing "{number}": invalid syntax'
    )
    assert await refused(collection, f"watch=true&resourceVersion={number}") == (500, None, message)


async def test_watch_is_not_available_as_yaml(collection: Collection) -> None:
    async with collection.talk.open(f"{collection.path}?watch=true", accept="application/yaml") as answer:
        assert answer.status == 406
        assert answer.headers["Content-Type"] == "application/yaml"
        text = await answer.text()
    for part in ("reason: NotAcceptable", "application/json;stream=watch"):
        assert part in text


async def test_list_without_a_limit_is_one_page(collection: Collection) -> None:
    await filled(collection, 2)
    assert await collection.names("limit=-1") == ["n0", "n1"]
    assert await collection.names("limit=0") == ["n0", "n1"]
