"""Events of a watch, in order and in full; for built-in and for custom kinds."""

import asyncio

import pytest
from clients import boat_crd
from clients.exchanges import TABLE
from clients.streams import INITIAL, Collection, Stream, brief, version, watching
from clients.talk import Talk

PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
WITH_BOOKMARKS = {**INITIAL, "allowWatchBookmarks": "true"}
ENDS_INITIAL = {"k8s.io/initial-events-end": "true"}


@pytest.fixture(params=["secrets", "boats"])
def collection(request: pytest.FixtureRequest, boats: None, talk: Talk, room: str) -> Collection:
    if request.param == "boats":
        template = {"apiVersion": boat_crd.API_VERSION, "kind": boat_crd.KIND, "spec": {"port": "home"}}
        return Collection(talk, boat_crd.path(room), template)
    template = {"apiVersion": "v1", "kind": "Secret", "stringData": {"word": "home"}}
    return Collection(talk, f"/api/v1/namespaces/{room}/secrets", template)


async def test_watch_returns_exactly_the_later_changes(collection: Collection) -> None:
    first = await collection.create("first")
    second = await collection.create("second")
    async with watching(collection.talk, collection.path, resourceVersion=str(version(first))) as stream:
        changed = await collection.label("first", tide="high")
        await collection.delete("second")
        third = await collection.create("third")
        events = await stream.take(4)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    assert [event["object"] for event in events[:2]] == [second, changed]
    assert events[3]["object"] == third
    versions = [version(event["object"]) for event in events]
    assert versions == sorted(set(versions))


async def test_deletion_event_has_the_last_state_and_a_newer_version(collection: Collection) -> None:
    last = await collection.create("last", tide="low")
    async with watching(collection.talk, collection.path, resourceVersion=str(version(last))) as stream:
        await collection.delete("last")
        event = await stream.next()
    assert version(event["object"]) > version(last)
    gone = event["object"]
    gone["metadata"]["resourceVersion"] = last["metadata"]["resourceVersion"]
    assert event == {"type": "DELETED", "object": last}


async def test_watch_shows_a_deletion_blocked_by_a_finalizer(collection: Collection) -> None:
    await collection.create("there")
    held = await collection.merge("there", {"metadata": {"finalizers": ["suite.fairway.dev/wait"]}})
    async with watching(collection.talk, collection.path, resourceVersion=str(version(held))) as stream:
        marked = await collection.delete("there")
        unheld = await collection.merge("there", {"metadata": {"finalizers": None}})
        events = await stream.take(2)
    assert marked["metadata"]["deletionTimestamp"]
    assert events[0] == {"type": "MODIFIED", "object": marked}
    # It goes as it was kept; the change that let it go was never kept.
    assert version(events[1]["object"]) > version(marked)
    events[1]["object"]["metadata"]["resourceVersion"] = str(version(marked))
    assert events[1] == {"type": "DELETED", "object": marked}
    assert "finalizers" not in unheld["metadata"]


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}, {"resourceVersion": ""}, INITIAL])
async def test_watch_without_a_version_begins_with_existing_objects(
    collection: Collection, query: dict[str, str]
) -> None:
    there = [await collection.create(name) for name in ("b", "a")]
    async with watching(collection.talk, collection.path, **query) as stream:
        events = await stream.take(2)
        later = await collection.create("0")
        assert await stream.next() == {"type": "ADDED", "object": later}
    assert events == [{"type": "ADDED", "object": document} for document in reversed(there)]


async def test_bookmark_ends_the_initial_events(collection: Collection) -> None:
    there = await collection.create("there")
    async with watching(collection.talk, collection.path, **WITH_BOOKMARKS) as stream:
        assert await stream.next() == {"type": "ADDED", "object": there}
        bookmark = await stream.next()
        await collection.delete("there")
        assert brief(await stream.next()) == ("DELETED", "there")
    metadata = bookmark["object"].pop("metadata")
    assert bookmark == {
        "type": "BOOKMARK",
        "object": {"kind": there["kind"], "apiVersion": there["apiVersion"]},
    }
    assert int(metadata.pop("resourceVersion")) >= version(there)
    assert metadata == {"annotations": ENDS_INITIAL}


async def test_empty_watch_list_begins_with_a_bookmark(collection: Collection) -> None:
    async with watching(collection.talk, collection.path, **WITH_BOOKMARKS) as stream:
        assert (await stream.next())["object"]["metadata"]["annotations"] == ENDS_INITIAL


async def test_watch_can_omit_initial_events(collection: Collection) -> None:
    await collection.create("there")
    query = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}
    async with watching(collection.talk, collection.path, **query) as stream:
        later = await collection.create("later")
        assert await stream.next() == {"type": "ADDED", "object": later}


async def test_initial_events_at_least_as_new_as_asked(collection: Collection) -> None:
    there = await collection.create("there")
    query = {**WITH_BOOKMARKS, "resourceVersion": str(version(there))}
    async with watching(collection.talk, collection.path, **query) as stream:
        assert await stream.next() == {"type": "ADDED", "object": there}
        assert version((await stream.next())["object"]) >= version(there)


async def test_watch_ends_with_a_bookmark(collection: Collection) -> None:
    """A client that resumes from it receives few events, even if its objects have not changed for long."""
    there = await collection.create("there")
    changed = await collection.label("there", tide="low")
    query = {
        "resourceVersion": str(version(there)),
        "labelSelector": "tide=high",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "3",
    }
    async with watching(collection.talk, collection.path, **query) as stream:
        await collection.label("there", moon="full")  # perhaps after the bookmark, on a slow machine
        events = await stream.rest()
    assert {event["type"] for event in events} == {"BOOKMARK"}
    assert version(events[-1]["object"]) >= version(changed)
    assert events[-1]["object"]["metadata"].keys() == {"resourceVersion"}


async def test_watch_ends_after_its_timeout(collection: Collection) -> None:
    there = await collection.create("there")
    async with watching(collection.talk, collection.path, timeoutSeconds="1") as stream:
        assert await stream.rest() == [{"type": "ADDED", "object": there}]


async def test_watch_with_a_selector_reports_objects_entering_and_leaving(collection: Collection) -> None:
    there = await collection.create("there", tide="low")
    query = {"resourceVersion": str(version(there)), "labelSelector": "tide=high"}
    async with watching(collection.talk, collection.path, **query) as stream:
        risen = await collection.label("there", tide="high")
        changed = await collection.label("there", moon="full")
        fallen = await collection.label("there", tide="low")
        await collection.label("there", moon=None)
        await collection.delete("there")
        sentinel = await collection.create("sentinel", tide="high")
        events = await stream.take(4)
        await collection.delete("sentinel")
        gone = await stream.next()
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    assert [events[0]["object"], events[1]["object"], events[3]["object"]] == [risen, changed, sentinel]
    # What no longer matches is shown as it was when it did, under the version that changed it.
    changed["metadata"]["resourceVersion"] = str(version(fallen))
    assert events[2]["object"] == changed
    assert brief(gone) == ("DELETED", "sentinel")


async def test_initial_events_honour_the_selector(collection: Collection) -> None:
    await collection.create("low", tide="low")
    high = await collection.create("high", tide="high")
    async with watching(collection.talk, collection.path, labelSelector="tide+in+(high)") as stream:
        assert await stream.next() == {"type": "ADDED", "object": high}
        await collection.label("low", moon="full")
        await collection.delete("high")
        assert brief(await stream.next()) == ("DELETED", "high")


async def test_watch_of_one_name(collection: Collection) -> None:
    one = await collection.create("one")
    await collection.create("other")
    async with watching(collection.talk, collection.path, fieldSelector="metadata.name%3Done") as stream:
        assert await stream.next() == {"type": "ADDED", "object": one}
        await collection.label("other", tide="low")
        await collection.delete("one")
        assert brief(await stream.next()) == ("DELETED", "one")
        again = await collection.create("one")
        assert await stream.next() == {"type": "ADDED", "object": again}


async def test_watch_selects_by_a_field_of_a_custom_kind(boats: None, talk: Talk, room: str) -> None:
    fleet = Collection(talk, boat_crd.path(room), {"spec": {"port": "home"}, **boat_crd.boat("x")})
    there = await fleet.create("there")
    query = {"resourceVersion": str(version(there)), "fieldSelector": "spec.port%3Daway"}
    async with watching(talk, fleet.path, **query) as stream:
        left = await fleet.merge("there", {"spec": {"port": "away"}})
        back = await fleet.merge("there", {"spec": {"port": "home"}})
        events = await stream.take(2)
    assert events[0] == {"type": "ADDED", "object": left}
    assert (events[1]["type"], version(events[1]["object"])) == ("DELETED", version(back))
    assert events[1]["object"]["spec"]["port"] == "away"


async def test_watch_parameter_on_a_named_object_is_ignored(collection: Collection) -> None:
    there = await collection.create("there")
    assert await collection.talk.call("GET", f"{collection.path}/there?watch=true") == (200, there)
    code, _ = await collection.talk.call("GET", f"{collection.path}/missing?watch=true")
    assert code == 404


@pytest.mark.parametrize("name", ["", "/there"])
async def test_deprecated_watch_paths_work(talk: Talk, room: str, name: str) -> None:
    """Watches had paths of their own once, which are still served."""
    secrets = Collection(talk, f"/api/v1/namespaces/{room}/secrets", {"stringData": {"word": "home"}})
    there = await secrets.create("there")
    async with watching(talk, f"/api/v1/watch/namespaces/{room}/secrets{name}") as stream:
        assert await stream.next() == {"type": "ADDED", "object": there}
        await secrets.delete("there")
        assert brief(await stream.next()) == ("DELETED", "there")


async def test_watch_of_tables(collection: Collection) -> None:
    there = await collection.create("there")
    async with watching(collection.talk, collection.path, accept=TABLE, **WITH_BOOKMARKS) as stream:
        first, bookmark = await stream.take(2)
        later = await collection.create("later")
        second = await stream.next()
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    del first["object"]["columnDefinitions"]
    for event, type_, document, columns in ((first, "ADDED", there, {}), (second, "ADDED", later, None)):
        table = event["object"]
        assert table.pop("columnDefinitions", {}) == columns
        (row,) = table.pop("rows")
        assert row["cells"][0] == document["metadata"]["name"]
        assert row["object"] == {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": document["metadata"],
        }
        assert event == {
            "type": type_,
            "object": {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": document["metadata"]["resourceVersion"]},
            },
        }
    (row,) = bookmark["object"]["rows"]
    assert bookmark["object"]["columnDefinitions"] is None
    assert row["cells"][0] == ""
    assert row["object"]["metadata"] == {**bookmark["object"]["metadata"], "annotations": ENDS_INITIAL}


@pytest.mark.parametrize("include", ["Object", "None"])
async def test_watch_of_tables_honours_include_object(collection: Collection, include: str) -> None:
    there = await collection.create("there")
    async with watching(collection.talk, collection.path, accept=TABLE, includeObject=include) as stream:
        (row,) = (await stream.next())["object"]["rows"]
    assert row["object"] == (there if include == "Object" else None)


async def test_watch_of_metadata_only(collection: Collection) -> None:
    there = await collection.create("there", tide="low")
    async with watching(collection.talk, collection.path, accept=PARTIAL, **WITH_BOOKMARKS) as stream:
        added, bookmark = await stream.take(2)
        changed = await collection.label("there", tide="high")
        modified = await stream.next()
    bookmarked = {"resourceVersion": bookmark["object"]["metadata"]["resourceVersion"]}
    for event, type_, metadata in (
        (added, "ADDED", there["metadata"]),
        (bookmark, "BOOKMARK", {**bookmarked, "annotations": ENDS_INITIAL}),
        (modified, "MODIFIED", changed["metadata"]),
    ):
        assert event == {
            "type": type_,
            "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata},
        }


async def test_watch_of_all_namespaces(collection: Collection, room: str) -> None:
    there = await collection.create("there")
    everywhere = collection.path.replace(f"/namespaces/{room}", "")
    query = {"resourceVersion": str(version(there)), "fieldSelector": f"metadata.namespace%3D{room}"}
    async with watching(collection.talk, everywhere, **query) as stream:
        later = await collection.create("later")
        assert await stream.next() == {"type": "ADDED", "object": later}


async def test_many_watches_get_the_same_events(collection: Collection) -> None:
    there = await collection.create("there")
    since = str(version(there))

    async def events_of(stream: Stream) -> list[tuple[str, str]]:
        return [brief(event) for event in await stream.take(20)]

    async with (
        watching(collection.talk, collection.path, resourceVersion=since) as one,
        watching(collection.talk, collection.path, resourceVersion=since) as two,
    ):
        readers = asyncio.gather(events_of(one), events_of(two))
        await asyncio.gather(*(collection.create(f"n{index}") for index in range(20)))
        first, second = await readers
    assert first == second
    assert sorted(first) == sorted(("ADDED", f"n{index}") for index in range(20))
