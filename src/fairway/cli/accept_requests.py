"""Certificate requests of clusters that join: which may be approved, and approving them.

The label that says which cluster a request belongs to can be set by whoever may make one, and what is asked for in it
can be any user at all. So the request itself is read: it must be for an agent of exactly that cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec
from cryptography import x509
from cryptography.x509.oid import NameOID
from msgspec import Struct

from fairway.api.meta import ObjectMeta, format_time
from fairway.cli.live_objects import listed
from fairway.cli.output import cell
from fairway.kube import Client, Conflict, Resource

CLUSTER_LABEL: Final = "open-cluster-management.io/cluster-name"
ADD_ON_LABEL: Final = "open-cluster-management.io/addon-name"
ARN_ANNOTATION: Final = "agent.open-cluster-management.io/managed-cluster-arn"

SUBJECT_PREFIX: Final = "system:open-cluster-management:"
COMMON_GROUP: Final = f"{SUBJECT_PREFIX}managed-clusters"
SIGNERS: Final = ("kubernetes.io/kube-apiserver-client", "open-cluster-management.io/grpc")
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
NO_REQUEST: Final = "it holds no certificate request"
OTHER_SUBJECT: Final = "it asks for {subject}, not for an agent of this cluster"
OTHER_REQUESTER: Final = (
    "{user} made it, who is no agent that joins; --skip-approve-check approves it all the same"
)
SEVERAL: Final = (
    "agents of different names want to be this cluster: {names}; say with --requesters which is right"
)
NOT_ASKED_FOR: Final = "it is for {name}, which --requesters does not name"

APPROVED: Final = "Approved"
DENIED: Final = "Denied"
REASON: Final = "FairwayAccept"
MESSAGE: Final = "approved by fairway accept"
ATTEMPTS: Final = 5

Verdict = Literal["approve", "refuse", "approved", "denied"]


class _Condition(Struct, frozen=True):
    type: str = ""


class _Spec(Struct, frozen=True, rename="camel"):
    request: bytes = b""
    signer_name: str = ""
    username: str = ""
    groups: tuple[str, ...] = ()


class _Status(Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class SigningRequest(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    def has(self, condition: str) -> bool:
        return any(each.type == condition for each in self.status.conditions)


SIGNING_REQUESTS: Final = Resource(
    group="certificates.k8s.io",
    version="v1",
    plural="certificatesigningrequests",
    kind="CertificateSigningRequest",
    namespaced=False,
    type=SigningRequest,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    name: str
    verdict: Verdict
    reason: str = ""
    agent: str = ""
    """The common name it is for."""


async def requests_of(client: Client, cluster: str, *, anybody: bool, only: frozenset[str]) -> list[Request]:
    """Those that wait. If none does, the newest that was decided."""
    found = await listed(client, SIGNING_REQUESTS, labels=f"{CLUSTER_LABEL}={cluster}")
    found = [each for each in found if ADD_ON_LABEL not in each.metadata.labels]
    found.sort(key=lambda each: (str(each.metadata.creationTimestamp), each.metadata.name))
    waiting = [each for each in found if not each.has(APPROVED) and not each.has(DENIED)]
    if waiting:
        return _agreed([judged(each, cluster, anybody=anybody) for each in waiting], only)
    return [
        Request(name=each.metadata.name, verdict="denied" if each.has(DENIED) else "approved")
        for each in found[-1:]
    ]


def judged(request: SigningRequest, cluster: str, *, anybody: bool) -> Request:
    """By itself."""
    name, spec = request.metadata.name, request.spec
    agent, fault = _agent(spec, cluster)
    if not fault and not anybody and not _joins(spec):
        fault = OTHER_REQUESTER.format(user=cell(spec.username))
    return Request(name=name, verdict="refuse" if fault else "approve", reason=fault, agent=agent)


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


def _agent(spec: _Spec, cluster: str) -> tuple[str, str]:
    """The agent a request is for, or what is wrong with it."""
    if spec.signer_name not in SIGNERS:
        return "", OTHER_SIGNER.format(signer=cell(spec.signer_name))
    try:
        subject = x509.load_pem_x509_csr(spec.request).subject
        names = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        groups = {str(each.value) for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}
    except (ValueError, TypeError):
        return "", NO_REQUEST
    wanted = f"{SUBJECT_PREFIX}{cluster}"
    agent = names[0].removeprefix(f"{wanted}:") if len(names) == 1 else ""
    if not agent or agent == names[0] or ":" in agent or groups - {COMMON_GROUP} != {wanted}:
        return "", OTHER_SUBJECT.format(subject=cell(subject.rfc4514_string()))
    return names[0], ""


def _joins(spec: _Spec) -> bool:
    known = spec.username.startswith(TOKEN_USER) or spec.username in JOINING_USERS
    return known and not JOINING_GROUPS.isdisjoint(spec.groups)


async def approve(client: Client, request: Request, *, dry_run: bool) -> bool:
    """Whether it was done here; somebody else may have been quicker. Raises KubeErrors."""
    path = SIGNING_REQUESTS.path(name=request.name)
    for attempt in range(ATTEMPTS):
        document = msgspec.json.decode((await client.request("GET", path)).body)
        conditions = document.setdefault("status", {}).get("conditions") or []
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
