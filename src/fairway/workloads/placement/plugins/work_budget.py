"""Limit the work of the CEL expressions of a placement, and divide it into slices.

Work is counted in units of about a quarter of a microsecond (see ``kubecel.frame``). A cycle that exceeds its
budget makes the placement misconfigured. Within the budget, a controller that serves other placements from the same
event loop allows a cycle only a slice at a time: the evaluation stops with `Paused`, its results are kept, and
the next attempt continues.
"""

from dataclasses import dataclass
from typing import Final

from fairway.hosts.bitmap import Mask, Rows
from fairway.hosts.derived import Unfinished

EXPRESSION_WORK: Final = 50_000
"""Limit of one expression for one cluster, about 12 milliseconds. Usual expressions take 20 to 200 units."""
PREDICATE_WORK: Final = 100_000
"""Limit of all expressions of a predicate for one cluster, about 25 milliseconds: no slice ends within a cluster."""
FLEET_WORK: Final = 2_000_000
CLUSTER_WORK: Final = 500
"""Limit of all expressions of a placement in one cycle: about half a second, plus an amount per cluster."""
UNKEPT_WORK: Final = 200_000
"""Limit of a cycle whose results cannot be cached, and which therefore cannot be paused."""
COMPILE_WORK: Final = 100_000
"""Limit of compiling one expression, about 25 milliseconds; a list of 2,000 names takes as much."""
COMPILE_ESTIMATE: Final = 16
"""Work of compiling, per character."""
PLACEMENT_COMPILE_WORK: Final = 1_000_000
"""Limit of compiling all expressions of a placement."""
REQUEST_FLEET_WORK: Final = 40_000
REQUEST_COMPILE_WORK: Final = 100_000
"""The same for the constraints of a HostedClusterRequest, whose cycles are not divided into slices."""
LONGEST_TEXT: Final = 200
"""Maximum number of characters of an expression in a message."""

EXPRESSION_TOO_COSTLY: Final = (
    "CEL expression {text} takes more than {limit} units of work for cluster {cluster}; write a cheaper one"
)
PREDICATE_TOO_COSTLY: Final = (
    "the CEL expressions of a predicate, of which {text} is one, take more than {limit} units of work for cluster "
    "{cluster}; write fewer or cheaper ones"
)
FLEET_TOO_COSTLY: Final = (
    "the CEL expressions take more than {limit} units of work over {clusters} clusters; write fewer or cheaper ones "
    "than {text}, or narrow the clusters down by labels first"
)
COMPILE_TOO_COSTLY: Final = (
    "CEL expression {text} takes more than {limit} units of work to compile; write a shorter one"
)
ALL_TOO_COSTLY: Final = (
    "the CEL expressions take more than {limit} units of work to compile together, of which {text} is one; write fewer "
    "or shorter ones"
)


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """Limits of all expressions of one workload."""

    compile: int
    fleet: int
    """Of a cycle, besides an amount per cluster."""


OF_PLACEMENT: Final = WorkLimits(compile=PLACEMENT_COMPILE_WORK, fleet=FLEET_WORK)
OF_REQUEST: Final = WorkLimits(compile=REQUEST_COMPILE_WORK, fleet=REQUEST_FLEET_WORK)


class TooCostly(Exception):
    """The expressions exceed a limit; the message names one of them and the limit. ``work`` was done, and is not
    charged yet."""

    def __init__(self, message: str, *, work: int = 0) -> None:
        super().__init__(message)
        self.work = work


class Paused(Unfinished):
    """The slice of work is used up. Results so far are kept, and the next attempt continues."""

    def __init__(self, rows: Rows, answers: Mask) -> None:
        super().__init__(rows, answers)


class Pace:
    """The slice of work that one attempt may do. Without one, a cycle is never paused."""

    __slots__ = ("_allowed", "_overdraws", "used")

    def __init__(self) -> None:
        self._allowed: int | None = None
        self._overdraws = True
        self.used = 0
        """Work since ``allow``."""

    def allow(self, work: int | None, *, overdraws: bool = True) -> None:
        """Begin an attempt; None for an unlimited one.

        With ``overdraws``, the last part of the work may exceed the rest, so every attempt makes progress.
        """
        self._allowed = work
        self._overdraws = overdraws
        self.used = 0

    def affords(self, estimate: int) -> bool:
        """Return whether to begin a part of known work."""
        if self._allowed is None:
            return True
        return not self.is_used_up and (self._overdraws or self.used + estimate <= self._allowed)

    def spend(self, work: int) -> None:
        self.used += work

    @property
    def is_used_up(self) -> bool:
        return self._allowed is not None and self.used >= self._allowed


class WorkBudget:
    """The remaining work of the expressions of a placement in one cycle, over all slices."""

    __slots__ = ("_clusters", "_left", "_limit", "_pace")

    def __init__(
        self, clusters: int, pace: Pace | None = None, *, fleet: int = FLEET_WORK, limit: int | None = None
    ) -> None:
        self._clusters = clusters
        self._limit = self._left = fleet + CLUSTER_WORK * clusters if limit is None else limit
        self._pace = pace or Pace()

    def pay(self, work: int, text: str) -> None:
        """Charge work. Raise TooCostly; ``text`` is the expression that the message names."""
        self._pace.spend(work)
        self._left -= work
        if self._left < 0:
            raise TooCostly(
                FLEET_TOO_COSTLY.format(limit=self._limit, clusters=self._clusters, text=shortened(text))
            )

    def lose(self, error: TooCostly) -> None:
        """Charge the work of an evaluation that failed by its own limit: it took its time like any other."""
        self._pace.spend(error.work)

    @property
    def is_paused(self) -> bool:
        return self._pace.is_used_up


def shortened(text: str) -> str:
    return repr(text) if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]!r}…"
