"""Turns on the event loop: long requests of one user yield to those of others."""

import asyncio
from collections.abc import Callable

import pytest

from kubehub.flowcontrol import turns, yielding
from kubehub.flowcontrol.fair_queue import FairQueue
from kubehub.flowcontrol.turns import BUDGET, Turns
from kubehub.request_info import parse
from kubehub.serialization.body import VALUES, Limits, prepare
from kubehub.status import Refusal
from kubehub.user import MASTERS, User

PIECE = 0.003
"""Seconds of one part of a long piece of work."""
PODS = parse("/api/v1/pods")
LEASE = parse("/apis/coordination.k8s.io/v1/namespaces/default/leases/controller")


class Loop:
    """Turns whose clock the work itself advances, and a record of the work."""

    def __init__(self, queue: FairQueue[asyncio.Future[float]] | None = None) -> None:
        self.now = 0.0
        self.turns = Turns(clock=lambda: self.now, queue=queue)
        self.done: list[str] = []

    def work(self, *pieces: str) -> Callable[[], object]:
        async def run() -> None:
            for number, name in enumerate(pieces):
                if number:
                    await turns.yield_turn()
                self.now += PIECE
                self.done.append(name)

        return run

    def start(self, user: str, *pieces: str, path: str = "/api/v1/pods") -> asyncio.Task[None]:
        turn = self.turns.of(User(name=user), parse(path))
        assert turn is not None
        run = self.work(*pieces)
        return asyncio.create_task(turn.run(run()))  # type: ignore[arg-type]


async def test_short_request_waits_for_few_pieces_of_long_ones() -> None:
    loop = Loop()
    flood = [loop.start("hostile", *["long"] * 50) for _ in range(16)]
    while len(loop.done) < 100:
        await asyncio.sleep(0)
    before = len(loop.done)
    await loop.start("honest", "short")
    assert loop.done.index("short") - before <= 3 * BUDGET / PIECE
    for task in flood:
        task.cancel()


async def test_lease_is_renewed_before_work_that_waited_longer() -> None:
    loop = Loop()
    flood = [loop.start(f"user-{number}", *["long"] * 10) for number in range(16)]
    while len(loop.done) < 60:
        await asyncio.sleep(0)
    before = len(loop.done)
    await loop.start("controller", "renewal", path=LEASE.path)
    assert loop.done.index("renewal") - before < len(flood) / 2
    for task in flood:
        task.cancel()


async def test_one_pass_of_the_event_loop_starts_bounded_work() -> None:
    """Whatever the number of requests."""
    loop = Loop()
    flood = [loop.start("hostile", *["long"] * 20) for _ in range(16)]
    counts = []
    while not all(task.done() for task in flood):
        before = len(loop.done)
        await asyncio.sleep(0)
        counts.append(len(loop.done) - before)
    assert len(loop.done) == 16 * 20
    # Before the first piece is done, the duration is unknown.
    assert max(counts[1:]) <= 2 * BUDGET / PIECE


def test_administrators_and_health_never_wait() -> None:
    made = Turns()
    assert made.of(User(name="admin", groups=(MASTERS,)), PODS) is None
    assert made.of(User(name="stranger"), parse("/readyz")) is None
    assert made.of(User(name="stranger"), PODS) is not None


async def test_full_queue_is_answered_with_429() -> None:
    loop = Loop(FairQueue(per_flow=4, most=100))
    flood = [loop.start("hostile", "long", "long") for _ in range(16)]
    other = loop.start("honest", "short")
    answers = await asyncio.gather(*flood, other, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, Refusal)]
    assert refused
    assert {(answer.code, answer.headers["Retry-After"]) for answer in refused} == {(429, "1")}
    assert answers[-1] is None


async def test_cancelled_requests_leave_the_queue() -> None:
    loop = Loop()
    flood = [loop.start("hostile", *["long"] * 5) for _ in range(16)]
    while len(loop.done) < 8:
        await asyncio.sleep(0)
    for task in flood:
        task.cancel()
    await asyncio.wait(flood)
    await loop.start("honest", "short")
    assert loop.done[-1] == "short"
    assert len(loop.turns.queue) == 0


async def test_large_yaml_is_read_in_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yielding, "STRIDE", 0.0)
    raw = b"a:\n" + b"- 1\n" * 10_000
    passes = 0

    async def count() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    converted = await prepare(raw, "application/yaml", Limits(values=VALUES))
    counting.cancel()
    assert converted == b'{"a":[' + b",".join([b"1"] * 10_000) + b"]}"
    assert passes >= 10_000 // 64
