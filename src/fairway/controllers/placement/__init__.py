"""The placement controller: decisions of Placements on a hub, written as OCM's own controller writes them.

    informers ──▶ book (fleet, placements, decisions) ──▶ proposal (pages, conditions) ──▶ steps ──▶ writer ──▶ hub
                   │                                        ▲
                   └── interest: whom a change wakes ───────┘

Everything up to the steps is plain computation; only the writer talks to the hub.
"""

from fairway.controllers.placement.controller import PlacementController

__all__ = ["PlacementController"]
