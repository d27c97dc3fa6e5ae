"""Nodes as hosts: what a Node and the pods on it mean as columns of a table.

Data flow: ``NodeFleet``, a table of ``fairway.hosts``, receives Nodes and Pods (upsert and delete), and writes the
changed cells. ``cells`` names the columns of nodes, ``pod_columns`` those that pods fill; ``pods`` sums up what the
pods on each node add to them. A pod counts from the moment it names its node until it is deleted or has finished.

``pod_template`` has what scheduling needs of a pod, computed once for pods that differ in their names only, with
``node_selection`` and ``pod_selection`` for its selectors. ``hypothesis`` is a snapshot with pods removed or added.
"""

from fairway.hosts.nodes.fleet import NodeFleet
from fairway.hosts.nodes.snapshot import NodeSnapshot

__all__ = ["NodeFleet", "NodeSnapshot"]
