"""ManagedClusters as hosts: what clusters, sets, bindings, scores and decisions mean as columns of a fleet.

Data flow: ``Fleet``, a table of ``fairway.hosts``, receives objects (upsert and delete), compares them with the
previous version, and writes the changed cells. ``Fleet.snapshot()`` returns a ``ClusterSnapshot``; plugins, which get
a snapshot of any kind of host, call ``clusters_of`` for sets, bindings, decisions and scores.

``cells`` names the columns; ``scores`` and ``decisions`` index AddOnPlacementScores and PlacementDecisions by row;
``objects`` loads objects of the hub. ``promises`` has the rule by which a decision or a HostedClusterRequest counts
before the published scores include it; ``debits`` has its effect on scores.
"""

from fairway.hosts.clusters.fleet import Fleet
from fairway.hosts.clusters.snapshot import ClusterSnapshot, clusters_of

__all__ = ["ClusterSnapshot", "Fleet", "clusters_of"]
