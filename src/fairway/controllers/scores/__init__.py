"""Scores: what is done about scores whose provider fell silent, and about those of clusters that are gone."""

from fairway.controllers.scores.controller import ScoreController
from fairway.controllers.scores.policy import Orphans, Silence, SilencePolicy, SilencePolicyError, policy_of
from fairway.controllers.scores.rbac import RULES

__all__ = [
    "RULES",
    "Orphans",
    "ScoreController",
    "Silence",
    "SilencePolicy",
    "SilencePolicyError",
    "policy_of",
]
