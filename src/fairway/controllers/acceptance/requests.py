"""Certificate requests of clusters that join: which may be approved, and approving them.

The label that says which cluster a request belongs to can be set by whoever may make one, and what is asked for in it
can be any user at all. So the request itself is read: it must be for an agent of exactly that cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from fairway.api.meta import format_time
from fairway.cli.client.objects import listed
from fairway.cli.errors import BadInputError
from fairway.cli.output import cell
from fairway.controllers.cluster_names import EVERYBODY, GROUP_PREFIX
from fairway.controllers.csr_approval import is_client_certificate
from fairway.kube import Client, Conflict, csr
from fairway.kube.signing import (
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
"""Who may ask for a cluster that is still to join, besides those with a bootstrap token."""
JOINING_GROUPS: Final = frozenset(
    {
        "system:bootstrappers:managedcluster",
        "system:serviceaccounts:open-cluster-management",
        "system:serviceaccounts:open-cluster-management-hub",
    }
)

OTHER_SIGNER: Final = "it is for the signer {signer}, which is not for agents"
OTHER_USAGES: Final = "it is for {usages}, which agents have no use for"
NO_REQUEST: Final = "it holds no certificate request, or more than one"
OTHER_SUBJECT: Final = "it asks for {subject}, not for an agent of this cluster"
OTHER_REQUESTER: Final = (
    "{user} made it, who is no agent that joins; --skip-approve-check approves it all the same"
)
SEVERAL: Final = (
    "agents of different names want to be this cluster: {names}; say with --requesters which is right"
)
REPLACED: Final = "certificate request {name} was replaced by another one meanwhile; accept once more"
UNREADABLE: Final = "{field} cannot be read"
NOT_ASKED_FOR: Final = "it is for {name}, which --requesters does not name"

REASON: Final = "FairwayAccept"
MESSAGE: Final = "approved by fairway accept"
ATTEMPTS: Final = 5

Verdict = Literal["approve", "refuse", "approved", "denied"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    name: str
    verdict: Verdict
    reason: str = ""
    agent: str = ""
    """The common name it is for."""
    uid: str = ""


async def requests_of(client: Client, cluster: str, *, anybody: bool, only: frozenset[str]) -> list[Request]:
    """Those that wait. If none does, the newest that was decided."""
    found = await listed(client, SIGNING_REQUESTS, labels=f"{CLUSTER_LABEL}={cluster}")
    found = [each for each in found if ADD_ON_LABEL not in each.metadata.labels]
    found.sort(key=lambda each: (str(each.metadata.creationTimestamp), each.metadata.name))
    waiting = [each for each in found if not each.decided]
    if waiting:
        return _agreed([judged(each, cluster, anybody=anybody) for each in waiting], only)
    return [
        Request(name=each.metadata.name, verdict="approved" if each.condition(APPROVED) else "denied")
        for each in found[-1:]
    ]


def judged(request: CertificateSigningRequest, cluster: str, *, anybody: bool) -> Request:
    """By itself."""
    name, spec = request.metadata.name, request.spec
    agent, fault = _agent(spec, cluster)
    if request.unreadable:
        agent, fault = "", UNREADABLE.format(field=request.unreadable)
    if not fault and not anybody and not _joins(spec):
        fault = OTHER_REQUESTER.format(user=cell(spec.username))
    return Request(
        name=name,
        verdict="refuse" if fault else "approve",
        reason=fault,
        agent=agent,
        uid=request.metadata.uid,
    )


def _agreed(requests: Sequence[Request], only: frozenset[str]) -> list[Request]:
    """With all that wait for the same cluster in view."""
    agents = sorted({each.agent for each in requests if each.verdict == "approve"})
    several = SEVERAL.format(names=", ".join(agents)) if len(agents) > 1 and not only else ""

    def agreed(each: Request) -> Request:
        reason = several
        if only and each.agent not in only:
            reason = NOT_ASKED_FOR.format(name=cell(each.agent))
        return (
            replace(each, verdict="refuse", reason=reason) if reason and each.verdict == "approve" else each
        )

    return [agreed(each) for each in requests]


def _agent(spec: CsrSpec, cluster: str) -> tuple[str, str]:
    """The agent a request is for, or what is wrong with it."""
    if spec.signer_name not in SIGNERS:
        return "", OTHER_SIGNER.format(signer=cell(spec.signer_name))
    try:
        asked = csr.read(spec.request)
    except csr.InvalidRequest:
        return "", NO_REQUEST
    group = f"{GROUP_PREFIX}{cluster}"
    groups = frozenset({group, *(asked.groups & {COMMON_GROUP})})
    if not csr.agent_of(asked.user, group=group) or not asked.is_for(asked.user, groups=groups):
        return "", OTHER_SUBJECT.format(subject=cell(asked.words))
    if not is_client_certificate(spec):
        return "", OTHER_USAGES.format(usages=cell(spec.usages))
    return asked.user, ""


def _joins(spec: CsrSpec) -> bool:
    known = spec.username.startswith(TOKEN_USER) or spec.username in JOINING_USERS
    return known and not JOINING_GROUPS.isdisjoint(spec.groups)


async def approve(client: Client, request: Request, *, dry_run: bool) -> bool:
    """Whether it was done here; somebody else may have been quicker. Raises KubeErrors and BadInputError.

    Another one that has come under the same name since was not judged, and is not approved.
    """
    path = SIGNING_REQUESTS.path(name=request.name)
    for attempt in range(ATTEMPTS):
        document = msgspec.json.decode((await client.request("GET", path)).body)
        conditions = document.setdefault("status", {}).get("conditions") or []
        if request.uid not in ("", document["metadata"]["uid"]):
            raise BadInputError(REPLACED.format(name=cell(request.name)))
        if any(each.get("type") in (APPROVED, DENIED) for each in conditions):
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
