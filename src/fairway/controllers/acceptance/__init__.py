"""Acceptance: what a cluster gets on the hub once an administrator has let it in."""

from fairway.controllers.acceptance.controller import AcceptanceController
from fairway.controllers.acceptance.rbac import RULES

__all__ = ["RULES", "AcceptanceController"]
