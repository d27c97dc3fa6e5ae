"""The ordered plugins and weights that place one kind of workload."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairway.engine.points import Context, Filter, Plugin, PostFilter, PreFilter, Score, Scores, points_of
from fairway.engine.status import Status
from fairway.fleet.bitmap import Rows


@dataclass(frozen=True, slots=True)
class Weighted:
    """A Score plugin and its weight."""

    plugin: Score
    weight: int
    missing: int = 0
    """The score of hosts for which the plugin has none."""


Choice = Callable[[Context, Rows, Scores], Rows]
"""Picks among feasible rows with their totals, best first."""


Explanation = Callable[[Context, Rows, Rows, Scores], Callable[[int], str | None]]
"""Returns a function that explains one row, given the selected rows, all feasible rows and their totals."""


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Compared by identity, because memos refer to this object."""

    name: str
    pre_filters: tuple[PreFilter, ...] = ()
    filters: tuple[Filter, ...] = ()
    post_filters: tuple[PostFilter, ...] = ()
    """Called in this order when the filters leave no host."""
    scores: tuple[Weighted, ...] = ()
    refusal: Status | None = None
    """Why this workload cannot be scored. Reported once filters have run, before any score is computed."""
    choice: Choice | None = None
    """Replaces choosing the best; a profile with one always runs full cycles."""
    explain_choice: Explanation | None = None
    """Explains why the choice skipped a feasible row; None if its rank is the reason."""
    extra: tuple[Plugin, ...] = ()
    """Plugins at the points after NormalizeScore, and QueueSort."""

    def plugins(self) -> tuple[Plugin, ...]:
        scorers = (scorer.plugin for scorer in self.scores)
        return (*self.pre_filters, *self.filters, *self.post_filters, *scorers, *self.extra)

    def at(self, point: str) -> tuple[Any, ...]:
        """Return this profile's plugins at an extension point, in order."""
        return tuple(plugin for plugin in self.plugins() if point in points_of(type(plugin)))
