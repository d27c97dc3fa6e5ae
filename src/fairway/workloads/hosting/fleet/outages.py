"""Outages of hosting clusters: since when one is unavailable, and when it counts as lost.

One missed heartbeat says nothing. A cluster becomes unavailable when the hub marks it so, after the grace period of its
lease, and counts as lost when that has lasted for ``hostLoss.after`` of the policy. Everything is derived from the
ManagedCluster, so that each leader and each command has the same answer.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fairway.api.cluster import (
    CONDITION_AVAILABLE,
    NO_SELECT,
    TAINT_UNAVAILABLE,
    TAINT_UNREACHABLE,
    ManagedCluster,
)
from fairway.engine.workload import HostKey
from fairway.hosts.instant import Micros, from_micros, to_micros
from kubewire.api.meta import TRUE, find_condition, format_time

DELETED: Final = "was deleted or recreated"
DELETING: Final = "is being deleted"
UNAVAILABLE: Final = "is not available"
SINCE: Final = " since {time}"
IS_LOST: Final = ", and counts as lost"
LOST_AT: Final = ", and counts as lost from {time} on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    host: HostKey
    since: datetime | None = None
    """None if the hub does not say."""
    is_deleted: bool = False
    """Whether the hub has no ManagedCluster of this uid."""
    is_deleting: bool = False
    is_silent: bool = False
    """Whether the hub marks it as unavailable."""
    answers: bool = False
    """Whether its agent renews its lease nevertheless."""

    def lost_at(self, after: Micros) -> Micros | None:
        """Return when it counts as lost; 0 if it does at any time, None if that is unknown.

        ``after``: how long it may be unavailable.
        """
        if self.is_deleted or self.is_deleting:
            return 0
        return self._silent_until(after)

    def is_lost(self, after: Micros, *, now: Micros) -> bool:
        lost_at = self.lost_at(after)
        return lost_at is not None and lost_at <= now

    def is_abandoned(self, after: Micros, *, now: Micros) -> bool:
        """Return whether it is lost, and no agent will clean up there before it returns.

        A cluster that is being deleted may have an agent, which must first delete what it runs.
        """
        if self.is_deleted:
            return True
        until = self._silent_until(after)
        return not self.answers and until is not None and until <= now

    def _silent_until(self, after: Micros) -> Micros | None:
        return to_micros(self.since) + after if self.is_silent and self.since is not None else None

    def describe(self, after: Micros, *, now: Micros) -> str:
        """Say what is the matter, as the predicate of a sentence about the host."""
        what = DELETED if self.is_deleted else DELETING if self.is_deleting else UNAVAILABLE
        words = what + (SINCE.format(time=format_time(self.since)) if self.since is not None else "")
        lost_at = self.lost_at(after)
        if lost_at is None:
            return words
        return words + (IS_LOST if lost_at <= now else LOST_AT.format(time=format_time(from_micros(lost_at))))


def outage_of(cluster: ManagedCluster) -> Outage | None:
    """Return the outage of a cluster that exists; None if it is available."""
    meta = cluster.metadata
    condition = find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
    answers = condition is not None and condition.status == TRUE
    taints = [
        taint
        for taint in cluster.spec.taints
        if taint.key in (TAINT_UNREACHABLE, TAINT_UNAVAILABLE) and taint.effect == NO_SELECT
    ]
    silent = not answers or bool(taints)
    if not silent and meta.deletionTimestamp is None:
        return None
    # The time of the condition is the better one: a taint is added later, and again when its key changes.
    times = [condition.lastTransitionTime] if condition is not None and not answers else []
    times += [taint.timeAdded for taint in taints]
    since = next((time for time in times if time is not None), None)
    return Outage(
        host=HostKey.of(meta),
        since=since if silent else meta.deletionTimestamp,
        is_deleting=meta.deletionTimestamp is not None,
        is_silent=silent,
        answers=answers,
    )
