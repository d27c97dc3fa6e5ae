"""The kind CertificateSigningRequest."""

from typing import Final

from msgspec import Struct, field

from kubewire.api.meta import ObjectMeta, unreadable_fields
from kubewire.api.resource import Resource

CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"
"""The signer of client certificates for the hub's API."""

APPROVED: Final = "Approved"
DENIED: Final = "Denied"
FAILED: Final = "Failed"


class CsrCondition(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class CsrSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, rename="camel"):
    """The API server sets all but the first four fields: the identity of the requester."""

    request: bytes = b""
    signer_name: str = ""
    usages: tuple[str, ...] = ()
    expiration_seconds: int | None = None
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)


class CsrStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    conditions: tuple[CsrCondition, ...] = ()
    certificate: bytes = b""
    """A PEM chain; empty until the request is signed."""


class CertificateSigningRequest(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CsrSpec = CsrSpec()
    status: CsrStatus = CsrStatus()

    def condition(self, kind: str) -> CsrCondition | None:
        return next((condition for condition in self.status.conditions if condition.type == kind), None)

    @property
    def unreadable(self) -> str:
        """The first field that cannot be decoded, which could be a reason to deny the request; or empty."""
        return next((field.path for field in unreadable_fields(self)), "")

    @property
    def decided(self) -> bool:
        return any(condition.type in (APPROVED, DENIED, FAILED) for condition in self.status.conditions)


SIGNING_REQUESTS: Final = Resource(
    group="certificates.k8s.io",
    version="v1",
    plural="certificatesigningrequests",
    kind="CertificateSigningRequest",
    namespaced=False,
    type=CertificateSigningRequest,
)
