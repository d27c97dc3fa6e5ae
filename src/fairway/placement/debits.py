"""Rebuild the score debits of decisions on the hub, after a restart or for a command that reads the hub.

The hub does not record when a cluster was selected. A PlacementDecision that was created after a score was published
names clusters whose score cannot include its effect, so the rule is: the PlacementDecision was created at most
``RECENT`` ago, and its resource version is greater than that of the AddOnPlacementScore. The API server assigns the
versions of all kinds from one sequence. The debit of a placement that moved within an old PlacementDecision is not
rebuilt: herding for one publication interval is better than to count measured load twice.
"""

from collections.abc import Iterable
from typing import Final

from fairway.api.decision import PlacementDecision
from fairway.clusters import Fleet
from fairway.clusters.debits import Deltas
from fairway.clusters.decisions import Owner
from fairway.fleet.instant import SECOND, Micros, to_micros

RECENT: Final[Micros] = 600 * SECOND


def rebuild_debits(
    fleet: Fleet, owner: Owner, deltas: Deltas, pages: Iterable[PlacementDecision], *, now: Micros
) -> None:
    """Replace the debits of a placement by those of its decisions on the hub."""
    fleet.forget_debits(owner)
    if not deltas:
        return
    snapshot = fleet.snapshot()
    for page in pages:
        created, version = page.metadata.creationTimestamp, page.metadata.resourceVersion
        if created is None or not version.isdecimal() or to_micros(created) < now - RECENT:
            continue
        for each in page.status.decisions:
            pending = {
                key: delta
                for key, delta in deltas.items()
                if (score := snapshot.score_object(each.clusterName, key[0])) is not None
                and (published := score.metadata.resourceVersion).isdecimal()
                and int(published) < int(version)
            }
            fleet.debit(owner, (each.clusterName,), pending)
