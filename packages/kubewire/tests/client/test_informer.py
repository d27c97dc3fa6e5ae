"""The informer against a hub that does one thing wrong at a time."""

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, Literal

import pytest
from client.mirror import Mirror
from msgspec import structs

from fairway.api.cluster import ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS, PLACEMENTS
from kubewire.client import informer as informers
from kubewire.client.change import Added, Batch, Deleted, Updated
from kubewire.client.clock import Backoff
from kubewire.client.errors import TransportError
from kubewire.client.informer import Informer
from kubewire.client.rest import Client, Listing
from rigs.fake_server import FakeServer

QUICK = Backoff(base=0.001, cap=0.002)


class Following:
    """A running informer and its subscriber."""

    def __init__(self, hub: FakeServer, informer: Informer[ManagedCluster]) -> None:
        self.hub, self.informer = hub, informer
        self.mirror: Mirror[ManagedCluster] = Mirror()
        informer.subscribe(self.mirror)

    async def settled(self) -> None:
        """Same state, and the watch that keeps it so is open."""
        await self.mirror.until(lambda: self.mirror.versions() == self.hub.versions())
        assert self.mirror.broken == []

    async def current(self) -> None:
        while self.informer.lag > 0:
            await asyncio.sleep(0)

    def changes(self) -> list[str]:
        return [
            f"{type(change).__name__} {change.object.metadata.name}"
            for batch in self.mirror.batches
            for change in batch.changes
        ]


@asynccontextmanager
async def following(hub: FakeServer, client: Client, **options: Any) -> AsyncIterator[Following]:
    informer = Informer(client, MANAGED_CLUSTERS, **{"backoff": QUICK, **options})
    follower = Following(hub, informer)
    async with informer:
        await informer.synced.wait()
        await follower.current()
        yield follower
    assert follower.mirror.broken == []


class TestBeginning:
    @pytest.mark.parametrize("streaming", [True, False])
    async def test_informer_starts_with_all_objects(
        self, hub: FakeServer, client: Client, streaming: bool
    ) -> None:
        for name in "abc":
            hub.put(name)
        async with following(hub, client, streaming=streaming, page=2) as follower:
            (batch,) = follower.mirror.batches
            assert [type(change) for change in batch.changes] == [Added, Added, Added]
            assert (batch.epoch, batch.listed) == (0, True)
            assert batch.resource_version == follower.informer.resource_version == str(hub.objects.revision)
            assert follower.informer.lists == 1
            assert sorted(key[1] for key in follower.informer.store) == ["a", "b", "c"]
            one = follower.informer.get("a")
            assert one is not None
            assert one.metadata.name == "a"
            assert follower.informer.get("z") is None
            assert len(hub.asked("list")) == (0 if streaming else 2)

    async def test_informer_of_an_empty_list_syncs(self, hub: FakeServer, client: Client) -> None:
        async with following(hub, client) as follower:
            assert [batch.changes for batch in follower.mirror.batches] == [()]

    async def test_informer_sends_its_selectors(self, hub: FakeServer, client: Client) -> None:
        async with following(hub, client, streaming=False, labels="x=1", fields="metadata.name!=b"):
            pass
        for seen in (*hub.asked("list"), *hub.asked("watch")):
            assert seen.query["labelSelector"] == "x=1"
            assert seen.query["fieldSelector"] == "metadata.name!=b"

    async def test_informer_falls_back_to_a_list_if_watch_list_is_rejected(
        self, hub: FakeServer, client: Client
    ) -> None:
        hub.streaming = "refused"
        hub.put("a")
        async with following(hub, client) as follower:
            hub.error(410, "Expired")
            hub.put("b")
            await follower.settled()
            await follower.current()
        asked = [request.kind for request in hub.requests if request.kind != "newest"]
        assert asked == ["watch", "list", "watch", "list", "watch"], "refused once is refused for good"

    async def test_informer_falls_back_to_a_list_if_watch_list_is_ignored(
        self, hub: FakeServer, client: Client
    ) -> None:
        hub.streaming = "ignored"
        hub.put("a")
        async with following(hub, client, list_timeout=0.05):
            assert [request.kind for request in hub.requests] == ["watch", "list", "watch", "newest"]

    async def test_informer_falls_back_to_a_list_despite_plain_bookmarks(
        self, hub: FakeServer, client: Client
    ) -> None:
        hub.streaming = "ignored"
        informer = Informer(client, MANAGED_CLUSTERS, backoff=QUICK)
        async with informer:
            await hub.watched()
            hub.bookmark()
            await informer.synced.wait()
        assert "list" in [request.kind for request in hub.requests]

    async def test_informer_falls_back_to_a_list_if_watch_lists_keep_ending(
        self, hub: FakeServer, client: Client
    ) -> None:
        hub.streaming = "ignored"
        informer = Informer(client, MANAGED_CLUSTERS, backoff=QUICK)
        async with informer:
            while not informer.synced.is_set():
                hub.end()
                await asyncio.sleep(0)
        kinds = [request.kind for request in hub.requests]
        assert kinds[: kinds.index("list")] == ["watch"] * informers.UNFINISHED_LISTS

    async def test_interrupted_watch_list_is_restarted(self, hub: FakeServer, client: Client) -> None:
        for name in "abc":
            hub.put(name)
        hub.streaming = "ignored"
        informer = Informer(client, MANAGED_CLUSTERS, backoff=QUICK)
        follower = Following(hub, informer)
        async with informer:
            await hub.watched()
            hub.streaming = "yes"
            hub.delete("c")
            hub.cut()
            await informer.synced.wait()
            await follower.settled()
        assert follower.changes() == ["Added a", "Added b"], "nothing is told before all is there"

    async def test_changes_during_the_watch_list_are_delivered(self, hub: FakeServer, client: Client) -> None:
        hub.put("a")
        hub.put("b")
        hub.streaming = "ignored"
        informer = Informer(client, MANAGED_CLUSTERS, backoff=QUICK)
        follower = Following(hub, informer)
        async with informer:
            await hub.watched()
            hub.delete("a")
            hub.put("b", x="1")
            hub.send(
                b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d",'
                b'"annotations":{"k8s.io/initial-events-end":"true"}}}}\n' % hub.objects.revision
            )
            await follower.settled()
        assert follower.changes() == ["Added b"]

    async def test_informer_waits_for_an_unreachable_hub(self, client: Client, hub: FakeServer) -> None:
        await hub.stop()
        informer = Informer(client, MANAGED_CLUSTERS, backoff=QUICK)
        async with informer:
            await asyncio.sleep(0)
            assert informer.lag == math.inf
            await hub.start()
            await informer.synced.wait()

    def test_wrong_namespace_of_an_informer_raises_at_once(self, client: Client) -> None:
        with pytest.raises(ValueError, match="is not namespaced"):
            Informer(client, MANAGED_CLUSTERS, namespace="n")
        Informer(client, PLACEMENTS, namespace="n")


class TestFollowing:
    async def test_informer_delivers_changes_in_order(self, hub: FakeServer, client: Client) -> None:
        hub.put("a")
        async with following(hub, client) as follower:
            hub.put("a", x="1")
            hub.put("b")
            await follower.settled()
            hub.delete("a")
            await follower.settled()
            assert follower.changes() == ["Added a", "Updated a", "Added b", "Deleted a"]
            update = next(
                change
                for batch in follower.mirror.batches
                for change in batch.changes
                if isinstance(change, Updated)
            )
            assert (update.old.metadata.labels, update.object.metadata.labels) == ({}, {"x": "1"})

    @pytest.mark.parametrize("after", [b"", b'{"type":"MODIFIED","object":{"metada'])
    async def test_interrupted_watch_is_resumed(self, hub: FakeServer, client: Client, after: bytes) -> None:
        async with following(hub, client) as follower:
            hub.put("a")
            await follower.settled()
            seen = hub.objects.revision
            hub.cut(after=after)
            hub.put_silently("a")
            hub.put_silently("b")
            await follower.settled()
            assert follower.informer.lists == 1
            assert hub.asked("watch")[-1].query["resourceVersion"] == str(seen)
            assert "sendInitialEvents" not in hub.asked("watch")[-1].query

    async def test_ended_watch_is_resumed_without_a_list(self, hub: FakeServer, client: Client) -> None:
        async with following(hub, client) as follower:
            hub.end()
            hub.put_silently("a")
            await follower.settled()
            assert follower.informer.lists == 1

    async def test_bookmark_avoids_a_relist(self, hub: FakeServer, client: Client) -> None:
        """Other resources are written to, the history is forgotten up to there, and the watch breaks."""
        async with following(hub, client) as follower:
            hub.objects.compact()
            hub.bookmark()
            while follower.informer.resource_version != str(hub.objects.revision):
                await asyncio.sleep(0)
            hub.cut()
            hub.put_silently("a")
            await follower.settled()
            assert follower.informer.lists == 1

    @pytest.mark.parametrize("how", ["answer", "event"])
    async def test_compacted_history_causes_a_relist(
        self, hub: FakeServer, client: Client, how: Literal["answer", "event"]
    ) -> None:
        for name in "abc":
            hub.put(name)
        async with following(hub, client) as follower:
            view = follower.informer.store
            if how == "event":
                hub.error(410, "Expired")
            else:
                hub.cut()
            hub.delete_silently("a")
            hub.put_silently("b", {"x": "1"})
            hub.put_silently("d")
            hub.objects.compact()
            await follower.settled()
            assert follower.informer.lists == 2
            assert view == follower.informer.store, "a view stays live"
            last = follower.mirror.batches[-1]
            assert (last.listed, last.epoch) == (True, 0)
            assert sorted(follower.changes()[3:]) == ["Added d", "Deleted a", "Updated b"]

    async def test_large_list_after_a_gap_is_delivered_in_parts(
        self, hub: FakeServer, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(informers, "PART", 2)
        for name in "abcde":
            hub.put(name)
        async with following(hub, client) as follower:
            others: Mirror[ManagedCluster] = Mirror()
            late: Mirror[ManagedCluster] = Mirror()

            def meanwhile(batch: Batch[ManagedCluster]) -> None:
                if len(follower.mirror.batches) == 2:
                    # Our own write while the changes of e wait for their turn, and a new subscriber.
                    newest = follower.informer.get("e")
                    assert newest is not None
                    meta = structs.replace(newest.metadata, resourceVersion="1000")
                    follower.informer.observe(structs.replace(newest, metadata=meta))
                    follower.informer.subscribe(late)

            follower.informer.subscribe(meanwhile)
            follower.informer.subscribe(others)
            hub.error(410, "Expired")
            for name in "abcde":
                hub.put_silently(name, {"x": "1"})
            hub.delete_silently("d")
            hub.objects.compact()
            await follower.mirror.until(lambda: len(follower.mirror.batches) > 3)
            for mirror in (follower.mirror, others, late):
                assert mirror.broken == []
                assert mirror.store == follower.informer.store
            sizes = [len(batch.changes) for batch in follower.mirror.batches]
            assert sizes == [5, 2, 1, 1, 2], "the first list, a part, the pending change of e, ours, the rest"
            assert {batch.resource_version for batch in follower.mirror.batches[1:]} == {
                follower.informer.resource_version
            }

    async def test_many_events_at_once_are_delivered_in_parts(
        self, hub: FakeServer, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(informers, "PART", 2)
        async with following(hub, client) as follower:
            hub.cut()
            for name in "abcde":
                hub.put_silently(name)
            await follower.mirror.until(lambda: len(follower.mirror.store) == 5)
            assert follower.informer.lists == 1
            assert [len(batch.changes) for batch in follower.mirror.batches if batch.changes] == [2, 2, 1]

    async def test_object_recreated_during_a_gap_is_deleted_and_added(
        self, hub: FakeServer, client: Client
    ) -> None:
        hub.put("a")
        async with following(hub, client) as follower:
            hub.error(410, "Expired")
            hub.delete_silently("a")
            hub.put_silently("a")
            hub.objects.compact()
            await follower.settled()
            assert follower.changes() == ["Added a", "Deleted a", "Added a"]

    async def test_informer_follows_a_restarted_hub(self, hub: FakeServer, client: Client) -> None:
        async with following(hub, client) as follower:
            await hub.stop()
            hub.put_silently("a")
            while follower.informer.lag == 0:
                await asyncio.sleep(0)
            await hub.start()
            await follower.settled()
            await follower.current()
            assert follower.informer.lists == 1

    async def test_informer_relists_periodically(self, hub: FakeServer, client: Client) -> None:
        async with following(hub, client, relist_after=0.0) as follower:
            hub.end()
            hub.put("a")
            await follower.settled()
            assert follower.informer.lists >= 2

    async def test_unreadable_object_is_skipped_and_reported(
        self, hub: FakeServer, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        hub.put("a")
        hub.put("b")
        async with following(hub, client) as follower:
            bad = hub.put_silently("a", spec=["no", "mapping"])
            with caplog.at_level(logging.WARNING):
                hub.send(bad.line)
                hub.put("b", x="1")
                await follower.mirror.until(lambda: "Updated b" in follower.changes())
            assert follower.informer.unreadable.keys() == {("", "a")}
            assert "unreadable fields dropped  kind=ManagedCluster name=a fields='spec:" in caplog.text
            hub.error(410, "Expired")
            hub.objects.compact()
            hub.put("c")
            await follower.mirror.until(lambda: "Added c" in follower.changes())
            known = follower.informer.get("a")
            assert known is not None
            assert known.metadata.resourceVersion == str(bad.version)
            hub.delete("a")
            await follower.mirror.until(lambda: "Deleted a" in follower.changes())
            assert follower.informer.unreadable == {}


class TestHistoriesThatWentBack:
    @pytest.mark.parametrize("future", ["wait", "refused"])
    @pytest.mark.parametrize("streaming", [True, False])
    async def test_informer_detects_a_restored_backup_by_the_list(
        self, hub: FakeServer, client: Client, streaming: bool, future: Literal["wait", "refused"]
    ) -> None:
        hub.future = future
        hub.put("a")
        back_then = hub.put("b").version
        hub.put("a", x="1")
        hub.put("c")
        hub.delete("b")
        async with following(hub, client, streaming=streaming) as follower:
            await hub.restart(rewind_to=back_then)
            await follower.settled()
            (batch,) = follower.mirror.batches[1:]
            assert (batch.epoch, batch.listed, follower.informer.epoch) == (1, True, 1)
            assert sorted(type(change).__name__ for change in batch.changes) == [
                "Added",
                "Deleted",
                "Updated",
            ]
            hub.put("a", x="2")
            await follower.settled()
            assert follower.mirror.batches[-1].epoch == 1

    async def test_informer_detects_a_restored_backup_by_a_bookmark(
        self, hub: FakeServer, client: Client
    ) -> None:
        back_then = hub.put("a").version
        hub.put("a", x="1")
        async with following(hub, client) as follower:
            hub.objects.rewind(back_then)
            hub.bookmark()
            await follower.settled()
            assert follower.informer.epoch == 1

    async def test_informer_detects_a_restored_backup_by_an_event(
        self, hub: FakeServer, client: Client
    ) -> None:
        async with following(hub, client) as follower:
            back_then = hub.put("a").version
            hub.put("a", x="1")
            hub.put("b")
            await follower.settled()
            hub.objects.rewind(back_then)
            hub.put("a", x="other")
            await follower.settled()
            assert follower.informer.epoch == 1
            assert follower.mirror.batches[-1].listed

    async def test_stale_watch_event_alone_changes_nothing(
        self, hub: FakeServer, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        old = hub.put("a")
        hub.put("a", x="1")
        async with following(hub, client) as follower:
            with caplog.at_level(logging.WARNING):
                hub.send(replace(old, type="MODIFIED").line)
                hub.put("b")
                await follower.settled()
            assert follower.informer.epoch == 0
            assert follower.informer.lists == 2
            assert follower.changes() == ["Added a", "Added b"]
        assert "listing again" in caplog.text

    async def test_restored_history_that_grew_is_found_by_the_next_list(
        self, hub: FakeServer, client: Client
    ) -> None:
        back_then = hub.put("a").version
        hub.put("b")
        async with following(hub, client) as follower:
            await hub.stop()
            hub.objects.rewind(back_then)
            for name in "xyz":
                hub.put_silently(name)
            await hub.start()
            await follower.mirror.until(lambda: "Added z" in follower.changes())
            assert ("", "b") in follower.informer.store, "nothing gives it away"
            hub.error(410, "Expired")
            await follower.settled()
            assert follower.informer.epoch == 1

    async def test_restored_backup_is_detected_by_a_response_that_the_watch_has_not_reached(
        self, hub: FakeServer, client: Client
    ) -> None:
        back_then = hub.put("a").version
        async with following(hub, client) as follower:
            await follower.settled()
            a = follower.informer.get("a")
            assert a is not None
            hub.put_silently("a", {"x": "1"})
            version = str(hub.objects.revision)
            follower.informer.observe(
                structs.replace(a, metadata=structs.replace(a.metadata, resourceVersion=version))
            )
            hub.objects.rewind(back_then)
            hub.cut()
            await follower.settled()
            assert (follower.informer.epoch, follower.informer.get("a")) == (1, a)

    async def test_unverifiable_history_is_accepted(self, hub: FakeServer, client: Client) -> None:
        async with following(hub, client) as follower:
            hub.fault("newest", code=403)
            hub.cut()
            hub.put_silently("a")
            await follower.settled()
            assert follower.informer.lists == 1


class TestResponses:
    async def test_own_deletion_is_delivered_at_once_and_only_once(
        self, hub: FakeServer, client: Client
    ) -> None:
        hub.put("a")
        async with following(hub, client) as follower:
            await follower.settled()
            a = follower.informer.get("a")
            assert a is not None
            follower.informer.observe_deletion(a)
            assert follower.changes() == ["Added a", "Deleted a"]
            hub.delete("a")
            hub.put("b")
            await follower.settled()
            assert follower.changes() == ["Added a", "Deleted a", "Added b"]


class TestListeners:
    async def test_late_subscriber_gets_all_objects(self, hub: FakeServer, client: Client) -> None:
        hub.put("a")
        hub.put("b")
        async with following(hub, client) as follower:
            late: Mirror[ManagedCluster] = Mirror()
            unsubscribe = follower.informer.subscribe(late)
            assert late.store == follower.informer.store
            assert late.batches[0].listed
            hub.put("c")
            await follower.settled()
            assert late.store == follower.informer.store
            unsubscribe()
            unsubscribe()
            hub.put("d")
            await follower.settled()
            assert len(late.store) == 3

    async def test_failing_subscriber_does_not_affect_others(
        self, hub: FakeServer, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fails(batch: Batch[ManagedCluster]) -> None:
            raise RuntimeError("my fault")

        for number in range(7):
            hub.put(f"c{number}")
        with caplog.at_level(logging.ERROR):
            informer = Informer(client, MANAGED_CLUSTERS, backoff=QUICK)
            informer.subscribe(fails)
            follower = Following(hub, informer)
            async with informer:
                await follower.settled()
                hub.put("x")
                await follower.settled()
        assert [record.exc_info is not None for record in caplog.records] == [True, True]
        assert "failed and missed 7 changes" in caplog.messages[0]
        assert "(c0, c1, c2, c3, c4, …)" in caplog.messages[0]
        assert "(x)" in caplog.messages[1]

    async def test_informer_changes_as_a_stream(self, hub: FakeServer, client: Client) -> None:
        hub.put("a")
        async with following(hub, client) as follower, aclosing(follower.informer.changes()) as batches:
            first = await anext(batches)
            assert first.listed
            assert [type(change) for change in first.changes] == [Added]
            hub.put("a", x="1")
            await follower.settled()
            hub.put("a", x="2")
            hub.put("b")
            hub.delete("b")
            await follower.settled()
            await follower.mirror.until(lambda: "Deleted b" in follower.changes())
            second = await anext(batches)
            (update,) = second.changes
            assert isinstance(update, Updated)
            assert update.object.metadata.labels == {"x": "2"}
            hub.delete("a")
            assert [type(change) for change in (await anext(batches)).changes] == [Deleted]


class Scripted(Client):
    """A hub that is only there in the imagination, for questions of time."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.watches: list[float] = []
        self.fails = True

    async def list(self, *_: Any, **__: Any) -> Listing[Any]:
        self.times.append(asyncio.get_running_loop().time())
        if self.fails:
            raise TransportError("away")
        return Listing(items=(), resource_version="1")

    @asynccontextmanager
    async def stream(self, *_: Any, timeout: float = 0, **__: Any) -> AsyncIterator[Any]:
        self.times.append(asyncio.get_running_loop().time())
        self.watches.append(timeout)
        if self.fails:
            raise TransportError("away")
        yield _Quiet(timeout)

    async def newest(self, *_: Any, **__: Any) -> str:
        return "1"


class _Quiet:
    """A watch in which nothing happens for its time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __aiter__(self) -> "_Quiet":
        return self

    async def __anext__(self) -> None:
        await asyncio.sleep(self._seconds)
        raise StopAsyncIteration


@pytest.mark.looptime
class TestTime:
    async def test_informer_backs_off(self) -> None:
        hub = Scripted()
        async with Informer(hub, MANAGED_CLUSTERS, streaming=False, backoff=Backoff(base=1, cap=8)):
            await asyncio.sleep(60)
        waits = [after - before for before, after in zip(hub.times, hub.times[1:], strict=False)]
        for wait, longest in zip(waits, (1, 2, 4, 8, 8, 8, 8), strict=False):
            assert longest / 2 <= wait <= longest
        assert len(waits) >= 7

    async def test_long_watch_resets_the_backoff(self) -> None:
        hub = Scripted()
        informer = Informer(hub, MANAGED_CLUSTERS, streaming=False, backoff=Backoff(base=1, cap=60))
        async with informer:
            await asyncio.sleep(100)
            hub.fails = False
            await informer.synced.wait()
            await asyncio.sleep(1)
            hub.fails = True
            hub.times.clear()
            await asyncio.sleep(610)
            assert hub.times[1] - hub.times[0] <= 1

    async def test_watch_timeout_is_sent(self) -> None:
        hub = Scripted()
        hub.fails = False
        async with Informer(hub, MANAGED_CLUSTERS, streaming=False, watch_seconds=100):
            await asyncio.sleep(2000)
        assert all(100 <= seconds <= 200 for seconds in hub.watches)
        assert len(set(hub.watches)) > 1
        assert len(hub.times) == len(hub.watches) + 1, "one list, and nothing but watches after it"

    async def test_informer_lag_counts_from_the_end_of_the_watch(self) -> None:
        hub = Scripted()
        informer = Informer(hub, MANAGED_CLUSTERS, streaming=False, backoff=Backoff(base=1, cap=1))
        assert informer.lag == math.inf
        async with informer:
            await asyncio.sleep(10)
            assert informer.lag == math.inf
            hub.fails = False
            await informer.synced.wait()
            await asyncio.sleep(1)
            assert informer.lag == 0
            hub.fails = True
            ends = hub.times[-1] + hub.watches[-1]
            await asyncio.sleep(1000)
            assert informer.lag == pytest.approx(asyncio.get_running_loop().time() - ends)

    async def test_unreachable_hub_is_logged_at_intervals(self, caplog: pytest.LogCaptureFixture) -> None:
        hub = Scripted()
        with caplog.at_level(logging.INFO):
            async with Informer(hub, MANAGED_CLUSTERS, streaming=False, backoff=Backoff(base=1, cap=1)):
                await asyncio.sleep(20)
        assert len(hub.times) >= 20
        assert [record.message for record in caplog.records] == [
            informers.LISTING_FAILED % (MANAGED_CLUSTERS, "away")
        ]

    async def test_unexpected_error_does_not_end_the_informer(self, caplog: pytest.LogCaptureFixture) -> None:
        class Broken(Scripted):
            async def newest(self, *_: Any, **__: Any) -> str:
                raise ZeroDivisionError

        hub = Broken()
        hub.fails = False
        with caplog.at_level(logging.ERROR):
            async with Informer(hub, MANAGED_CLUSTERS, streaming=False) as informer:
                await asyncio.sleep(20)
        assert informer.lists > 1
        assert "unexpected error" in caplog.messages[0]


def test_scripted_events_equal_those_of_kubernetes() -> None:
    """All tests above rely on the events of the faulty hub."""
    hub = FakeServer()
    sent = json.loads(hub.put("a", x="1").line)
    assert sent == {
        "type": "ADDED",
        "object": {
            "apiVersion": "cluster.open-cluster-management.io/v1",
            "kind": "ManagedCluster",
            "metadata": {"name": "a", "uid": "uid-1", "resourceVersion": "11", "labels": {"x": "1"}},
        },
    }
