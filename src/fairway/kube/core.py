"""Nodes and pods as resources."""

from typing import Final

from fairway.api.node import Node
from fairway.api.pod import Pod
from fairway.kube.resource import Resource

NODES: Final = Resource(group="", version="v1", plural="nodes", kind="Node", namespaced=False, type=Node)
PODS: Final = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True, type=Pod)
