"""The bridge: scores published as one kind, for readers of the other."""

from fairway.controllers.bridge.controller import Bridge
from fairway.controllers.bridge.options import Options, OptionsError, Range
from fairway.controllers.bridge.rules import RULES

__all__ = ["RULES", "Bridge", "Options", "OptionsError", "Range"]
