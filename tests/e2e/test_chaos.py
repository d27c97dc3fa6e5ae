"""Scores, decisions and add-ons are correct again after kills, restored backups and removed rights.

One harness is used for all faults, because its start takes longest. ``FAIRWAY_CHAOS_SEED`` repeats the decisions of an
earlier run, but not its timing.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import HUB, SECONDS, LoopHarness
from e2e.killable_harness import REQUESTS, SETTINGS, KillableHarness, at_home, calm, killable_harness, quiet
from e2e.test_loop import CLUSTER_OF, DECISION, PODS, SCORE_OF, chosen, pod, scored
from fairway.cli.join.process import FORGOTTEN
from kubewire.client import Client, KubeError
from kubewire.client.transport import Retry
from rigs.processes import POLL

VICTIM = "cluster1"
OTHER = "cluster2"
VICTIMS = ("controllers", f"join-{VICTIM}", f"agent-{VICTIM}", f"server-{VICTIM}", f"server-{HUB}")
SEED = "FAIRWAY_CHAOS_SEED"
PODS_AT_ONCE = 4
ONCE = Retry(asked=0, failed=0, unsent=0)
SECOND = f"agent-{VICTIM}"
"""Beside the one that `fairway join` runs."""
SCORE = SCORE_OF.format(cluster=VICTIM)
NAMESPACE = f"/api/v1/namespaces/{VICTIM}"
WORKS = "/apis/work.open-cluster-management.io/v1/manifestworks"


class Traffic:
    """Creates and deletes pods while the API server responds."""

    def __init__(self, harness: LoopHarness) -> None:
        self._stage = harness
        self.turns = 0

    async def _drive(self) -> None:
        async with Client.from_kubeconfig(self._stage.kubeconfig(VICTIM), retry=ONCE) as client:
            while True:
                self.turns += 1
                with suppress(KubeError):
                    cpu = f"{self.turns % 7 + 1}00m"
                    await client.request("POST", PODS, body=pod(f"p{self.turns}", cpu=cpu))
                with suppress(KubeError):
                    old = f"{PODS}/p{self.turns - PODS_AT_ONCE}"
                    await client.request("DELETE", old, body={"gracePeriodSeconds": 0})
                await asyncio.sleep(POLL)

    async def more(self, turns: int) -> None:
        wanted = self.turns + turns
        while self.turns < wanted:
            await asyncio.sleep(POLL)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Traffic"]:
        task = asyncio.create_task(self._drive())
        try:
            yield self
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.mark.timeout(900)  # a minute or two, and a busy machine takes several times as long
async def test_score_loop_recovers_after_faults(tmp_path: Path) -> None:
    seed = int(os.environ.get(SEED) or random.randrange(10**6))
    print(f"{SEED}={seed}")
    async with killable_harness(tmp_path) as harness:
        await at_home(harness)
        await calm(harness)
        requests = await harness.documents([REQUESTS])
        works = await generations(harness)
        await kill_everything(harness, random.Random(seed))
        await calm(harness)
        # Who comes back asks for nothing it has, and is asked for nothing else.
        assert (await harness.documents([REQUESTS])).keys() == requests.keys()
        assert await generations(harness) == works
        await go_back(harness)
        await calm(harness)
        await remove_the_add_on(harness)
        await calm(harness)
        await remove_the_cluster(harness)
        await calm(harness)
        await quiet(harness)


async def generations(harness: KillableHarness) -> dict[str, int]:
    return {name: work["metadata"]["generation"] for name, work in (await harness.documents([WORKS])).items()}


async def kill_everything(harness: KillableHarness, chance: random.Random) -> None:
    """One after the other, in any order, some before others have restarted."""
    dead: list[str] = []
    async with Traffic(harness).running() as traffic:
        for victim in chance.sample(VICTIMS, len(VICTIMS)):
            await harness.kill(victim)
            await traffic.more(chance.randrange(1, 20))
            dead.append(victim)
            if chance.random() < 0.5:
                await harness.revive(dead.pop(0))
        for name in dead:
            await harness.revive(name)
        for server in (HUB, VICTIM):
            await harness.serving(server)
        # It exits if the hub is unreachable at its start, so it is started again.
        await harness.revive("controllers")
        await traffic.more(10)


async def go_back(harness: KillableHarness) -> None:
    """Restore the hub from an earlier backup."""
    data = f"--data={harness.data(HUB)}"
    await harness.offline("hub", "backup", data, "--out=hub.backup")
    await harness.create(PODS, pod("later", cpu="2"), server=OTHER)
    await scored(harness, OTHER, 60)  # 6 of 10 cores are free
    await harness.fairway("addon", "install", "resource-usage", *SETTINGS, "--set=LOG_FORMAT=text")
    await harness.kill(f"server-{HUB}")
    await harness.offline("hub", "restore", "hub.backup", data, "--force")
    await harness.revive(f"server-{HUB}")
    await harness.serving(HUB)


async def remove_the_add_on(harness: KillableHarness) -> None:
    """While a second agent, which is not part of the add-on, also writes."""
    await harness.agent(VICTIM)
    await harness.until_printed(SECOND, "resource-usage for cluster")
    await harness.fairway("addon", "uninstall", "resource-usage")
    await harness.create(PODS, pod("meanwhile", cpu="500m"), server=VICTIM)
    await harness.until_printed(SECOND, "could not publish")
    assert not await harness.documents([SCORE.rpartition("/")[0]])
    await harness.fairway("addon", "install", "resource-usage", *SETTINGS)


async def remove_the_cluster(harness: KillableHarness) -> None:
    await harness.delete(CLUSTER_OF.format(cluster=VICTIM))
    await harness.delete(NAMESPACE)
    joined = harness.processes[f"join-{VICTIM}"]
    async with asyncio.timeout(SECONDS):
        while joined.alive:
            await asyncio.sleep(POLL)
    assert joined.status == 1
    assert "was removed from the hub" in joined.tail()
    await harness.until(f"{OTHER} is chosen", lambda decision: chosen(decision) == [OTHER], DECISION)
    await until_deleted(harness, NAMESPACE)
    # The second agent reports only what it cannot do.
    second = (harness.folder / f"{SECOND}.log").read_text(encoding="utf-8")
    assert harness.processes[SECOND].alive
    assert second.count("WARNING") < 10, second
    await harness.processes[SECOND].stop(grace=0)

    harness.join(VICTIM)
    forgotten = FORGOTTEN.format(name=VICTIM)
    log = harness.folder / f"join-{VICTIM}.log"
    async with asyncio.timeout(SECONDS):
        while f"fairway accept {VICTIM}" not in log.read_text(encoding="utf-8").partition(forgotten)[2]:
            await asyncio.sleep(POLL)
    await harness.fairway("accept", VICTIM)


async def until_deleted(harness: KillableHarness, path: str) -> None:
    async with asyncio.timeout(SECONDS):
        while await there(harness, path):
            await asyncio.sleep(POLL)


async def there(harness: KillableHarness, path: str) -> bool:
    listed: dict[str, Any] = await harness.documents([path.rpartition("/")[0]])
    return any(name.endswith(f"/{path.rpartition('/')[2]}") for name in listed)
