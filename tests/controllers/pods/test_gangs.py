"""Groups of pods that start together, with the profile that has Coscheduling."""

import asyncio

import pytest

from controllers.pods.pod_hub import NAMESPACE, PodHub, scheduling
from fairway.api.resources import PODS
from fairway.controllers.pods.kinds import POD_GROUPS
from fairway.workloads.pods.plugins.coscheduling import GROUP_LABEL

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]

CONFIG = """
apiVersion: fairway.dev/v1alpha1
kind: SchedulerConfiguration
profiles:
- schedulerName: gang
  plugins:
    multiPoint:
      enabled:
      - name: Coscheduling
"""


def member(hub: PodHub, name: str) -> None:
    hub.pod(name, scheduler="gang", labels={GROUP_LABEL: "job"})


async def test_group_waits_for_all_its_pods_and_starts_together() -> None:
    hub = PodHub()
    for name in ("n1", "n2"):
        hub.node(name, cpu="2")
    hub.group("job", members=3)
    async with scheduling(hub, config=CONFIG):
        member(hub, "a")
        member(hub, "b")
        await asyncio.sleep(30)
        assert not hub.placed()
        member(hub, "c")
        await hub.until(lambda: len(hub.placed()) == 3)
    assert max(hub.load().values()) <= 2


async def test_pods_of_a_group_that_does_not_fit_hold_their_nodes_until_the_timeout_only() -> None:
    hub = PodHub()
    hub.node("n1", cpu="2")
    hub.group("job", members=3, timeout=20)
    async with scheduling(hub, config=CONFIG):
        for name in ("a", "b", "c"):
            member(hub, name)
        await hub.until(lambda: hub.condition("c")[0] == "False")
        assert "Insufficient cpu" in hub.condition("c")[2]
        hub.pod("single", scheduler="gang", cpu="2")
        await hub.until(lambda: hub.place("single") == "n1")
        assert asyncio.get_running_loop().time() >= 20
        assert hub.condition("a")[:2] == ("False", "Unschedulable")
        hub.node("n2", cpu="3")
        await hub.until(lambda: len(hub.placed()) == 4)
    assert hub.load() == {"n1": 2, "n2": 3}


async def test_pods_that_wait_for_their_group_are_preempted_without_being_deleted() -> None:
    hub = PodHub()
    hub.node("n1", cpu="2")
    hub.group("job", members=3, timeout=600)
    async with scheduling(hub, config=CONFIG):
        for name in ("a", "b", "c"):
            member(hub, name)
        await hub.until(lambda: hub.condition("c")[0] == "False")
        hub.pod("high", scheduler="gang", cpu="2", priority=10)
        await hub.until(lambda: hub.place("high") == "n1")
        await asyncio.sleep(10)
    assert {name for _, name in hub.all(PODS)} == {"a", "b", "c", "high"}
    assert hub.placed() == {"high": "n1"}


async def test_group_starts_when_room_for_its_last_pod_appears() -> None:
    hub = PodHub()
    hub.node("n1", cpu="2")
    hub.group("job", members=3, timeout=600)
    async with scheduling(hub, config=CONFIG):
        for name in ("a", "b", "c"):
            member(hub, name)
        await hub.until(lambda: hub.condition("c")[0] == "False")
        assert not hub.placed()
        hub.node("n2", cpu="1")
        await hub.until(lambda: len(hub.placed()) == 3)


async def test_deleted_member_makes_the_waiting_pods_give_their_nodes_back() -> None:
    hub = PodHub()
    hub.node("n1", cpu="2")
    hub.group("job", members=3, timeout=600)
    async with scheduling(hub, config=CONFIG):
        for name in ("a", "b", "c"):
            member(hub, name)
        await hub.until(lambda: hub.condition("c")[0] == "False")
        hub.end("a")
        hub.pod("single", scheduler="gang", cpu="2")
        await hub.until(lambda: hub.place("single") == "n1")


async def test_pods_of_an_unknown_group_wait_for_its_podgroup() -> None:
    hub = PodHub()
    hub.node("n1")
    async with scheduling(hub, config=CONFIG):
        member(hub, "a")
        await asyncio.sleep(30)
        assert not hub.placed()
        hub.group("job", members=1)
        await hub.until(lambda: hub.place("a") == "n1")
        hub.drop(POD_GROUPS, "job", namespace=NAMESPACE)
        member(hub, "b")
        await asyncio.sleep(30)
    assert hub.place("b") == ""


def job(hub: PodHub, group: str, *, pods: int, priority: int, timeout: int = 600) -> None:
    """Create a group whose first pod has a priority, so that the first pods of all groups are tried first."""
    hub.group(group, members=pods, timeout=timeout)
    for at in range(pods):
        hub.pod(
            f"{group}-{at}",
            scheduler="gang",
            labels={GROUP_LABEL: group},
            priority=0 if at else priority,
            preemptionPolicy="Never",
        )


def started(hub: PodHub) -> set[str]:
    return {name[0] for name in hub.placed()}


@pytest.mark.parametrize(("first", "second"), ["ab", "ba"])
async def test_groups_that_block_each_other_start_one_after_the_other(first: str, second: str) -> None:
    hub = PodHub()
    for name in ("n1", "n2"):
        hub.node(name, cpu="1")
    async with scheduling(hub, config=CONFIG):
        for group in "ab":
            job(hub, group, pods=2, priority=6 if group == first else 5)
        await hub.until(lambda: len(hub.placed()) == 2)
        assert started(hub) == {first}
        assert asyncio.get_running_loop().time() < 60
        for name in list(hub.placed()):
            hub.finish(name)
        await hub.until(lambda: hub.place(f"{second}-0") != "" != hub.place(f"{second}-1"))
        assert asyncio.get_running_loop().time() < 120


async def test_group_starts_once_the_one_it_waits_for_gives_up() -> None:
    hub = PodHub()
    for name in ("n1", "n2"):
        hub.node(name, cpu="1")
    async with scheduling(hub, config=CONFIG):
        job(hub, "a", pods=3, priority=6, timeout=20)
        job(hub, "b", pods=2, priority=5)
        await hub.until(lambda: len(hub.placed()) == 2)
        assert started(hub) == {"b"}
        assert 20 <= asyncio.get_running_loop().time() < 60
