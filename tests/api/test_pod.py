"""Pods and nodes as an API server returns them, with fields that Fairway does not use."""

import msgspec

from fairway.api.node import Node
from fairway.api.pod import Pod
from fairway.api.pod_requests import effective_requests
from kubewire.api.encoding import without_nulls

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-0",
        "namespace": "shop",
        "uid": "u1",
        "creationTimestamp": "2026-03-01T12:00:00Z",
        "deletionTimestamp": "2026-03-01T13:00:00Z",
        "managedFields": [{"manager": "kubelet", "operation": "Update"}],
    },
    "spec": {
        "nodeName": "n1",
        "priority": 0,
        "containers": [
            {
                "name": "app",
                "image": "shop:1",
                "ports": [],
                "resources": {"requests": {"cpu": 1}, "limits": {"cpu": 2}},
            }
        ],
        "initContainers": None,
        "tolerations": [{"operator": "Exists"}],
    },
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None}],
        "containerStatuses": [{"name": "app", "ready": True, "restartCount": 3, "resources": None}],
    },
}


def test_pod_is_decoded() -> None:
    pod = msgspec.convert(without_nulls(POD), Pod)
    assert (pod.metadata.name, pod.spec.nodeName, pod.terminating, pod.finished) == (
        "web-0",
        "n1",
        True,
        False,
    )
    assert effective_requests(pod) == {"cpu": 1000}


def test_pod_is_finished_when_succeeded_or_failed() -> None:
    ended = {
        "Pending": False,
        "Running": False,
        "Unknown": False,
        "": False,
        "Succeeded": True,
        "Failed": True,
    }
    assert {phase: msgspec.convert({"status": {"phase": phase}}, Pod).finished for phase in ended} == ended


def node(labels: dict[str, str], *conditions: tuple[str, str]) -> Node:
    document = {
        "metadata": {"name": "n1", "labels": labels},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule", "timeAdded": "2026-03-01T12:00:00Z"}]},
        "status": {
            "allocatable": {"cpu": "3920m", "pods": 110},
            "images": [{"names": ["a"], "sizeBytes": 5}],
            "conditions": [{"type": type_, "status": status} for type_, status in conditions],
        },
    }
    return msgspec.convert(document, Node)


def test_node_is_ready_only_with_a_true_condition() -> None:
    assert node({}, ("MemoryPressure", "False"), ("Ready", "True")).ready
    assert not node({}, ("MemoryPressure", "True"), ("Ready", "Unknown")).ready
    assert not node({}).ready


def test_control_plane_node_has_the_current_or_the_old_label() -> None:
    assert node({"node-role.kubernetes.io/control-plane": ""}).control_plane
    assert node({"node-role.kubernetes.io/master": "true"}).control_plane
    assert not node({"node-role.kubernetes.io/worker": ""}).control_plane
    assert node({}).spec.taints[0].key == "a"
