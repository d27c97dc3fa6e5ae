"""Placements, which choose managed clusters for applications, as OCM's placement controller does. No I/O.

Work: a Placement is a workload whose Bind repeats. It wants some or all clusters, and is decided again whenever a
change may affect its decision.

Data flow: the engine decides the workload with the plugins of the profile, again when one of its dependencies changes,
and with the score debits of other decisions. The verdict converts the outcome to conditions, decision groups and pages.
The plan compares these with the objects on the hub, and returns the writes with their events. The placement controller
carries out the plan on the hub; ``fairway place`` and the recorded answers carry it out in memory, so that what is
compared with the reference is what production writes.

Modules:

- ``workload`` is the Placement for plugins, ``profile`` has the default plugins, ``plugins`` one file for each.
- ``alike`` finds Placements that share cycles, ``dependencies`` the columns that wake one, ``debits`` the expected
  changes of scores by decisions.
- ``verdict`` has the result of a cycle: ``conditions``, ``groups``, ``pages``, and ``unscored`` for missing scores.
- ``reconcile_plan`` makes the writes, ``steps`` orders them, ``events`` has their events.
- ``commits`` is what plugins from Reserve on do with a ``selection`` before it is written.

Words: filter, prioritizer, score coordinate, decision group and page are OCM's. A *verdict* is what a cycle means for
the objects of a Placement, a *plan* the writes that follow from it, a *frozen* verdict one that must not be written. A
*debit* is the change of a score that a decision is expected to cause before the next publication.

Laws:

- The same input leads to the same decision as OCM's; differences are opt-in, or where OCM loses information.
- A cluster that stays selected is on some page all the time, whatever is written (make before break).
- An invalid set or a failing plugin changes no decision.
- What one Placement does has bounded effects on others: on their time, and on the scores that they see.
"""

from fairway.workloads.placement.profile import default_profile, placement_registry
from fairway.workloads.placement.workload import PlacementWorkload

__all__ = ["PlacementWorkload", "default_profile", "placement_registry"]
