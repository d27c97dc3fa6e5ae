"""What is followed by watches that may have died without a word, in virtual time."""

import asyncio
from typing import Any

import pytest

from fairway.api.resources import NODES
from fairway.providers.informer_readiness import STALE_SECONDS, WATCH_LOST, LivenessCheck
from fairway.providers.provider import ProviderError
from kubewire.client import TransportError

pytestmark = pytest.mark.looptime


class Hanging:
    """In the place of a client, and of an informer of it."""

    resource = NODES

    def __init__(self) -> None:
        self.hangs = False
        self.asked: list[float] = []

    async def newest(self, resource: object, *, timeout: float) -> str:
        assert resource is NODES
        self.asked.append(asyncio.get_running_loop().time())
        if self.hangs:
            await asyncio.sleep(timeout)
            raise TransportError(f"no answer within {timeout:g} s")
        return "1"


@pytest.fixture
def cluster() -> Any:
    return Hanging()


async def test_liveness_is_checked_once_per_interval(cluster: Any) -> None:
    answers = LivenessCheck(cluster, cluster)
    for _ in range(181):
        await answers.ensure(interval=60)
        await asyncio.sleep(1)
    assert cluster.asked == [30, 60, 90, 120, 150, 180]


async def test_hanging_cluster_fails_liveness(cluster: Any) -> None:
    answers = LivenessCheck(cluster, cluster)
    await answers.ensure(interval=60)
    cluster.hangs = True
    await asyncio.sleep(40)
    await answers.ensure(interval=60)  # the server may be restarting
    await asyncio.sleep(STALE_SECONDS - 45)
    with pytest.raises(
        ProviderError, match=r"^the cluster does not respond \(no answer within 5 s\): "
    ) as refused:
        await answers.ensure(interval=60)
    assert refused.value.reason == WATCH_LOST
    cluster.hangs = False
    await answers.ensure(interval=60)
    assert len(cluster.asked) == 3


async def test_long_interval_does_not_extend_staleness(cluster: Any) -> None:
    answers = LivenessCheck(cluster, cluster)
    await answers.ensure(interval=3600)
    cluster.hangs = True
    await asyncio.sleep(3300)
    with pytest.raises(ProviderError, match="the cluster does not respond"):
        await answers.ensure(interval=3600)
