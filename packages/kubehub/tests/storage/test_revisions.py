"""Copied and restored data: a client never resumes from a revision of another life."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubehub.storage.archive import backup, restore
from kubehub.storage.entry import DELETED, TooNew
from kubehub.storage.revisions import LATEST_CLOCK, MAX_GAPS, first_revision
from kubehub.storage.store import Key, Store, TooOld

RESOURCE = "things.example.com"
NOW = 1_800_000_000
Objects = dict[Key, int]


async def put(store: Store, name: str) -> int:
    key = (RESOURCE, "default", name)
    head = store.head(key)
    body = {"metadata": {"namespace": "default", "name": name}}
    return (await store.put(key, body, expect=head.revision if head else 0)).revision


async def drop(store: Store, name: str) -> None:
    head = store.head((RESOURCE, "default", name))
    if head is not None:
        await store.delete(head.key, msgspec.json.decode(head.raw), expect=head.revision)


def objects(store: Store) -> Objects:
    return {item.key: item.revision for item in store.items(RESOURCE).items}


async def resumed(store: Store, since: int, known: Objects) -> Objects:
    """Return what a client that listed ``known`` at ``since`` has after its watch. Raises TooOld or TooNew."""
    watch, held = store.watch(RESOURCE, since=since), dict(known)
    try:
        if store.last_revision(RESOURCE) > since:
            for change in await watch.next():
                if change.type == DELETED:
                    held.pop(change.key)
                else:
                    held[change.key] = change.revision
    finally:
        watch.close()
    return held


def at(seconds: float) -> AbstractContextManager[object]:
    return mock.patch.object(time, "time_ns", return_value=int(seconds * 1e9))


Step = tuple[str, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(["write", "delete", "copy", "put back", "restore", "clock"]), st.integers(0, 40)
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=15)
@given(steps=steps)
def test_resumed_watch_is_complete_or_refused_whatever_is_restored(steps: Sequence[Step]) -> None:
    async def live(root: Path) -> None:
        folder, seconds = root / "hub", float(NOW)
        copies: list[Path] = []
        clients: list[tuple[int, Objects]] = []
        for what, number in steps:
            seconds += 1
            if what == "clock":  # forwards, backwards, or before the hub was created
                seconds = (seconds + 3600, seconds - 3600, 1.0)[number % 3]
            elif what == "copy" and folder.exists():
                copies.append(root / f"copy{len(copies)}")
                shutil.copytree(folder, copies[-1])
            elif what == "put back" and copies:
                shutil.rmtree(folder)
                shutil.copytree(copies[number % len(copies)], folder)
            elif what == "restore" and copies:
                file = root / "backup"
                file.unlink(missing_ok=True)
                backup(copies[number % len(copies)], file)
                shutil.rmtree(folder)
                with at(seconds):
                    restore(file, folder)
            with at(seconds):
                store = await Store.open(folder, first=first_revision)
            async with store:
                clients.append((store.revision, objects(store)))
                for _ in range(number if what == "write" else 1):
                    revision = await put(store, f"n{number % 3}")
                    clients.append((revision, objects(store)))
                if what == "delete":
                    await drop(store, f"n{number % 3}")
                for since, known in clients:
                    try:
                        caught_up = await resumed(store, since, known)
                    except (TooOld, TooNew):
                        continue
                    assert caught_up == objects(store)
                assert store.revision < 2**53

    with tempfile.TemporaryDirectory() as root:
        asyncio.run(live(Path(root)))


async def test_reopened_store_resumes_its_own_watches_and_refuses_skipped_revisions(tmp_path: Path) -> None:
    async with await Store.open(tmp_path, first=lambda last: last + 10) as store:
        last = await put(store, "a")
    for _ in range(2):  # the gap is stored
        async with await Store.open(tmp_path, first=lambda last: last + 10) as store:
            since = await put(store, "a")
            assert [c.revision for c in await store.watch(RESOURCE, since=last).next()][-1] == since
            for skipped in (last + 1, last + 9):
                with pytest.raises(TooOld):
                    store.watch(RESOURCE, since=skipped)
                with pytest.raises(TooOld):
                    store.items(RESOURCE, revision=skipped)


async def test_oldest_version_gaps_are_dropped_with_earlier_history(tmp_path: Path) -> None:
    async with await Store.open(tmp_path, first=lambda last: last + 10) as store:
        first = await put(store, "a")
    for _ in range(MAX_GAPS):
        await (await Store.open(tmp_path, first=lambda last: last + 10)).close()
    async with await Store.open(tmp_path, first=lambda last: last + 10) as store:
        with pytest.raises(TooOld):
            store.watch(RESOURCE, since=first)
        assert store.oldest == first + 10


async def test_store_in_memory_refuses_versions_of_an_earlier_process() -> None:
    store = await Store.open(None, first=lambda last: last + 10)
    for since in (1, 10, 12):
        with pytest.raises((TooOld, TooNew)):
            store.watch(RESOURCE, since=since)


@pytest.mark.parametrize("seconds", [0.0, NOW - 1e6, LATEST_CLOCK / 1e6, 1e11])
def test_wrong_clock_skips_ahead_within_53_bits(seconds: float) -> None:
    last = NOW * 1_000_000
    with at(seconds):
        first = first_revision(last)
        assert last < first < 2**53
        # Two lives with the same past don't share revisions, even without help of the clock.
        assert first != first_revision(last)


def test_new_store_starts_at_the_clock_in_microseconds() -> None:
    with at(NOW):
        assert first_revision(6) == NOW * 1_000_000
