"""Register a cluster on a hub, and obtain its first certificate.

All requests use a bootstrap identity, which may only register clusters.
"""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from fairway.api.cluster import CONDITION_ACCEPTED, CONDITION_AVAILABLE, ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.klusterlet import names
from fairway.klusterlet.certificates import Subject
from fairway.klusterlet.enrolment import CertificateSpec, Enrolment
from fairway.klusterlet.errors import Refused
from fairway.klusterlet.membership import FIELD_MANAGER
from fairway.klusterlet.state import State
from kubewire.api.meta import FALSE, TRUE, find_condition, format_time
from kubewire.client import AlreadyExists, Client, Informer, NotFound

CREATED: Final = "created ManagedCluster {name} on hub {server}"
FOUND: Final = "ManagedCluster {name} already exists on hub {server}"
ALREADY_ACTIVE: Final = (
    "ManagedCluster {name} already exists on hub {server}, with an active agent{where}: if that is another cluster, "
    "stop this command and join under another name"
)
API_ADDRESS: Final = ", whose API is at {url}"
BEING_REMOVED: Final = "cluster {name} is being deleted on the hub; join again once it is deleted"
NOT_ACCEPTED: Final = "the hub does not accept cluster {name}: {why}"
PENDING: Final = (
    "certificate request {request} is waiting for approval; on the hub run: fairway accept {name}"
)
SIGNED: Final = "the certificate is signed, valid until {ends}"

NOT_ACCEPTED_YET: Final = "the hub does not accept cluster {name} yet: {why}; retrying"
UNACCEPTED: Final = "waiting to be accepted; on the hub run: fairway accept {name}"

_DENIED: Final = "HubClusterAdminDenied"
_PASSING: Final = frozenset({_DENIED, "NamespaceTerminating", "Error"})
"""Reasons that may disappear, by themselves or by an administrator."""

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRegistration:
    """ManagedCluster to create. ``url`` and ``authority`` are for clients of the cluster's API."""

    name: str
    url: str = ""
    authority: bytes = b""
    lease_seconds: int = 60

    def document(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"hubAcceptsClient": False, "leaseDurationSeconds": self.lease_seconds}
        if self.url:
            config: dict[str, Any] = {"url": self.url}
            if self.authority:
                config["caBundle"] = self.authority
            spec["managedClusterClientConfigs"] = [config]
        return {"metadata": {"name": self.name}, "spec": spec}


def certificate_spec(state: State, *, seconds: int | None = None) -> CertificateSpec:
    """Certificate of this cluster's agent on the hub."""
    name = state.cluster
    return CertificateSpec(
        subject=Subject(
            user=names.user_of(name, state.agent), groups=(names.group_of(name), names.ALL_AGENTS)
        ),
        prefix=f"{name}-",
        labels={names.CLUSTER_LABEL: name},
        seconds=seconds,
    )


async def register(
    bootstrap: Client,
    registration: ClusterRegistration,
    state: State,
    *,
    notify: Notify,
    seconds: int | None = None,
) -> None:
    """Register the cluster, until the state has an identity. Raises Refused, and KubeErrors that are not retryable."""
    name = registration.name
    server = bootstrap.connection.server
    try:
        existing = await bootstrap.get(MANAGED_CLUSTERS, name)
        _check(existing)
        notify(_describe_existing(existing, registration, server=server))
    except NotFound as error:
        if not error.details.name:
            raise  #  the hub does not serve ManagedClusters
        try:
            await bootstrap.create(MANAGED_CLUSTERS, registration.document(), field_manager=FIELD_MANAGER)
            notify(CREATED.format(name=name, server=server))
        except AlreadyExists:
            notify(FOUND.format(name=name, server=server))

    enrolment = Enrolment(bootstrap, certificate_spec(state, seconds=seconds), pending=state.pending("hub"))
    pair = await enrolment.obtain(waiting=lambda request: notify(PENDING.format(request=request, name=name)))
    state.store(pair, hub=bootstrap.connection)
    enrolment.mark_stored()
    notify(SIGNED.format(ends=format_time(pair.check().ends)))


def _describe_existing(cluster: ManagedCluster, registration: ClusterRegistration, *, server: str) -> str:
    """Warn about an available cluster: one prepared for this agent, or left by it, has no active agent."""
    name = registration.name
    available = find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
    if available is None or available.status != TRUE:
        return FOUND.format(name=name, server=server)
    urls = [config.url for config in cluster.spec.managedClusterClientConfigs if config.url]
    other = urls and registration.url not in urls
    where = API_ADDRESS.format(url=", ".join(urls)) if other else ""
    return ALREADY_ACTIVE.format(name=name, server=server, where=where)


async def wait_for_acceptance(bootstrap: Client, name: str, *, notify: Notify) -> None:
    """Wait until the hub has accepted the cluster. Raises Refused if it will not.

    Uses the bootstrap identity: the cluster's own has no permission to read the reason before it is accepted.
    """
    notified = ""
    async with (
        Informer(bootstrap, MANAGED_CLUSTERS, fields=f"metadata.name={name}") as informer,
        aclosing(informer.changes()) as changes,
    ):
        async for _ in changes:
            cluster = informer.get(name)
            if cluster is None:
                raise Refused(BEING_REMOVED.format(name=name))
            _check(cluster)
            accepted = find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED)
            if accepted is not None and accepted.status == TRUE:
                return
            reason, text = _obstacle(cluster)
            if text and reason != notified:
                notified = reason
                notify(text)


def _obstacle(cluster: ManagedCluster) -> tuple[str, str]:
    """Return reason and message of what is waited for; empty if the hub is about to accept the cluster."""
    name = cluster.metadata.name
    if not cluster.spec.hubAcceptsClient:
        return _DENIED, UNACCEPTED.format(name=name)
    accepted = find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED)
    if accepted is None or accepted.status != FALSE or accepted.reason == _DENIED:
        return "", ""
    return accepted.reason, NOT_ACCEPTED_YET.format(name=name, why=accepted.message or accepted.reason)


def _check(cluster: ManagedCluster) -> None:
    name = cluster.metadata.name
    if cluster.metadata.deletionTimestamp is not None:
        raise Refused(BEING_REMOVED.format(name=name))
    accepted = find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED)
    if accepted is not None and accepted.status == FALSE and accepted.reason not in _PASSING:
        raise Refused(NOT_ACCEPTED.format(name=name, why=accepted.message or accepted.reason))
