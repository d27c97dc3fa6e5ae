"""Under any faults of the hub, an informer reaches the hub's state and never reports an older object."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import pytest
from client.mirror import PATIENCE, Mirror
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairway.api.cluster import ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS
from kubewire.api.resource import key_of
from kubewire.client import informer as informers
from kubewire.client.clock import Backoff
from kubewire.client.connection import Connection
from kubewire.client.informer import Informer
from kubewire.client.rest import Client
from kubewire.client.transport import Retry
from rigs.fake_server import FakeServer

QUICK = Backoff(base=0.001, cap=0.004)
NAMES = st.sampled_from(["a", "b", "c"])
CODES = (401, 410, 429, 500, 503, 504)


@dataclass
class InformerHarness:
    hub: FakeServer
    informer: Informer[ManagedCluster]
    mirror: Mirror[ManagedCluster] = field(default_factory=Mirror)

    async def settle(self) -> None:
        await self.mirror.until(lambda: self.mirror.versions() == self.hub.versions())

    async def followed(self) -> None:
        """Until the informer has an open watch of the hub as it runs now."""
        async with asyncio.timeout(PATIENCE):
            await self.hub.watched()
            while self.informer.lag > 0:
                await asyncio.sleep(0)

    async def caught_up(self) -> None:
        """Until the informer is exactly where the hub is."""
        async with asyncio.timeout(PATIENCE):
            while self.informer.resource_version != str(self.hub.objects.revision):
                await asyncio.sleep(0)


Step = Callable[[InformerHarness], Awaitable[None]]


def step(act: Callable[[InformerHarness], object], name: str) -> Step:
    async def run(harness: InformerHarness) -> None:
        act(harness)

    run.__qualname__ = name
    return run


def put(name: str, value: int) -> Step:
    return step(lambda harness: harness.hub.put(name, value=str(value)), f"put({name}, {value})")


def delete(name: str) -> Step:
    return step(lambda harness: harness.hub.delete(name), f"delete({name})")


def cut_in_an_event(name: str, keep: int) -> Step:
    """The change happens; the watch breaks within the line of its event."""

    def act(harness: InformerHarness) -> None:
        entry = harness.hub.put_silently(name, {"value": "cut"})
        harness.hub.cut(after=entry.line[: min(keep, len(entry.line) - 1)])

    return step(act, f"cut_in_an_event({name}, {keep})")


def answer(kind: Literal["list", "watch", "newest"], code: int, times: int) -> Step:
    def act(harness: InformerHarness) -> None:
        for _ in range(times):
            headers = {"Retry-After": "0"} if code == 429 else {}
            harness.hub.fault(kind, code=code, headers=headers, reason="Expired" if code == 410 else "")

    return step(act, f"answer({kind}, {code}, {times})")


def replay(ago: int) -> Step:
    """An event that was sent already, as no hub should send it."""

    def act(harness: InformerHarness) -> None:
        log = harness.hub.objects.log
        if log:
            harness.hub.send(log[max(0, len(log) - 1 - ago)].line)

    return step(act, f"replay({ago})")


def rewind(back: int) -> Step:
    async def run(harness: InformerHarness) -> None:
        history = harness.hub.objects
        await harness.hub.restart(rewind_to=max(1, history.revision - back))
        # A restored history that has grown past the last seen version cannot be distinguished from the old one. What
        # was seen is more than the informer has now: some may be on its way from before.
        await harness.followed()

    run.__qualname__ = f"rewind({back})"
    return run


def rewind_unnoticed(back: int) -> Step:
    """No connection breaks: a running hub got its state exchanged from below. Its next bookmark gives it away."""

    async def run(harness: InformerHarness) -> None:
        await harness.followed()  # a list of before that is on its way would give nothing away
        harness.hub.objects.rewind(max(1, harness.hub.objects.revision - back))
        harness.hub.bookmark()
        await harness.caught_up()

    run.__qualname__ = f"rewind_unnoticed({back})"
    return run


async def restart(harness: InformerHarness) -> None:
    await harness.hub.restart()


async def settle(harness: InformerHarness) -> None:
    await harness.settle()


async def breathe(harness: InformerHarness) -> None:
    for _ in range(5):
        await asyncio.sleep(0)


simple = st.sampled_from(
    [
        settle,
        breathe,
        restart,
        step(lambda harness: harness.hub.bookmark(), "bookmark"),
        step(lambda harness: harness.hub.bookmark(1), "bookmark from long ago"),
        step(lambda harness: harness.hub.cut(), "cut"),
        step(lambda harness: harness.hub.end(), "end"),
        step(lambda harness: harness.hub.objects.compact(), "compact"),
        step(lambda harness: harness.hub.error(410, "Expired"), "error 410"),
        step(lambda harness: harness.hub.error(500, "InternalError"), "error 500"),
        step(lambda harness: harness.hub.fault("list", keep=40), "truncated list"),
        step(lambda harness: harness.hub.fault("list", "watch", dropped=True), "dropped"),
        step(lambda harness: harness.hub.send(b'{"type":"ADDED","object":{"metadata":[]}}\n'), "unreadable"),
        step(lambda harness: harness.hub.send(b"no json\n"), "no JSON"),
    ]
)
writes = st.one_of(st.builds(put, NAMES, st.integers(0, 9)), st.builds(delete, NAMES))
faults = st.one_of(
    st.builds(cut_in_an_event, NAMES, st.integers(1, 300)),
    st.builds(answer, st.sampled_from(["list", "watch"]), st.sampled_from([403, *CODES]), st.integers(1, 5)),
    st.builds(answer, st.just("newest"), st.sampled_from(CODES), st.integers(1, 5)),
    st.builds(rewind, st.integers(0, 6)),
    st.builds(rewind_unnoticed, st.integers(0, 6)),
    st.builds(replay, st.integers(0, 6)),
)
steps = st.lists(st.one_of(writes, writes, simple, faults), max_size=25)


def values_of(cluster: ManagedCluster) -> tuple[str, ...]:
    return tuple(cluster.metadata.labels.values())


async def play(steps: list[Step], *, streaming: Literal["yes", "refused", "ignored"], page: int) -> None:
    async with FakeServer(streaming=streaming) as hub:
        hub.put("a")
        hub.put("b")
        retry = Retry(backoff=QUICK, longest=0.01)
        async with Client(Connection(server=hub.url), retry=retry) as client:
            informer = Informer(client, MANAGED_CLUSTERS, page=page, list_timeout=0.02, backoff=QUICK)
            harness = InformerHarness(hub, informer)
            informer.subscribe(harness.mirror)
            index = informer.index(values_of)
            async with informer:
                for act in steps:
                    await act(harness)
                hub.faults.clear()
                hub.put("last")
                await harness.settle()
                assert harness.mirror.broken == []
                assert informer.store == harness.mirror.store
                for value in range(10):
                    labelled = [
                        cluster for cluster in informer.store.values() if str(value) in values_of(cluster)
                    ]
                    assert sorted(index.find(str(value)), key=key_of) == sorted(labelled, key=key_of)
                    assert index.count(str(value)) == len(labelled)


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    """Deliver lists in parts, although the hub has few objects."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(informers, "PART", 1)
        yield


@pytest.mark.parametrize("streaming", ["yes", "refused", "ignored"])
@settings(max_examples=30)
@given(steps=steps, page=st.integers(1, 3))
@example(steps=[put("a", 1), put("a", 2), settle, rewind(1), settle], page=1)
@example(steps=[put("a", 1), put("a", 2), settle, rewind_unnoticed(1), settle], page=1)
@example(steps=[put("a", 1), put("a", 2), settle, replay(1), settle], page=1)
@example(steps=[put("a", 1), delete("a"), settle, replay(1), settle], page=1)
async def test_informer_converges_to_the_hub_and_never_goes_back(
    steps: list[Step], page: int, streaming: Literal["yes", "refused", "ignored"]
) -> None:
    logging.disable(logging.CRITICAL)
    try:
        await play(steps, streaming=streaming, page=page)
    finally:
        logging.disable(logging.NOTSET)
