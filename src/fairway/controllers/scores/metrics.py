"""Metrics of the score controller."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from fairway.api.score import AddOnPlacementScore
from fairway.hosts.clusters.scores import is_silent
from fairway.observe.meters import Meters, gauge

SCORES: Final = gauge(
    "fairway_scores",
    "AddOnPlacementScores by resource and state: fresh, expired, silent (marked: its values are not its "
    "provider's), endless (without validUntil), orphan (its cluster was deleted).",
    *("resource", "state"),
)
HELD: Final = gauge(
    "fairway_scores_held",
    "1 while so many scores of the resource are silent at once that none is marked, 0 otherwise.",
    "resource",
)
SCORE_DEFINITIONS: Final = (SCORES, HELD)
STATES: Final = ("fresh", "expired", "silent", "endless", "orphan")
MOST_RESOURCES: Final = 100
"""Limit of resources with metrics: any publisher can invent names."""


def state_of(score: AddOnPlacementScore, *, clustered: bool, wall: datetime) -> str:
    """``clustered``: whether its cluster exists."""
    until = score.status.validUntil
    if not clustered:
        return "orphan"
    if is_silent(score):
        return "silent"
    if until is None:
        return "endless"
    return "expired" if until < wall else "fresh"


class ScoreMetrics:
    def __init__(self, meters: Meters) -> None:
        self._scores = SCORES.create_gauge(meters.registry)
        self._held = HELD.create_gauge(meters.registry)
        self._measured: set[str] = set()

    def update(self, counts: Mapping[str, Counter[str]], *, held: Iterable[str]) -> None:
        """``counts``: by resource and state."""
        # The first in order, so that the same resources are measured each time.
        kept = set(sorted(counts)[:MOST_RESOURCES])
        held_back = set(held)
        for resource in self._measured - kept:
            self._held.remove(resource)
            for state in STATES:
                self._scores.remove(resource, state)
        for resource in kept:
            self._held.labels(resource).set(resource in held_back)
            for state in STATES:
                self._scores.labels(resource, state).set(counts[resource][state])
        self._measured = kept
