"""Accept clusters whose first certificate a listed bootstrap user requests, without an administrator.

The hub does not record which user created a ManagedCluster, so that user cannot be checked. The user of a certificate
request is set by the hub: a cluster is accepted only together with a valid request of a listed user. (OCM accepts every
new cluster once the feature is enabled, and checks the user of the request only.)

A cluster is accepted this way once, and OCM's annotation records when. So a denial by an administrator holds, and a
listed user gets no certificate for a cluster that joined by other means.
"""

import logging
from collections.abc import Container, Iterable, Iterator
from typing import Any, Final

from fairway.api.cluster import CONDITION_ACCEPTED, CONDITION_JOINED, ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers import cluster_names
from fairway.controllers.acceptance.csr_approval import ADD_ON_LABEL, NOT_APPROVED
from fairway.controllers.acceptance.requests import check_request
from fairway.controllers.cluster_names import GROUP_PREFIX
from fairway.controllers.csr_approval import approve
from fairway.controllers.kinds import CLUSTER_NAME_LABEL
from fairway.controllers.runtime.writer import Writer
from kubewire.api.meta import FALSE, TRUE, find_condition, format_time
from kubewire.client import Clock, Informer, NotFound
from kubewire.client.csr import CLIENT_SIGNER, CertificateSigningRequest
from kubewire.client.log_throttle import LogThrottle

log: Final = logging.getLogger(__name__)

ACCEPTED_ON: Final = "open-cluster-management.io/automatically-accepted-on"
"""OCM's annotation of a ManagedCluster that was accepted automatically."""

MESSAGE: Final = (
    "{user} requests the certificate of cluster {cluster}, and its clusters are accepted automatically"
)
ACCEPTED: Final = "cluster accepted automatically  cluster=%s request=%s user=%s"

DENIED: Final = "an administrator denied the cluster; to accept it again, run: fairway accept {cluster}"
JOINED: Final = (
    "the cluster has joined with another certificate; if it lost that one, run: fairway accept {cluster}"
)
REMOVED: Final = "the cluster is being deleted"

NO_NAME: Final = "a user name must not be empty, and must not contain spaces; got {user!r}"
PATTERN: Final = "{user!r} is a pattern; name each user in full"
ANONYMOUS: Final = "{user!r} is every client without credentials; name the user of a bootstrap token"
AGENT: Final = "{user!r} is the agent of a cluster that has joined; name the user of a bootstrap token"
GROUP: Final = "{user!r} is a group; name each user, such as system:serviceaccount:NAMESPACE:NAME"

_GROUPS: Final = ("system:serviceaccounts", "system:bootstrappers", "system:masters", "system:authenticated")


def check_user(user: str) -> str:
    """Return the user; raise ValueError if every client, or a group, would be meant."""
    if not user or any(character.isspace() for character in user):
        raise ValueError(NO_NAME.format(user=user))
    if "*" in user:
        raise ValueError(PATTERN.format(user=user))
    if user == "system:anonymous":
        raise ValueError(ANONYMOUS.format(user=user))
    if user.startswith(GROUP_PREFIX):
        raise ValueError(AGENT.format(user=user))
    if any(user == group or user.startswith(f"{group}:") for group in (*_GROUPS, "system:unauthenticated")):
        raise ValueError(GROUP.format(user=user))
    return user


class BootstrapApprover:
    """Never denies a request: one that is not approved waits for an administrator, or expires."""

    def __init__(
        self,
        users: Iterable[str],
        *,
        requests: Informer[CertificateSigningRequest],
        clusters: Informer[ManagedCluster],
        writer: Writer,
        clock: Clock,
    ) -> None:
        self._users = frozenset(users)
        self._requests, self._clusters, self._writer, self._clock = requests, clusters, writer, clock
        self._throttle = LogThrottle(log, every=600.0)

    def cluster_of(self, request: CertificateSigningRequest) -> str | None:
        """The cluster for which a listed user requests a certificate, if it is such a request."""
        labels, spec = request.metadata.labels, request.spec
        if spec.username not in self._users or spec.signer_name != CLIENT_SIGNER or ADD_ON_LABEL in labels:
            return None
        return labels.get(CLUSTER_NAME_LABEL) or None

    def waiting(self, clusters: Container[str] | None = None) -> Iterator[str]:
        """Yield the names of undecided requests, for these clusters or for all."""
        if not self._users:
            return
        for request in self._requests.store.values():
            name = self.cluster_of(request)
            if name is not None and not request.decided and (clusters is None or name in clusters):
                yield request.metadata.name

    async def decide(self, name: str) -> None:
        request = self._requests.get(name)
        cluster_name = None if request is None else self.cluster_of(request)
        if request is None or cluster_name is None or request.decided:
            return
        cluster = self._clusters.get(cluster_name)
        if cluster is None:
            return  # its creation requeues the request
        # Any requester: the name was compared with the list, which an administrator wrote.
        checked = check_request(request, cluster_name, any_requester=True)
        if fault := checked.reason or self._fault(cluster):
            self._throttle.log(logging.WARNING, (name, fault), NOT_APPROVED, name, cluster_name, fault)
            return
        # Before the approval: if this process stops in between, the next leader still recognises the cluster.
        if ACCEPTED_ON not in cluster.metadata.annotations:
            if not await self._accept(cluster):
                return
            if not cluster.spec.hubAcceptsClient:
                log.info(ACCEPTED, cluster_name, name, request.spec.username)
        message = MESSAGE.format(cluster=cluster_name, user=request.spec.username)
        await approve(self._writer, request, message=message)

    def _fault(self, cluster: ManagedCluster) -> str:
        name, states = cluster.metadata.name, cluster.status.conditions or ()
        if (refused := cluster_names.refusal(name)) is not None:
            return refused
        if cluster.metadata.deletionTimestamp is not None:
            return REMOVED
        before = ACCEPTED_ON in cluster.metadata.annotations
        if not cluster.spec.hubAcceptsClient:
            accepted = find_condition(states, CONDITION_ACCEPTED)
            if before or (accepted is not None and accepted.status == FALSE):
                return DENIED.format(cluster=name)
        joined = find_condition(states, CONDITION_JOINED)
        if not before and joined is not None and joined.status == TRUE:
            return JOINED.format(cluster=name)
        return ""

    async def _accept(self, cluster: ManagedCluster) -> bool:
        body: dict[str, Any] = {"metadata": {"annotations": {ACCEPTED_ON: format_time(self._clock.wall())}}}
        if not cluster.spec.hubAcceptsClient:
            body["spec"] = {"hubAcceptsClient": True}
        async with self._writer.batch():
            try:
                await self._writer.patch(MANAGED_CLUSTERS, cluster.metadata, body)
            except NotFound:
                return False
        return True
