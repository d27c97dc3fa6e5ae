from datetime import UTC, datetime

import pytest

from fairway.api.hosted_request import (
    HostedClusterRequest,
    HostedClusterRequestSpec,
    HostedClusterRequestStatus,
)
from fairway.api.hosting_policy import HostedClusterDemand
from fairway.workloads.hosting.requests import conditions
from fairway.workloads.hosting.requests.request_status import summarize
from kubewire.api.meta import FALSE, TRUE, UNKNOWN, Condition

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def with_conditions(**statuses: str) -> HostedClusterRequest:
    """Return a request with conditions whose reasons are their types and statuses."""
    known = tuple(
        Condition(
            type=type_, status=status, reason=f"{type_}{status}", message=type_, lastTransitionTime=NOON
        )
        for type_, status in statuses.items()
    )
    return HostedClusterRequest(status=HostedClusterRequestStatus(conditions=known))


@pytest.mark.parametrize(
    ("statuses", "reason"),
    [
        ({}, ""),
        ({"Scheduled": FALSE}, "ScheduledFalse"),
        ({"Scheduled": TRUE}, "ScheduledTrue"),
        ({"Scheduled": TRUE, "Bound": FALSE}, "BoundFalse"),
        ({"Scheduled": TRUE, "Bound": TRUE, "Confirmed": FALSE, "Applied": FALSE}, "AppliedFalse"),
        ({"Scheduled": TRUE, "Bound": TRUE, "Confirmed": TRUE, "Available": FALSE}, "AvailableFalse"),
        ({"Scheduled": TRUE, "Available": TRUE, "Bound": TRUE, "Counted": TRUE}, "AvailableTrue"),
        ({"Scheduled": TRUE, "Available": TRUE, "Moved": FALSE}, "MovedFalse"),
        ({"Scheduled": TRUE, "Confirmed": UNKNOWN, "Available": TRUE}, "ConfirmedUnknown"),
        ({"Scheduled": TRUE, "Available": FALSE, "HostAvailable": FALSE}, "HostAvailableFalse"),
        ({"Scheduled": TRUE, "HostAvailable": TRUE}, "ScheduledTrue"),
    ],
)
def test_summary_has_the_first_condition_that_needs_attention(statuses: dict[str, str], reason: str) -> None:
    request = with_conditions(**statuses)
    summary = summarize(request, request.status)
    assert summary.reason == reason
    assert bool(summary.message) == bool(reason)
    assert summarize(request, summary) == summary


def test_every_condition_of_requests_has_a_place_in_the_summary() -> None:
    for kind, type_ in conditions.CONDITIONS:
        if kind == "HostedClusterRequest" and type_ != conditions.COUNTED:
            request = with_conditions(**{type_: FALSE})
            assert summarize(request, request.status).message == type_


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        (HostedClusterRequestSpec(), "small"),
        (HostedClusterRequestSpec(size="large"), "large"),
        (HostedClusterRequestSpec(demand=HostedClusterDemand(cpu="1", memory="nonsense")), "custom"),
    ],
)
def test_summary_has_the_size_that_is_placed(spec: HostedClusterRequestSpec, size: str) -> None:
    request = HostedClusterRequest(spec=spec)
    assert summarize(request, request.status).size == size
