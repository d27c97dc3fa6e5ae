"""The machines controller as a scheduler of pods, on a hub in memory."""

import asyncio

import pytest

from controllers.pods.pod_hub import PodHub, scheduling
from fairway.api.resources import NODES, PODS
from fairway.observe.meters import Meters

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]


async def test_pod_that_names_our_profile_is_bound_with_event_and_condition() -> None:
    hub = PodHub()
    hub.node("n1")
    async with scheduling(hub) as events:
        hub.pod("web")
        await hub.until(lambda: hub.place("web") == "n1" and bool(events.recorded))
    assert events.recorded == [("web", "Scheduled", "Successfully assigned default/web to n1")]
    assert events.actions == [("Normal", "Scheduled", "Binding")]
    assert hub.condition("web")[0] == "True"
    assert hub.writes == [("create", "pods default")]


async def test_pod_of_another_scheduler_is_left_alone_but_counts_on_its_node() -> None:
    hub = PodHub()
    hub.node("n1", cpu="4")
    hub.node("n2", cpu="2")
    hub.pod("other", cpu="3", node="n1", scheduler="default-scheduler")
    hub.pod("waiting", scheduler="default-scheduler")
    async with scheduling(hub):
        hub.pod("web", cpu="2")
        await hub.until(lambda: hub.place("web") != "")
    assert hub.placed() == {"other": "n1", "web": "n2"}


async def test_burst_of_pods_fills_the_nodes_and_never_overcommits_them() -> None:
    hub = PodHub()
    for name in ("n1", "n2", "n3"):
        hub.node(name, cpu="4")
    async with scheduling(hub):
        for at in range(15):
            hub.pod(f"p{at}")
        await hub.until(lambda: len(hub.placed()) == 12)
        await asyncio.sleep(60)
    assert hub.load() == {"n1": 4, "n2": 4, "n3": 4}


async def test_pod_that_fits_nowhere_has_kube_schedulers_condition_and_event() -> None:
    hub = PodHub()
    hub.node("n1", cpu="1")
    hub.node("n2", cpu="1")
    hub.node("n3", taints=({"key": "dedicated", "value": "db", "effect": "NoSchedule"},))
    async with scheduling(hub) as events:
        hub.pod("web", cpu="3")
        await hub.until(lambda: hub.condition("web")[0] == "False")
    message = (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )
    assert hub.condition("web") == ("False", "Unschedulable", message)
    assert events.recorded == [("web", "FailedScheduling", message)]
    assert events.actions == [("Warning", "FailedScheduling", "Scheduling")]


async def test_nodes_that_a_prefilter_result_leaves_out_have_kube_schedulers_words() -> None:
    hub = PodHub()
    for name in ("n1", "n2", "n3"):
        hub.node(name, cpu="1")
    named = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    required = {"nodeSelectorTerms": [{"matchFields": [named]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    async with scheduling(hub):
        hub.pod("web", cpu="3", affinity=affinity)
        await hub.until(lambda: hub.condition("web")[0] == "False")
    assert hub.condition("web")[2] == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. "
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )


async def test_attempts_and_waiting_pods_are_counted() -> None:
    hub, meters = PodHub(), Meters()
    hub.node("n1", cpu="1")

    def value(name: str, **labels: str) -> float | None:
        return meters.registry.get_sample_value(name, labels)

    async with scheduling(hub, meters=meters) as events:
        hub.pod("web")
        hub.pod("large", cpu="2")
        hub.pod("gated", schedulingGates=[{"name": "example.com/quota"}])
        await hub.until(lambda: len(events.recorded) == 2)
        counted = [
            value("fairway_pods_pending", queue=queue) for queue in ("unschedulable", "gated", "active")
        ]
        assert counted == [1, 1, 0]
    for result, count in (("scheduled", 1), ("unschedulable", 1), ("error", 0)):
        assert value("fairway_pods_schedule_attempts_total", profile="fairway", result=result) == count


async def test_pod_without_any_node_waits_for_one() -> None:
    hub = PodHub()
    async with scheduling(hub):
        hub.pod("web")
        await hub.until(lambda: hub.condition("web")[0] == "False")
        assert hub.condition("web") == ("False", "Unschedulable", "no nodes available to schedule pods")
        hub.node("n1")
        await hub.until(lambda: hub.place("web") == "n1")
    assert hub.condition("web") == ("True", "", "")


async def test_unchanged_condition_is_not_written_again() -> None:
    hub = PodHub()
    hub.node("n1", cpu="1")
    async with scheduling(hub) as events:
        hub.pod("web", cpu="3")
        await hub.until(lambda: hub.condition("web")[0] == "False")
        hub.node("n1", cpu="2")
        await hub.until(lambda: len(events.recorded) == 2)
        await asyncio.sleep(60)
    assert hub.writes == [("patch", "default/web/status")]


async def test_pod_wakes_when_another_pod_is_deleted() -> None:
    hub = PodHub()
    hub.node("n1", cpu="1")
    hub.pod("old", node="n1", scheduler="default-scheduler")
    async with scheduling(hub):
        hub.pod("web")
        await hub.until(lambda: hub.condition("web")[0] == "False")
        hub.end("old")
        await hub.until(lambda: hub.place("web") == "n1")


async def test_gated_pod_waits_until_its_gates_are_removed() -> None:
    hub = PodHub()
    hub.node("n1")
    async with scheduling(hub):
        hub.pod("web", schedulingGates=[{"name": "example.com/quota"}])
        await asyncio.sleep(600)
        assert not hub.writes
        hub.edit("web", schedulingGates=[])
        await hub.until(lambda: hub.place("web") == "n1")


async def test_deleted_pod_frees_its_place_for_the_next() -> None:
    hub = PodHub()
    hub.node("n1", cpu="1")
    async with scheduling(hub):
        hub.pod("a")
        await hub.until(lambda: hub.place("a") == "n1")
        hub.pod("b")
        await hub.until(lambda: hub.condition("b")[0] == "False")
        hub.end("a")
        await hub.until(lambda: hub.place("b") == "n1")


async def test_recreated_node_takes_pods_again() -> None:
    hub = PodHub()
    hub.node("n1", cpu="1")
    async with scheduling(hub):
        hub.pod("a")
        await hub.until(lambda: hub.place("a") == "n1")
        hub.drop(NODES, "n1")
        hub.drop(PODS, "a", namespace="default")
        hub.pod("b")
        await hub.until(lambda: hub.condition("b")[0] == "False")
        hub.node("n1", cpu="1")
        await hub.until(lambda: hub.place("b") == "n1")
