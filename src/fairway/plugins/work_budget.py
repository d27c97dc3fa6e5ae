"""How much work the CEL expressions of a placement may be, and how it is done in parts.

Work is counted in units of about a quarter of a microsecond (see ``fairway.cel.frame``). A cycle that exceeds its
budget makes the placement misconfigured. Within the budget, a controller that serves other placements from the same
event loop lets a cycle do only a slice at a time: the evaluation stops with `Paused`, what it has found is kept, and
the next attempt goes on from there.
"""

from typing import Final

from fairway.fleet.bitmap import Mask, Rows
from fairway.fleet.derived import Unfinished

EXPRESSION_WORK: Final = 50_000
"""Of one expression for one cluster, about 12 milliseconds. Usual expressions take 20 to 200 units."""
FLEET_WORK: Final = 2_000_000
CLUSTER_WORK: Final = 500
"""Of all expressions of a placement in one cycle: so much, about half a second, and for each cluster so much more."""
UNKEPT_WORK: Final = 200_000
"""Of a cycle whose answers cannot be kept, and which therefore cannot be paused."""
COMPILE_WORK: Final = 100_000
"""Of compiling one expression, about 25 milliseconds; a list of 2,000 names takes as much."""
COMPILE_ESTIMATE: Final = 16
"""Of compiling, for each character."""
PLACEMENT_COMPILE_WORK: Final = 1_000_000
"""Of compiling all expressions of a placement."""
LONGEST_TEXT: Final = 200
"""Characters of an expression that a message repeats."""

EXPRESSION_TOO_COSTLY: Final = (
    "CEL expression {text} takes more than {limit} units of work for cluster {cluster}; write a cheaper one"
)
FLEET_TOO_COSTLY: Final = (
    "the CEL expressions take more than {limit} units of work over {clusters} clusters; write fewer or cheaper ones "
    "than {text}, or narrow the clusters down by labels first"
)
COMPILE_TOO_COSTLY: Final = (
    "CEL expression {text} takes more than {limit} units of work to compile; write a shorter one"
)
ALL_TOO_COSTLY: Final = (
    "the CEL expressions of the placement take more than {limit} units of work to compile, of which {text} is one; "
    "write fewer or shorter ones"
)


class TooCostly(Exception):
    """The expressions are too much work; the message names one of them and the limit."""


class Paused(Unfinished):
    """The slice of work is used up. What has been found so far is kept, so the next attempt goes on from there."""

    def __init__(self, rows: Rows, answers: Mask) -> None:
        super().__init__(rows, answers)


class Pace:
    """The slice of work that one attempt may do. Without one, a cycle is never paused."""

    __slots__ = ("_allowed", "_overdraws", "used")

    def __init__(self) -> None:
        self._allowed: int | None = None
        self._overdraws = True
        self.used = 0
        """Since ``allow``."""

    def allow(self, work: int | None, *, overdraws: bool = True) -> None:
        """Begin an attempt; None for one that ends only when it is done.

        With ``overdraws``, the last part of the work may be more than is left, so every attempt makes progress.
        """
        self._allowed = work
        self._overdraws = overdraws
        self.used = 0

    def affords(self, estimate: int) -> bool:
        """Whether to begin a part that is known to be so much work."""
        if self._allowed is None:
            return True
        return not self.is_used_up and (self._overdraws or self.used + estimate <= self._allowed)

    def spend(self, work: int) -> None:
        self.used += work

    @property
    def is_used_up(self) -> bool:
        return self._allowed is not None and self.used >= self._allowed


class WorkBudget:
    """What the expressions of a placement may still take in one cycle, however many slices it takes."""

    __slots__ = ("_clusters", "_left", "_limit", "_pace")

    def __init__(self, clusters: int, pace: Pace | None = None, *, limit: int | None = None) -> None:
        self._clusters = clusters
        self._limit = self._left = FLEET_WORK + CLUSTER_WORK * clusters if limit is None else limit
        self._pace = pace or Pace()

    def pay(self, work: int, text: str) -> None:
        """Raises TooCostly; ``text`` is the expression that the message names."""
        self._pace.spend(work)
        self._left -= work
        if self._left < 0:
            raise TooCostly(
                FLEET_TOO_COSTLY.format(limit=self._limit, clusters=self._clusters, text=shortened(text))
            )

    @property
    def is_paused(self) -> bool:
        return self._pace.is_used_up


def shortened(text: str) -> str:
    return repr(text) if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]!r}…"
