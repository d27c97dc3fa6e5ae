"""The store as its callers see it, in memory and on disk."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubehub.storage import watch_cache
from kubehub.storage.entry import ADDED, DELETED, MODIFIED
from kubehub.storage.store import Change, Closed, Conflict, Item, Key, Store, TooNew, TooOld, Watch

PODS = "pods"
NODES = "nodes"


def pod(name: str, namespace: str = "default") -> Key:
    return (PODS, namespace, name)


def document(key: Key, value: object = None) -> dict[str, Any]:
    return {"metadata": {"namespace": key[1], "name": key[2]}, "value": value}


@pytest.fixture(params=["memory", "disk"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(tmp_path / "data" if request.param == "disk" else None) as opened:
        yield opened


async def put(store: Store, key: Key, value: object = None) -> Item:
    head = store.head(key)
    return await store.put(key, document(key, value), expect=head.revision if head else 0)


async def drop(store: Store, key: Key) -> Item:
    head = store.head(key)
    assert head is not None
    return await store.delete(key, msgspec.json.decode(head.raw), expect=head.revision)


def names(store: Store, resource: str = PODS, **kwargs: Any) -> list[str]:
    return ["/".join(item.key[1:]) for item in store.items(resource, **kwargs).items]


def brief(changes: Any) -> list[tuple[str, str, int]]:
    return [(change.type, change.key[2], change.revision) for change in changes]


async def ready(watch: Watch) -> asyncio.Task[Any]:
    """A call of next that is waiting."""
    task = asyncio.create_task(watch.next())
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_empty_store_is_at_revision_one(store: Store) -> None:
    assert (store.revision, store.oldest) == (1, 1)
    assert store.resources() == []
    assert store.items(PODS).items == []
    assert store.items(PODS).revision == 1
    assert store.get(pod("a")) is None
    assert store.count(PODS) == 0


async def test_stored_object_has_its_revision(store: Store) -> None:
    body = document(pod("a"), 1)
    item = await store.put(pod("a"), body, expect=0)
    assert item.revision == store.revision == 2
    assert body["metadata"]["resourceVersion"] == "2"
    assert msgspec.json.decode(item.raw) == body
    assert store.get(pod("a")) == store.head(pod("a")) == item
    assert store.resources() == [PODS]


async def test_stored_document_without_metadata_gets_metadata(store: Store) -> None:
    item = await store.put(pod("a"), {}, expect=0)
    assert msgspec.json.decode(item.raw) == {"metadata": {"resourceVersion": "2"}}


@pytest.mark.parametrize("expect", [0, 1, 3])
async def test_stale_put_conflicts_with_the_current_state(store: Store, expect: int) -> None:
    current = await put(store, pod("a"))
    with pytest.raises(Conflict, match=r"pods/default/a is at revision 2, expected") as refused:
        await store.put(pod("a"), document(pod("a")), expect=expect)
    assert refused.value.current == current
    assert store.revision == 2


async def test_write_to_a_missing_object_conflicts(store: Store) -> None:
    with pytest.raises(Conflict, match="is absent, expected at revision 7") as refused:
        await store.put(pod("a"), document(pod("a")), expect=7)
    assert refused.value.current is None
    for expect in (0, 7):
        with pytest.raises(Conflict):
            await store.delete(pod("a"), document(pod("a")), expect=expect)


async def test_deletion_has_its_own_revision(store: Store) -> None:
    await put(store, pod("a"), "last")
    gone = await drop(store, pod("a"))
    assert gone.revision == store.revision == store.last_revision(PODS) == 3
    assert msgspec.json.decode(gone.raw) == {
        "metadata": {"namespace": "default", "name": "a", "resourceVersion": "3"},
        "value": "last",
    }
    assert store.get(pod("a")) is store.head(pod("a")) is None
    assert store.resources() == []
    assert (await put(store, pod("a"))).revision == 4


async def test_unencodable_document_changes_nothing(store: Store) -> None:
    with pytest.raises(TypeError):
        await store.put(pod("a"), document(pod("a"), object()), expect=0)
    assert store.head(pod("a")) is None
    assert (await put(store, pod("a"))).revision == 2


async def test_writes_are_seen_by_writers_at_once_and_by_readers_when_committed(store: Store) -> None:
    first = asyncio.create_task(put(store, pod("a"), 1))
    second = asyncio.create_task(put(store, pod("a"), 2))
    await asyncio.sleep(0)
    head = store.head(pod("a"))
    assert head is not None
    assert head.revision == 3
    assert (store.get(pod("a")), store.revision, store.count(PODS)) == (None, 1, 0)
    with pytest.raises(Conflict) as refused:
        await store.put(pod("a"), document(pod("a")), expect=0)
    assert refused.value.current == head
    assert [item.revision for item in await asyncio.gather(first, second)] == [2, 3]
    assert store.get(pod("a")) == head


async def test_object_can_be_created_after_a_pending_deletion(store: Store) -> None:
    await put(store, pod("a"))
    gone = asyncio.create_task(drop(store, pod("a")))
    await asyncio.sleep(0)
    assert store.head(pod("a")) is None
    assert store.get(pod("a")) is not None
    again = await put(store, pod("a"))
    assert (await gone).revision < again.revision
    assert brief(await store.watch(PODS, since=1).next()) == [
        (ADDED, "a", 2),
        (DELETED, "a", 3),
        (ADDED, "a", 4),
    ]


async def test_cancelled_put_does_not_affect_other_writes(store: Store) -> None:
    cancelled = asyncio.create_task(put(store, pod("a")))
    other = asyncio.create_task(put(store, pod("b")))
    await asyncio.sleep(0)
    cancelled.cancel()
    assert (await other).revision == 3
    assert names(store) == ["default/a", "default/b"]


async def test_lists_are_sorted_by_namespace_and_name(store: Store) -> None:
    for namespace, name in (("b", "z"), ("b", "a"), ("a-b", "m"), ("a", "x"), ("a", "b")):
        await put(store, pod(name, namespace))
    await put(store, (NODES, "", "n"))
    assert names(store) == ["a/b", "a/x", "a-b/m", "b/a", "b/z"]
    assert names(store, namespace="a") == ["a/b", "a/x"]
    assert names(store, namespace="nobody") == []
    assert names(store, NODES) == ["/n"]
    assert store.resources() == [NODES, PODS]
    assert store.items(PODS, limit=0).items == []


async def test_listing_pages_are_contiguous(store: Store) -> None:
    for name in "edcba":
        await put(store, pod(name))
    first = store.items(PODS, limit=2)
    assert ([item.key[2] for item in first.items], first.more, first.remaining) == (["a", "b"], True, 3)
    await drop(store, pod("c"))
    await put(store, pod("bb"))
    rest = store.items(PODS, namespace="default", after=("default", "b"), limit=2, revision=first.revision)
    assert ([item.key[2] for item in rest.items], rest.remaining) == (["c", "d"], 1)
    last = store.items(PODS, after=("default", "d"), limit=2, revision=first.revision)
    assert ([item.key[2] for item in last.items], last.more, last.remaining) == (["e"], False, 0)
    assert names(store, after=("default", "b")) == ["default/bb", "default/d", "default/e"]


async def test_lists_stay_ordered_after_many_creates_and_deletes(store: Store) -> None:
    for wave in range(3):
        for number in range(200):
            await put(store, pod(f"p{number * 7 % 200:03}"), wave)
        for number in range(0, 200, 3):
            await drop(store, pod(f"p{number:03}"))
        expected = [f"default/p{number:03}" for number in range(200) if number % 3]
        assert names(store) == expected
        await put(store, pod("p000"))
        assert names(store) == ["default/p000", *expected]
        before = store.revision
        await drop(store, pod("p000"))
        assert names(store) == expected
        assert names(store, revision=before) == ["default/p000", *expected]


async def test_list_at_an_older_revision_shows_the_objects_of_that_revision(store: Store) -> None:
    first = await put(store, pod("a"), "first")
    await put(store, pod("a"), "second")
    await drop(store, pod("a"))
    await put(store, pod("a"), "third")
    assert store.items(PODS, revision=first.revision).items == [first]
    assert names(store, revision=1) == []
    assert names(store, revision=4) == []


async def test_list_at_a_future_revision_is_rejected(store: Store) -> None:
    with pytest.raises(TooNew) as refused:
        store.items(PODS, revision=2)
    assert (refused.value.asked, refused.value.newest) == (2, 1)


async def test_last_changed_revision_is_per_resource(store: Store) -> None:
    await put(store, pod("a"))
    assert store.last_revision(PODS) == 2
    await put(store, (NODES, "", "n"))
    assert (store.last_revision(PODS), store.last_revision(NODES)) == (2, 3)


async def test_watch_returns_changes_since_its_revision(store: Store) -> None:
    await put(store, pod("a"), 1)
    await put(store, pod("a"), 2)
    await put(store, (NODES, "", "n"))
    await drop(store, pod("a"))
    changes = await store.watch(PODS, since=1).next()
    assert brief(changes) == [(ADDED, "a", 2), (MODIFIED, "a", 3), (DELETED, "a", 5)]
    assert [change.previous for change in changes] == [None, changes[0].raw, changes[1].raw]
    assert brief(await store.watch(PODS, since=3).next()) == [(DELETED, "a", 5)]


async def test_waiting_watch_gets_a_burst_of_changes_at_once(store: Store) -> None:
    watch = store.watch(PODS, since=store.revision)
    waiting = await ready(watch)
    await asyncio.gather(*(put(store, pod(name)) for name in "abc"))
    assert brief(await waiting) == [(ADDED, "a", 2), (ADDED, "b", 3), (ADDED, "c", 4)]
    assert watch.position == 4


async def test_watch_of_a_namespace_ignores_other_namespaces(store: Store) -> None:
    watch = store.watch(PODS, namespace="mine", since=store.revision)
    waiting = await ready(watch)
    await put(store, pod("a", "other"))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert watch.position == 2
    await put(store, pod("b", "mine"))
    assert brief(await waiting) == [(ADDED, "b", 3)]


async def test_watch_position_does_not_pass_undelivered_changes(store: Store) -> None:
    watch = store.watch(PODS, since=store.revision)
    assert watch.position == 1
    await put(store, (NODES, "", "n"))
    assert watch.position == 2
    await put(store, pod("a"))
    await put(store, (NODES, "", "n"))
    assert watch.position == 2
    assert brief(await watch.next()) == [(ADDED, "a", 3)]
    assert watch.position == 4


async def test_watch_of_a_revision_not_given_out_is_refused(store: Store) -> None:
    with pytest.raises(TooNew) as refused:
        store.watch(PODS, since=2)
    assert (refused.value.asked, refused.value.newest) == (2, 1)


async def test_cancelled_watch_read_loses_no_change(store: Store) -> None:
    watch = store.watch(PODS, since=store.revision)
    waiting = await ready(watch)
    waiting.cancel()
    await put(store, pod("a"))
    assert brief(await watch.next()) == [(ADDED, "a", 2)]


async def test_listener_is_called_before_the_writer_continues(store: Store) -> None:
    heard: list[tuple[str, int, bool]] = []
    store.listen(lambda change: heard.append((change.type, change.revision, write.done())))
    write = asyncio.create_task(put(store, pod("a")))
    await write
    await drop(store, pod("a"))
    assert heard == [(ADDED, 2, False), (DELETED, 3, True)]


async def test_failing_listener_does_not_fail_the_write(store: Store) -> None:
    faults: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["message"]))
    heard: list[int] = []
    store.listen(lambda change: change.forms["absent"])
    store.listen(lambda change: heard.append(change.revision))
    await put(store, pod("a"))
    await put(store, pod("b"))
    assert names(store) == ["default/a", "default/b"]
    assert (heard, store.read_only) == ([2, 3], None)
    assert faults == [f"a listener failed at revision {revision}" for revision in heard]


async def test_store_waits_for_a_revision(store: Store) -> None:
    await store.wait_for_revision(1)
    second, third, never = (asyncio.create_task(store.wait_for_revision(revision)) for revision in (2, 3, 9))
    await put(store, pod("a"))
    await second
    assert not third.done()
    await put(store, pod("a"))
    await third
    await store.close()
    with pytest.raises(Closed):
        await never


async def test_store_names_the_keys_changed_since_a_revision(store: Store) -> None:
    for name in "aab":
        await put(store, pod(name))
    await put(store, (NODES, "", "n"))
    assert store.changed_since(PODS, since=2) == {("default", "a"), ("default", "b")}
    assert store.changed_since(PODS, since=4) == set()


async def test_closing_a_watch_ends_its_wait_and_no_other(store: Store) -> None:
    closed, other = (store.watch(PODS, since=store.revision) for _ in range(2))
    waiting, staying = await ready(closed), await ready(other)
    closed.close()
    closed.close()
    with pytest.raises(Closed):
        await waiting
    assert not staying.done()
    await put(store, pod("a"))
    assert brief(await staying) == [(ADDED, "a", 2)]


async def test_closing_the_store_finishes_writes_and_ends_watches(store: Store) -> None:
    watch = store.watch(NODES, since=store.revision)
    waiting = await ready(watch)
    write = asyncio.create_task(put(store, pod("a")))
    await asyncio.sleep(0)
    await store.close()
    assert (await write).revision == 2
    with pytest.raises(Closed):
        await waiting
    for _ in range(2):
        with pytest.raises(Closed):
            await watch.next()
    with pytest.raises(Closed):
        await put(store, pod("b"))
    with pytest.raises(Closed):
        store.watch(PODS, since=2)
    with pytest.raises(Closed):
        await store.probe()
    await store.close()


async def test_history_is_bounded_by_count() -> None:
    store = await Store.open(None, changes=3)
    for value in range(5):
        await put(store, pod("a"), value)
    assert (store.revision, store.oldest) == (6, 3)
    assert brief(await store.watch(PODS, since=3).next()) == [
        (MODIFIED, "a", revision) for revision in (4, 5, 6)
    ]
    assert store.items(PODS, revision=3).items[0].revision == 3
    for ask in (lambda: store.watch(PODS, since=2), lambda: store.items(PODS, revision=2)):
        with pytest.raises(TooOld) as refused:
            ask()
        assert (refused.value.asked, refused.value.oldest) == (2, 3)


async def test_history_is_bounded_by_bytes_but_for_the_newest_change() -> None:
    store = await Store.open(None, size=1_000)
    for revision in range(2, 6):
        await put(store, pod("a"), "x" * 400)
        assert store.oldest == max(1, revision - 2)
    await put(store, pod("a"), "x" * 2_000)
    assert (store.oldest, store.revision) == (5, 6)
    assert brief(await store.watch(PODS, since=5).next()) == [(MODIFIED, "a", 6)]


async def test_evicted_watch_raises_too_old_at_its_next_call() -> None:
    store = await Store.open(None, changes=3)
    slow, fast = (store.watch(PODS, since=1) for _ in range(2))
    for value in range(4):
        await put(store, pod("a"), value)
        assert len(await fast.next()) == 1
    for _ in range(2):
        with pytest.raises(TooOld) as refused:
            await slow.next()
        assert (refused.value.asked, refused.value.oldest) == (1, 2)


async def test_idle_watch_stays_valid_while_other_resources_change() -> None:
    store = await Store.open(None, changes=3)
    await put(store, (NODES, "", "n"))
    watch = store.watch(NODES, since=2)
    for value in range(50):
        await put(store, pod("a"), value)
    assert store.oldest == 49
    assert watch.position == 52
    assert names(store, NODES, revision=2) == ["/n"]
    resumed = store.watch(NODES, since=2)
    with pytest.raises(TooOld):
        store.watch(NODES, since=1)
    await put(store, (NODES, "", "n"))
    for reader in (watch, resumed):
        assert brief(await reader.next()) == [(MODIFIED, "n", 53)]


async def test_watch_survives_its_event_buffer_being_emptied() -> None:
    store = await Store.open(None, changes=2)
    watch = store.watch(PODS, namespace="mine", since=1)
    for _ in range(3):
        item = await put(store, pod("a", "mine"))
        assert [change.item for change in await watch.next()] == [item]
        for value in range(4):
            await put(store, pod("b", "other"), value)


async def test_computed_forms_are_kept_for_recent_changes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_cache, "RECENT", 2)
    store = await Store.open(None)
    watch = store.watch(PODS, since=1)
    seen: list[Change] = []
    for value in range(4):
        await put(store, pod("a"), value)
        (change,) = await watch.next()
        change.forms["json"] = value
        seen.append(change)
    assert [change.forms for change in seen] == [{}, {}, {"json": 2}, {"json": 3}]
