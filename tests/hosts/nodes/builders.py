"""Nodes and pods as the API server returns them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fairway.api.node import ContainerImage, Node, NodeCondition, NodeSpec, NodeStatus, NodeTaint
from fairway.api.pod import Container, ContainerPort, Pod, PodSpec, PodStatus, ResourceRequirements
from kubewire.api.meta import ObjectMeta
from kubewire.api.selector import LabelSelector


def node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    taints: tuple[NodeTaint, ...] = (),
    unschedulable: bool = False,
    ready: str | None = None,
    images: Mapping[str, int] | None = None,
    **allocatable: str,
) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, labels=dict(labels or {})),
        spec=NodeSpec(taints=taints, unschedulable=unschedulable),
        status=NodeStatus(
            allocatable=dict(allocatable),
            conditions=() if ready is None else (NodeCondition(type="Ready", status=ready),),
            images=tuple(
                ContainerImage(names=(image,), sizeBytes=size) for image, size in (images or {}).items()
            ),
        ),
    )


def pod(
    name: str,
    *,
    namespace: str = "ns1",
    on: str = "",
    phase: str = "Running",
    labels: Mapping[str, str] | None = None,
    terminating: bool = False,
    image: str = "",
    ports: tuple[ContainerPort, ...] = (),
    spec: Mapping[str, Any] | None = None,
    **requests: str,
) -> Pod:
    """``spec`` has further fields of the PodSpec."""
    container = Container(
        name="c", image=image, ports=ports, resources=ResourceRequirements(requests=dict(requests))
    )
    return Pod(
        metadata=ObjectMeta(
            namespace=namespace,
            name=name,
            labels=dict(labels or {}),
            deletionTimestamp=datetime(2026, 1, 1, tzinfo=UTC) if terminating else None,
        ),
        spec=PodSpec(nodeName=on, containers=(container,), **(spec or {})),
        status=PodStatus(phase=phase),
    )


def labelled(**labels: str) -> LabelSelector:
    return LabelSelector(matchLabels=labels)
