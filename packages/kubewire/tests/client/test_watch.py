"""From chunks to events: however the bytes are cut, and whatever is among them."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.api.cluster import ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS
from kubewire.client import watch
from kubewire.client.codec import Lines, WatchEvent, codec_of
from kubewire.client.errors import (
    DeadlineExceeded,
    Expired,
    Forbidden,
    ServerError,
    TransportError,
    UnreadableError,
)
from kubewire.client.rest import UNREADABLE, Client
from kubewire.client.watch import Stream
from rigs.fake_server import FakeServer, bookmark

CODEC = codec_of(ManagedCluster)


def event(type_: str, name: str = "a", **fields: Any) -> bytes:
    return json.dumps({"type": type_, "object": {"metadata": {"name": name}, **fields}}).encode() + b"\n"


class TestLines:
    @given(st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b"")), max_size=9), st.data())
    def test_lines_are_split_as_sent_in_any_chunks(self, lines: list[bytes], data: st.DataObject) -> None:
        text = b"".join(line + b"\n" for line in lines)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=9)))
        reader = Lines()
        whole = b""
        for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
            whole += reader.feed(text[start:end])
            assert whole == text[: text.rfind(b"\n", 0, end) + 1]
            assert reader.pending == (len(whole) < end)
        assert whole == text

    def test_long_line_is_assembled_in_linear_time(self) -> None:
        """A megabyte in a million pieces: were each piece joined to the rest, this would not end."""
        reader = Lines()
        for _ in range(2**20):
            assert reader.feed(b"x") == b""
        assert len(reader.feed(b"\n")) == 2**20 + 1

    def test_endless_line_is_rejected(self) -> None:
        reader = Lines(limit=10)
        assert reader.feed(b"x" * 10) == b""
        with pytest.raises(TransportError, match="longer than 10 bytes"):
            reader.feed(b"x")


class TestEvents:
    def test_all_event_types_are_decoded(self) -> None:
        batch = CODEC.events(event("ADDED", "a") + b"\n" + event("DELETED", "b") + bookmark(7))
        assert [(change.type, change.object.metadata.name) for change in batch.events] == [
            ("ADDED", "a"),
            ("DELETED", "b"),
            ("BOOKMARK", ""),
        ]
        assert (batch.unreadable, batch.error) == ((), None)
        assert batch.events[2].object.metadata.resourceVersion == "7"

    def test_end_of_initial_events_is_recognized(self) -> None:
        ends = CODEC.events(bookmark(7) + bookmark(8, ends_initial_events=True)).events
        assert [change.ends_initial_events for change in ends] == [False, True]
        # An object may carry the annotation, too.
        lies = WatchEvent("ADDED", ends[1].object)
        assert not lies.ends_initial_events

    def test_null_fields_of_an_event_are_absent(self) -> None:
        batch = CODEC.events(event("ADDED", "a", spec=None) + event("ADDED", "b"))
        assert [change.object.metadata.name for change in batch.events] == ["a", "b"]

    def test_error_event_ends_the_watch_after_earlier_events(self) -> None:
        error = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
        line = json.dumps({"type": "ERROR", "object": error}).encode() + b"\n"
        batch = CODEC.events(event("ADDED", "a") + line + event("ADDED", "b"))
        assert [change.object.metadata.name for change in batch.events] == ["a"]
        assert isinstance(batch.error, Expired)
        assert "too old" in str(batch.error)

    def test_unreadable_object_does_not_affect_other_events(self) -> None:
        bad = {"metadata": {"name": "bad", "namespace": "n", "resourceVersion": "4"}, "spec": []}
        line = json.dumps({"type": "MODIFIED", "object": bad}).encode() + b"\n"
        batch = CODEC.events(event("ADDED", "a") + line + event("ADDED", "b"))
        assert [change.object.metadata.name for change in batch.events] == ["a", "bad", "b"]
        assert (batch.events[1].type, batch.events[1].object.metadata.resourceVersion) == ("MODIFIED", "4")
        (unreadable,) = batch.unreadable
        assert (unreadable.key, unreadable.reason) == (("n", "bad"), "spec: Expected `object`, got `array`")
        batch = CODEC.events(b'{"type":"ADDED","object":{"metadata":7}}\n' + event("ADDED", "b"))
        assert (batch.unreadable[0].key, len(batch.events)) == (("", ""), 1)

    def test_object_nested_deeper_than_the_stack_keeps_its_place(self) -> None:
        deep = (
            b'{"type":"ADDED","object":{"metadata":{"name":"deep"},"x":' + b"[" * 9000 + b"]" * 9000 + b"}}\n"
        )
        batch = CODEC.events(event("ADDED", "a") + deep + event("ADDED", "b"))
        assert [change.object.metadata.name for change in batch.events] == ["a", "deep", "b"]
        page = CODEC.page(b'{"metadata":{"resourceVersion":"3"},"items":[' + deep[25:-2] + b"]}")
        assert ([item.metadata.name for item in page.items], page.resource_version) == (["deep"], "3")

    def test_unknown_event_type_is_an_error(self) -> None:
        batch = CODEC.events(event("ADDED") + event("INVENTED"))
        assert len(batch.events) == 1
        assert "unknown type 'INVENTED'" in str(batch.error)

    @pytest.mark.parametrize("line", [b"no json\n", b'{"type":"ADDED"\n', b"[]\n"])
    def test_line_that_is_not_an_event_is_an_error(self, line: bytes) -> None:
        batch = CODEC.events(event("ADDED", "a") + line + event("ADDED", "b"))
        assert [change.object.metadata.name for change in batch.events] == ["a"]
        assert isinstance(batch.error, TransportError)

    def test_invalid_utf8_affects_only_its_object(self) -> None:
        batch = CODEC.events(b'{"type":"ADDED","object":{"kind":"\xff"}}\n' + event("ADDED", "b"))
        assert [change.object.metadata.name for change in batch.events] == ["b"]
        assert len(batch.unreadable) == 1

    def test_watch_decoders_are_cached(self) -> None:
        assert codec_of(ManagedCluster) is CODEC

    def test_watch_of_one_object(self) -> None:
        assert CODEC.object(b'{"metadata":{"name":"x","labels":null}}').metadata.name == "x"
        with pytest.raises(UnreadableError, match=r"metadata\.name cannot be read"):
            CODEC.object(b'{"kind":"ManagedCluster","metadata":{"name":7},"spec":[]}')


class Content:
    """What aiohttp has of a body, fed by hand."""

    def __init__(self) -> None:
        self.chunks: asyncio.Queue[bytes] = asyncio.Queue()

    async def readany(self) -> bytes:
        return await self.chunks.get()


@asynccontextmanager
async def streaming(*, timeout: float = 60.0) -> AsyncIterator[tuple[Content, Stream[ManagedCluster]]]:
    content = Content()

    class Response:
        pass

    response: Any = Response()
    response.content = content
    yield content, Stream(response, CODEC, timeout=timeout)


class TestStreams:
    async def test_events_that_arrive_together_are_one_batch(self) -> None:
        async with streaming() as (content, stream):
            content.chunks.put_nowait(event("ADDED", "a") + event("ADDED", "b") + b'{"type":')
            content.chunks.put_nowait(b'"ADDED",')
            content.chunks.put_nowait(b'"object":{}}\n')
            content.chunks.put_nowait(b"")
            assert [len(batch) async for batch in stream] == [2, 1]

    async def test_watch_ending_within_a_line_raises(self) -> None:
        async with streaming() as (content, stream):
            content.chunks.put_nowait(event("ADDED") + b'{"type":')
            content.chunks.put_nowait(b"")
            assert len(await anext(stream)) == 1
            with pytest.raises(TransportError, match="in the middle of a line"):
                await anext(stream)

    @pytest.mark.looptime
    async def test_silent_watch_times_out(self) -> None:
        async with streaming(timeout=60) as (content, stream):
            asyncio.get_running_loop().call_later(50, content.chunks.put_nowait, event("ADDED"))
            assert len(await anext(stream)) == 1
            with pytest.raises(DeadlineExceeded, match="did not end the watch"):
                await anext(stream)
            assert asyncio.get_running_loop().time() == 60 + watch.GRACE


class TestWatching:
    async def test_watch_delivers_typed_events(self, hub: FakeServer, client: Client) -> None:
        hub.put("a")
        async with aclosing(
            client.watch(
                MANAGED_CLUSTERS, resource_version="10", labels="x=1", fields="metadata.name=a", timeout=7
            )
        ) as events:
            first = await anext(events)
            assert (first.type, first.object.metadata.name) == ("ADDED", "a")
            hub.delete("a")
            assert (await anext(events)).type == "DELETED"
            hub.bookmark()
            assert (await anext(events)).type == "BOOKMARK"
            hub.end()
            with pytest.raises(StopAsyncIteration):
                await anext(events)
        assert hub.requests[0].query == {
            "watch": "true",
            "labelSelector": "x=1",
            "fieldSelector": "metadata.name=a",
            "timeoutSeconds": "7",
            "resourceVersion": "10",
            "allowWatchBookmarks": "true",
        }

    async def test_watch_delivers_initial_events(self, hub: FakeServer, client: Client) -> None:
        hub.put("a")
        async with aclosing(client.watch(MANAGED_CLUSTERS, initial_events=True)) as events:
            assert (await anext(events)).type == "ADDED"
            assert (await anext(events)).ends_initial_events
        query = hub.requests[0].query
        assert query["sendInitialEvents"] == "true"
        assert query["resourceVersionMatch"] == "NotOlderThan"
        assert query["resourceVersion"] == ""

    async def test_watch_can_omit_bookmarks(self, hub: FakeServer, client: Client) -> None:
        async with client.stream(MANAGED_CLUSTERS, bookmarks=False):
            pass
        assert "allowWatchBookmarks" not in hub.requests[0].query

    async def test_expired_watch_version_in_the_response_raises(
        self, hub: FakeServer, client: Client
    ) -> None:
        hub.objects.compact()
        with pytest.raises(Expired):
            await anext(client.watch(MANAGED_CLUSTERS, resource_version="3"))

    async def test_expired_watch_version_in_an_event_raises(self, hub: FakeServer, client: Client) -> None:
        async with client.stream(MANAGED_CLUSTERS, resource_version="10") as stream:
            hub.put("a")
            hub.error(410, "Expired")
            assert len(await anext(stream)) == 1
            with pytest.raises(Expired):
                await anext(stream)

    @pytest.mark.parametrize("after", [b"", b'{"type":"MODIF', b'{"type":"ADDED","object":{}}'])
    async def test_broken_watch_connection_raises(
        self, hub: FakeServer, client: Client, after: bytes
    ) -> None:
        async with client.stream(MANAGED_CLUSTERS) as stream:
            hub.cut(after=after)
            with pytest.raises(TransportError):
                await anext(stream)

    async def test_watch_ended_within_an_event_raises_transport_error(
        self, hub: FakeServer, client: Client
    ) -> None:
        async with client.stream(MANAGED_CLUSTERS) as stream:
            hub.send(b'{"type":"MODIF')
            hub.end()
            with pytest.raises(TransportError, match="in the middle of a line"):
                await anext(stream)

    async def test_watch_waits_for_a_busy_hub(self, hub: FakeServer, client: Client) -> None:
        hub.fault("watch", code=429, headers={"Retry-After": "0"})
        hub.fault("watch", code=503)
        async with client.stream(MANAGED_CLUSTERS):
            assert len(hub.requests) == 3

    async def test_rejected_watch_raises(self, hub: FakeServer, client: Client) -> None:
        hub.fault("watch", code=403)
        with pytest.raises(Forbidden):
            await anext(client.watch(MANAGED_CLUSTERS))

    async def test_watch_from_a_future_version_raises(self, hub: FakeServer, client: Client) -> None:
        hub.future = "refused"
        with pytest.raises(ServerError) as caught:
            await anext(client.watch(MANAGED_CLUSTERS, resource_version="9999"))
        assert caught.value.version_too_large

    async def test_unreadable_watch_objects_are_reported(
        self, hub: FakeServer, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with aclosing(client.watch(MANAGED_CLUSTERS, resource_version="10")) as events:
            first = asyncio.ensure_future(anext(events))
            await hub.watched()
            hub.send(event("ADDED", "bad", spec=[]))
            hub.put("good")
            with caplog.at_level(logging.WARNING):
                assert (await first).object.metadata.name == "bad"
        (record,) = caplog.records
        assert record.msg == UNREADABLE
        assert "kind=ManagedCluster name=bad fields='spec: Expected" in record.message

    async def test_leaving_a_watch_closes_the_connection(self, hub: FakeServer, client: Client) -> None:
        async for _ in client.watch(MANAGED_CLUSTERS, initial_events=True):
            break
        await client.list(MANAGED_CLUSTERS)
