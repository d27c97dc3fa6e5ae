"""Since when a cluster is in a decision, and the moves that count against limits, as the decision on the hub records.

The record is the end of the reason: the hub stores it with the clusters in one write, so that no crash separates them,
and a new leader continues with what the hub has.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from fairway.api.decision import ClusterDecision
from fairway.hosts.instant import Micros, from_micros, to_micros
from kubewire.api.meta import format_time

MOST_MOVES: Final = 1000
"""Moves that one reason records."""
_TIME: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
_RECORD: Final = re.compile(
    rf"(?:; selected ({_TIME})( after none)?)?(?:; moved ({_TIME}(?: {_TIME})*))?\Z", re.ASCII
)


class Tenure(NamedTuple):
    since: Micros | None = None
    """When the cluster was selected; None if that was not recorded."""
    after_none: bool = False
    """Whether the decision was empty before, so that earlier moves are unknown."""
    moves: tuple[Micros, ...] = ()
    """Moves of the placement by score that this cluster records, not necessarily its own."""

    def __str__(self) -> str:
        selected = "" if self.since is None else f"; selected {_text(self.since)}"
        none = " after none" if selected and self.after_none else ""
        return selected + none + ("; moved " + " ".join(map(_text, self.moves)) if self.moves else "")


UNKNOWN: Final = Tenure()
Tenures = tuple[tuple[str, Tenure], ...]


def tenures_of(decisions: Iterable[ClusterDecision]) -> Tenures:
    """Return the records of these decisions, by cluster; decisions without one are left out."""
    return tuple(
        (decision.clusterName, tenure)
        for decision in decisions
        # Few placements have a record, and a decision has many reasons.
        if decision.reason.endswith("Z") or decision.reason.endswith(" after none")
        if (tenure := _parse(decision.reason)) != UNKNOWN
    )


def _parse(reason: str) -> Tenure:
    record = _RECORD.search(reason)
    if record is None:
        return UNKNOWN
    since, after_none, moved = record.groups()
    moves = [_micros(text) for text in (moved or "").split(" ", MOST_MOVES)[:MOST_MOVES] if text]
    return Tenure(
        None if since is None else _micros(since),
        bool(after_none),
        tuple(sorted(moment for moment in moves if moment is not None)),
    )


def _text(moment: Micros) -> str:
    return format_time(from_micros(moment))


def _micros(text: str) -> Micros | None:
    try:
        return to_micros(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC))
    except ValueError:
        return None  # such as the 31st of February, in a reason that was edited by hand
