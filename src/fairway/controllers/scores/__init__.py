"""Scores: what is done about scores whose provider fell silent, and about those of clusters that are gone."""

from fairway.controllers.scores.controller import Scores
from fairway.controllers.scores.policy import Orphans, Policy, PolicyError, Silence, policy_of
from fairway.controllers.scores.rules import RULES

__all__ = ["RULES", "Orphans", "Policy", "PolicyError", "Scores", "Silence", "policy_of"]
