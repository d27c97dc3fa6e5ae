"""Place many requests in one pass, each with what the ones before it reserved. Nothing is written."""

from collections.abc import Iterable

from fairway.api.hosted_request import HostedClusterRequest
from fairway.engine import cycle
from fairway.hosts.instant import Micros
from fairway.workloads.hosting.decision import Decision, decision_of
from fairway.workloads.hosting.profile import without_quiet_hours
from fairway.workloads.hosting.state import HostingState


def place(
    state: HostingState,
    requests: Iterable[HostedClusterRequest],
    *,
    now: Micros,
    quiet: bool = True,
    complete: bool = False,
) -> list[Decision]:
    """Return the decisions in the order in which the requests would be placed: by priority, then as given.

    ``state`` is not changed. ``quiet=False`` ignores quiet hours. ``complete`` is that of ``decision_of``.
    """
    return place_on(state.fork(), requests, now=now, quiet=quiet, complete=complete)


def place_on(
    trial: HostingState,
    requests: Iterable[HostedClusterRequest],
    *,
    now: Micros,
    quiet: bool = True,
    complete: bool = False,
) -> list[Decision]:
    """Do the same on a fork, which has all the reservations afterwards."""
    profile = trial.profile if quiet else without_quiet_hours(trial.profile)
    workloads = sorted(map(trial.workload_of, requests), key=lambda workload: -workload.priority)
    decisions: list[Decision] = []
    for workload in workloads:
        # Without a name for the outcome: its snapshot would make the table copy the columns that a reservation writes.
        decision = decision_of(
            cycle.run(trial.snapshot(), workload, profile, now=now), workload.key, complete=complete
        )
        if decision.host is not None:
            trial.reserve(workload, decision.host)
        decisions.append(decision)
    return decisions
