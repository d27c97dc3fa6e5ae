"""Events: recording never waits, and little is written however much happens."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from clocks import START, LoopClock
from fairway.api.cluster import ManagedCluster
from kubewire.api.event import NORMAL, WARNING, CoreEvent, Event, EventSeries, EventSource, ObjectReference
from kubewire.api.meta import ObjectMeta
from kubewire.client.clock import Backoff
from kubewire.client.connection import Connection
from kubewire.client.correlator import (
    COMBINED,
    ELLIPSIS,
    LONGEST_NAME,
    Correlator,
    Limits,
    Occurrence,
    cut,
)
from kubewire.client.errors import (
    NAMESPACE_TERMINATING,
    AlreadyExists,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    StatusCause,
    StatusDetails,
    TooManyRequests,
    TransportError,
)
from kubewire.client.events import Api, HubEvents, Recorder, changes, reference_to
from kubewire.client.rest import Client
from rigs.fake_server import FakeServer

PLACEMENT = ObjectReference(
    apiVersion="cluster.open-cluster-management.io/v1beta1",
    kind="Placement",
    namespace="ns1",
    name="p1",
    uid="u1",
    resourceVersion="7",
)


ANSWER_LOST = TransportError("reset after it was done")


@dataclass
class MemorySink:
    """A sink that keeps events by name. Each request uses one of ``faults``; None is no fault, a number a delay."""

    events: dict[str, CoreEvent | Event] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    faults: list[KubeError | ValueError | float | None] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)

    async def create(self, event: CoreEvent | Event) -> None:
        lost = self.faults[:1] == [ANSWER_LOST]
        await self._arrive("create")
        if event.metadata.name in self.events:
            raise AlreadyExists("there is one")
        self.events[event.metadata.name] = event
        if lost:
            raise ANSWER_LOST

    async def patch(self, event: CoreEvent | Event) -> None:
        await self._arrive("patch")
        if event.metadata.name not in self.events:
            raise NotFound("no such event")
        self.events[event.metadata.name] = event

    async def _arrive(self, verb: str) -> None:
        self.requests.append(verb)
        self.moments.append(asyncio.get_running_loop().time())
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, float):
            await asyncio.sleep(fault)
        elif fault is not None and fault is not ANSWER_LOST:
            raise fault

    @property
    def counts(self) -> list[int]:
        return [event.count for event in self.events.values() if isinstance(event, CoreEvent)]

    @property
    def messages(self) -> list[str]:
        return [event.message for event in self.events.values() if isinstance(event, CoreEvent)]


def recorder(sink: MemorySink, **options: object) -> Recorder:
    settings: dict[str, object] = {
        "component": "fairway",
        "instance": "fairway-0",
        "clock": LoopClock(),
        **options,
    }
    make: Callable[..., Recorder] = Recorder
    return make(sink, **settings)


def say(to: Recorder, message: str = "chose cluster1", reason: str = "DecisionUpdate") -> bool:
    return to.event(PLACEMENT, reason=reason, message=message)


@pytest.mark.looptime
class TestRecorder:
    async def test_core_event_has_the_fields_of_client_go(self) -> None:
        sink = MemorySink()
        async with recorder(sink) as events:
            await asyncio.sleep(1.5)
            assert events.event(
                PLACEMENT, reason="DecisionUpdate", message="chose cluster1", type_=WARNING, action="Decide"
            )
        assert sink.events == {
            "p1.1898b5da0d3eaf00": CoreEvent(
                metadata=ObjectMeta(name="p1.1898b5da0d3eaf00", namespace="ns1"),
                involvedObject=PLACEMENT,
                reason="DecisionUpdate",
                message="chose cluster1",
                source=EventSource(component="fairway"),
                firstTimestamp=START + timedelta(seconds=1.5),
                lastTimestamp=START + timedelta(seconds=1.5),
                count=1,
                type=WARNING,
                action="Decide",
                reportingComponent="fairway",
                reportingInstance="fairway-0",
            )
        }

    async def test_repeated_event_is_patched(self) -> None:
        sink = MemorySink()
        async with recorder(sink) as events:
            say(events)
            await asyncio.sleep(30)
            say(events)
            await asyncio.sleep(30)
            say(events)
        (event,) = sink.events.values()
        assert isinstance(event, CoreEvent)
        assert (event.count, event.type) == (3, NORMAL)
        assert (event.firstTimestamp, event.lastTimestamp) == (START, START + timedelta(seconds=60))
        assert sink.requests == ["create", "patch", "patch"]
        assert changes(event) == {
            "count": 3,
            "lastTimestamp": "2026-03-01T12:01:00Z",
            "message": "chose cluster1",
        }
        assert events.stats().created == 1
        assert events.stats().patched == 2

    async def test_event_repeated_after_an_hour_is_created_again(self) -> None:
        sink = MemorySink()
        async with recorder(sink) as events:
            say(events)
            await asyncio.sleep(3601)
            say(events)
        assert sink.counts == [1, 1]

    async def test_repetitions_during_a_slow_write_are_one_patch(self) -> None:
        sink = MemorySink(faults=[5.0])
        async with recorder(sink, grace=10.0) as events:
            for _ in range(20):
                assert say(events)
                await asyncio.sleep(0.1)
            assert events.stats().pending == 2
        assert sink.requests == ["create", "patch"]
        assert sink.counts == [20]

    async def test_repetition_before_a_retry_is_part_of_the_retry(self) -> None:
        sink = MemorySink(faults=[TransportError("reset")])
        async with recorder(sink) as events:
            say(events)
            await asyncio.sleep(0.1)
            say(events)
        assert sink.requests == ["create", "create"]
        assert sink.counts == [2]

    async def test_event_deleted_by_the_hub_is_created_again(self) -> None:
        sink = MemorySink()
        async with recorder(sink) as events:
            say(events)
            await events.flush()
            sink.events.clear()
            say(events)
        assert sink.requests == ["create", "patch", "create"]
        assert sink.counts == [2]

    async def test_similar_events_are_combined_after_ten(self) -> None:
        sink = MemorySink()
        async with recorder(sink, limits=Limits(burst=1000)) as events:
            for number in range(15):
                say(events, f"chose cluster{number}")
                await events.flush()
            say(events, "chose cluster3")
        assert sink.messages[:10] == [f"chose cluster{number}" for number in range(10)]
        assert sink.messages[10:] == [f"{COMBINED}chose cluster14"]
        assert sink.counts == [1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 5]

    async def test_similar_events_are_counted_from_the_start_after_a_pause(self) -> None:
        sink = MemorySink()
        async with recorder(sink, limits=Limits(burst=1000)) as events:
            for number in range(12):
                say(events, f"a{number}")
                await asyncio.sleep(590)
            assert any(message.startswith(COMBINED) for message in sink.messages)
            await asyncio.sleep(11)
            say(events, "b")
        assert sink.messages[-1] == "b"

    async def test_events_of_other_reasons_or_objects_are_not_combined(self) -> None:
        sink = MemorySink()
        async with recorder(sink) as events:
            for number in range(12):
                say(events, f"m{number}", reason=f"Reason{number}")
                other = ObjectReference(kind="Placement", namespace="ns1", name=f"q{number}")
                events.event(other, reason="DecisionUpdate", message=f"m{number}")
        assert len(sink.events) == 24

    async def test_events_about_one_object_are_rate_limited(self) -> None:
        sink = MemorySink()
        async with recorder(sink) as events:
            written = 0
            for _ in range(100):
                written += say(events)
                await events.flush()
            assert (written, len(sink.requests)) == (25, 25)
            assert events.stats().suppressed == 75
            assert events.event(ObjectReference(name="other"), reason="R", message="m")
            await asyncio.sleep(300)
            assert say(events)
            await events.flush()
            assert not say(events)
        assert sink.counts == [101, 1]

    async def test_event_in_place_keeps_its_message_current_and_displaces_no_other(self) -> None:
        sink = MemorySink()
        async with recorder(sink, api=Api.EVENTS, limits=Limits(burst=1)) as events:
            for score in range(100):
                assert events.event(PLACEMENT, reason="ScoreUpdate", message=f"c1:{score}", in_place=True)
                await events.flush()
            assert say(events)
            await events.flush()
        scored, other = sink.events.values()
        assert isinstance(scored, CoreEvent)
        assert (scored.message, scored.count) == ("c1:99", 100)
        assert isinstance(other, Event)

    async def test_suppressed_repetition_during_a_write_is_not_written(self) -> None:
        """Otherwise a slow hub would get requests without end."""
        sink = MemorySink(faults=[1.0] * 50)
        async with recorder(sink, limits=Limits(burst=2), grace=100.0) as events:
            for _ in range(50):
                say(events)
                await asyncio.sleep(0.5)
        assert sink.requests == ["create", "patch"]

    async def test_events_of_events_k8s_io_have_a_series(self) -> None:
        sink = MemorySink()
        async with recorder(sink, api=Api.EVENTS) as events:
            await asyncio.sleep(1.5)
            say(events)
            await asyncio.sleep(60)
            first = next(iter(sink.events.values()))
            say(events)
        assert first == Event(
            metadata=ObjectMeta(name="p1.1898b5da0d3eaf00", namespace="ns1"),
            eventTime="2026-03-01T12:00:01.500000Z",
            reportingController="fairway",
            reportingInstance="fairway-0",
            action="DecisionUpdate",
            reason="DecisionUpdate",
            regarding=PLACEMENT,
            note="chose cluster1",
            type="Normal",
        )
        (second,) = sink.events.values()
        assert isinstance(second, Event)
        assert second.series == EventSeries(count=2, lastObservedTime="2026-03-01T12:01:01.500000Z")
        assert changes(second) == {"series": {"count": 2, "lastObservedTime": "2026-03-01T12:01:01.500000Z"}}

    async def test_cluster_wide_objects_have_their_events_in_default(self) -> None:
        sink = MemorySink()
        cluster = ManagedCluster(metadata=ObjectMeta(name="cluster1", uid="u", resourceVersion="3"))
        async with recorder(sink) as events:
            events.event(cluster, reason="Joined", message="welcome")
        (event,) = sink.events.values()
        assert event.metadata.namespace == "default"
        assert isinstance(event, CoreEvent)
        assert event.involvedObject == reference_to(cluster)
        assert event.involvedObject == ObjectReference(
            apiVersion="cluster.open-cluster-management.io/v1",
            kind="ManagedCluster",
            name="cluster1",
            uid="u",
            resourceVersion="3",
        )

    async def test_recording_never_waits_and_a_full_queue_drops(self) -> None:
        sink = MemorySink(faults=[1000.0])
        async with recorder(sink, capacity=3) as events:
            await asyncio.sleep(0)
            taken = [say(events, f"m{number}", reason=f"R{number}") for number in range(5)]
            assert taken == [True, True, True, False, False]
            assert asyncio.get_running_loop().time() == 0
            assert events.stats().dropped == 2
            assert say(events, "m1", reason="R1")  # waits already, so it takes no more room
        assert events.stats().dropped == 3

    async def test_burst_of_1000_events_is_written_completely(self) -> None:
        sink, results = MemorySink(), Counter[str]()
        async with recorder(sink, observe=lambda result: results.update([result])) as events:
            for number in range(1000):
                about = structs.replace(PLACEMENT, name=f"p{number}", uid=f"u{number}")
                assert events.event(about, reason="DecisionUpdate", message="chose cluster1")
            await events.flush()
        assert results == {"created": 1000}
        assert {event.metadata.name.partition(".")[0] for event in sink.events.values()} == {
            f"p{number}" for number in range(1000)
        }

    async def test_no_event_is_lost_without_a_count_and_a_log_line(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        sink, results = MemorySink(), Counter[str]()
        async with recorder(sink, capacity=100, observe=lambda result: results.update([result])) as events:
            for number in range(1000):
                about = structs.replace(PLACEMENT, name=f"q{number}", uid=f"v{number}")
                events.event(about, reason="DecisionUpdate", message="chose cluster1")
            for number in range(30):
                events.event(PLACEMENT, reason="DecisionUpdate", message=f"chose cluster{number % 5}")
            await events.flush()
            assert results == {"created": 100, "dropped": 925, "suppressed": 5}
            assert [record.getMessage() for record in caplog.records] == [
                "too many events, dropping further ones  pending=100",
                "events dropped because too many were pending  dropped=925",
            ]
            about = structs.replace(PLACEMENT, name="q500", uid="v500")
            events.event(about, reason="DecisionUpdate", message="chose cluster1")
            await events.flush()
            (late,) = (event for event in sink.events.values() if event.metadata.name.startswith("q500."))
            assert isinstance(late, CoreEvent)
            assert late.count == 2, "the dropped one is counted by the next"

    async def test_repetitions_are_one_update_per_interval(self) -> None:
        sink = MemorySink()
        async with recorder(sink, update_every=60.0) as events:
            for _ in range(200):
                say(events)
                await asyncio.sleep(1)
            assert sink.requests == ["create", "patch", "patch", "patch"]
            assert sink.moments == [0, 60, 120, 180]
            await events.flush()
        assert sink.requests[4:] == ["patch"]
        assert sink.counts == [200]

    async def test_first_event_does_not_wait_for_delayed_updates(self) -> None:
        sink = MemorySink()
        async with recorder(sink, update_every=60.0) as events:
            say(events)
            await asyncio.sleep(1)
            say(events)
            await asyncio.sleep(1)
            say(events, reason="Other")
            await asyncio.sleep(1)
            assert sink.requests == ["create", "create"]
        assert sink.requests == ["create", "create", "patch"], "the end does not wait for the interval"
        assert asyncio.get_running_loop().time() == 3

    async def test_failed_event_write_is_retried(self) -> None:
        sink = MemorySink(faults=[TransportError("reset"), ServerError("oops"), TransportError("reset")])
        async with recorder(sink, backoff=Backoff(base=1, cap=60)) as events:
            say(events)
            await asyncio.sleep(10)
        assert sink.moments == [0, 1, 3, 7]
        assert sink.counts == [1]

    async def test_event_write_honours_retry_after(self) -> None:
        busy = TooManyRequests("busy", retry_after=9.0)
        sink = MemorySink(faults=[busy, TooManyRequests("busy", retry_after=5000.0)])
        async with recorder(sink, backoff=Backoff(base=1, cap=60)) as events:
            say(events)
            await asyncio.sleep(100)
        assert sink.moments == [0, 9, 69]

    async def test_event_is_given_up_after_the_last_try(self, caplog: pytest.LogCaptureFixture) -> None:
        sink = MemorySink(faults=[TransportError("reset")] * 3)
        async with recorder(sink, tries=3) as events:
            say(events)
            await events.flush()
            assert events.stats().failed == 1
            assert not sink.events
            say(events, reason="Next")
        assert sink.counts == [1]
        assert "dropped after 3 attempts" in caplog.text

    @pytest.mark.parametrize(
        ("error", "level"),
        [
            (
                Forbidden(
                    "being terminated",
                    details=StatusDetails(causes=(StatusCause(reason=NAMESPACE_TERMINATING),)),
                ),
                logging.DEBUG,
            ),
            (
                NotFound("no such namespace", details=StatusDetails(kind="namespaces", name="ns1")),
                logging.DEBUG,
            ),
            (Forbidden("may not create events"), logging.WARNING),
            (Invalid("message: too long"), logging.WARNING),
            (ValueError("'a/b' cannot be part of a path"), logging.WARNING),
        ],
        ids=lambda error: type(error).__name__,
    )
    async def test_refused_event_is_dropped_and_the_next_one_written(
        self, error: KubeError | ValueError, level: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        sink = MemorySink(faults=[error])
        with caplog.at_level(logging.DEBUG, logger="kubewire.client.events"):
            async with recorder(sink) as events:
                say(events)
                say(events, reason="Other")
        assert sink.requests == ["create", "create"]
        assert events.stats().refused == 1
        assert [record.levelno for record in caplog.records] == [level]

    @pytest.mark.parametrize("count", [1, 2])
    async def test_event_whose_create_response_was_lost_is_created_once(self, count: int) -> None:
        sink = MemorySink(faults=[ANSWER_LOST])
        async with recorder(sink) as events:
            say(events)
            await asyncio.sleep(0.1)
            for _ in range(count - 1):
                say(events)
        assert sink.requests == ["create", "create", *["patch"] * (count - 1)]
        assert sink.counts == [count]

    async def test_pending_events_are_written_within_the_grace(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        sink = MemorySink(faults=[None, 1000.0, 1000.0, 1000.0])
        async with recorder(sink, grace=7.0) as events:
            for number in range(4):
                say(events, reason=f"R{number}")
        assert asyncio.get_running_loop().time() == 7
        assert sink.counts == [1]
        assert events.stats().dropped == 3
        assert [record.getMessage() for record in caplog.records] == [
            "events dropped because the hub did not accept them before the process stopped  dropped=3"
        ]
        assert not say(events, reason="Late")
        assert events.stats().dropped == 4

    async def test_pending_events_are_written_eight_at_a_time_at_the_end(self) -> None:
        sink, results = MemorySink(faults=[1.0] * 40), Counter[str]()
        async with recorder(sink, grace=7.0, observe=lambda result: results.update([result])) as events:
            for number in range(40):
                events.event(structs.replace(PLACEMENT, name=f"p{number}"), reason="Tested", message="once")
        assert results == {"created": 40}
        assert asyncio.get_running_loop().time() == 5

    async def test_recorder_that_was_not_entered_can_be_closed(self) -> None:
        await recorder(MemorySink()).close()


def seen(message: str = "m", *, name: str = "p1", at: float = 0.0) -> Occurrence:
    about = ObjectReference(kind="Placement", namespace="ns1", name=name)
    wall = START + timedelta(seconds=at)
    return Occurrence(about=about, type=NORMAL, reason="R", message=message, wall=wall, at=at)


def name_of(name: str) -> str:
    entry = Correlator(Limits()).observe(seen(name=name))
    assert entry is not None
    return entry.name


def test_events_of_the_same_moment_have_unique_names() -> None:
    correlator = Correlator(Limits(burst=100))
    entries = [correlator.observe(seen(f"m{number}")) for number in range(5)]
    assert len({entry.name for entry in entries if entry}) == 5


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("p1", "p1"),
        ("a.b-c", "a.b-c"),
        ("system:node", "event"),
        ("", "event"),
        ("x" * 253, "x" * (LONGEST_NAME - 17)),
        ("x" * 235 + "." + "y" * 17, "x" * 235),
    ],
)
def test_event_names_are_valid_object_names(name: str, stem: str) -> None:
    assert name_of(name) == f"{stem}.1898b5d9b3d68000"
    assert len(name_of(name)) <= LONGEST_NAME


def test_correlator_caches_are_bounded() -> None:
    correlator = Correlator(Limits(remembered=10))
    for number in range(100):
        correlator.observe(seen(name=f"p{number}"))
        correlator.observe(seen(name="often"))
    sizes = [len(correlator._entries), len(correlator._similar), len(correlator._buckets)]
    assert sizes == [10, 10, 10]
    often = correlator._entries.get((_kind("often"), "m"))
    assert often is not None
    assert often.count == 100
    assert correlator._entries.get((_kind("p0"), "m")) is None


def _kind(name: str) -> tuple[object, ...]:
    return ("", "Placement", "ns1", name, "", "", NORMAL, "R", "", None)


def test_combined_event_message_is_truncated() -> None:
    correlator = Correlator(Limits(similar=1))
    correlator.observe(seen("first"))
    entry = correlator.observe(seen("é" * 600))
    assert entry is not None
    assert entry.latest.message == f"{COMBINED}{'é' * 494}{ELLIPSIS}"
    assert len(entry.latest.message.encode()) <= 1024


def test_event_message_is_truncated_between_characters() -> None:
    assert cut("x" * 1024) == "x" * 1024
    assert cut("x" * 1025) == "x" * 1021 + ELLIPSIS
    assert cut("é" * 600) == "é" * 510 + ELLIPSIS
    assert cut("a\udc80b") == "a?b"


@given(st.text(max_size=600), st.integers(min_value=3, max_value=600))
@settings(max_examples=70)
def test_truncated_text_is_a_prefix_within_the_limit(text: str, limit: int) -> None:
    result = cut(text, limit)
    assert len(result.encode()) <= limit
    if result != text:
        assert len(text.encode()) > limit
        assert result.endswith(ELLIPSIS)
        kept = result.removesuffix(ELLIPSIS)
        assert text.startswith(kept)
        assert len((kept + text[len(kept)]).encode()) > limit - len(ELLIPSIS.encode())


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefghijklmnop"), st.integers(min_value=0, max_value=900)), max_size=60
    )
)
@settings(max_examples=70)
def test_counts_of_events_add_up_to_all_occurrences(happenings: list[tuple[str, int]]) -> None:
    """Whatever is combined or held back, the counts of the entries add up to what happened."""
    correlator = Correlator(Limits())
    at, taken, entries = 0.0, 0, {}
    for message, pause in happenings:
        at += pause
        entry = correlator.observe(seen(message, at=at))
        taken += entry is not None
        for item in list(correlator._entries._items.values()):
            entries[item.name] = item
    assert sum(entry.count for entry in entries.values()) == len(happenings)
    assert taken <= 25 + at // 300
    for entry in entries.values():
        assert START <= entry.first <= entry.latest.wall


@pytest.mark.parametrize("api", list(Api))
async def test_event_is_created_and_patched_over_http(api: Api) -> None:
    async with FakeServer() as server, Client(Connection(server=server.url)) as client:
        async with Recorder(HubEvents(client), component="fairway", api=api) as events:
            say(events)
            await events.flush()
            say(events)
            await events.flush()
        (document,) = server.objects.documents.values()
        post, patch = server.requests
    created, patched, path = post.json, patch.json, patch.path
    assert (post.method, patch.method) == ("POST", "PATCH")
    assert path.rpartition("/")[2] == document["metadata"]["name"]
    assert (document["kind"], document["apiVersion"]) == ("Event", api.value)
    assert created["reason"] == "DecisionUpdate"
    if api is Api.CORE:
        assert path.startswith("/api/v1/namespaces/ns1/events/p1.")
        assert document["count"] == 2
        assert document["involvedObject"]["kind"] == "Placement"
        assert len(document["firstTimestamp"]) == len("2026-03-01T12:00:00Z")
        assert set(patched) == {"count", "lastTimestamp", "message"}
    else:
        assert path.startswith("/apis/events.k8s.io/v1/namespaces/ns1/events/p1.")
        assert len(document["eventTime"]) == len("2026-03-01T12:00:00.000000Z")
        assert document["series"]["count"] == 2
        assert set(patched) == {"series"}


@pytest.mark.looptime
async def test_several_writers_write_different_events_at_once_and_each_event_in_order() -> None:
    sink = MemorySink(faults=[1.0] * 9)
    recorder = Recorder(sink, component="fairway", clock=LoopClock(), writers=4)
    async with recorder:
        for number in range(4):
            about = structs.replace(PLACEMENT, name=f"p{number}")
            recorder.event(about, reason="Tested", message="once")
        await asyncio.sleep(0.5)
        recorder.event(structs.replace(PLACEMENT, name="p0"), reason="Tested", message="once")
        await recorder.flush()
        assert sink.requests == ["create"] * 4 + ["patch"]
        assert sink.moments == [0.0] * 4 + [1.0]
    assert sorted(event.count for event in sink.events.values() if isinstance(event, CoreEvent)) == [
        1,
        1,
        1,
        2,
    ]
