"""The bridge: copies AddOnPlacementScores to ManagedClusterScores and back, for readers of the other kind.

    original scores ──▶ plan (no I/O: which copies should exist) ──▶ controller writes the difference

The bridge labels its copies and never reads them (``origin``), so it cannot feed on its own output. ``value_ranges``
keeps each calculator's smallest and largest value, for scaling; ``options`` selects the scores to copy.
"""

from fairway.controllers.bridge.controller import BridgeController
from fairway.controllers.bridge.options import BridgeOptions, BridgeOptionsError, Range
from fairway.controllers.bridge.rbac import RULES

__all__ = ["RULES", "BridgeController", "BridgeOptions", "BridgeOptionsError", "Range"]
