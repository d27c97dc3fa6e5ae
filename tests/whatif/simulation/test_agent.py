"""One agent, in virtual time: when it does what, and how its scores walk."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clocks import LoopClock
from fairway.kube import TransportError
from fairway.whatif.simulation.agent import (
    BURST,
    IDLE,
    LEAST,
    MOST,
    REACH,
    RETRY_SECONDS,
    Agent,
    Pace,
    Turnstile,
    share,
    stepped,
)


class Paper:
    """A hub that notes what it is told."""

    def __init__(self, *, values: Mapping[str, int] | None = None, left: float = 1000.0) -> None:
        self.published = dict(values) if values is not None else None
        self.remaining = left
        self.down = False
        self.out = False
        self.renewals: list[float] = []
        self.reports: list[float] = []
        self.publications: list[tuple[float, dict[str, int]]] = []
        self.others: tuple[str, ...] = ()
        self.extensions: list[tuple[float, str]] = []

    def outage(self, cluster: str) -> bool:
        return self.out

    def values(self, cluster: str) -> Mapping[str, int] | None:
        return self.published

    def left(self, cluster: str) -> float:
        return self.remaining

    def _reach(self) -> float:
        if self.down:
            raise TransportError("no route to hub")
        return asyncio.get_running_loop().time()

    async def renew(self, cluster: str) -> None:
        self.renewals.append(self._reach())

    async def report(self, cluster: str) -> None:
        self.reports.append(self._reach())
        self.out = False

    async def publish(self, cluster: str, values: Mapping[str, int]) -> None:
        self.publications.append((self._reach(), dict(values)))
        self.published = dict(values)

    def constant(self, cluster: str) -> tuple[str, ...]:
        return self.others

    async def extend(self, cluster: str, name: str) -> None:
        self.extensions.append((self._reach(), name))


@asynccontextmanager
async def playing(
    paper: Paper, *, name: str = "c1", seed: int = 0, period: float = 60.0
) -> AsyncIterator[Agent]:
    clock = LoopClock()
    agent = Agent(
        name,
        wire=paper,
        pace=Pace(period=period, lease=60.0),
        turnstile=Turnstile(rate=100.0, clock=clock),
        clock=clock,
        seed=seed,
    )
    task = asyncio.create_task(agent.run())
    try:
        yield agent
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.looptime
class TestRounds:
    async def test_renews_at_once_and_then_once_a_minute(self) -> None:
        paper = Paper(values=IDLE)
        async with playing(paper):
            await asyncio.sleep(600)
        place = 60 * share("c1")
        assert paper.renewals == pytest.approx([0, *(place + 60 * index for index in range(10))])

    async def test_scores_that_do_not_move_are_renewed_with_those_that_do(self) -> None:
        paper = Paper(values=IDLE)
        paper.others = ("hosted-clusters-score",)
        async with playing(paper):
            await asyncio.sleep(600)
        assert [when for when, _ in paper.extensions] == [when for when, _ in paper.publications]
        assert {name for _, name in paper.extensions} == {"hosted-clusters-score"}

    async def test_publishes_once_a_period_at_a_place_of_its_own(self) -> None:
        paper = Paper(values=IDLE)
        async with playing(paper, period=20):
            await asyncio.sleep(200)
        place = 20 * share("c1")
        assert [at for at, _ in paper.publications] == pytest.approx(
            [place + 20 * index for index in range(10)]
        )

    @pytest.mark.parametrize("left", [0.0, -50.0, 30.0])
    async def test_a_score_that_is_about_to_run_out_is_not_kept_waiting(self, left: float) -> None:
        paper = Paper(values=IDLE, left=left)
        async with playing(paper):
            await asyncio.sleep(1)
        assert [at for at, _ in paper.publications] == [0]

    async def test_a_cluster_the_hub_lost_sight_of_renews_and_reports_at_once(self) -> None:
        paper = Paper(values=IDLE)
        async with playing(paper) as agent:
            await asyncio.sleep(1)
            paper.out = True
            agent.wake()
            await asyncio.sleep(1)
        assert paper.renewals == [0, 1]
        assert paper.reports == [1]

    async def test_a_hub_that_does_not_answer_is_tried_again(self) -> None:
        paper = Paper(values=IDLE)
        paper.down = True
        async with playing(paper):
            await asyncio.sleep(3 * RETRY_SECONDS + 1)
            assert paper.renewals == []
            paper.down = False
            await asyncio.sleep(RETRY_SECONDS)
        assert paper.renewals == [4 * RETRY_SECONDS]

    async def test_what_was_missed_meanwhile_is_not_made_up_for(self) -> None:
        paper = Paper(values=IDLE)
        async with playing(paper):
            await asyncio.sleep(1)
            paper.down = True
            await asyncio.sleep(600)
            paper.down = False
            before = len(paper.publications)
            await asyncio.sleep(60)
        assert len(paper.publications) - before in (1, 2)

    async def test_told_to_stop_it_finishes_what_it_is_at(self) -> None:
        class Slow(Paper):
            async def renew(self, cluster: str) -> None:
                await asyncio.sleep(3)
                await super().renew(cluster)

        paper = Slow(values=IDLE)
        async with playing(paper) as agent:
            await asyncio.sleep(1)
            agent.stop()
            await asyncio.sleep(600)
        assert paper.renewals == [3]
        assert paper.publications == []

    @pytest.mark.parametrize("down", [False, True])
    async def test_told_to_stop_it_does_not_finish_its_rest(self, down: bool) -> None:
        paper = Paper(values=IDLE)
        paper.down = down
        async with playing(paper) as agent:
            await asyncio.sleep(1)
            agent.stop()
            (task,) = asyncio.all_tasks() - {asyncio.current_task()}
            await task
            assert asyncio.get_running_loop().time() == 1

    async def test_a_fault_of_its_own_does_not_end_an_agent(self, caplog: pytest.LogCaptureFixture) -> None:
        class Faulty(Paper):
            async def renew(self, cluster: str) -> None:
                await super().renew(cluster)
                if len(self.renewals) == 1:
                    raise ValueError("a fault")

        paper = Faulty(values=IDLE)
        async with playing(paper):
            await asyncio.sleep(RETRY_SECONDS + 1)
        assert paper.renewals == [0, RETRY_SECONDS]
        assert "agent of c1: unexpected error" in caplog.text


@pytest.mark.looptime
class TestWalks:
    async def walk(self, *, seed: int, name: str = "c1") -> list[dict[str, int]]:
        paper = Paper(values={"cpuAvailable": 20, "memAvailable": 40})
        async with playing(paper, name=name, seed=seed):
            await asyncio.sleep(600)
        return [values for _, values in paper.publications]

    async def test_the_same_seed_walks_the_same_way(self) -> None:
        once, again = await self.walk(seed=1), await self.walk(seed=1)
        assert once == again
        assert await self.walk(seed=2) != once
        assert await self.walk(seed=1, name="c2") != once

    async def test_scores_move(self) -> None:
        assert len({values["cpuAvailable"] for values in await self.walk(seed=1)}) > 3

    async def test_it_goes_on_from_what_somebody_else_wrote(self) -> None:
        paper = Paper(values={"cpuAvailable": 20})
        async with playing(paper):
            await asyncio.sleep(60)
            paper.published = {"cpuAvailable": 45}
            await asyncio.sleep(60)
        (_, before), (_, after) = paper.publications
        assert abs(before["cpuAvailable"] - 20) < 15
        assert after["cpuAvailable"] > 30

    async def test_without_a_score_it_begins_one(self) -> None:
        paper = Paper(left=0)
        async with playing(paper):
            await asyncio.sleep(1)
        assert [set(values) for _, values in paper.publications] == [set(IDLE)]


@given(home=st.integers(LEAST, MOST), value=st.integers(LEAST, MOST), seed=st.integers(0, 999))
def test_a_walk_stays_within_its_bounds(home: int, value: int, seed: int) -> None:
    values: Mapping[str, int] = {"cpuAvailable": value}
    rng = random.Random(seed)
    for _ in range(50):
        values = stepped(values, home={"cpuAvailable": home}, rng=rng)
        assert max(LEAST, home - REACH) <= values["cpuAvailable"] <= min(MOST, home + REACH)


def test_names_are_spread_evenly() -> None:
    tenths = [0] * 10
    for index in range(1000):
        tenths[int(10 * share(f"eu-west-1-prod-aws-{index:05d}"))] += 1
    assert min(tenths) > 60


@pytest.mark.looptime
async def test_no_more_requests_than_the_rate_allows() -> None:
    turnstile = Turnstile(rate=10.0, clock=LoopClock())
    passed: list[float] = []

    async def go() -> None:
        await turnstile.pass_through()
        passed.append(asyncio.get_running_loop().time())

    await asyncio.gather(*(go() for _ in range(BURST + 50)))
    assert passed.count(0) == BURST
    assert max(passed) == pytest.approx(5.0)
