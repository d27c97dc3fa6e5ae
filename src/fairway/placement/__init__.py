"""A Placement as a workload of the engine, and what its outcome means for the objects on the hub. No I/O.

Data flow: ``workload`` converts a Placement to its profile; the engine returns an outcome; ``verdict`` converts that
to conditions (``conditions``), decision groups (``groups``) and pages of PlacementDecisions (``pages``);
``reconcile_plan`` compares them with the existing objects and returns the writes, in an order in which no selected
cluster is missing in between (``steps``), with their events.

The placement controller carries out such a plan on the hub, ``fairway place`` and the recorded answers carry it out on
objects in memory: what is compared with the reference is what production writes.
"""

from fairway.placement.workload import PlacementWorkload, profile_of

__all__ = ["PlacementWorkload", "profile_of"]
