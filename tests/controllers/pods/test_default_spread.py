"""Pods of a Service or of a ReplicaSet are spread by default."""

from typing import Any

import pytest

from controllers.pods.pod_hub import NAMESPACE, PodHub, scheduling
from fairway.api.resources import PODS
from fairway.controllers.pods.kinds import OWNERS

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]

SERVICES, _, REPLICA_SETS, _ = OWNERS
WEB = {"app": "web"}
ONE_PER_NODE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: fairway
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}]
"""


def add_service(hub: PodHub) -> None:
    hub.put(SERVICES, {"metadata": {"name": "web"}, "spec": {"selector": WEB}}, namespace=NAMESPACE)


@pytest.mark.parametrize("owner", [False, True], ids=["alone", "of a ReplicaSet"])
async def test_pods_of_a_replica_set_avoid_nodes_with_others_of_it(owner: bool) -> None:
    hub = PodHub()
    hub.node("large", cpu="64", memory="64Gi")
    hub.node("small", cpu="8")
    selector = {"selector": {"matchLabels": WEB}}
    hub.put(REPLICA_SETS, {"metadata": {"name": "web"}, "spec": selector}, namespace=NAMESPACE)
    for at in range(3):
        hub.pod(f"web-{at}", node="large", labels=WEB)
    reference: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": "u",
        "controller": True,
    }
    async with scheduling(hub):
        container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
        meta = {"name": "new", "labels": WEB, "ownerReferences": [reference] if owner else []}
        spec = {"schedulerName": "fairway", "containers": [container]}
        hub.put(PODS, {"metadata": meta, "spec": spec}, namespace=NAMESPACE)
        await hub.bound("new")
    assert hub.place("new") == ("small" if owner else "large")


async def test_deleted_service_wakes_pods_that_its_constraint_rejects() -> None:
    hub = PodHub()
    hub.node("n1")
    hub.node("n2", cpu="0")
    add_service(hub)
    hub.pod("web-0", node="n1", labels=WEB)
    async with scheduling(hub, config=ONE_PER_NODE):
        hub.pod("web-1", labels=WEB)
        await hub.until(lambda: hub.condition("web-1")[0] == "False")
        assert "didn't match pod topology spread constraints" in hub.condition("web-1")[2]
        hub.drop(SERVICES, "web", namespace=NAMESPACE)
        await hub.bound("web-1")


async def test_service_that_is_created_later_spreads_the_next_pods() -> None:
    hub = PodHub()
    hub.node("n1")
    hub.node("n2", cpu="0")
    hub.pod("web-0", node="n1", labels=WEB)
    async with scheduling(hub, config=ONE_PER_NODE):
        hub.pod("web-1", labels=WEB)
        await hub.bound("web-1")
        add_service(hub)
        hub.pod("web-2", labels=WEB)
        await hub.until(lambda: hub.condition("web-2")[0] == "False")
