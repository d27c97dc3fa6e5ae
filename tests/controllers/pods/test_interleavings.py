"""Pods and nodes come and go in any order, the controller crashes, replies and requests are lost: no node is ever
overcommitted by the controller, and every pod that fits is bound."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.pods.pod_hub import PodHub, scheduling
from fairway.api.resources import NODES
from kubewire.client import TransportError
from rigs.fake_hub import Call

pytestmark = [pytest.mark.usefixtures("no_error_logs")]

NODE_NAMES = ("n1", "n2", "n3")
POD_NAMES = tuple(f"p{at}" for at in range(6))

STEPS = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(NODE_NAMES), st.integers(1, 4)),
    st.tuples(st.just("drop node"), st.sampled_from(NODE_NAMES)),
    st.tuples(st.just("pod"), st.sampled_from(POD_NAMES), st.integers(1, 3), st.sampled_from((0, 0, 5))),
    st.tuples(st.just("delete"), st.sampled_from(POD_NAMES)),
    st.tuples(st.just("other"), st.sampled_from(NODE_NAMES), st.integers(1, 2)),
    st.tuples(st.just("wait"), st.sampled_from((0.0, 0.5, 2.0, 30.0, 70.0))),
    st.tuples(st.just("lose"), st.booleans()),
    st.tuples(st.just("finish")),
    st.tuples(st.just("crash"), st.booleans()),
)


class World:
    def __init__(self, *, graceful: bool) -> None:
        self.hub = PodHub()
        self.hub.instant_deletion = not graceful
        self.capacity: dict[str, int] = {}
        """The smallest capacity of each node since a pod was bound to it."""
        self._stack = AsyncExitStack()
        self._others = 0

    async def start(self) -> None:
        self._stack = AsyncExitStack()
        await self._stack.enter_async_context(scheduling(self.hub))

    async def stop(self) -> None:
        await self._stack.aclose()

    async def step(self, step: tuple[object, ...]) -> None:
        hub = self.hub
        match step:
            case "node", str(name), int(cpu):
                # A node may shrink below its load, which is not the scheduler's fault.
                self.capacity[name] = max(cpu, hub.load()[name])
                hub.node(name, cpu=str(cpu))
            case "drop node", str(name):
                if name in self.capacity:
                    del self.capacity[name]
                    for pod in [pod for pod, node in hub.placed().items() if node == name]:
                        hub.finish(pod)
                    hub.drop(NODES, name)
            case "pod", str(name), int(cpu), int(priority):
                if not hub.has(name):
                    hub.pod(name, cpu=str(cpu), priority=priority)
            case "delete", str(name):
                if hub.has(name):
                    hub.end(name)
            case "other", str(name), int(cpu):
                # Another scheduler that looks before it binds, at a moment without bindings under way.
                await asyncio.sleep(70)
                if name in self.capacity and hub.load()[name] + cpu <= self.allocatable(name):
                    self._others += 1
                    hub.pod(f"other{self._others}", cpu=str(cpu), node=name, scheduler="default-scheduler")
            case ("finish",):
                self.finish()
            case "wait", float(seconds):
                await asyncio.sleep(seconds)
            case "lose", bool(carried_out):
                self.lose(carried_out=carried_out)
            case "crash", bool(carried_out):
                hub.kill_at = (hub.sent + 1, carried_out)
                await asyncio.sleep(1)
                await self.stop()
                hub.revive()
                await self.start()
        self.check()

    def finish(self) -> None:
        """The kubelets remove the pods that are terminating."""
        for name in self.hub.deleted():
            self.hub.finish(name)

    def lose(self, *, carried_out: bool) -> None:
        """Lose the next request for a binding, or its reply."""
        hub = self.hub

        def drop(call: Call) -> None:
            hub.before_binding = lambda _: None
            if carried_out:
                hub.answer(call)
            raise TransportError("connection lost")

        hub.before_binding = drop

    def allocatable(self, name: str) -> int:
        return int(self.hub.read(NODES, "", name).status.allocatable["cpu"])

    def check(self) -> None:
        load = self.hub.load()
        for name, capacity in self.capacity.items():
            assert load[name] <= capacity, (name, load[name], capacity)

    def check_settled(self) -> None:
        """No pod waits that fits."""
        load = self.hub.load()
        room = max((self.allocatable(name) - load[name] for name in self.capacity), default=0)
        for name in POD_NAMES:
            if self.hub.has(name) and not self.hub.place(name):
                (container,) = self.hub.find(name).spec.containers
                assert container.resources.requests is not None
                assert int(str(container.resources.requests["cpu"])) > room, name
                assert self.hub.condition(name)[0] == "False", name


@pytest.mark.looptime
@given(steps=st.lists(STEPS, max_size=25), graceful=st.booleans())
@settings(max_examples=40)
async def test_nodes_are_never_overcommitted_and_no_pod_is_lost(
    steps: list[tuple[object, ...]], graceful: bool
) -> None:
    world = World(graceful=graceful)
    await world.start()
    try:
        for step in steps:
            await world.step(step)
        world.hub.before_binding = lambda _: None
        for _ in POD_NAMES:  # a pod that preempts others may be preempted itself
            await asyncio.sleep(400)
            world.finish()
        await asyncio.sleep(400)
        world.check()
        world.check_settled()
    finally:
        await world.stop()
