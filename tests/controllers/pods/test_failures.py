"""Bindings that fail or whose result is unknown, objects that change meanwhile, and bad input."""

import asyncio
from typing import Any

import pytest

from controllers.pods.pod_hub import NAMESPACE, PodHub, scheduling
from fairway.api.resources import NODES, PODS
from kubewire.client import Conflict, Forbidden, TransportError
from rigs.fake_hub import Call, refused

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]


def once(hub: PodHub, action: Any) -> None:
    """Do something before the next binding only."""

    def act(call: Call) -> None:
        hub.before_binding = lambda _: None
        action(call)

    hub.before_binding = act


def fail(error: Exception) -> Any:
    def action(_call: Call) -> None:
        raise error

    return action


async def test_refused_binding_is_reported_and_tried_again() -> None:
    hub = PodHub()
    hub.node("n1", cpu="1")
    once(hub, fail(refused(Forbidden, 403, "Forbidden")))
    async with scheduling(hub) as events:
        hub.pod("web")
        await hub.until(lambda: hub.condition("web")[0] == "False")
        assert hub.condition("web")[1] == "SchedulerError"
        assert "rejected by the fake hub" in hub.condition("web")[2]
        await hub.until(lambda: hub.place("web") == "n1")
    assert [reason for _, reason, _ in events.recorded] == ["FailedScheduling", "Scheduled"]


async def test_pod_that_another_scheduler_bound_meanwhile_is_left_there() -> None:
    hub = PodHub()
    hub.node("n1", cpu="1")
    hub.node("n2", cpu="1", unschedulable=True)
    once(hub, lambda _: hub.edit("web", nodeName="n2"))
    async with scheduling(hub):
        hub.pod("web")
        hub.pod("next")
        await hub.until(lambda: hub.place("next") == "n1")
        await asyncio.sleep(120)
    assert hub.placed() == {"web": "n2", "next": "n1"}


async def test_pod_deleted_during_its_binding_gives_its_place_back() -> None:
    hub = PodHub()
    hub.node("n1", cpu="1")
    once(hub, lambda _: hub.end("web"))
    async with scheduling(hub):
        hub.pod("web")
        hub.pod("next")
        await hub.until(lambda: hub.place("next") == "n1")


async def test_pod_recreated_during_its_binding_is_scheduled_anew() -> None:
    hub = PodHub()
    hub.node("n1", cpu="1")
    hub.node("n2", cpu="2", labels={"disk": "ssd"})

    def recreate(_call: Call) -> None:
        hub.end("web")
        hub.pod("web", nodeSelector={"disk": "ssd"})

    async with scheduling(hub):
        hub.node("n2", cpu="2", labels={"disk": "ssd"}, unschedulable=True)
        once(hub, recreate)
        hub.pod("web")
        await hub.until(lambda: hub.has("web") and bool(hub.find("web").spec.nodeSelector))
        hub.node("n2", cpu="2", labels={"disk": "ssd"})
        await hub.until(lambda: hub.place("web") == "n2")
        hub.pod("next", nodeSelector={"kubernetes.io/hostname": "n1"})
        await hub.until(lambda: hub.place("next") == "n1")


async def test_binding_whose_reply_was_lost_counts_as_bound() -> None:
    hub = PodHub()
    hub.node("n1", cpu="1")
    hub.lose_reply_at = 1
    async with scheduling(hub) as events:
        hub.pod("web")
        await hub.until(lambda: bool(events.recorded))
        await asyncio.sleep(120)
    assert events.recorded == [("web", "Scheduled", "Successfully assigned default/web to n1")]
    assert hub.writes == [("create", "pods default")]


async def test_place_of_a_lost_binding_is_kept_until_it_can_no_longer_take_effect() -> None:
    hub = PodHub()
    hub.node("n1", cpu="1")
    once(hub, fail(TransportError("the request was lost")))
    async with scheduling(hub):
        hub.pod("web")
        await asyncio.sleep(1)
        hub.pod("next")
        await asyncio.sleep(50)
        assert not hub.placed()
        await hub.until(lambda: len(hub.placed()) == 1)
        assert asyncio.get_running_loop().time() >= 60
        await asyncio.sleep(120)
    assert len(hub.placed()) == 1


async def test_node_deleted_during_a_binding_does_not_keep_the_pod() -> None:
    hub = PodHub()
    hub.node("n1", cpu="1")

    def lose(_call: Call) -> None:
        hub.drop(NODES, "n1")
        hub.node("n2", cpu="1")
        raise refused(Conflict, 409, "Conflict")

    once(hub, lose)
    async with scheduling(hub):
        hub.pod("web")
        await hub.until(lambda: hub.place("web") == "n2")


async def test_node_that_shrinks_below_its_load_takes_no_more_pods() -> None:
    hub = PodHub()
    hub.node("n1", cpu="4")
    async with scheduling(hub):
        for name in ("a", "b", "c"):
            hub.pod(name)
        await hub.until(lambda: len(hub.placed()) == 3)
        hub.node("n1", cpu="2")
        hub.pod("d")
        await hub.until(lambda: hub.condition("d")[0] == "False")
        hub.end("a")
        await asyncio.sleep(60)
        assert hub.place("d") == ""
        hub.end("b")
        await hub.until(lambda: hub.place("d") == "n1")
    assert hub.load() == {"n1": 2}


MALFORMED: dict[str, dict[str, Any]] = {
    "negative quantity": {"cpu": "-1"},
    "selector operator": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]},
                    }
                ]
            }
        }
    },
    "node affinity": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}
                    ]
                }
            }
        }
    },
    "huge quantity": {"cpu": "1e30"},
    "missing claim": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "gone"}}]},
    "unknown node": {"nodeSelector": {"kubernetes.io/hostname": "n9"}},
}


@pytest.mark.parametrize("kind", MALFORMED)
async def test_pod_that_no_node_will_ever_take_is_reported_and_does_not_hinder_others(kind: str) -> None:
    hub = PodHub()
    hub.node("n1", cpu="2")
    async with scheduling(hub) as events:
        hub.pod("bad", **MALFORMED[kind])
        hub.pod("good")
        await hub.until(lambda: hub.place("good") == "n1")
        await hub.until(lambda: hub.condition("bad")[0] == "False")
        assert hub.condition("bad")[1] in ("Unschedulable", "SchedulerError")
        assert events.notes("bad", "FailedScheduling")[0] == hub.condition("bad")[2]
        hub.end("bad")
        await asyncio.sleep(600)
    assert hub.placed() == {"good": "n1"}


async def test_two_schedulers_share_the_nodes() -> None:
    hub = PodHub()
    hub.node("n1", cpu="2")
    hub.node("n2", cpu="2")
    other = """
apiVersion: fairway.dev/v1alpha1
kind: SchedulerConfiguration
profiles:
- schedulerName: other
"""
    async with scheduling(hub), scheduling(hub, config=other):
        for name in ("a", "b"):
            hub.pod(name)
            await hub.bound(name)
            hub.pod(f"{name}2", scheduler="other")
            await hub.bound(f"{name}2")
        hub.pod("late")
        await hub.until(lambda: hub.condition("late")[0] == "False")
        hub.drop(PODS, "a2", namespace=NAMESPACE)
        await hub.until(lambda: hub.place("late") != "")
    assert hub.load() == {"n1": 2, "n2": 2}
