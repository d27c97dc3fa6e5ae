"""Acceptance: what a cluster gets on the hub once an administrator has let it in."""

from fairway.controllers.acceptance.controller import Acceptance
from fairway.controllers.acceptance.rules import RULES

__all__ = ["RULES", "Acceptance"]
