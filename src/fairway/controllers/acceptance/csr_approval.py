"""Approve certificate renewals: an agent may get a certificate for exactly the identity it already has.

A person approves the first certificate of a cluster (``fairway accept``). After that the agent authenticates with its
certificate, and a SubjectAccessReview checks that its cluster is still accepted. This module never denies a request:
one that is not approved waits for a person, or expires.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from fairway.api.cluster import ManagedCluster
from fairway.controllers import cluster_names
from fairway.controllers.cluster_names import EVERYBODY, GROUP_PREFIX
from fairway.controllers.csr_approval import approve, is_client_certificate
from fairway.controllers.kinds import CLUSTER_NAME_LABEL
from fairway.controllers.runtime.writer import Writer
from kubewire.api import csr
from kubewire.client import Client, Informer
from kubewire.client.csr import CLIENT_SIGNER, CertificateSigningRequest
from kubewire.client.log_throttle import LogThrottle

log: Final = logging.getLogger(__name__)

ADD_ON_LABEL: Final = "open-cluster-management.io/addon-name"
"""Label of requests of add-on agents, which another controller approves."""
REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
RENEWAL: Final = {
    "group": "register.open-cluster-management.io",
    "resource": "managedclusters",
    "subresource": "clientcertificates",
    "verb": "renew",
}
"""The permission that the agent of an accepted cluster has."""
RETRY_SECONDS: Final = 5.0

MESSAGE: Final = "the agent of cluster {cluster} renews its certificate"
NOT_APPROVED: Final = "certificate request %s of cluster %s is not approved: %s"

OTHER_CLUSTER: Final = "certificate request %s has the label of cluster %s, but was created by %s"

NOT_ACCEPTED: Final = "the cluster is not accepted"
OTHER_SUBJECT: Final = "its subject is {asked}, which differs from the current identity {user}"
OTHER_GROUP: Final = "{user} is not in group {group}"
OTHER_USAGES: Final = "its usages are {usages}"
UNREADABLE: Final = "{field} cannot be read"
NO_REQUEST: Final = "spec.request must contain exactly one PEM certificate request"
NO_RIGHT: Final = "{user} is not allowed to renew certificates"


def cluster_of(request: CertificateSigningRequest) -> str | None:
    """The cluster whose agent requests a renewal with its own certificate, if one does."""
    labels = request.metadata.labels
    name = labels.get(CLUSTER_NAME_LABEL)
    if not name or ADD_ON_LABEL in labels or request.spec.signer_name != CLIENT_SIGNER:
        return None
    return name if request.spec.username.startswith(f"{GROUP_PREFIX}{name}:") else None


def is_stray(request: CertificateSigningRequest) -> bool:
    """Whether an agent requested it for another cluster."""
    labels = request.metadata.labels
    return (
        bool(labels.get(CLUSTER_NAME_LABEL))
        and ADD_ON_LABEL not in labels
        and request.spec.username.startswith(GROUP_PREFIX)
        and cluster_of(request) is None
    )


def refusal(request: CertificateSigningRequest, *, cluster: str) -> str | None:
    """Why the request must not be approved. Its label can be set by any requester; the fields read here cannot."""
    spec, group = request.spec, f"{GROUP_PREFIX}{cluster}"
    if request.unreadable:
        return UNREADABLE.format(field=request.unreadable)
    try:
        requested = csr.read(spec.request)
    except csr.InvalidRequest:
        return NO_REQUEST
    groups = {group, *(requested.groups & {f"{GROUP_PREFIX}{EVERYBODY}"})}
    if not csr.agent_of(spec.username, group=group) or not requested.is_for(
        spec.username, groups=frozenset(groups)
    ):
        return OTHER_SUBJECT.format(asked=requested.subject, user=spec.username)
    if group not in spec.groups:
        return OTHER_GROUP.format(user=spec.username, group=group)
    if not is_client_certificate(spec):
        return OTHER_USAGES.format(usages=", ".join(spec.usages))
    return None


class RenewalApprover:
    def __init__(
        self,
        client: Client,
        *,
        requests: Informer[CertificateSigningRequest],
        clusters: Informer[ManagedCluster],
        writer: Writer,
    ) -> None:
        self._client, self._requests, self._clusters, self._writer = client, requests, clusters, writer
        self._throttle = LogThrottle(log, every=600.0)

    def waiting(self, cluster: str | None = None) -> Iterator[str]:
        """Yield the names of undecided requests, of one cluster or of all."""
        for request in self._requests.store.values():
            name = cluster_of(request)
            if name is not None and not request.decided and cluster in (None, name):
                yield request.metadata.name

    async def decide(self, name: str) -> float | None:
        """Return the seconds until the next check of a request that may soon be approvable."""
        request = self._requests.get(name)
        cluster = None if request is None else cluster_of(request)
        if request is None or cluster is None or request.decided:
            return None
        joined = self._clusters.get(cluster)
        accepted = (
            joined is not None and joined.spec.hubAcceptsClient and cluster_names.refusal(cluster) is None
        )
        fault = refusal(request, cluster=cluster) if accepted else NOT_ACCEPTED
        if fault is not None:
            log.warning(NOT_APPROVED, name, cluster, fault)
            return None
        # Asked of the hub, although the cluster is accepted here: an administrator may have taken the right away by
        # RBAC alone.
        if not await self._may_renew(request):
            # The hub may not yet have observed the rights of a cluster that was just accepted.
            fault = NO_RIGHT.format(user=request.spec.username)
            self._throttle.log(logging.WARNING, name, NOT_APPROVED, name, cluster, fault)
            return RETRY_SECONDS
        message = MESSAGE.format(cluster=cluster)
        await approve(self._writer, request, message=message)
        return None

    async def _may_renew(self, request: CertificateSigningRequest) -> bool:
        spec = request.spec
        requested: Mapping[str, Any] = {
            "user": spec.username,
            "uid": spec.uid,
            "groups": spec.groups,
            "extra": spec.extra,
            "resourceAttributes": RENEWAL,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {key: value for key, value in requested.items() if value},
        }
        answer = await self._client.request("POST", REVIEWS, body=body, repeatable=True)
        return bool(msgspec.json.decode(answer.body).get("status", {}).get("allowed"))
