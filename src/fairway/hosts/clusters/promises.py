"""What is promised to clusters, and not yet in their published scores: the one rule for all controllers.

A published score lags behind. Two kinds of objects promise a change of it that comes later:

- A PlacementDecision names clusters for a Placement that debits the score. A version of the score that is newer than
  the decision measures its effect. The API server assigns the versions of all kinds from one sequence. Decisions that
  are older than ``MEASURED_AFTER`` count as measured: herding for one publication interval is better than counting
  twice.
- A HostedClusterRequest reserves room on its hosting cluster, until the hosting controller records in the condition
  Counted that the published load includes it.

The placement controller changes the scores that later Placements see by both. The hosting controller subtracts both
from the room of a hosting cluster. Both objects are on the hub, so that a new leader knows the promises of the old one.
A placement controller does not need the rule for decisions of its own term: each version of a score that it observes
after a decision ends the debit (``Fleet.upsert_score``).
"""

from dataclasses import dataclass
from typing import Final

from fairway.api.decision import PlacementDecision
from fairway.api.hosted_request import COUNTED, PLACED, HostedClusterRequest, HostingClusterReference
from fairway.api.hosting_policy import COUNT_SCORE, SCORE_RESOURCE
from fairway.api.score import AddOnPlacementScore
from fairway.hosts.instant import SECOND, Micros, to_micros
from kubewire.api.meta import TRUE, find_condition

MEASURED_AFTER: Final[Micros] = 600 * SECOND


@dataclass(frozen=True, slots=True)
class Promise:
    """A cluster in a decision: since when, and in which version of the hub."""

    version: int
    since: Micros

    @property
    def until(self) -> Micros:
        """When it counts as measured, whatever is published."""
        return self.since + MEASURED_AFTER

    def is_pending(self, score: AddOnPlacementScore | None, *, now: Micros) -> bool:
        """Return whether the score does not include the decision yet. A missing score has nothing to include it."""
        if score is None or now > self.until:
            return False
        published = score.metadata.resourceVersion
        return published.isdecimal() and int(published) < self.version


def promise_of(decision: PlacementDecision, *, since: Micros | None = None) -> Promise | None:
    """Return the promise of all clusters in a decision; None if its version or age is unknown.

    ``since``: when a cluster was added to it, which the hub does not record; by default when it was created.
    """
    created, version = decision.metadata.creationTimestamp, decision.metadata.resourceVersion
    if since is None and created is not None:
        since = to_micros(created)
    return None if since is None or not version.isdecimal() else Promise(int(version), since)


def is_counted(request: HostedClusterRequest) -> bool:
    """Return whether the published load of its hosting cluster includes a request."""
    condition = find_condition(request.status.conditions, COUNTED)
    return condition is not None and condition.status == TRUE


def place_of(request: HostedClusterRequest) -> HostingClusterReference | None:
    """Return the hosting cluster on which a request holds room."""
    return request.status.hostingCluster if request.status.phase in PLACED else None


def promised_place(request: HostedClusterRequest) -> HostingClusterReference | None:
    """Return the hosting cluster whose published load does not include a request yet; None if there is none."""
    return None if is_counted(request) else place_of(request)


def change_by_request(resource: str, score: str, *, debit: int) -> int:
    """Return how one request changes a score, for a Placement whose decisions change it by ``debit``.

    The number of hosted clusters rises by one. What a hosted cluster does to another score of a hosting cluster, only
    the Placement can say: a request counts like one of its own decisions.
    """
    if resource != SCORE_RESOURCE:
        return 0
    return 1 if score == COUNT_SCORE else debit
