"""The agent of a synthetic cluster, in virtual time: its intervals, retries and random walks."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clocks import LoopClock
from fairway.simulation.agent import (
    BURST,
    DEFAULT_VALUES,
    MAX_DISTANCE,
    RETRY_SECONDS,
    SCORE_MAX,
    SCORE_MIN,
    Agent,
    Intervals,
    RateLimiter,
    next_values,
    phase,
)
from kubewire.client import TransportError


class FakeAgentHub:
    """A hub that records the requests of an agent."""

    def __init__(self, *, values: Mapping[str, int] | None = None, left: float = 1000.0) -> None:
        self.published = dict(values) if values is not None else None
        self.remaining = left
        self.unreachable = False
        self.unavailable = False
        self.renewals: list[float] = []
        self.reports: list[float] = []
        self.publications: list[tuple[float, dict[str, int]]] = []
        self.others: tuple[str, ...] = ()
        self.extensions: list[tuple[float, str]] = []

    def is_unavailable(self, cluster: str) -> bool:
        return self.unavailable

    def scores(self, cluster: str) -> Mapping[str, int] | None:
        return self.published

    def seconds_to_expiry(self, cluster: str) -> float:
        return self.remaining

    def _reach(self) -> float:
        if self.unreachable:
            raise TransportError("no route to hub")
        return asyncio.get_running_loop().time()

    async def renew_lease(self, cluster: str) -> None:
        self.renewals.append(self._reach())

    async def report_available(self, cluster: str) -> None:
        self.reports.append(self._reach())
        self.unavailable = False

    async def publish(self, cluster: str, values: Mapping[str, int]) -> None:
        self.publications.append((self._reach(), dict(values)))
        self.published = dict(values)

    def constant_scores(self, cluster: str) -> tuple[str, ...]:
        return self.others

    async def renew_score(self, cluster: str, name: str) -> None:
        self.extensions.append((self._reach(), name))


@asynccontextmanager
async def running_agent(
    hub: FakeAgentHub, *, name: str = "c1", seed: int = 0, period: float = 60.0, walks: bool = True
) -> AsyncIterator[Agent]:
    clock = LoopClock()
    agent = Agent(
        name,
        hub=hub,
        intervals=Intervals(period=period, lease=60.0),
        limiter=RateLimiter(rate=100.0, clock=clock),
        clock=clock,
        seed=seed,
        walks=walks,
    )
    task = asyncio.create_task(agent.run())
    try:
        yield agent
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.looptime
class TestIntervals:
    async def test_agent_renews_lease_at_start_and_then_once_a_minute(self) -> None:
        hub = FakeAgentHub(values=DEFAULT_VALUES)
        async with running_agent(hub):
            await asyncio.sleep(600)
        place = 60 * phase("c1")
        assert hub.renewals == pytest.approx([0, *(place + 60 * index for index in range(10))])

    async def test_agent_renews_constant_scores_with_each_publication(self) -> None:
        hub = FakeAgentHub(values=DEFAULT_VALUES)
        hub.others = ("hosted-clusters-score",)
        async with running_agent(hub):
            await asyncio.sleep(600)
        assert [when for when, _ in hub.extensions] == [when for when, _ in hub.publications]
        assert {name for _, name in hub.extensions} == {"hosted-clusters-score"}

    async def test_agent_publishes_once_a_period_at_its_phase(self) -> None:
        hub = FakeAgentHub(values=DEFAULT_VALUES)
        async with running_agent(hub, period=20):
            await asyncio.sleep(200)
        place = 20 * phase("c1")
        assert [at for at, _ in hub.publications] == pytest.approx(
            [place + 20 * index for index in range(10)]
        )

    async def test_agent_that_does_not_walk_keeps_its_scores_until_others_are_given(self) -> None:
        hub, given = FakeAgentHub(values={"cpuAvailable": 42}), {"cpuAvailable": 5}
        hub.others = ("hosted-clusters-score",)
        async with running_agent(hub, walks=False) as agent:
            await asyncio.sleep(600)
            agent.publish({"cpuAvailable": 7})
            agent.publish(given)
            await asyncio.sleep(600)
        before = [values for at, values in hub.publications if at < 600]
        after = [(at, values) for at, values in hub.publications if at >= 600]
        assert before == [{"cpuAvailable": 42}] * 10
        assert [values for _, values in after] == [given] * 10
        assert [at for at, _ in after] == pytest.approx([600 + 60 * index for index in range(10)])

    @pytest.mark.parametrize("left", [0.0, -50.0, 30.0])
    async def test_agent_replaces_expiring_score_at_start(self, left: float) -> None:
        hub = FakeAgentHub(values=DEFAULT_VALUES, left=left)
        async with running_agent(hub):
            await asyncio.sleep(1)
        assert [at for at, _ in hub.publications] == [0]

    async def test_agent_renews_and_reports_as_soon_as_its_cluster_is_unavailable(self) -> None:
        hub = FakeAgentHub(values=DEFAULT_VALUES)
        async with running_agent(hub) as agent:
            await asyncio.sleep(1)
            hub.unavailable = True
            agent.wake()
            await asyncio.sleep(1)
        assert hub.renewals == [0, 1]
        assert hub.reports == [1]

    async def test_agent_retries_unreachable_hub(self) -> None:
        hub = FakeAgentHub(values=DEFAULT_VALUES)
        hub.unreachable = True
        async with running_agent(hub):
            await asyncio.sleep(3 * RETRY_SECONDS + 1)
            assert hub.renewals == []
            hub.unreachable = False
            await asyncio.sleep(RETRY_SECONDS)
        assert hub.renewals == [4 * RETRY_SECONDS]

    async def test_agent_skips_publications_missed_during_an_outage(self) -> None:
        hub = FakeAgentHub(values=DEFAULT_VALUES)
        async with running_agent(hub):
            await asyncio.sleep(1)
            hub.unreachable = True
            await asyncio.sleep(600)
            hub.unreachable = False
            before = len(hub.publications)
            await asyncio.sleep(60)
        assert len(hub.publications) - before in (1, 2)

    async def test_stopped_agent_finishes_its_request(self) -> None:
        class Slow(FakeAgentHub):
            async def renew_lease(self, cluster: str) -> None:
                await asyncio.sleep(3)
                await super().renew_lease(cluster)

        hub = Slow(values=DEFAULT_VALUES)
        async with running_agent(hub) as agent:
            await asyncio.sleep(1)
            agent.stop()
            await asyncio.sleep(600)
        assert hub.renewals == [3]
        assert hub.publications == []

    @pytest.mark.parametrize("down", [False, True])
    async def test_stopped_agent_ends_its_sleep(self, down: bool) -> None:
        hub = FakeAgentHub(values=DEFAULT_VALUES)
        hub.unreachable = down
        async with running_agent(hub) as agent:
            await asyncio.sleep(1)
            agent.stop()
            (task,) = asyncio.all_tasks() - {asyncio.current_task()}
            await task
            assert asyncio.get_running_loop().time() == 1

    async def test_agent_continues_after_unexpected_error(self, caplog: pytest.LogCaptureFixture) -> None:
        class Faulty(FakeAgentHub):
            async def renew_lease(self, cluster: str) -> None:
                await super().renew_lease(cluster)
                if len(self.renewals) == 1:
                    raise ValueError("a fault")

        hub = Faulty(values=DEFAULT_VALUES)
        async with running_agent(hub):
            await asyncio.sleep(RETRY_SECONDS + 1)
        assert hub.renewals == [0, RETRY_SECONDS]
        assert "agent of c1: unexpected error" in caplog.text


@pytest.mark.looptime
class TestWalks:
    async def walk(self, *, seed: int, name: str = "c1") -> list[dict[str, int]]:
        hub = FakeAgentHub(values={"cpuAvailable": 20, "memAvailable": 40})
        async with running_agent(hub, name=name, seed=seed):
            await asyncio.sleep(600)
        return [values for _, values in hub.publications]

    async def test_same_seed_and_name_publish_the_same_values(self) -> None:
        once, again = await self.walk(seed=1), await self.walk(seed=1)
        assert once == again
        assert await self.walk(seed=2) != once
        assert await self.walk(seed=1, name="c2") != once

    async def test_published_scores_change(self) -> None:
        assert len({values["cpuAvailable"] for values in await self.walk(seed=1)}) > 3

    async def test_walk_continues_from_value_of_another_client(self) -> None:
        hub = FakeAgentHub(values={"cpuAvailable": 20})
        async with running_agent(hub):
            await asyncio.sleep(60)
            hub.published = {"cpuAvailable": 45}
            await asyncio.sleep(60)
        (_, before), (_, after) = hub.publications
        assert abs(before["cpuAvailable"] - 20) < 15
        assert after["cpuAvailable"] > 30

    async def test_agent_publishes_default_values_without_a_score(self) -> None:
        hub = FakeAgentHub(left=0)
        async with running_agent(hub):
            await asyncio.sleep(1)
        assert [set(values) for _, values in hub.publications] == [set(DEFAULT_VALUES)]


@given(
    center=st.integers(SCORE_MIN, SCORE_MAX),
    value=st.integers(SCORE_MIN, SCORE_MAX),
    seed=st.integers(0, 999),
)
def test_walk_stays_within_bounds(center: int, value: int, seed: int) -> None:
    values: Mapping[str, int] = {"cpuAvailable": value}
    rng = random.Random(seed)
    for _ in range(50):
        values = next_values(values, center={"cpuAvailable": center}, rng=rng)
        assert (
            max(SCORE_MIN, center - MAX_DISTANCE)
            <= values["cpuAvailable"]
            <= min(SCORE_MAX, center + MAX_DISTANCE)
        )


def test_phases_of_clusters_are_spread_evenly() -> None:
    tenths = [0] * 10
    for index in range(1000):
        tenths[int(10 * phase(f"eu-west-1-prod-aws-{index:05d}"))] += 1
    assert min(tenths) > 60


@pytest.mark.looptime
async def test_rate_limiter_delays_requests_above_the_rate() -> None:
    limiter = RateLimiter(rate=10.0, clock=LoopClock())
    passed: list[float] = []

    async def go() -> None:
        await limiter.acquire()
        passed.append(asyncio.get_running_loop().time())

    await asyncio.gather(*(go() for _ in range(BURST + 50)))
    assert passed.count(0) == BURST
    assert max(passed) == pytest.approx(5.0)
