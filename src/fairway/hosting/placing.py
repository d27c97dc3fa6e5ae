"""Place many requests in one pass, each with what the ones before it reserved. Nothing is written."""

from collections.abc import Iterable

from fairway.api.hosted_request import HostedClusterRequest
from fairway.engine import cycle
from fairway.fleet.instant import Micros
from fairway.hosting.decision import Decision, decision_of
from fairway.hosting.profile import hosting_profile
from fairway.hosting.state import HostingState


def place(
    state: HostingState, requests: Iterable[HostedClusterRequest], *, now: Micros, quiet: bool = True
) -> list[Decision]:
    """Return the decisions in the order in which the requests would be placed: by priority, then as given.

    ``state`` is not changed. ``quiet=False`` ignores quiet hours.
    """
    trial = state.fork()
    profile = hosting_profile(trial, quiet=quiet)
    workloads = sorted(map(state.workload_of, requests), key=lambda each: -each.priority)
    decisions: list[Decision] = []
    for workload in workloads:
        decision = decision_of(cycle.run(trial.snapshot(), workload, profile, now=now), workload.key)
        if decision.host is not None:
            trial.reserve(workload, decision.host)
        decisions.append(decision)
    return decisions
