"""ManagedClusters as hosts: what clusters, sets, bindings, scores and decisions mean as columns of a fleet.

Data flow: ``Fleet`` receives objects (upsert and delete), compares them with the previous version, and writes the
changed cells. ``Fleet.snapshot()`` is a consistent read-only view; the fleet copies a column before it writes to one
that a snapshot shares. Columns are created when they are first read.

``cells`` names the columns; ``scores`` and ``decisions`` index AddOnPlacementScores and PlacementDecisions by row;
``objects`` loads objects of the hub.
"""

from fairway.clusters.fleet import Fleet
from fairway.clusters.snapshot import ClusterSnapshot, clusters_of

__all__ = ["ClusterSnapshot", "Fleet", "clusters_of"]
