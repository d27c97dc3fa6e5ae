"""Decide which certificate requests of joining clusters may be approved, and approve them.

Any user who may create a request can set the label that names its cluster, and can request any subject. So the request
itself is decoded: its subject must be an agent of exactly that cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from fairway.controllers.cluster_names import EVERYBODY, GROUP_PREFIX
from fairway.controllers.csr_approval import is_client_certificate
from kubewire.api import csr
from kubewire.api.meta import format_time
from kubewire.client import Client, Conflict
from kubewire.client.csr import (
    APPROVED,
    CLIENT_SIGNER,
    DENIED,
    SIGNING_REQUESTS,
    CertificateSigningRequest,
    CsrSpec,
)

CLUSTER_LABEL: Final = "open-cluster-management.io/cluster-name"
ADD_ON_LABEL: Final = "open-cluster-management.io/addon-name"
ARN_ANNOTATION: Final = "agent.open-cluster-management.io/managed-cluster-arn"

COMMON_GROUP: Final = f"{GROUP_PREFIX}{EVERYBODY}"
SIGNERS: Final = (CLIENT_SIGNER, "open-cluster-management.io/grpc")
TOKEN_USER: Final = "system:bootstrap:"
JOINING_USERS: Final = frozenset(
    {
        "system:serviceaccount:open-cluster-management:agent-registration-bootstrap",
        "system:serviceaccount:open-cluster-management-hub:grpc-server-sa",
    }
)
"""Bootstrap identities that may request a cluster's first certificate, besides bootstrap tokens."""
JOINING_GROUPS: Final = frozenset(
    {
        "system:bootstrappers:managedcluster",
        "system:serviceaccounts:open-cluster-management",
        "system:serviceaccounts:open-cluster-management-hub",
    }
)

OTHER_SIGNER: Final = "signer {signer} does not sign for agents"
OTHER_USAGES: Final = "requested usages {usages} are not those of a client"
NO_REQUEST: Final = "spec.request is not exactly one certificate request"
OTHER_SUBJECT: Final = "requested subject {subject} is not an agent of this cluster"
OTHER_REQUESTER: Final = (
    "created by {user}, which is not a bootstrap identity; --skip-approve-check approves it anyway"
)
SEVERAL: Final = "several agents request to join as this cluster: {names}; select one with --requesters"
REPLACED: Final = "certificate request {name} was replaced while it was being approved; run accept again"
UNREADABLE: Final = "cannot decode {field}"
NOT_ASKED_FOR: Final = "requested for {name}, which --requesters does not name"

REASON: Final = "FairwayAccept"
MESSAGE: Final = "approved by fairway accept"
ATTEMPTS: Final = 5

Verdict = Literal["approve", "refuse", "approved", "denied"]


class ReplacedError(Exception):
    """Another request has the name of the one that was checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    name: str
    verdict: Verdict
    reason: str = ""
    agent: str = ""
    """The common name of the requested subject."""
    uid: str = ""


def check_requests(
    requests: Sequence[CertificateSigningRequest], cluster: str, *, any_requester: bool, only: frozenset[str]
) -> list[Request]:
    """Check the pending requests of a cluster; if none is pending, return the newest decided one."""
    requests = [request for request in requests if ADD_ON_LABEL not in request.metadata.labels]
    requests.sort(key=lambda request: (str(request.metadata.creationTimestamp), request.metadata.name))
    pending = [request for request in requests if not request.decided]
    if pending:
        checked = [check_request(request, cluster, any_requester=any_requester) for request in pending]
        return _refuse_rivals(checked, only)
    return [
        Request(name=request.metadata.name, verdict="approved" if request.condition(APPROVED) else "denied")
        for request in requests[-1:]
    ]


def check_request(request: CertificateSigningRequest, cluster: str, *, any_requester: bool) -> Request:
    """Check one request without regard to others."""
    name, spec = request.metadata.name, request.spec
    agent, fault = _agent(spec, cluster)
    if request.unreadable:
        agent, fault = "", UNREADABLE.format(field=request.unreadable)
    if not fault and not any_requester and not _is_bootstrap_identity(spec):
        fault = OTHER_REQUESTER.format(user=spec.username)
    return Request(
        name=name,
        verdict="refuse" if fault else "approve",
        reason=fault,
        agent=agent,
        uid=request.metadata.uid,
    )


def _refuse_rivals(requests: Sequence[Request], only: frozenset[str]) -> list[Request]:
    """Refuse requests of several agents for the same cluster, unless ``only`` selects among them."""
    agents = sorted({request.agent for request in requests if request.verdict == "approve"})
    several = SEVERAL.format(names=", ".join(agents)) if len(agents) > 1 and not only else ""

    def checked(request: Request) -> Request:
        reason = several
        if only and request.agent not in only:
            reason = NOT_ASKED_FOR.format(name=request.agent)
        return (
            replace(request, verdict="refuse", reason=reason)
            if reason and request.verdict == "approve"
            else request
        )

    return [checked(request) for request in requests]


def _agent(spec: CsrSpec, cluster: str) -> tuple[str, str]:
    """Return the requested agent, or the reason for refusing the request."""
    if spec.signer_name not in SIGNERS:
        return "", OTHER_SIGNER.format(signer=spec.signer_name)
    try:
        requested = csr.read(spec.request)
    except csr.InvalidRequest:
        return "", NO_REQUEST
    group = f"{GROUP_PREFIX}{cluster}"
    groups = frozenset({group, *(requested.groups & {COMMON_GROUP})})
    if not csr.agent_of(requested.user, group=group) or not requested.is_for(requested.user, groups=groups):
        return "", OTHER_SUBJECT.format(subject=requested.subject)
    if not is_client_certificate(spec):
        return "", OTHER_USAGES.format(usages=", ".join(spec.usages) or "(none)")
    return requested.user, ""


def _is_bootstrap_identity(spec: CsrSpec) -> bool:
    known = spec.username.startswith(TOKEN_USER) or spec.username in JOINING_USERS
    return known and not JOINING_GROUPS.isdisjoint(spec.groups)


async def approve(client: Client, request: Request, *, dry_run: bool) -> bool:
    """Approve a request; False if another client decided it first. Raises KubeErrors and ReplacedError.

    A new request of the same name was not checked, and is not approved.
    """
    path = SIGNING_REQUESTS.path(name=request.name)
    for attempt in range(ATTEMPTS):
        document = msgspec.json.decode((await client.request("GET", path)).body)
        conditions = document.setdefault("status", {}).get("conditions") or []
        if request.uid not in ("", document["metadata"]["uid"]):
            raise ReplacedError(REPLACED.format(name=request.name))
        if any(condition.get("type") in (APPROVED, DENIED) for condition in conditions):
            return False
        condition = {
            "type": APPROVED,
            "status": "True",
            "reason": REASON,
            "message": MESSAGE,
            "lastUpdateTime": format_time(datetime.now(UTC)),
        }
        document["status"]["conditions"] = [*conditions, condition]
        try:
            await client.update(
                SIGNING_REQUESTS, request.name, document, subresource="approval", dry_run=dry_run
            )
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return True
    raise AssertionError
