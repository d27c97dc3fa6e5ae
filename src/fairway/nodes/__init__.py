"""Nodes as hosts: what a Node and the pods on it mean as columns of a table.

Data flow: ``NodeFleet``, a table of ``fairway.fleet``, receives Nodes and Pods (upsert and delete), and writes the
changed cells. ``cells`` names the columns; ``pods`` sums up the requests of the pods on each node. A pod counts from
the moment it names its node until it is deleted or has finished.
"""

from fairway.nodes.fleet import NodeFleet
from fairway.nodes.snapshot import NodeSnapshot

__all__ = ["NodeFleet", "NodeSnapshot"]
