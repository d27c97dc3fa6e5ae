"""The placement controller: selects clusters for Placements, and writes PlacementDecisions as OCM's controller does.

    informers ──▶ state (fleet, records, decisions) ──▶ reconcile_plan (pages, conditions) ──▶ steps ──▶ writer
                   │                                      ▲
                   └── queue: what to decide again ───────┘

Everything up to ``steps`` is computation without I/O; only ``writer`` talks to the hub, at the pace of
``write_limiter``. ``record`` is the state of one placement, ``session`` the context in which a plan is written.
``committer`` runs the plugins from Reserve on, if a profile has any, before a session begins and around its writes.
``unobserved_writes`` reconciles our own writes with the watch, ``decision_cache`` holds the decisions. ``slow_lane``
evaluates expensive CEL expressions in slices, ``shard`` selects namespaces, ``shadow`` compares with another controller
without writing. ``settled`` finds the placements that a change does not affect.

Words: a *page* is one PlacementDecision of at most 100 clusters; an *owner* is a placement's (namespace, name).
"""

from fairway.controllers.placement.controller import PlacementController

__all__ = ["PlacementController"]
