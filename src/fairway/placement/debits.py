"""Score debits: those of a profile, and those of decisions on the hub after a restart, or for a command that reads it.

``clusters.promises`` has the rule. The hub does not record when a cluster was selected, so the debit of a placement
that moved within an old PlacementDecision is not rebuilt.
"""

from collections.abc import Iterable

from fairway.api.decision import PlacementDecision
from fairway.clusters import Fleet
from fairway.clusters.debits import Deltas
from fairway.clusters.decisions import Owner
from fairway.clusters.promises import promise_of
from fairway.engine.profile import Profile
from fairway.fleet.instant import Micros
from fairway.plugins.prioritizer_policy import PrioritizerPolicy


def debits_of(profile: Profile) -> Deltas:
    """Return the score debits that a profile has for all placements."""
    return profile.prioritizer.debits if isinstance(profile.prioritizer, PrioritizerPolicy) else {}


def rebuild_debits(
    fleet: Fleet, owner: Owner, deltas: Deltas, pages: Iterable[PlacementDecision], *, now: Micros
) -> None:
    """Replace the debits of a placement by those of its decisions on the hub."""
    fleet.forget_debits(owner)
    if not deltas:
        return
    snapshot = fleet.snapshot()
    for page in pages:
        promise = promise_of(page)
        if promise is None:
            continue
        for each in page.status.decisions:
            pending = {
                key: delta
                for key, delta in deltas.items()
                if promise.is_pending(snapshot.score_object(each.clusterName, key[0]), now=now)
            }
            fleet.debit(owner, (each.clusterName,), pending)
