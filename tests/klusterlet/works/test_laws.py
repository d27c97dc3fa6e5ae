"""After any sequence of events the cluster equals its works."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fairway.api.resources import APPLIED_MANIFEST_WORKS, MANIFEST_WORKS
from fairway.api.work import ManifestWork
from klusterlet.works.conftest import Pair
from klusterlet.works.harness import WorksHarness
from kubewire.client import KubeError, NotFound

WORKS = ("a", "b", "c")
MAPS = ("one", "two", "three")
MOVED = "https://moved.example"
Contents = dict[str, dict[str, str]]


@dataclass(frozen=True)
class Edit:
    work: str
    maps: Contents


@dataclass(frozen=True)
class Delete:
    work: str


@dataclass(frozen=True)
class Drift:
    """Another client changes, adds or (None) deletes an object."""

    map: str
    data: Mapping[str, str | None] | None


@dataclass(frozen=True)
class Restart:
    """The agent dies wherever it is, and another one begins."""


@dataclass(frozen=True)
class Stop:
    """The agent is killed, and the next events happen without it."""


@dataclass(frozen=True)
class Wait:
    """Wait until the agent has no work left."""


@dataclass(frozen=True)
class Move:
    """The agent is killed, and the next one uses another address of the hub."""


Step = Edit | Delete | Drift | Restart | Stop | Wait | Move

data = st.dictionaries(st.sampled_from("kl"), st.sampled_from("12"), max_size=2)
steps = st.one_of(
    st.builds(Edit, st.sampled_from(WORKS), st.dictionaries(st.sampled_from(MAPS), data, max_size=3)),
    st.builds(Delete, st.sampled_from(WORKS)),
    st.builds(
        Drift,
        st.sampled_from(MAPS),
        st.none() | st.dictionaries(st.sampled_from("klm"), st.none() | st.just("drifted"), min_size=1),
    ),
    st.builds(Restart),
    st.builds(Stop),
    st.builds(Wait),
    st.builds(Move),
)


class WorkSimulation:
    def __init__(self, harness: WorksHarness) -> None:
        self.harness = harness
        self.stack = AsyncExitStack()
        self.agent: Any = None

    async def start(self) -> None:
        if self.agent is None:
            self.agent = await self.stack.enter_async_context(self.harness.agent(eviction=0))

    async def stop(self) -> None:
        self.agent = None
        await self.stack.aclose()

    async def step(self, step: Step) -> None:
        harness = self.harness
        match step:
            case Edit(work, maps):
                # One that is being deleted can still change, and may be deleted between two reads.
                with suppress(NotFound):
                    await harness.give(work, *(harness.config_map(name, held) for name, held in maps.items()))
            case Delete(work):
                await harness.take_back(work)
            case Drift(name, None):
                with suppress(KubeError):
                    await harness.remove(name)
            case Drift(name, changed):
                with suppress(NotFound):
                    await harness.edit(harness.at(name), {"data": changed})
            case Restart():
                await self.stop()
                await self.start()
            case Stop():
                await self.stop()
            case Move():
                await self.stop()
                harness.address = "" if harness.address else MOVED
            case Wait():
                if self.agent is not None:
                    await self.agent.wait_until_synced()
                    await self.agent.wait_until_idle()


def expected(works: list[ManifestWork]) -> Contents:
    """The oldest work that has an object decides."""
    expected: Contents = {}
    alive = [existing for existing in works if existing.metadata.deletionTimestamp is None]
    for work in sorted(alive, key=lambda owner: (str(owner.metadata.creationTimestamp), owner.metadata.name)):
        for manifest in work.spec.workload.manifests:
            expected.setdefault(manifest["metadata"]["name"], manifest["data"])
    return expected


async def played(pair: Pair, script: list[Step]) -> None:
    async with WorksHarness(pair.hub, pair.cluster) as harness:
        foreign = harness.config_map("foreign", {"k": "mine"})
        await harness.cluster.request("POST", f"/api/v1/namespaces/{harness.name}/configmaps", body=foreign)
        play = WorkSimulation(harness)
        await play.start()
        try:
            for step in script:
                await play.step(step)
            await play.start()
            works = list((await harness.hub.list(MANIFEST_WORKS, namespace=harness.name)).items)
            wanted = {"foreign": {"k": "mine"}, **expected(works)}
            alive = {
                existing.metadata.name for existing in works if existing.metadata.deletionTimestamp is None
            }
            words = [word for word in WORKS if harness.full(word) in alive]

            def settled() -> bool:
                # The agent has reconciled the latest version of each work.
                looked_at = all(harness.condition(word, "Applied") is not None for word in words)
                return looked_at and harness.maps() == wanted and harness.names() == alive

            await harness.eventually(settled)
            await harness.eventually(lambda: all(len(harness.records(word)) == 1 for word in words))
            # The state is stable, and every object is owned.
            await play.agent.wait_until_synced()
            await play.agent.wait_until_idle()
        finally:
            await play.stop()
        assert await harness.there() == wanted
        records = (await harness.cluster.list(APPLIED_MANIFEST_WORKS)).items
        ours = [record for record in records if record.spec.agentID == harness.name]
        assert {record.spec.manifestWorkName for record in ours} == alive
        for work in alive:
            await harness.hub.delete(MANIFEST_WORKS, work, namespace=harness.name)
        async with harness.agent():
            await harness.eventually(
                lambda: not harness.names() and harness.maps() == {"foreign": {"k": "mine"}}
            )


MOVING: list[Step] = [
    Edit("a", {"one": {"k": "1"}}),
    Edit("b", {"one": {}, "two": {}}),
    Wait(),
    Edit("a", {}),
    Delete("b"),
]
"""An object goes from one work to another that is deleted the same moment."""


@example(script=MOVING)
@example(script=[*MOVING, Restart()])
@example(script=[*MOVING[:3], Move(), *MOVING[3:], Move()])
@example(script=[*MOVING[:3], Stop(), Delete("b"), Edit("a", {}), Move()])
@given(script=st.lists(steps, max_size=12))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cluster_converges_to_works_after_random_events(
    embedded_pair: Pair, no_error_logs: None, script: list[Step]
) -> None:
    asyncio.run(played(embedded_pair, script))
