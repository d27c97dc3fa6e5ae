"""Providers at work on a hub: beside each other, for whole fleets, and whatever happens to the hub."""

import asyncio
import logging
import math
import threading
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairway.api.cluster import ManagedCluster
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES
from fairway.providers import (
    ClusterProvider,
    DefinitionError,
    Direct,
    FleetProvider,
    Provider,
    Quantile,
    Reading,
    Runner,
    Score,
    Settings,
    fleet_provider,
    provider,
    running,
)
from fairway.providers.publication import CONDITION
from fairway.providers.rbac import CLUSTER_RULES, FLEET_RULES, LEASE_RULES
from fairway.providers.sandbox import BUSY, TIMED_OUT
from fairway.testing.hub import embedded_hub
from kubewire.api.meta import find_condition
from kubewire.client import Client, Connection, Patch, Timing, load
from kubewire.client.credentials import StoredCredentials
from metric_values import values
from providers.hub_fleet import HubFleet, values_of
from rigs.processes import POLL, Port

DIRECT: Mapping[str, Any] = {"free": Direct()}
LONG = 240.0
"""Seconds that a blocking call blocks."""


def one(read: Callable[[], object], *, name: str = "queue", interval: float = 60) -> ClusterProvider:
    return provider(scores=DIRECT, name=name, interval=interval)(read)


class Price(FleetProvider):
    """The price of each cluster, as set by a test."""

    name, resource, interval = "price", "price-score", 60.0
    scores = (Score(name="cheap", scale=Quantile()),)

    def __init__(self, prices: dict[str, float], *, name: str = "price") -> None:
        self.prices = prices
        self.name, self.resource = name, f"{name}-score"
        self.asked: list[set[str]] = []

    async def read(self, clusters: Mapping[str, ManagedCluster], /) -> Mapping[str, Reading]:
        self.asked.append(set(clusters))
        return {
            name: Reading(values={"cheap": -price}) for name, price in self.prices.items() if name in clusters
        }


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(POLL)


# One beside the other


@pytest.mark.embedded
async def test_faulty_providers_do_not_affect_others(fleet: HubFleet, client: Client) -> None:
    cluster = await fleet.namespace()
    go = threading.Event()

    def raises() -> None:
        raise RuntimeError("no queue")

    def leaves() -> None:
        raise SystemExit(3)

    async def cancels() -> None:
        raise asyncio.CancelledError

    def blocks() -> float:
        go.wait(LONG)
        return 9

    async def waits() -> None:
        await asyncio.Event().wait()

    odd: dict[str, tuple[Callable[[], object], str, str]] = {
        "raises": (raises, "CollectionFailed", "RuntimeError: no queue"),
        "leaves": (leaves, "CollectionFailed", "SystemExit: 3"),
        "cancels": (cancels, "CollectionFailed", "cancelled"),
        "blocks": (blocks, "Timeout", "timed out after"),
        "waits": (waits, "Timeout", "timed out after"),
        "nan": (lambda: float("nan"), "InvalidValue", "free is nan"),
        "text": (lambda: {"free": "much"}, "InvalidValue", "free is str, not a number"),
        "none": (lambda: None, "InvalidResult", "None instead of values"),
        "twice": (lambda: [("free", 1), ("free", 2)], "DuplicateScore", "more than once"),
        "many": (lambda: {f"n{n}": 1 for n in range(10_000)}, "TooManyScores", "10000 values"),
        "wrong": (lambda: {"fre": 1}, "UnknownScore", "did you mean 'free'?"),
        "empty": (lambda: Reading(), "NoValues", "returned no values"),
    }
    providers: list[Provider] = [one(read, name=name) for name, (read, _, _) in odd.items()]
    providers += [one(lambda: 1e9, name="large"), one(lambda: 7, name="good")]
    async with running(providers, hub=client, cluster=cluster) as runner:
        for name in ("blocks", "waits"):
            # Not for all: a slow machine would be taken for them.
            runner.loops[name].deadline = 0.2
        try:
            await fleet.scored(cluster, "good-score", free=7)
            await fleet.scored(cluster, "large-score", free=100)
            for name, (_, reason, words) in odd.items():
                score = await fleet.until(
                    cluster,
                    f"{name}-score",
                    lambda score: find_condition(score.status.conditions, CONDITION) is not None,
                )
                condition = find_condition(score.status.conditions, CONDITION)
                assert condition is not None
                assert condition.status == "False", name
                # On a slow machine the loop may have retried what still hangs, and reports it as busy.
                if not (condition.reason == BUSY and reason == TIMED_OUT):
                    assert condition.reason == reason, name
                    assert words in condition.message
                assert score.status.scores == ()
                assert score.status.validUntil is not None
            # That the hub has something is known to the runner only when it has answered.
            await until(lambda: {reason.partition(":")[0] for reason in runner.unready()} == set(odd))
            exposed = values(runner.meters.expose())
            for name, (_, reason, _) in odd.items():
                assert (
                    exposed[f'fairway_provider_reading_failures_total{{provider="{name}",reason="{reason}"}}']
                    >= 1
                )
            for thread in ("blocks", "good"):
                assert sum(thread_.name == f"provider {thread}" for thread_ in threading.enumerate()) == 1
        finally:
            go.set()


@pytest.mark.embedded
async def test_hung_provider_is_read_again_after_return(fleet: HubFleet, client: Client) -> None:
    cluster = await fleet.namespace()
    go, calls = threading.Event(), []

    def read() -> float:
        calls.append(1)
        go.wait(LONG)
        return 5

    settings = Settings(cluster=cluster, deadline=0.1, interval=0.5)
    async with running([one(read)], hub=client, settings=settings) as runner:
        # On a slow machine the call may be cancelled before it starts.
        await until(lambda: bool(calls))
        before = times_busy(runner)
        await until(lambda: times_busy(runner) > before + 1)
        await fleet.until(
            cluster,
            "queue-score",
            lambda score: any(condition.reason == BUSY for condition in score.status.conditions),
        )
        assert calls == [1]
        go.set()
        runner.loops["queue"].deadline = LONG  # it was slow for long enough; the machine may be, too
        await fleet.scored(cluster, "queue-score", free=5)


def times_busy(runner: Runner) -> float:
    name = f'fairway_provider_reading_failures_total{{provider="queue",reason="{BUSY}"}}'
    return values(runner.meters.expose()).get(name, 0)


@pytest.mark.embedded
async def test_blocking_scale_affects_only_its_provider(fleet: HubFleet, client: Client) -> None:
    cluster = await fleet.namespace()
    go = threading.Event()

    class Blocking:
        def score(self, _: float, /) -> int:
            go.wait(LONG)
            return 3

    slow = provider(scores={"free": Blocking()}, name="slow", interval=0.5)(lambda: 5)
    async with running([slow, one(lambda: 7)], hub=client, cluster=cluster) as runner:
        runner.loops["slow"].deadline = 0.2
        try:
            await fleet.until(
                cluster,
                "slow-score",
                lambda score: any(
                    condition.reason in ("Timeout", "Busy") for condition in score.status.conditions
                ),
            )
            await fleet.scored(cluster, "queue-score", free=7)
        finally:
            go.set()
        runner.loops["slow"].deadline = LONG
        await fleet.scored(cluster, "slow-score", free=3)


# A cluster


async def test_crash_between_create_and_status_is_repaired(fleet: HubFleet, client: Client) -> None:
    """The next start repairs it."""
    cluster = await fleet.namespace()
    made = one(lambda: 5)

    class Interrupted(Client):
        async def patch(self, *arguments: Any, **options: Any) -> Any:
            raise asyncio.CancelledError

    async with Interrupted(client.connection) as dying:
        runner = Runner([made], client=dying, settings=Settings(cluster=cluster))
        task = asyncio.create_task(runner.run())
        left = await fleet.until(cluster, "queue-score", lambda _: True)
        task.cancel()
        await asyncio.wait({task})
    assert left.status.validUntil is None
    async with running([made], hub=client, cluster=cluster):
        scored = await fleet.scored(cluster, "queue-score", free=5)
        assert scored.metadata.uid == left.metadata.uid


async def test_provider_runs_with_declared_rights(fleet: HubFleet) -> None:
    cluster = await fleet.namespace()
    connection = await fleet.account(cluster, CLUSTER_RULES)
    async with running([one(lambda: 5)], hub=connection, cluster=cluster) as runner:
        await fleet.scored(cluster, "queue-score", free=5)
        await until(lambda: runner.unready() == [])


async def test_deleted_or_changed_score_of_one_cluster_is_published_again_at_once(fleet: HubFleet) -> None:
    cluster = await fleet.namespace()
    connection = await fleet.account(cluster, CLUSTER_RULES)
    async with running([one(lambda: 5, interval=86400)], hub=connection, cluster=cluster):
        before = await fleet.scored(cluster, "queue-score", free=5)
        await fleet.delete(cluster, "queue-score")
        after = await fleet.scored(cluster, "queue-score", free=5)
        assert after.metadata.uid != before.metadata.uid
        await fleet.client.patch(
            ADD_ON_PLACEMENT_SCORES,
            "queue-score",
            {"status": {"scores": [{"name": "free", "value": 99}]}},
            kind=Patch.MERGE,
            namespace=cluster,
            subresource="status",
        )
        await fleet.scored(cluster, "queue-score", free=5)


async def test_score_is_published_where_the_hub_does_not_allow_a_watch(fleet: HubFleet) -> None:
    cluster = await fleet.namespace()
    rules = [
        replace(cluster_rule, verbs=tuple({*cluster_rule.verbs} - {"list", "watch"}))
        for cluster_rule in CLUSTER_RULES
    ]
    connection = await fleet.account(cluster, rules)
    async with running([one(lambda: 5)], hub=connection, cluster=cluster):
        await fleet.scored(cluster, "queue-score", free=5)


async def test_replaced_credentials_are_used(fleet: HubFleet, tmp_path: Path) -> None:
    cluster = await fleet.namespace()
    connection = await fleet.account(cluster, CLUSTER_RULES)
    token = tmp_path / "token"
    token.write_text("expired long ago")
    rotated = replace(connection, credentials=StoredCredentials(token_file=str(token)))
    value = [5]
    async with running(
        [one(lambda: value[0], interval=0.2)], hub=rotated, settings=Settings(cluster=cluster)
    ) as runner:
        await until(lambda: "the hub refuses" in "".join(runner.unready()))
        exposed = values(runner.meters.expose())
        assert exposed['fairway_provider_write_failures_total{provider="queue",reason="Unauthorized"}'] >= 1
        new = tmp_path / "new"
        new.write_text(await fleet.token(cluster))
        new.rename(token)
        await fleet.scored(cluster, "queue-score", free=5)
        value[0] = 50
        await fleet.scored(cluster, "queue-score", free=50)
        await until(lambda: runner.unready() == [])


async def test_provider_survives_hub_restart(tmp_path: Path) -> None:
    """Readings during the outage are published afterwards."""
    value = [5]
    data, kubeconfig = tmp_path / "data", tmp_path / "kubeconfig"
    async with asyncio.timeout(200), AsyncExitStack() as stack:
        port = stack.enter_context(Port()).number
        async with embedded_hub(folder=data, port=port) as hub:
            hub.certificates.write_kubeconfig(kubeconfig, server=hub.url)
            connection = load(kubeconfig).context()
            client = await stack.enter_async_context(Client(connection))
            await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "c1"}})
            hasty = await stack.enter_async_context(Client(connection, timeout=10.0))
            runner = await stack.enter_async_context(
                running([one(lambda: value[0], interval=0.2)], hub=hasty, cluster="c1")
            )
            fleet = HubFleet(client, suffix="hub")
            await fleet.scored("c1", "queue-score", free=5)
            await until(lambda: runner.unready() == [])
        value[0] = 70
        await until(lambda: bool(runner.loops["queue"].problem))
        assert runner.unready() == []  # what was published is still valid
        async with embedded_hub(folder=data, port=port):
            await fleet.scored("c1", "queue-score", free=70)
            await until(lambda: not runner.loops["queue"].problem)
            await stack.aclose()


# A fleet


async def test_fleet_provider_scores_new_clusters_at_once(fleet: HubFleet, client: Client) -> None:
    name = fleet.name("price")
    first, second = await fleet.cluster("c1"), await fleet.cluster("c2")
    third = fleet.name("c3")
    price = Price({first: 3, second: 9, third: 6}, name=name)
    async with running([price], hub=client) as runner:
        await fleet.scored(first, f"{name}-score", cheap=100)
        await fleet.scored(second, f"{name}-score", cheap=0)
        await fleet.cluster("c3")
        await fleet.scored(third, f"{name}-score", cheap=50)
        await until(lambda: runner.unready() == [])
        assert third in price.asked[-1]


@pytest.mark.embedded
async def test_deleted_cluster_is_forgotten(fleet: HubFleet, client: Client) -> None:
    name = fleet.name("price")
    first, second = await fleet.cluster("c1"), await fleet.cluster("c2")
    price = Price({first: 3, second: 9}, name=name)
    async with running([price], hub=client) as runner:
        await fleet.scored(second, f"{name}-score", cheap=0)
        await fleet.leave(second)
        await until(lambda: second not in runner.clusters)
        loop = runner.loops[name]
        assert second not in loop.publisher.clusters
        loop.wake()
        await fleet.scored(first, f"{name}-score", cheap=50)
        assert f'cluster="{second}"' not in runner.meters.expose().decode()


async def test_changed_fleet_scores_are_restored(fleet: HubFleet, client: Client) -> None:
    name = fleet.name("price")
    first, second = await fleet.cluster("c1"), await fleet.cluster("c2")
    price = Price({first: 3, second: 9}, name=name)
    async with running([price], hub=client):
        before = await fleet.scored(first, f"{name}-score", cheap=100)
        await fleet.scored(second, f"{name}-score", cheap=0)
        await fleet.delete(first, f"{name}-score")
        after = await fleet.scored(first, f"{name}-score", cheap=100)
        assert after.metadata.uid != before.metadata.uid
        await client.patch(
            ADD_ON_PLACEMENT_SCORES,
            f"{name}-score",
            {"status": {"scores": [{"name": "cheap", "value": 99}]}},
            kind=Patch.MERGE,
            namespace=second,
            subresource="status",
        )
        await fleet.scored(second, f"{name}-score", cheap=0)


async def test_foreign_score_affects_only_its_cluster(fleet: HubFleet, client: Client) -> None:
    name = fleet.name("price")
    first, second = await fleet.cluster("c1"), await fleet.cluster("c2")
    await fleet.foreign(first, f"{name}-score")
    price = Price({first: 3, second: 9}, name=name)
    async with running([price], hub=client) as runner:
        await fleet.scored(second, f"{name}-score", cheap=0)
        await until(lambda: "was not created by Fairway" in runner.loops[name].problem)
        assert values_of(await fleet.get(first, f"{name}-score")) == {"theirs": 7}
        await until(lambda: runner.unready() == [])
    async with running([price], hub=client, settings=Settings(adopt=True)):
        await fleet.scored(first, f"{name}-score", cheap=100)


async def test_fleet_provider_runs_with_declared_rights(fleet: HubFleet) -> None:
    name = fleet.name("price")
    first = await fleet.cluster("c1")
    await fleet.cluster("c2")
    connection = await fleet.account(first, FLEET_RULES, everywhere=True)
    async with running([Price({first: 3}, name=name)], hub=connection):
        await fleet.scored(first, f"{name}-score", cheap=50)


@pytest.mark.embedded
async def test_readings_of_unknown_clusters_are_dropped(
    fleet: HubFleet, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    name = fleet.name("odd")
    first = await fleet.cluster("c1")

    @fleet_provider(scores=DIRECT, name=name)
    def odd(_: Mapping[str, ManagedCluster]) -> dict[str, object]:
        return {first: 3, "nowhere": 4, "kube-system": 5}

    with caplog.at_level(logging.WARNING):
        async with running([odd], hub=client):
            await fleet.scored(first, f"{name}-score", free=3)
    assert (
        f"{name} returned readings of clusters that the hub does not have, such as kube-system" in caplog.text
    )


async def test_only_leader_writes_scores(fleet: HubFleet) -> None:
    first = await fleet.cluster("c1")
    rules = (*FLEET_RULES, *LEASE_RULES)
    connection = await fleet.account(first, rules, everywhere=True)
    name = fleet.name("price")
    leading, waiting = Price({first: 3}, name=name), Price({first: 3}, name=name)
    timing = Timing(lease=60, renew=50.0, retry=0.2)

    def settings(identity: str) -> Settings:
        return Settings(election=timing, identity=identity, lease_namespace=first, lease_name=name)

    async with AsyncExitStack() as stack:
        async with running([leading], hub=connection, settings=settings("one")):
            await fleet.scored(first, f"{name}-score", cheap=50)
            other = await stack.enter_async_context(
                running([waiting], hub=connection, settings=settings("two"))
            )
            await asyncio.sleep(0)
            assert not waiting.asked
            assert other.unready() == []
        await until(lambda: bool(waiting.asked))
        await fleet.delete(first, f"{name}-score")
        await fleet.scored(first, f"{name}-score", cheap=50)


# What cannot run


@pytest.mark.parametrize(
    ("providers", "settings", "words"),
    [
        ([], Settings(cluster="c1"), "no provider to run"),
        ([one(lambda: 1)], Settings(), "reads one cluster"),
        ([Price({})], Settings(cluster="c1"), "reads the whole fleet"),
        ([one(lambda: 1), one(lambda: 1)], Settings(cluster="c1"), "two providers are called queue"),
        ([one(lambda: 1)], Settings(cluster="c1", interval=0), "interval must be"),
        ([one(lambda: 1)], Settings(cluster="c1", deadline=-1), "deadline must be"),
        ([one(lambda: 1)], Settings(cluster="c1", deadline=math.nan), "deadline must be"),
        ([one(lambda: 1)], Settings(cluster="c1", valid_for=60), "would expire between two readings"),
    ],
)
def test_invalid_runner_settings_are_rejected(
    providers: list[Provider], settings: Settings, words: str
) -> None:
    with pytest.raises(DefinitionError, match=words):
        Runner(providers, client=Client(Connection(server="http://localhost:1")), settings=settings)


def test_providers_with_same_resource_are_rejected() -> None:
    first = provider(scores=DIRECT, name="one", resource="same")(lambda: 1)
    second = provider(scores=DIRECT, name="two", resource="same")(lambda: 1)
    with pytest.raises(DefinitionError, match="one and two both publish as same"):
        Runner(
            [first, second],
            client=Client(Connection(server="http://localhost:1")),
            settings=Settings(cluster="c1"),
        )
