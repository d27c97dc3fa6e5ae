"""What a hosting cluster publishes about its load. What is missing or old is unknown, and never taken for empty."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fairway.api.cluster import ManagedCluster
from fairway.api.hosting_policy import DEFAULT_MAX_PER_HOST, REQUESTS_SCORE
from fairway.api.score import AddOnPlacementScore
from fairway.engine.workload import ResourceList, milli
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.scores import is_silent
from fairway.hosts.instant import SECOND, Micros, to_micros
from fairway.workloads.hosting.resources import CPU, MEMORY, PODS
from fairway.workloads.hosting.rules.policy import Limits
from kubewire.api.meta import FALSE, find_condition
from kubewire.api.quantity import QuantityError

HOSTING_CLAIM: Final = "hostingcluster.hypershift.openshift.io"
FULL_CLAIM: Final = "full.hostedclustercount.hypershift.openshift.io"
MAXIMUM_CLAIM: Final = "maximum.hostedclustercount.fairway.dev"
"""The number of hosted clusters that a provider's score of 100 slots stands for."""
FREE_CLAIMS: Final[Mapping[str, str]] = {
    CPU: "cpu.free.hosting.fairway.dev",
    MEMORY: "memory.free.hosting.fairway.dev",
}
"""Quantities that are free for control planes, measured on the cluster."""
ADD_ON_LABEL: Final = "feature.open-cluster-management.io/addon-hypershift-addon"
ADD_ON_AVAILABLE: Final = "available"
COUNT_UPDATED: Final = "HostedClusterCountUpdated"
"""Condition of the add-on's score; False if the add-on could not count."""

SLOTS_PREFIX: Final = "hcpSlots"
HIGHEST_SCORE: Final = 100

NO_SCORE: Final = "publishes no {resource}/{score}, so that its load is unknown"
EXPIRED: Final = "{resource} expired {seconds} seconds ago, so that its load is unknown"
OLD: Final = "{resource} was not renewed for {seconds} seconds, so that its load is unknown"
SILENT: Final = "the provider of {resource} stopped publishing, so that its load is unknown"
NOT_COUNTED: Final = "the hypershift add-on could not count its hosted clusters: {message}"
UNDATED: Final = (
    "{resource} has no validUntil, and the hypershift add-on is not available to vouch for it, so that its load is "
    "unknown"
)
NEGATIVE: Final = "{resource}/{score} is {value}, which is not a number of hosted clusters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    count: int
    """Hosted clusters, of all owners."""
    of_requests: int | None = None
    """How many of these were created for requests, if that is published."""
    slots: Mapping[str, int] = field(default_factory=dict)
    """Free slots by the name of the score: at least so many."""
    free: ResourceList | None = None
    """Free amounts, where they are published."""
    allocatable: ResourceList | None = None
    """What all nodes can give to workloads, used or not."""
    until: Micros | None = None
    """When it becomes unknown, unless it is published again."""

    @property
    def saturated(self) -> bool:
        """Whether there may be more hosted clusters than the score can express."""
        return self.count >= HIGHEST_SCORE


@dataclass(frozen=True, slots=True)
class Unknown:
    reason: str
    resource: str
    """Name of the AddOnPlacementScore that would help."""


def telemetry_of(
    cluster: ManagedCluster,
    score: AddOnPlacementScore | None,
    limits: Limits,
    *,
    now: Micros,
    seen: Micros | None = None,
) -> Telemetry | Unknown:
    """``seen`` is when this version of the score was first observed, if that is known."""
    problem, until = _trust(cluster, score, limits, now=now, seen=seen)
    if problem:
        return Unknown(problem, limits.resource)
    assert score is not None
    values = {item.name: item.value for item in score.status.scores}
    count = values.get(limits.score)
    names = {"resource": limits.resource, "score": limits.score}
    if count is None:
        return Unknown(NO_SCORE.format(**names), limits.resource)
    if count < 0:
        return Unknown(NEGATIVE.format(**names, value=count), limits.resource)
    claims = cells.claims_of(cluster)
    most = _maximum(claims, limits)
    slots = {
        name: _slots(value, most=most)
        for name, value in values.items()
        if name.startswith(SLOTS_PREFIX) and value >= 0
    }
    of_requests = values.get(REQUESTS_SCORE)
    return Telemetry(
        count=count,
        of_requests=None if of_requests is None or of_requests < 0 else of_requests,
        slots=slots,
        free=_free(claims),
        allocatable=_allocatable(cluster),
        until=until,
    )


def _trust(
    cluster: ManagedCluster,
    score: AddOnPlacementScore | None,
    limits: Limits,
    *,
    now: Micros,
    seen: Micros | None,
) -> tuple[str, Micros | None]:
    """Return why the score cannot be used, if so, and until when it can."""
    resource = limits.resource
    if score is None:
        return NO_SCORE.format(resource=resource, score=limits.score), None
    if is_silent(score):
        return SILENT.format(resource=resource), None
    counted = find_condition(score.status.conditions, COUNT_UPDATED)
    if counted is not None and counted.status == FALSE:
        return NOT_COUNTED.format(message=counted.message), None
    if score.status.validUntil is None:
        # The add-on publishes when something changes. While it is available, the last score is current.
        if cluster.metadata.labels.get(ADD_ON_LABEL) != ADD_ON_AVAILABLE:
            return UNDATED.format(resource=resource), None
        return "", None
    until = to_micros(score.status.validUntil)
    if until <= now:
        return EXPIRED.format(resource=resource, seconds=(now - until) // SECOND), None
    if seen is not None:
        if seen + limits.max_age <= now:
            return OLD.format(resource=resource, seconds=(now - seen) // SECOND), None
        until = min(until, seen + limits.max_age)
    return "", until


def _maximum(claims: Mapping[str, str], limits: Limits) -> int:
    text = claims.get(MAXIMUM_CLAIM, "")
    if text.isdecimal() and 0 < int(text) <= 1_000_000:
        return int(text)
    return min(limits.max_per_host, DEFAULT_MAX_PER_HOST)


def _slots(value: int, *, most: int) -> int:
    """Return the smallest number of slots that is published as this score."""
    return value if value <= 1 else -(-value * most // HIGHEST_SCORE)


def _free(claims: Mapping[str, str]) -> ResourceList | None:
    return _amounts({resource: claims.get(name) for resource, name in FREE_CLAIMS.items()})


def _allocatable(cluster: ManagedCluster) -> ResourceList | None:
    published = cluster.status.allocatable
    free = _amounts({CPU: published.get(CPU), MEMORY: published.get(MEMORY)})
    if free is None:
        return None
    pods = _amounts({PODS: published.get(PODS)})
    return {**free, **pods} if pods else free


def _amounts(texts: Mapping[str, str | int | float | None]) -> dict[str, int] | None:
    """Return the amounts; None if one is missing or invalid."""
    amounts: dict[str, int] = {}
    for resource, text in texts.items():
        if text is None:
            return None
        try:
            amounts[resource] = milli(text)
        except QuantityError:
            return None
        if amounts[resource] < 0:
            return None
    return amounts
