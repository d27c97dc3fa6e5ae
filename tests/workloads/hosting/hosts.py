"""Hosting clusters, requests and policies for tests."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from fairway.api.cluster import ManagedCluster
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.hosting_policy import HostingPolicy
from fairway.api.score import AddOnPlacementScore
from fairway.engine.points import CommitContext
from fairway.engine.profile import Profile, build_profile
from fairway.engine.status import OK, Status
from fairway.hosts.instant import Micros, to_micros
from fairway.workloads.hosting import HOSTING_KIND, HostingState, hosting_registry
from fairway.workloads.hosting.profile import RESERVE_IN_STATUS
from fairway.workloads.hosting.rules.host_namespaces import derived_namespace

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
"""A Monday."""
NOW: Micros = to_micros(START)
MINUTE = 60_000_000


def host(
    name: str,
    *,
    claims: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    available: bool = True,
    version: str = "v1.31.2",
    uid: str = "",
    **spec: Any,
) -> ManagedCluster:
    given = {"hostingcluster.hypershift.openshift.io": "true", **(claims or {})}
    condition = {
        "type": "ManagedClusterConditionAvailable",
        "status": "True" if available else "Unknown",
        "reason": "Lease",
        "message": "" if available else "its lease expired",
        "lastTransitionTime": "2026-03-01T00:00:00Z",
    }
    body = {
        "metadata": {"name": name, "uid": uid or f"uid-{name}", "labels": dict(labels or {})},
        "spec": {"hubAcceptsClient": True, **spec},
        "status": {
            "conditions": [condition],
            "clusterClaims": [{"name": key, "value": value} for key, value in given.items()],
            "allocatable": dict(allocatable or {}),
            "version": {"kubernetes": version},
        },
    }
    return msgspec.convert(body, ManagedCluster)


def load(
    name: str,
    *,
    count: int,
    valid: timedelta | None = timedelta(minutes=3),
    at: datetime = START,
    scores: Mapping[str, int] | None = None,
    conditions: list[dict[str, str]] | None = None,
) -> AddOnPlacementScore:
    """The load that a host publishes."""
    values = {"hostedClustersCount": count, **(scores or {})}
    status: dict[str, Any] = {
        "scores": [{"name": key, "value": value} for key, value in values.items()],
        "conditions": conditions or [],
    }
    if valid is not None:
        status["validUntil"] = (at + valid).isoformat()
    body = {"metadata": {"name": "hosted-clusters-score", "namespace": name}, "status": status}
    return msgspec.convert(body, AddOnPlacementScore)


def request(name: str, *, namespace: str = "team-a", status: Any = None, **spec: Any) -> HostedClusterRequest:
    body = {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", "generation": 1},
        "spec": {"hostedCluster": {"spec": {"platform": {"type": "None"}}}, **spec},
        "status": status or {},
    }
    return msgspec.convert(body, HostedClusterRequest)


def policy(name: str = "default", **spec: Any) -> HostingPolicy:
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, HostingPolicy)


class Binder:
    """Binds at once."""

    name = RESERVE_IN_STATUS

    async def bind(self, _context: CommitContext, /) -> Status:
        return OK


def binding_profile(state: HostingState) -> Profile:
    """The profile of a controller that writes nothing."""
    registry = hosting_registry(state)
    registry.register(Binder.name, Binder)
    return build_profile(HOSTING_KIND.spec(), registry)


def state_of(*objects: object, tracks_age: bool = False) -> HostingState:
    state = HostingState(tracks_age=tracks_age)
    state.load(objects, now=NOW)
    return state


def placed(
    name: str, on: str, *, phase: str = "Bound", counted: bool = False, **spec: Any
) -> HostedClusterRequest:
    """A request with a place."""
    since = "2026-03-02T11:00:00Z"
    conditions = [
        {
            "type": "Confirmed",
            "status": "True",
            "reason": "Reported",
            "message": "",
            "lastTransitionTime": since,
        }
    ]
    if counted:
        conditions.append({**conditions[0], "type": "Counted"})
    own = derived_namespace(spec.get("namespace", "team-a"))
    status = {
        "phase": phase,
        "accepted": {"namespace": spec.get("hostedCluster", {}).get("namespace", own)},
        "hostingCluster": {"name": on, "uid": f"uid-{on}"},
        "conditions": conditions if phase == "Confirmed" else [],
    }
    return request(name, status=status, **spec)
