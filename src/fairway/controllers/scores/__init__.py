"""Scores: detects providers that stop publishing, and scores of deleted clusters.

    AddOnPlacementScore + ManagedCluster ──▶ staleness (no I/O) ──▶ silence_marker ──▶ condition fairway.dev/Silent

``policy`` is what happens to a *silent* score: leave it, replace its values by the worst, or drop them. An *orphan*
is a score whose cluster was deleted. ``metrics`` counts both.
"""

from fairway.controllers.scores.controller import ScoreController
from fairway.controllers.scores.policy import Orphans, Silence, SilencePolicy, SilencePolicyError
from fairway.controllers.scores.rbac import RULES

__all__ = ["RULES", "Orphans", "ScoreController", "Silence", "SilencePolicy", "SilencePolicyError"]
