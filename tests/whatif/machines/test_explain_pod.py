"""Why a pod waits or is where it is, and which change would let it fit."""

from typing import Any

import msgspec
from msgspec import structs

from fairway.api.node import Node
from fairway.api.pod import Pod
from fairway.api.pod_owner import LabelsSpec, Service
from fairway.api.virtual_machine import VirtualMachine
from fairway.hosts.instant import SECOND
from fairway.scheduling import Supervisor, Watchdog, load
from fairway.whatif.machines.explain_pod import PodExplanation, explain_pod
from fairway.whatif.machines.world import ClusterObjects
from fairway.workloads.machines.settings import MachineSettings
from fairway.workloads.pods.profile import POD_KIND
from kubewire.api.meta import ObjectMeta

SCHEDULING = load(None, kind=POD_KIND, supervisor=Supervisor(clock=lambda: 0.0, watch=Watchdog()))
READY = [{"type": "Ready", "status": "True"}]


def node(name: str, *, cpu: int = 4, spec: dict[str, Any] | None = None, **labels: str) -> Node:
    amounts = {"cpu": str(cpu), "memory": "16Gi", "pods": "110"}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "labels": {"kubernetes.io/hostname": name, **labels},
            },
            "spec": spec or {},
            "status": {"allocatable": amounts, "capacity": amounts, "conditions": READY},
        },
        Node,
    )


def pod(name: str, *, cpu: str = "1", on: str = "", status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"},
            "spec": {"nodeName": on, "schedulerName": "fairway", "containers": [container], **spec},
            "status": status or {},
        },
        Pod,
    )


def explained(name: str, *objects: Any) -> PodExplanation:
    cluster = ClusterObjects.of(objects)
    return explain_pod(cluster, ("ns", name), SCHEDULING, MachineSettings(), now=1000 * SECOND)


def changes(explanation: PodExplanation) -> list[str]:
    return [remedy.change for remedy in explanation.remedies]


def test_rejections_are_counted_by_plugin_and_reason() -> None:
    explanation = explained(
        "big", node("n1"), node("n2"), node("n3", spec={"unschedulable": True}), pod("big", cpu="8")
    )
    assert not explanation.fits
    counted = {
        (rejection.plugin, rejection.reason): len(rejection.nodes) for rejection in explanation.rejections
    }
    assert counted == {
        ("NodeUnschedulable", "node(s) were unschedulable"): 1,
        ("NodeResourcesFit", "Insufficient cpu"): 2,
    }


def test_largest_request_that_fits_is_found() -> None:
    explanation = explained("big", node("n1"), node("n2", cpu=6), pod("big", cpu="8"))
    assert changes(explanation) == ["request at most 6 cpu (now 8 cpu)"]


def test_selector_taint_and_cordon_have_remedies() -> None:
    tainted = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    assert changes(explained("p", node("n1", spec=tainted), pod("p"))) == [
        "tolerate the taint gpu:NoSchedule"
    ]
    assert changes(explained("p", node("n1"), pod("p", nodeSelector={"a": "b"}))) == [
        "remove spec.nodeSelector"
    ]
    assert changes(explained("p", node("n1", spec={"unschedulable": True}), pod("p"))) == ["uncordon node n1"]


def test_change_that_is_not_enough_is_not_proposed() -> None:
    explanation = explained("p", node("n1", spec={"unschedulable": True}), pod("p", nodeSelector={"a": "b"}))
    assert changes(explanation) == []


def test_bound_pod_is_explained_as_if_it_were_placed_now() -> None:
    explanation = explained(
        "p", node("n1"), node("n2"), pod("p", cpu="3", on="n1"), pod("q", cpu="2", on="n2")
    )
    assert (explanation.node, explanation.hosts[0].host) == ("n1", "n1")
    assert {contribution.plugin for contribution in explanation.hosts[0].contributions} >= {
        "NodeResourcesFit"
    }
    assert [(rejection.plugin, rejection.nodes) for rejection in explanation.rejections] == [
        ("NodeResourcesFit", ("n2",))
    ]


def test_preemption_names_its_victims() -> None:
    explanation = explained("p", node("n1"), pod("low", cpu="3", on="n1"), pod("p", cpu="3", priority=10))
    assert explanation.eviction is not None
    assert (explanation.eviction.node, explanation.eviction.victims) == ("n1", ("ns/low",))


def test_useless_preemption_has_a_reason() -> None:
    explanation = explained("p", node("n1"), pod("p", cpu="8", priority=10))
    assert explanation.eviction is None
    assert explanation.preemption.startswith("preemption: 0/1 nodes are available")


def test_condition_gates_and_nomination_are_shown() -> None:
    waiting = {
        "nominatedNodeName": "n1",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
        ],
    }
    explanation = explained(
        "p", node("n1"), pod("p", status=waiting, schedulingGates=[{"name": "example.com/wait"}])
    )
    assert (explanation.recorded, explanation.nominated) == ("Unschedulable: 0/1 nodes", "n1")
    assert explanation.gates == ("example.com/wait",)


def test_pod_of_another_scheduler_is_left_to_it() -> None:
    explanation = explained("p", node("n1"), pod("p", schedulerName="default-scheduler"))
    assert (explanation.is_ours, explanation.scheduler) == (False, "default-scheduler")


def machine(name: str, *, cpus: int) -> VirtualMachine:
    guest = {
        "cpus": {"min": 1, "max": 8, "use": cpus},
        "memorySlots": {"min": 1, "max": 16, "use": cpus},
    }
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"}, "spec": {"guest": guest}},
        VirtualMachine,
    )


def runner(name: str, vm: str, *, on: str = "") -> Pod:
    owner = {"apiVersion": "vm.neon.tech/v1", "kind": "VirtualMachine", "name": vm, "uid": f"uid-{vm}"}
    runner_pod = pod(name, cpu="0", on=on)
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "ownerReferences": [owner]}
    owned = msgspec.convert(meta, ObjectMeta)
    return msgspec.structs.replace(runner_pod, metadata=owned)


def test_size_of_a_virtual_machine_counts_instead_of_its_requests() -> None:
    explanation = explained(
        "b-1",
        node("n1"),
        machine("a", cpus=3),
        machine("b", cpus=2),
        runner("a-1", "a", on="n1"),
        runner("b-1", "b"),
    )
    (rejection,) = explanation.rejections
    assert (rejection.plugin, rejection.reason) == (
        "VirtualMachineAutoscaling",
        "Insufficient cpu beside the permits of virtual machines",
    )
    (change,) = changes(explanation)
    assert change.startswith("start the virtual machine with at most 50 % of its size")


def test_pods_of_a_service_rank_nodes_without_other_pods_of_it_first() -> None:
    def web(name: str, on: str = "") -> Pod:
        web_pod = pod(name, on=on)
        return structs.replace(web_pod, metadata=structs.replace(web_pod.metadata, labels={"app": "web"}))

    nodes = (node("n1", cpu=64), node("n2", cpu=8))
    running = [web(f"web-{at}", on="n1") for at in range(3)]
    service = Service(
        metadata=ObjectMeta(namespace="ns", name="web"), spec=LabelsSpec(selector={"app": "web"})
    )
    alone = explained("new", *nodes, *running, web("new"))
    spread = explained("new", *nodes, *running, web("new"), service)
    assert [host.host for host in alone.hosts] == ["n1", "n2"]
    assert [host.host for host in spread.hosts] == ["n2", "n1"]
