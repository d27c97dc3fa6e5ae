"""Nodes and pods as the API server returns them."""

from collections.abc import Mapping

from fairway.api.meta import ObjectMeta
from fairway.api.node import Node, NodeSpec, NodeStatus, NodeTaint
from fairway.api.pod import Container, Pod, PodSpec, PodStatus, ResourceRequirements


def node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    taints: tuple[NodeTaint, ...] = (),
    unschedulable: bool = False,
    **allocatable: str,
) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, labels=dict(labels or {})),
        spec=NodeSpec(taints=taints, unschedulable=unschedulable),
        status=NodeStatus(allocatable=dict(allocatable)),
    )


def pod(name: str, *, on: str = "", phase: str = "Running", **requests: str) -> Pod:
    container = Container(name="c", resources=ResourceRequirements(requests=dict(requests)))
    return Pod(
        metadata=ObjectMeta(namespace="ns1", name=name),
        spec=PodSpec(nodeName=on, containers=(container,)),
        status=PodStatus(phase=phase),
    )
