"""The bridge: scores published as one kind, for readers of the other."""

from fairway.controllers.bridge.controller import BridgeController
from fairway.controllers.bridge.options import BridgeOptions, BridgeOptionsError, Range
from fairway.controllers.bridge.rbac import RULES

__all__ = ["RULES", "BridgeController", "BridgeOptions", "BridgeOptionsError", "Range"]
