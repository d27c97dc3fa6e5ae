"""Whatever ends, goes back or is taken away: afterwards scores, decisions and add-ons are as true as before.

One stage goes through all of it, for that costs more than what happens on it. ``FAIRWAY_CHAOS_SEED`` repeats the
decisions of an earlier run, though not its timing.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from e2e.stage import HUB, SECONDS, Stage
from e2e.survivors import REQUESTS, SETTINGS, Survivors, at_home, calm, quiet, survivors
from e2e.test_loop import CLUSTER_OF, DECISION, PODS, SCORE_OF, chosen, pod, scored
from fairway.cli.join.process import FORGOTTEN
from fairway.kube import Client, KubeError
from fairway.kube.transport import Retry
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

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
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
    async with survivors(tmp_path) as stage:
        await at_home(stage)
        await calm(stage)
        requests = await stage.documents([REQUESTS])
        works = await generations(stage)
        await kill_everything(stage, random.Random(seed))
        await calm(stage)
        # Who comes back asks for nothing it has, and is asked for nothing else.
        assert (await stage.documents([REQUESTS])).keys() == requests.keys()
        assert await generations(stage) == works
        await go_back(stage)
        await calm(stage)
        await remove_the_add_on(stage)
        await calm(stage)
        await remove_the_cluster(stage)
        await calm(stage)
        await quiet(stage)


async def generations(stage: Survivors) -> dict[str, int]:
    return {name: each["metadata"]["generation"] for name, each in (await stage.documents([WORKS])).items()}


async def kill_everything(stage: Survivors, chance: random.Random) -> None:
    """One after the other, in any order, some before others are back."""
    dead: list[str] = []
    async with Traffic(stage).running() as traffic:
        for victim in chance.sample(VICTIMS, len(VICTIMS)):
            await stage.kill(victim)
            await traffic.more(chance.randrange(1, 20))
            dead.append(victim)
            if chance.random() < 0.5:
                await stage.revive(dead.pop(0))
        for each in dead:
            await stage.revive(each)
        for server in (HUB, VICTIM):
            await stage.serving(server)
        # It exits if the hub is unreachable at its start, so it is started again.
        await stage.revive("controllers")
        await traffic.more(10)


async def go_back(stage: Survivors) -> None:
    """The hub, to a backup that knows nothing of what came after it."""
    data = f"--data={stage.data(HUB)}"
    await stage.offline("hub", "backup", data, "--out=hub.backup")
    await stage.create(PODS, pod("later", cpu="2"), server=OTHER)
    await scored(stage, OTHER, 60)  # 6 of 10 cores are free
    await stage.fairway("addon", "install", "resource-usage", *SETTINGS, "--set=LOG_FORMAT=text")
    await stage.kill(f"server-{HUB}")
    await stage.offline("hub", "restore", "hub.backup", data, "--force")
    await stage.revive(f"server-{HUB}")
    await stage.serving(HUB)


async def remove_the_add_on(stage: Survivors) -> None:
    """While a second agent, which is not part of the add-on, also writes."""
    await stage.agent(VICTIM)
    await stage.said(SECOND, "resource-usage for cluster")
    await stage.fairway("addon", "uninstall", "resource-usage")
    await stage.create(PODS, pod("meanwhile", cpu="500m"), server=VICTIM)
    await stage.said(SECOND, "could not publish")
    assert not await stage.documents([SCORE.rpartition("/")[0]])
    await stage.fairway("addon", "install", "resource-usage", *SETTINGS)


async def remove_the_cluster(stage: Survivors) -> None:
    await stage.delete(CLUSTER_OF.format(cluster=VICTIM))
    await stage.delete(NAMESPACE)
    joined = stage.processes[f"join-{VICTIM}"]
    async with asyncio.timeout(SECONDS):
        while joined.alive:
            await asyncio.sleep(POLL)
    assert joined.status == 1
    assert "was removed from the hub" in joined.tail()
    await stage.until(f"{OTHER} is chosen", lambda found: chosen(found) == [OTHER], DECISION)
    await gone(stage, NAMESPACE)
    # The second agent says what it cannot do, and no more than that.
    second = (stage.folder / f"{SECOND}.log").read_text(encoding="utf-8")
    assert stage.processes[SECOND].alive
    assert second.count("WARNING") < 10, second
    await stage.processes[SECOND].stop(grace=0)

    stage.join(VICTIM)
    forgotten = FORGOTTEN.format(name=VICTIM)
    log = stage.folder / f"join-{VICTIM}.log"
    async with asyncio.timeout(SECONDS):
        while f"fairway accept {VICTIM}" not in log.read_text(encoding="utf-8").partition(forgotten)[2]:
            await asyncio.sleep(POLL)
    await stage.fairway("accept", VICTIM)


async def gone(stage: Survivors, path: str) -> None:
    async with asyncio.timeout(SECONDS):
        while await there(stage, path):
            await asyncio.sleep(POLL)


async def there(stage: Survivors, path: str) -> bool:
    listed: dict[str, Any] = await stage.documents([path.rpartition("/")[0]])
    return any(name.endswith(f"/{path.rpartition('/')[2]}") for name in listed)
