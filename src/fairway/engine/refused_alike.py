"""Rejections that hold for other workloads, too, so that one cycle answers for all of them.

Thousands of requests of one kind may find no room. Each cycle would compare each of them with all hosts, for the same
answer. A rejection holds until an event that may help it, which is also what the queue waits for before it tries a
rejected workload again; a workload that is alike and arrives meanwhile is rejected without a cycle.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final

from fairway.engine.dependencies import Dependencies, Event
from fairway.engine.outcome import Outcome
from fairway.engine.queue import Rejection
from fairway.engine.workload import Workload
from fairway.hosts.instant import SECOND, Micros

MOST_GROUPS: Final = 256
"""Maximum number of groups."""
SHARED_FOR: Final[Micros] = SECOND
"""A rejection is shared for this long, in case a plugin reads more than it declares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Which workloads are rejected together."""

    group_of: Callable[[Workload[Any]], Hashable]
    """Workloads of equal groups are equal for all plugins but ``distinguishing``."""
    distinguishing: frozenset[str]
    """Plugins that distinguish workloads of a group. What one of them rejects is not shared."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    outcome: Outcome
    rejections: tuple[Rejection, ...]
    depends: Dependencies
    until: Micros


class RefusedAlike:
    def __init__(self, alike: Alike | None) -> None:
        self._alike = alike
        self._refusals: OrderedDict[Hashable, _Refusal] = OrderedDict()
        self.shared = 0
        """Number of workloads that were rejected without a cycle."""

    def on_event(self, event: Event) -> None:
        # All groups are asked: there are at most MOST_GROUPS, and an index of them would have to be kept for each
        # rejection.
        helped = [group for group, refusal in self._refusals.items() if refusal.depends.concerned_by(event)]
        for group in helped:
            del self._refusals[group]

    def find(self, workload: Workload[Any], *, now: Micros) -> tuple[Outcome, tuple[Rejection, ...]] | None:
        """Return how a workload is rejected; None if that takes a cycle."""
        if self._alike is None or not self._refusals:
            return None
        refusal = self._refusals.get(self._alike.group_of(workload))
        if refusal is None or now >= refusal.until:
            return None
        self.shared += 1
        return refusal.outcome.shared_with(workload), refusal.rejections

    def keep(
        self, workload: Workload[Any], outcome: Outcome, rejections: tuple[Rejection, ...], *, now: Micros
    ) -> None:
        """Remember how a workload was rejected, for those that are alike.

        Hosts that only a distinguishing plugin rejects may be good for other workloads. All others are rejected by what
        the workloads have in common.
        """
        if (
            self._alike is None
            # A PostFilter plugin ran for this workload. Whether it can make room is a question of its own for each.
            or outcome.relief is not None
            or any(
                rejection.pending or rejection.plugin in self._alike.distinguishing
                for rejection in rejections
            )
        ):
            return
        group = self._alike.group_of(workload)
        self._refusals.pop(group, None)
        depends = Dependencies.of(rejection.reads for rejection in rejections)
        until = min(now + SHARED_FOR, outcome.until)
        self._refusals[group] = _Refusal(outcome, rejections, depends, until)
        if len(self._refusals) > MOST_GROUPS:
            self._refusals.popitem(last=False)
