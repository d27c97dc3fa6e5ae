"""Approval of CertificateSigningRequests, shared by the controllers that approve them."""

from typing import Any, Final

from fairway.api.kinds import encode
from fairway.controllers.fenced_writer import FencedWriter
from fairway.controllers.leadership import Leadership
from fairway.kube import NotFound
from fairway.kube.csr import APPROVED, SIGNING_REQUESTS, CertificateSigningRequest, CsrSpec

REASON: Final = "AutoApprovedByFairway"
CLIENT: Final = "client auth"
USAGES: Final = frozenset({"digital signature", "key encipherment", CLIENT})


def is_client_certificate(spec: CsrSpec) -> bool:
    """Whether the certificate is for client authentication only."""
    return CLIENT in spec.usages and set(spec.usages) <= USAGES


async def approve(
    writes: FencedWriter, request: CertificateSigningRequest, *, message: str, leadership: Leadership
) -> None:
    """Approve the version that was checked. Raises KubeErrors."""
    approved = {"type": APPROVED, "status": "True", "reason": REASON, "message": message}
    before: list[dict[str, Any]] = [encode(each) for each in request.status.conditions]
    async with leadership.batch():
        try:
            await writes.patch(
                SIGNING_REQUESTS,
                request.metadata,
                {"status": {"conditions": [*before, approved]}},
                leadership=leadership,
                subresource="approval",
            )
        except NotFound:
            return
