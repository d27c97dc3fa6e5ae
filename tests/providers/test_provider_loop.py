"""One provider at work, in virtual time, with a hub that a test holds in its hand."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from clocks import START, LoopClock
from fairway.api.cluster import ManagedCluster
from fairway.providers import ClusterProvider, Direct, FleetProvider, ProviderError, Reading, Score
from fairway.providers.dry_run import DryRunSink
from fairway.providers.provider import Wake
from fairway.providers.provider_loop import DEBOUNCE_SECONDS, ELSEWHERE_RATE, ELSEWHERE_SECONDS
from fairway.providers.publication import Publication
from fairway.providers.runner import Runner, Settings
from fairway.providers.sink import ForeignObject, NamespaceMissing, SinkError, StoredPublication, WriteRefused
from fairway.testing.builders import cluster
from kubewire.client import Added, Batch, Change, Deleted, Updated
from metric_values import values

pytestmark = pytest.mark.looptime


class Hand(DryRunSink):
    """Fails while ``error`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.error: SinkError | None = None
        self.writes: list[tuple[float, Publication]] = []
        self.tries: list[float] = []
        self.stored: StoredPublication | None = None

    async def find(self, _: str, /) -> StoredPublication | None:
        if self.error is not None:
            self.tries.append(now())
            raise self.error
        return self.stored

    async def write(
        self, cluster: str, publication: Publication, /, *, stored: StoredPublication | None
    ) -> StoredPublication:
        self.tries.append(now())
        if self.error is not None:
            raise self.error
        self.writes.append((now(), publication))
        return await super().write(cluster, publication, stored=stored)


class ScriptedProvider(ClusterProvider):
    """Returns the configured reading."""

    name, resource, interval = "told", "told-score", 60.0
    scores: tuple[Score, ...] = (Score(name="free", scale=Direct()),)

    def __init__(self, answer: Callable[[], object] = lambda: Reading(values={"free": 10})) -> None:
        self.answer = answer
        self.readings: list[float] = []
        self.wake: Wake = lambda: None

    @asynccontextmanager
    async def running(self, wake: Wake, /) -> AsyncIterator[None]:
        self.wake = wake
        yield

    async def read(self) -> Reading:
        self.readings.append(now())
        answer = self.answer()
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await asyncio.Event().wait()
        assert isinstance(answer, Reading)
        return answer


@pytest.fixture(autouse=True)
def no_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda low, high: (low + high) / 2)


def now() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def at_work(
    provider: ScriptedProvider,
    sink: Hand,
    *,
    interval: float | None = None,
    valid_for: float | None = None,
    clock: LoopClock | None = None,
) -> AsyncIterator[Runner]:
    runner = Runner(
        [provider],
        client=None,
        settings=Settings(cluster="c1", interval=interval, valid_for=valid_for),
        sink_of=lambda _: sink,
        clock=clock or LoopClock(),
    )
    task = asyncio.create_task(runner.run())
    try:
        yield runner
    finally:
        task.cancel()
        await asyncio.wait({task})


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def figures(runner: Runner) -> dict[str, float]:
    counted = values(runner.meters.expose())
    return {
        name.removeprefix("fairway_provider_").replace('{provider="told"}', ""): value
        for name, value in counted.items()
        if "bucket" not in name and "created" not in name
    }


async def test_every_reading_at_the_default_interval_renews_the_score() -> None:
    provider, sink = ScriptedProvider(), Hand()
    async with at_work(provider, sink) as runner:
        assert runner.unready() == ["told: nothing published yet"]
        await asyncio.sleep(0.1)
        assert runner.unready() == []
        await asyncio.sleep(600)
        assert provider.readings == [60.0 * number for number in range(11)]
        assert [when for when, _ in sink.writes] == [60.0 * number for number in range(11)]
        assert all(publication.valid_until == at(when + 180) for when, publication in sink.writes)
        counted = figures(runner)
        assert counted["readings_total"] == 11
        assert counted["writes_total"] == 11
        assert counted["writes_avoided_total"] == 0
        assert counted["expiry_seconds"] == pytest.approx(180 - 0.1)
        assert counted["reading_seconds_count"] == 11
        assert counted['score{cluster="c1",provider="told",score="free"}'] == 10


async def test_interval_and_validity_settings_are_used() -> None:
    provider, sink = ScriptedProvider(), Hand()
    async with at_work(provider, sink, interval=10, valid_for=40):
        await asyncio.sleep(41)
    assert provider.readings == [0, 10, 20, 30, 40]
    assert [when for when, _ in sink.writes] == [0, 10, 20, 30, 40]


async def test_score_is_renewed_by_the_last_reading_before_half_of_its_validity() -> None:
    provider, sink = ScriptedProvider(), Hand()
    async with at_work(provider, sink, interval=10, valid_for=100):
        await asyncio.sleep(81)
    assert [when for when, _ in sink.writes] == [0, 40, 80]


async def test_wakes_are_debounced() -> None:
    provider, sink = ScriptedProvider(), Hand()
    async with at_work(provider, sink):
        await asyncio.sleep(10)
        for _ in range(100):
            provider.wake()
        await asyncio.sleep(0.1)
        provider.wake()
        await asyncio.sleep(DEBOUNCE_SECONDS)
        assert provider.readings == [0, 10, 10 + DEBOUNCE_SECONDS]
        await asyncio.sleep(100)
        assert provider.readings == [0, 10, 11, 71]


async def test_changed_score_is_written_at_once() -> None:
    value = [10]
    provider, sink = ScriptedProvider(lambda: Reading(values={"free": value[0]})), Hand()
    async with at_work(provider, sink):
        await asyncio.sleep(10)
        value[0] = 12
        provider.wake()
        await asyncio.sleep(0.1)
        assert [(when, publication.scores) for when, publication in sink.writes] == [
            (0, (("free", 10),)),
            (10, (("free", 12),)),
        ]


async def test_failed_readings_are_retried_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[object] = [Reading(values={"free": 10})]
    provider, sink = ScriptedProvider(lambda: answers[0]), Hand()
    with caplog.at_level(logging.INFO, logger="fairway.providers"):
        async with at_work(provider, sink) as runner:
            await asyncio.sleep(59)
            answers[0] = ProviderError("the queue is away", reason="Away")
            await asyncio.sleep(100)
            assert provider.readings == [0, 60, 62, 66, 74, 90, 122]
            (_, (when, failure)) = sink.writes
            assert when == 60
            assert (failure.ok, failure.reason, failure.message) == (False, "Away", "the queue is away")
            assert (failure.scores, failure.valid_until) == ((("free", 10),), at(180))
            assert runner.unready() == []
            await asyncio.sleep(40)
            assert runner.unready() == [
                "told: the published scores expired at 2026-03-01T12:03:00Z: the queue is away"
            ]
            assert figures(runner)["expiry_seconds"] == -19
            answers[0] = Reading(values={"free": 11})
            await asyncio.sleep(60)
            assert runner.unready() == []
            assert sink.writes[-1][1].ok
            assert figures(runner)['reading_failures_total{provider="told",reason="Away"}'] == 7
    assert [record.message for record in caplog.records if record.name.startswith("fairway.providers")] == [
        "told could not read c1: the queue is away",
        "told reads again",
    ]


async def test_clock_set_back_does_not_rejuvenate_readings(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[object] = [Reading(values={"free": 10})]
    provider, sink, clock = ScriptedProvider(lambda: answers[0]), Hand(), LoopClock()
    clock.off = timedelta(hours=3)
    async with at_work(provider, sink, clock=clock):
        await asyncio.sleep(61)
        clock.off = timedelta(0)
        answers[0] = ProviderError("the queue is away", reason="Away")
        await asyncio.sleep(7200)
    written = [(when, publication.valid_until) for when, publication in sink.writes]
    # The last good reading was after a minute: it is valid for three.
    assert written == [(0, at(3 * 3600 + 180)), (60, at(3 * 3600 + 240)), (120, at(240))]
    assert sum("set back by 10800 s" in record.getMessage() for record in caplog.records) == 1


async def test_clock_set_back_does_not_extend_lost_score() -> None:
    answers = [Reading(values={"free": 10, "busy": 5})]
    provider, sink, clock = ScriptedProvider(lambda: answers[0]), Hand(), LoopClock()
    provider.scores = (*ScriptedProvider.scores, Score(name="busy", scale=Direct()))
    clock.off = timedelta(hours=3)
    async with at_work(provider, sink, clock=clock):
        await asyncio.sleep(61)
        clock.off = timedelta(0)
        answers[0] = Reading(values={"free": 10}, problem="the queue is away", lost=("busy",))
        await asyncio.sleep(300)
    assert dict(sink.writes[-1][1].scores) == {"free": 10}


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (ZeroDivisionError("division by zero"), "CollectionFailed", "ZeroDivisionError: division by zero"),
        (ProviderError("odd", reason="not a reason!"), "CollectionFailed", "odd"),
        (None, "Timeout", "timed out after 30 s"),
        (Reading(values={f"n{number}": 1 for number in range(10_000)}), "TooManyScores", "10000 values"),
    ],
)
async def test_invalid_reading_is_reported(answer: object, reason: str, words: str) -> None:
    provider, sink = ScriptedProvider(lambda: answer), Hand()
    async with at_work(provider, sink) as runner:
        await asyncio.sleep(31)
        ((_, failure),) = sink.writes
        assert (failure.scores, failure.ok, failure.reason) == ((), False, reason)
        assert words in failure.message
        assert "nothing published yet" in runner.unready()[0]
        assert words in runner.unready()[0]


@pytest.mark.parametrize("result", [Reading(values={"free": 10}), {"free": 10}, [("free", 10)]])
async def test_class_may_return_plain_mapping(result: object) -> None:
    class Plain(ScriptedProvider):
        def read(self) -> Any:
            return result

    sink = Hand()
    async with at_work(Plain(), sink):
        await asyncio.sleep(1)
        ((_, published),) = sink.writes
    assert (published.scores, published.ok) == ((("free", 10),), True)


async def test_long_error_message_is_shortened(caplog: pytest.LogCaptureFixture) -> None:
    provider, sink = ScriptedProvider(lambda: ValueError("no\nroute " + "x" * 1_000_000)), Hand()
    async with at_work(provider, sink) as runner:
        await asyncio.sleep(1)
        (unready,) = runner.unready()
        ((_, failure),) = sink.writes
    (record,) = caplog.records
    for words in (unready, failure.message, record.getMessage()):
        assert "ValueError: no route xxx" in words
        assert len(words) < 2100


async def test_partial_reading_is_published() -> None:
    provider, sink = ScriptedProvider(lambda: Reading(values={"free": 10, "fre": 1})), Hand()
    async with at_work(provider, sink) as runner:
        await asyncio.sleep(1)
        ((_, publication),) = sink.writes
        assert (publication.scores, publication.ok, publication.reason) == (
            (("free", 10),),
            False,
            "UnknownScore",
        )
        assert runner.unready() == []


async def test_unreachable_hub_is_retried_with_backoff() -> None:
    value = [10]
    provider, sink = ScriptedProvider(lambda: Reading(values={"free": value[0]})), Hand()
    sink.error = SinkError("no route to the hub", reason="TransportError")
    async with at_work(provider, sink) as runner:
        await asyncio.sleep(70)
        assert sink.tries == [0, 1, 3, 7, 15, 31, 63]
        assert runner.unready() == ["told: nothing published yet: no route to the hub"]
        assert figures(runner)['write_failures_total{provider="told",reason="TransportError"}'] == 7
        sink.error, value[0] = None, 20
        await asyncio.sleep(60)
        ((when, publication),) = sink.writes
        assert when == 123
        assert (publication.scores, publication.valid_until) == ((("free", 20),), at(300))
        assert runner.unready() == []


async def test_hub_that_lost_scores_gets_them_at_once() -> None:
    value = [10]
    provider, sink = ScriptedProvider(lambda: Reading(values={"free": value[0]})), Hand()
    async with at_work(provider, sink) as runner:
        await asyncio.sleep(59)
        assert [when for when, _ in sink.writes] == [0]
        value[0], sink.error = 50, SinkError("no route to the hub", reason="TransportError")
        await asyncio.sleep(5)
        # Restored from a backup that has none; and meanwhile all is as it was before.
        value[0], sink.error = 10, None
        provider.wake()
        await asyncio.sleep(10)
        assert sink.tries == [0, 60, 61, 63, 67]
        assert [(when, publication.scores) for when, publication in sink.writes][1:] == [
            (67, (("free", 10),))
        ]
        assert runner.unready() == []


@pytest.mark.parametrize("error", [WriteRefused("you may not"), SinkError("busy", after=45)])
async def test_rejecting_hub_is_retried_with_backoff(error: SinkError) -> None:
    provider, sink = ScriptedProvider(), Hand()
    sink.error = error
    async with at_work(provider, sink) as runner:
        await asyncio.sleep(50)
        assert len(sink.tries) == (2 if error.after else 6)
        assert str(error) in runner.unready()[0]


@pytest.mark.parametrize("error", [ForeignObject("it is theirs"), NamespaceMissing("no namespace c1")])
async def test_missing_namespace_is_retried_every_minute(
    error: SinkError, caplog: pytest.LogCaptureFixture
) -> None:
    provider, sink = ScriptedProvider(), Hand()
    sink.error = error
    async with at_work(provider, sink) as runner:
        await asyncio.sleep(3 * ELSEWHERE_SECONDS + 1)
        assert sink.tries == [0, 60, 120, 180]
        assert str(error) in runner.unready()[0]
    assert sum(record.levelno >= logging.WARNING for record in caplog.records) == 1


class WholeFleet(FleetProvider):
    name, resource, interval = "told", "told-score", 60.0
    scores: tuple[Score, ...] = (Score(name="free", scale=Direct()),)

    async def read(self, clusters: Mapping[str, ManagedCluster], /) -> Mapping[str, Reading]:
        return {name: Reading(values={"free": 10}) for name in clusters}


class Places(DryRunSink):
    """A hub on which clusters have no place, but for those that a test makes."""

    def __init__(self) -> None:
        super().__init__()
        self.made: set[str] = set()
        self.tries: list[float] = []

    async def find(self, cluster: str, /) -> StoredPublication | None:
        self.tries.append(now())
        if cluster not in self.made:
            raise NamespaceMissing(f"no namespace {cluster}")
        return await super().find(cluster)


async def test_fleet_without_namespaces_is_rate_limited(caplog: pytest.LogCaptureFixture) -> None:
    sink, count = Places(), 1500
    runner = Runner(
        [WholeFleet()], client=None, settings=Settings(), sink_of=lambda _: sink, clock=LoopClock()
    )
    runner._on_clusters(batch(*(Added(cluster(f"c{number}")) for number in range(count))))
    loop = runner.loops["told"]
    writers = [asyncio.create_task(runner._write()) for _ in range(4)]
    try:
        await loop.round()
        await asyncio.sleep(1)
        assert len(sink.tries) == count
        await asyncio.sleep(900)
        rate = (len(sink.tries) - count) / 900
        assert rate <= ELSEWHERE_RATE
        assert len(caplog.records) <= 2
        # As soon as something happens to one, it is looked for again.
        sink.made.add("c7")
        runner._on_clusters(batch(Updated(cluster("c7"), cluster("c7"))))
        await asyncio.sleep(3)
        assert list(sink.written) == ["c7"]
    finally:
        for writer in writers:
            writer.cancel()
        await asyncio.wait(writers)


def batch(*changes: Change[ManagedCluster]) -> Batch[ManagedCluster]:
    return Batch(changes=changes, epoch=0, listed=False, resource_version="1")


class Slow(DryRunSink):
    """Returns the configured result when the test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answers = asyncio.Event(), asyncio.Event()
        self.error: Exception | None = None

    async def write(
        self, cluster: str, publication: Publication, /, *, stored: StoredPublication | None
    ) -> StoredPublication:
        self.asked.set()
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return await super().write(cluster, publication, stored=stored)


@pytest.mark.parametrize(
    "error", [None, SinkError("busy"), NamespaceMissing("no namespace c1"), KeyError("odd")]
)
async def test_cluster_deleted_during_write_leaves_no_state(error: Exception | None) -> None:
    sink = Slow()
    sink.error = error
    runner = Runner(
        [WholeFleet()], client=None, settings=Settings(), sink_of=lambda _: sink, clock=LoopClock()
    )
    runner._on_clusters(batch(Added(cluster("c1"))))
    loop = runner.loops["told"]
    writer = asyncio.create_task(runner._write())
    try:
        await loop.round()
        await sink.asked.wait()
        runner._on_clusters(batch(Deleted(cluster("c1"))))
        sink.answers.set()
        await asyncio.sleep(1000)
        assert (loop.problem, dict(loop.publisher.clusters)) == ("", {})
        assert 'cluster="c1"' not in runner.meters.expose().decode()
        measured = figures(runner)
        counted = measured["writes_total"] + sum(
            count for name, count in measured.items() if "write_fail" in name
        )
        assert counted == 1
    finally:
        writer.cancel()
        await asyncio.wait({writer})


async def test_failed_reading_does_not_restore_deleted_cluster() -> None:
    class Failing(WholeFleet):
        async def read(self, _: Mapping[str, ManagedCluster], /) -> Mapping[str, Reading]:
            runner._on_clusters(batch(Deleted(cluster("c1"))))
            raise ProviderError("the queue is away")

    runner = Runner(
        [Failing()], client=None, settings=Settings(), sink_of=lambda _: DryRunSink(), clock=LoopClock()
    )
    runner._on_clusters(batch(Added(cluster("c1")), Added(cluster("c2"))))
    loop = runner.loops["told"]
    await loop.round()
    await loop.close()
    assert list(loop.publisher.clusters) == ["c2"]


async def test_detached_cluster_is_ready_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    value = [10]
    provider, sink = ScriptedProvider(lambda: Reading(values={"free": value[0]})), Hand()
    async with at_work(provider, sink) as runner:
        await asyncio.sleep(1)
        sink.error, value[0] = NamespaceMissing("no namespace c1"), 50
        await asyncio.sleep(1000)
        assert runner.unready() == []
        assert all(record.levelno < logging.WARNING for record in caplog.records)
        sink.error = None
        await asyncio.sleep(61)
        assert sink.writes[-1][1].scores == (("free", 50),)
        assert runner.unready() == []


async def test_restart_writes_only_differences() -> None:
    first = Hand()
    async with at_work(ScriptedProvider(), first):
        await asyncio.sleep(1)
    second = Hand()
    ((_, publication),) = first.writes
    second.stored = StoredPublication(publication=publication)
    async with at_work(ScriptedProvider(), second) as runner:
        await asyncio.sleep(1)
        assert second.writes == []
        assert runner.unready() == []


async def test_once_reads_and_writes_every_provider() -> None:
    provider, sink = ScriptedProvider(), Hand()
    runner = Runner(
        [provider], client=None, settings=Settings(cluster="c1"), sink_of=lambda _: sink, clock=LoopClock()
    )
    await runner.once()
    assert (provider.readings, len(sink.writes)) == ([0], 1)
    assert runner.loops["told"].problem == ""


async def test_once_with_a_hub_that_refuses() -> None:
    sink = Hand()
    sink.error = WriteRefused("you may not")
    runner = Runner(
        [ScriptedProvider()],
        client=None,
        settings=Settings(cluster="c1"),
        sink_of=lambda _: sink,
        clock=LoopClock(),
    )
    await runner.once()
    assert (len(sink.tries), runner.loops["told"].problem) == (1, "you may not")


async def test_once_with_unexpected_error_retries() -> None:
    class Odd(Hand):
        async def write(
            self, cluster: str, publication: Publication, /, *, stored: StoredPublication | None
        ) -> StoredPublication:
            raise KeyError("odd")

    runner = Runner(
        [ScriptedProvider()],
        client=None,
        settings=Settings(cluster="c1"),
        sink_of=lambda _: Odd(),
        clock=LoopClock(),
    )
    await runner.once()
    assert runner.loops["told"].problem == "KeyError: 'odd'"


async def test_unexpected_sink_error_affects_only_its_cluster(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(Hand):
        async def write(
            self, cluster: str, publication: Publication, /, *, stored: StoredPublication | None
        ) -> StoredPublication:
            if now() < 100:
                raise KeyError("odd")
            return await super().write(cluster, publication, stored=stored)

    provider, sink = ScriptedProvider(), Odd()
    async with at_work(provider, sink) as runner:
        await asyncio.sleep(200)
        assert sink.writes
        assert runner.unready() == []
    assert any("unexpected error" in record.message for record in caplog.records)
