"""Plugins of the scheduling framework, one per file. ``fairway.placement`` decides which Placement gets which.

- Filters: ``clustersets``, ``predicate`` (label, claim and CEL selectors; ``expressions``), ``taints``,
  ``missing_score``.
- Scores: ``balance``, ``steady``, ``allocatable``, ``addon_score``, ``calculator``, ``taint_preference``. Selection:
  ``spread``.
- ``trust`` reads the annotations on missing and expired scores; ``work_budget`` limits the work of expressions.
"""
