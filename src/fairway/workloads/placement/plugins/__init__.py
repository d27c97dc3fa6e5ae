"""Plugins that choose clusters for Placements, one per file. ``fairway.workloads.placement.profile`` enables them.

- Filters: ``clustersets``, ``predicate`` (label, claim and CEL selectors; ``expressions``), ``taints``,
  ``missing_score``.
- Scores: ``balance``, ``steady``, ``allocatable``, ``addon_score``, ``calculator``, ``taint_preference``. Selection:
  ``spread``, and ``stability``, which keeps to the ``contract`` on moves.
- ``prioritizer_policy`` selects the Scores of a Placement, which the plugins see as a ``workload``.
- Remedies of several plugins: ``selector_remedies`` and ``expression_remedies``.
- ``trust`` reads the annotations on missing and expired scores, ``score_debits`` those on debits; ``work_budget``
  limits the work of expressions.
"""
