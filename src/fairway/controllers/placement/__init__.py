"""The placement controller: selects clusters for Placements, and writes PlacementDecisions as OCM's controller does.

    informers ──▶ state (fleet, records, decisions) ──▶ reconcile_plan (pages, conditions) ──▶ steps ──▶ writer
                   │                                      ▲
                   └── queue: what to decide again ──▶ scheduler: decide, bind, settle ◀── runtime.scheduling_loop

Everything up to ``steps`` is computation without I/O; only ``writer`` talks to the hub, at the pace of
``write_limiter``. ``scheduler`` has the steps of one attempt, which the loop carries out: the plugins from Reserve on,
if a profile has any, and our own of ``binding``, which write the pages and the status. ``record`` is the state of one
placement, ``session`` a plan that is being written. ``decision_index`` has the decisions by placement; the informers
take our own writes from the hub's responses. ``slow_lane`` evaluates expensive CEL expressions in slices, ``questions``
waits for plugins in processes of their own, ``shard`` selects namespaces, ``shadow`` compares with another controller
without writing. ``settled`` finds the placements that a change does not affect.

Words: a *page* is one PlacementDecision of at most 100 clusters; an *owner* is a placement's (namespace, name).
"""

from fairway.controllers.placement.controller import PlacementController

__all__ = ["PlacementController"]
