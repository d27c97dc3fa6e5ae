"""A Placement as a workload of the engine, and what its outcome means for the objects on the hub. No I/O.

Data flow: the engine decides the workload with the plugins of a ``profile``, once for Placements that are ``alike``,
again when one of its ``dependencies`` changes, and with the score ``debits`` of other decisions; ``verdict`` converts
the outcome to conditions (``conditions``), decision groups (``groups``) and pages of PlacementDecisions (``pages``);
``reconcile_plan`` compares them with the existing objects and returns the writes, in an order in which no selected
cluster is missing in between (``steps``), with their events. ``commits`` is what plugins from Reserve on do with a
decision (``selection``) before it is written.

The placement controller carries out such a plan on the hub, ``fairway place`` and the recorded answers carry it out on
objects in memory: what is compared with the reference is what production writes.
"""

from fairway.placement.profile import default_profile, placement_registry
from fairway.plugins.placement_workload import PlacementWorkload

__all__ = ["PlacementWorkload", "default_profile", "placement_registry"]
