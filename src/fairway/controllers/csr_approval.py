"""Approval of CertificateSigningRequests, shared by the controllers that approve them."""

from typing import Any, Final

from fairway.controllers.runtime.writer import Writer
from kubewire.api.encoding import encode
from kubewire.client import NotFound
from kubewire.client.csr import APPROVED, SIGNING_REQUESTS, CertificateSigningRequest, CsrSpec

REASON: Final = "AutoApprovedByFairway"
CLIENT: Final = "client auth"
USAGES: Final = frozenset({"digital signature", "key encipherment", CLIENT})


def is_client_certificate(spec: CsrSpec) -> bool:
    """Whether the certificate is for client authentication only."""
    return CLIENT in spec.usages and set(spec.usages) <= USAGES


async def approve(writer: Writer, request: CertificateSigningRequest, *, message: str) -> None:
    """Approve the version that was checked. Raises KubeErrors."""
    approved = {"type": APPROVED, "status": "True", "reason": REASON, "message": message}
    before: list[dict[str, Any]] = [encode(condition) for condition in request.status.conditions]
    async with writer.batch():
        try:
            await writer.patch(
                SIGNING_REQUESTS,
                request.metadata,
                {"status": {"conditions": [*before, approved]}},
                subresource="approval",
            )
        except NotFound:
            return
