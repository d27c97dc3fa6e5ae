"""The ordered plugins and weights that place one kind of workload."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairway.engine.points import Context, Filter, Plugin, PostFilter, PreFilter, Score, Scores, points_of
from fairway.engine.status import Status
from fairway.fleet.bitmap import Rows


@dataclass(frozen=True, slots=True)
class Weighted:
    """A Score plugin and what one of its points is worth."""

    plugin: Score
    weight: int
    missing: int = 0
    """The score that counts for hosts the plugin knows nothing of."""


Choice = Callable[[Context, Rows, Scores], Rows]
"""Picks among feasible rows with their totals, best first."""


Explanation = Callable[[Context, Rows, Rows, Scores], Callable[[int], str | None]]
"""Given the selected rows, all feasible rows and their totals: a function that explains one row."""


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Compared by identity: what a cycle remembers about a profile is about this very object."""

    name: str
    pre_filters: tuple[PreFilter, ...] = ()
    filters: tuple[Filter, ...] = ()
    post_filters: tuple[PostFilter, ...] = ()
    """Asked in this order when the filters leave nobody."""
    scores: tuple[Weighted, ...] = ()
    refusal: Status | None = None
    """Why this workload cannot be scored. Reported once filters have run, before any score is computed."""
    choice: Choice | None = None
    """Replaces taking the best; a profile with one is computed in full every time."""
    explain_choice: Explanation | None = None
    """Explains why the choice passed over a feasible row; None where the row's rank is the reason."""
    extra: tuple[Plugin, ...] = ()
    """Plugins at the points after NormalizeScore, and QueueSort."""

    def plugins(self) -> tuple[Plugin, ...]:
        scorers = (scorer.plugin for scorer in self.scores)
        return (*self.pre_filters, *self.filters, *self.post_filters, *scorers, *self.extra)

    def at(self, point: str) -> tuple[Any, ...]:
        """This profile's plugins at an extension point, in order."""
        return tuple(plugin for plugin in self.plugins() if point in points_of(type(plugin)))
