"""HostingPolicies, with their defaults: which clusters they cover, quiet hours, and where two of them conflict."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import Final

from fairway.api.hosted_request import DEFAULT_POLICY, HostedClusterRequest
from fairway.api.hosting_policy import (
    APPROVED,
    AUTO,
    COUNT_SCORE,
    DEFAULT_MAX_PER_HOST,
    NONE,
    SCORE_RESOURCE,
    SPREAD,
    WEEKDAYS,
    HostedClusterSize,
    HostingPolicy,
    HostingPolicySpec,
    QuietHours,
)
from fairway.api.hosting_template import HostingTemplate
from fairway.hosts.instant import SECOND, Micros, from_micros, to_micros
from fairway.workloads.hosting.rules.host_namespaces import matching
from fairway.workloads.hosting.rules.permits import DEFAULT_PERMITS, Permits, covers
from fairway.workloads.hosting.rules.tenancy import Tenancy

NO_POLICY: Final = "spec.policy: there is no HostingPolicy {name!r}; create it, or name one of {known}"
NOT_FOR_NAMESPACE: Final = (
    "spec.policy: policy {name} is not for requests of namespace {namespace}; name one that is: {known}"
)
CONFLICT: Final = (
    "HostingPolicies {first} and {second} both cover {host} and differ in {fields}: make them equal, or give them "
    "cluster sets without common members"
)

NO_TENANCY: Final = Tenancy(policy=DEFAULT_POLICY, quotas={}, quota={})
"""Each namespace is a tenant, without a quota."""

_UNITS: Final = {"h": 3600, "m": 60, "s": 1}
_DAY: Final = timedelta(days=1)
MOST_ADJOINING: Final = 32
"""Quiet hours without end are reported as that many."""


class PolicyError(ValueError):
    """A request whose policy cannot be applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How full a hosting cluster gets. All policies that cover it must agree on these."""

    model: str = AUTO
    resource: str = SCORE_RESOURCE
    score: str = COUNT_SCORE
    max_age: Micros = 600 * SECOND
    max_per_host: int = DEFAULT_MAX_PER_HOST
    max_utilization: int = 100
    """Per cent."""
    spare_hosts: int = 0

    def differing(self, other: "Limits") -> list[str]:
        return [name for name in FIELDS if getattr(self, name) != getattr(other, name)]

    def strictest(self, other: "Limits") -> "Limits":
        """Return limits that satisfy both, while a conflict lasts. Of two models, the first one's."""
        return Limits(
            model=self.model,
            resource=self.resource,
            score=self.score,
            max_age=min(self.max_age, other.max_age),
            max_per_host=min(self.max_per_host, other.max_per_host),
            max_utilization=min(self.max_utilization, other.max_utilization),
            spare_hosts=max(self.spare_hosts, other.spare_hosts),
        )


FIELDS: Final[Mapping[str, str]] = {
    "model": "capacity.model",
    "resource": "capacity.count.resourceName",
    "score": "capacity.count.scoreName",
    "max_age": "capacity.maxAge",
    "max_per_host": "maxPerHost",
    "max_utilization": "maxUtilization",
    "spare_hosts": "spareHosts",
}
"""Field of a HostingPolicy by attribute of Limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    name: str = DEFAULT_POLICY
    cluster_sets: tuple[str, ...] = ()
    """Empty for every hosting cluster."""
    limits: Limits = Limits()
    strategy: str = SPREAD
    anti_affinity: str = NONE
    """Between hosted clusters of one tenant."""
    sizes: tuple[HostedClusterSize, ...] = ()
    timeout: Micros = 600 * SECOND
    """Of a reservation."""
    lost_after: Micros = 600 * SECOND
    """How long a hosting cluster is unavailable before it counts as lost."""
    recreates: bool = False
    """Whether a person may approve to create hosted clusters of a lost hosting cluster again, empty."""
    quiet_hours: tuple[QuietHours, ...] = ()
    namespaces: tuple[str, ...] = ()
    """Whose requests may name the policy; empty for every namespace."""
    placement_namespaces: tuple[str, ...] = ()
    """Whose Placements take room of hosting clusters."""
    permits: Permits = DEFAULT_PERMITS
    tenancy: Tenancy = NO_TENANCY
    template: HostingTemplate | None = field(default=None, hash=False)
    """Defaults for what requests create."""

    def counts_placements_of(self, namespace: str) -> bool:
        return bool(matching(self.placement_namespaces, namespace))

    def quiet_until(self, now: Micros) -> Micros | None:
        """Return when the quiet hours that have begun end; None outside of them. Adjoining ones count as one."""
        end = now
        for _ in range(MOST_ADJOINING):
            later = max(
                (hours_end for hours in self.quiet_hours for hours_end in _ends(hours, end)), default=None
            )
            if later is None:
                break
            end = later
        return end if end > now else None


def _ends(hours: QuietHours, now: Micros) -> Iterator[Micros]:
    moment = from_micros(now).astimezone(UTC)
    for day in (moment.date() - _DAY, moment.date()):
        if hours.days and WEEKDAYS[day.weekday()] not in hours.days:
            continue
        start, end = (datetime.combine(day, _time(text), UTC) for text in (hours.start, hours.end))
        if end <= start:
            end += _DAY
        if start <= moment < end:
            yield to_micros(end)


def policy_of(source: HostingPolicy) -> Policy:
    spec = source.spec
    return Policy(
        name=source.metadata.name,
        cluster_sets=tuple(spec.clusterSets),
        limits=_limits(spec),
        strategy=spec.strategy or SPREAD,
        anti_affinity=spec.tenantAntiAffinity or NONE,
        sizes=spec.sizes,
        timeout=duration(spec.reservationTimeout, default=600 * SECOND),
        lost_after=duration(spec.hostLoss.after, default=600 * SECOND),
        recreates=spec.hostLoss.recreate == APPROVED,
        quiet_hours=spec.quietHours,
        namespaces=spec.namespaces,
        placement_namespaces=spec.placementNamespaces,
        permits=Permits.of(spec.permits),
        tenancy=Tenancy.of(source.metadata.name, spec),
        template=spec.template,
    )


def _limits(spec: HostingPolicySpec) -> Limits:
    return Limits(
        model=spec.capacity.model or AUTO,
        resource=spec.capacity.count.resourceName or SCORE_RESOURCE,
        score=spec.capacity.count.scoreName or COUNT_SCORE,
        max_age=duration(spec.capacity.maxAge, default=600 * SECOND),
        max_per_host=spec.maxPerHost or DEFAULT_MAX_PER_HOST,
        max_utilization=spec.maxUtilization or 100,
        spare_hosts=spec.spareHosts,
    )


def policy_for(request: HostedClusterRequest, policies: Mapping[str, Policy]) -> Policy:
    """Return the policy that a request names. Raises PolicyError if it must not name it."""
    policy, namespace = find_policy(policies, request.spec.policy), request.metadata.namespace
    if not covers(policy.namespaces, namespace):
        usable = sorted(name for name, policy in policies.items() if covers(policy.namespaces, namespace))
        known = ", ".join(usable) or "none"
        raise PolicyError(NOT_FOR_NAMESPACE.format(name=policy.name, namespace=namespace, known=known))
    return policy


def find_policy(policies: Mapping[str, Policy], name: str) -> Policy:
    """Return a policy; the built-in one if ``default`` does not exist. Raises PolicyError."""
    name = name or DEFAULT_POLICY
    policy = policies.get(name)
    if policy is not None:
        return policy
    if name == DEFAULT_POLICY:
        return Policy()
    raise PolicyError(NO_POLICY.format(name=name, known=", ".join(sorted({*policies, DEFAULT_POLICY}))))


def conflict_of(first: Policy, second: Policy, *, host: str) -> str | None:
    """Return why two policies that cover the same host conflict."""
    fields = first.limits.differing(second.limits)
    if not fields:
        return None
    names = sorted((first.name, second.name))
    return CONFLICT.format(
        first=names[0],
        second=names[1],
        host=host,
        fields=", ".join(FIELDS[field_name] for field_name in fields),
    )


def strictest(policies: Iterable[Policy]) -> Limits:
    """Return the limits of a host from the policies that cover it; the defaults if there is no policy."""
    limits: Limits | None = None
    for policy in sorted(policies, key=lambda policy: policy.name):
        limits = policy.limits if limits is None else limits.strictest(policy.limits)
    return limits or Limits()


def duration(text: str, *, default: Micros) -> Micros:
    """Return a duration such as ``10m``; the default for an invalid one."""
    number, unit = text[:-1], text[-1:]
    return int(number) * _UNITS[unit] * SECOND if number.isdecimal() and unit in _UNITS else default


def _time(text: str) -> time:
    hours, _, minutes = text.partition(":")
    return time(int(hours), int(minutes))
