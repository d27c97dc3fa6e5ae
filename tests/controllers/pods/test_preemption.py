"""Preemption by the machines controller: victims, budgets, nominations."""

import asyncio

import pytest

from controllers.pods.pod_hub import PodHub, scheduling
from fairway.api.resources import NODES
from kubewire.client import TransportError
from rigs.fake_hub import Call

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]


def full_hub(*, nodes: int = 1) -> PodHub:
    """Return a hub whose nodes are full of pods of priority 0."""
    hub = PodHub()
    hub.instant_deletion = False
    for at in range(nodes):
        hub.node(f"n{at}", cpu="2")
        for number in range(2):
            hub.pod(f"low{at}{number}", node=f"n{at}", labels={"app": f"low{at}"})
    return hub


async def test_victim_is_marked_deleted_and_reported_and_the_pod_takes_its_place() -> None:
    hub = full_hub()
    async with scheduling(hub) as events:
        hub.pod("high", priority=10)
        await hub.until(lambda: bool(hub.deleted()))
        (victim,) = hub.deleted()
        assert hub.condition(victim, "DisruptionTarget") == (
            "True",
            "PreemptionByScheduler",
            "fairway: preempting to accommodate a higher priority pod",
        )
        await hub.until(lambda: hub.find("high").status.nominatedNodeName == "n0")
        assert hub.condition("high")[:2] == ("False", "Unschedulable")
        assert hub.condition("high")[2] == "0/1 nodes are available: 1 Insufficient cpu."
        uid = hub.find("high").metadata.uid
        await hub.until(lambda: bool(events.notes(victim, "Preempted")))
        assert events.notes(victim, "Preempted") == [f"Preempted by pod {uid} on node n0"]
        await asyncio.sleep(60)
        assert hub.deleted() == [victim]
        assert hub.place("high") == ""
        hub.finish(victim)
        await hub.until(lambda: hub.place("high") == "n0")
    assert hub.load() == {"n0": 2}


async def test_pod_that_wakes_before_its_victims_terminate_evicts_no_others() -> None:
    hub = full_hub(nodes=3)
    going = asyncio.Event()
    refusing = hub.answer

    def answer(call: Call, *, author: str = "") -> object:
        if call.verb == "delete" and not going.is_set():
            raise TransportError("no answer")
        return refusing(call, author=author)

    hub.answer = answer  # type: ignore[method-assign]
    async with scheduling(hub):
        hub.pod("high", priority=10)
        await hub.until(lambda: hub.find("high").status.nominatedNodeName != "")
        chosen = hub.find("high").status.nominatedNodeName
        for number in range(4):
            hub.pod(f"other{number}", node="n0", cpu="0")  # each change of pods may help
            await asyncio.sleep(20)
        assert hub.find("high").status.nominatedNodeName == chosen
        going.set()
        await hub.until(lambda: bool(hub.deleted()))
        await asyncio.sleep(60)
    (victim,) = hub.deleted()
    assert hub.find(victim).spec.nodeName == chosen


async def test_node_whose_budgets_allow_it_is_preferred() -> None:
    hub = full_hub(nodes=3)
    hub.budget("n0", labels={"app": "low0"}, allowed=0)
    hub.budget("n2", labels={"app": "low2"}, allowed=0)
    async with scheduling(hub):
        hub.pod("high", priority=10)
        await hub.until(lambda: bool(hub.deleted()))
    assert [name[:4] for name in hub.deleted()] == ["low1"]


async def test_room_of_a_nominated_pod_is_not_given_to_pods_of_lower_priority() -> None:
    hub = full_hub()
    async with scheduling(hub):
        hub.pod("high", priority=10)
        await hub.until(lambda: bool(hub.deleted()))
        hub.pod("middle", priority=0)
        (victim,) = hub.deleted()
        await hub.until(lambda: hub.condition("middle")[0] == "False")
        hub.finish(victim)
        await hub.until(lambda: hub.place("high") == "n0")
        await asyncio.sleep(30)
    assert hub.place("middle") == ""


async def test_pod_of_higher_priority_takes_the_room_and_clears_the_nomination() -> None:
    hub = full_hub()
    async with scheduling(hub):
        hub.pod("high", cpu="2", priority=10)
        await hub.until(lambda: hub.find("high").status.nominatedNodeName == "n0")
        hub.pod("higher", cpu="2", priority=20)
        await hub.until(lambda: hub.condition("higher")[0] == "False")
        for name in hub.deleted():
            hub.finish(name)
        await hub.until(lambda: hub.place("higher") == "n0")
        await hub.until(lambda: hub.find("high").status.nominatedNodeName == "")
        await asyncio.sleep(30)
    assert hub.place("high") == ""


async def test_pod_of_equal_priority_leaves_a_nomination_on_its_node() -> None:
    hub = full_hub()
    async with scheduling(hub):
        hub.pod("a", priority=10)
        await hub.until(lambda: len(hub.deleted()) == 1)
        hub.pod("b", priority=10)
        await hub.until(lambda: hub.find("b").status.nominatedNodeName == "n0")
        await asyncio.sleep(10)
        assert hub.find("a").status.nominatedNodeName == "n0"
        for name in hub.deleted():
            hub.finish(name)
        await hub.until(lambda: (hub.place("a"), hub.place("b")) == ("n0", "n0"))


async def test_victim_that_a_user_deleted_is_not_reported_as_preempted() -> None:
    hub = full_hub()
    for name in ("low00", "low01"):
        hub.end(name)
    async with scheduling(hub) as events:
        hub.pod("high", priority=10)
        await hub.until(lambda: hub.find("high").status.nominatedNodeName == "n0")
        await asyncio.sleep(10)
        assert not [name for name, reason, _ in events.recorded if reason == "Preempted"]


async def test_two_preemptors_choose_different_nodes() -> None:
    hub = full_hub(nodes=2)
    async with scheduling(hub):
        hub.pod("a", cpu="2", priority=10)
        hub.pod("b", cpu="2", priority=10)
        await hub.until(lambda: len(hub.deleted()) == 4)
        for name in hub.deleted():
            hub.finish(name)
        await hub.until(lambda: {hub.place("a"), hub.place("b")} == {"n0", "n1"})


async def test_pod_that_never_preempts_waits() -> None:
    hub = full_hub()
    async with scheduling(hub):
        hub.pod("high", priority=10, preemptionPolicy="Never")
        await hub.until(lambda: hub.condition("high")[0] == "False")
        await asyncio.sleep(30)
    assert "not eligible due to preemptionPolicy=Never" in hub.condition("high")[2]
    assert not hub.deleted()


async def test_new_leader_keeps_the_room_of_a_nominated_pod() -> None:
    hub = full_hub()
    async with scheduling(hub):
        hub.pod("high", priority=10)
        await hub.until(lambda: hub.find("high").status.nominatedNodeName == "n0")
    hub.disconnect()
    hub.pod("other", priority=10)
    (victim,) = hub.deleted()
    hub.finish(victim)
    async with scheduling(hub):
        await hub.until(lambda: hub.place("high") == "n0")
    assert hub.place("other") == ""


async def test_nomination_to_a_deleted_node_is_given_up() -> None:
    hub = full_hub()
    async with scheduling(hub):
        hub.pod("high", priority=10)
        await hub.until(lambda: hub.find("high").status.nominatedNodeName == "n0")
        hub.drop(NODES, "n0")
        hub.node("n1")
        await hub.until(lambda: hub.place("high") == "n1")


async def test_pods_waiting_for_the_nominated_one_wake_when_it_is_deleted() -> None:
    hub = full_hub()
    async with scheduling(hub):
        hub.pod("high", priority=10)
        await hub.until(lambda: bool(hub.deleted()))
        (victim,) = hub.deleted()
        hub.pod("equal", priority=10)
        await hub.until(lambda: hub.condition("equal")[0] == "False")
        hub.end("high")
        hub.finish(victim)
        await hub.until(lambda: hub.place("equal") == "n0")
