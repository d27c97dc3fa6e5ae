"""Why a cluster entered or left a decision, as `fairway up` and `fairway get decisions --watch` print it."""

from typing import Final

from fairway.engine.trace import HostTrace, Trace
from fairway.hosts.instant import Micros
from fairway.whatif.world import Key, World

CLUSTER_DELETED: Final = "the cluster was deleted"
RANKED: Final = "rank {rank}, {points} points"
BEFORE: Final = ", was {points}"
REJECTED: Final = "{plugin}: {reason}"
GATHER_SECONDS: Final = 0.2
"""Collect the writes of one reconciliation, so that a move is explained from the scores that caused it."""


def traces(world: World, key: Key, *, now: Micros) -> dict[str, HostTrace]:
    """Return rank and points, or the rejection, of every cluster, by name. Raise KeyError for an unknown placement."""
    return {host.host: host for host in Trace(world.ask(key, now=now).outcome)}


def cause(host: HostTrace | None, *, before: int | None) -> str:
    """Return why a cluster is or is not selected now. ``host`` is None for a deleted cluster, ``before`` its points
    at the last decision."""
    if host is None:
        return CLUSTER_DELETED
    if host.total is None:
        return (
            REJECTED.format(plugin=host.rejected_by, reason=host.reason) if host.rejected_by else host.reason
        )
    was = "" if before is None or before == host.total else BEFORE.format(points=before)
    # A score that expired changes the points without a change of any object: only its note names the cause.
    notes = (part.note for part in host.contributions if part.note)
    return "; ".join((RANKED.format(rank=host.rank, points=host.total) + was, *notes))
