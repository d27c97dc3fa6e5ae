"""Placement plugins, one per file, and the conversion between Placements and cycles.

Data flow: ``placement.profile_of(placement)`` returns the profile of a Placement, and ``PlacementWorkload`` makes it
a workload of the engine. ``verdict`` converts the outcome into conditions (``conditions``, ``unscored``), groups
(``groups``) and pages of PlacementDecisions with their events (``pages``).

- Filters: ``clustersets``, ``predicate`` (label, claim and CEL selectors; ``expressions``), ``taints``,
  ``missing_score``.
- Scores: ``balance``, ``steady``, ``allocatable``, ``addon_score``, ``calculator``, ``taint_preference``. Selection:
  ``spread``.
- ``trust`` reads the annotations on missing and expired scores; ``work_budget`` limits the work of expressions.
"""

from fairway.plugins.placement import PlacementWorkload, profile_of

__all__ = ["PlacementWorkload", "profile_of"]
