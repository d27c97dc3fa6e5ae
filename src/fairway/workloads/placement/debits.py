"""Score debits: those of a profile, and those of decisions on the hub after a restart, or for a command that reads it.

``clusters.promises`` has the rule. The hub does not record when a cluster was selected, so the debit of a placement
that moved within an old PlacementDecision is not rebuilt.
"""

from collections.abc import Iterable

from fairway.api.decision import PlacementDecision
from fairway.engine.profile import Profile
from fairway.hosts.clusters import Fleet
from fairway.hosts.clusters.debits import NO_RULES, DebitRules, Deltas
from fairway.hosts.clusters.decisions import Owner
from fairway.hosts.clusters.promises import promise_of
from fairway.hosts.instant import Micros
from fairway.workloads.placement.plugins.prioritizer_policy import PrioritizerPolicy


def debits_of(profile: Profile) -> DebitRules:
    """Return what a profile defines about score debits."""
    return profile.prioritizer.debits if isinstance(profile.prioritizer, PrioritizerPolicy) else NO_RULES


def rebuild_debits(
    fleet: Fleet, owner: Owner, deltas: Deltas, pages: Iterable[PlacementDecision], *, now: Micros
) -> None:
    """Replace the debits of a placement by those of its decisions on the hub."""
    fleet.release_debits(owner)
    if not deltas:
        return
    snapshot = fleet.snapshot()
    for page in pages:
        promise = promise_of(page)
        # Without version and age nothing says which scores include the decision. Not debiting is the safe side:
        # herding for one publication interval is better than counting twice.
        if promise is None:
            continue
        for decision in page.status.decisions:
            pending = {
                key: delta
                for key, delta in deltas.items()
                if promise.is_pending(snapshot.score_object(decision.clusterName, key[0]), now=now)
            }
            fleet.debit(owner, (decision.clusterName,), pending)
