"""Sign approved requests by the rules of Kubernetes' built-in signers."""

import base64
import binascii
import copy
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubehub.pki.certificates import Authority, attributes, texts
from kubehub.resource import Document
from kubehub.user import MASTERS
from kubewire.api import csr
from kubewire.api.meta import format_time

CLIENT: Final = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"

NOT_PEM: Final = "PEM block type must be CERTIFICATE REQUEST"
UNREADABLE: Final = "asn1: structure error: this can't be read as a certificate request"
NOT_MASTERS: Final = f"use of {CLIENT} signer with {MASTERS} group is not allowed"
FAILED: Final = "SignerValidationFailure"

_NODES: Final = "system:nodes"
_LIFE: Final = timedelta(days=365)
_SHORT_LIFE: Final = timedelta(hours=8)
_BACKDATED: Final = timedelta(minutes=5)
_LEAST: Final = timedelta(minutes=10)

_KEY_USAGES: Final = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
_PURPOSES: Final = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "ipsec end system": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "microsoft sgc": x509.ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    "netscape sgc": x509.ObjectIdentifier("2.16.840.1.113730.4.1"),
}
USAGES: Final = tuple(sorted((*_KEY_USAGES, *_PURPOSES)))

# Subject attributes that are copied. Others, such as a user's uid, could grant what the approver didn't see.
_SUBJECT: Final = (
    NameOID.COUNTRY_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.POSTAL_CODE,
    NameOID.COMMON_NAME,
    NameOID.SERIAL_NUMBER,
)
_ONCE: Final = frozenset({NameOID.COMMON_NAME, NameOID.SERIAL_NUMBER})


class RequestFault(Exception):
    """The fault of a request, as its owner reads it."""


def decode(field: object) -> bytes:
    """Return the bytes of a base64 field; empty if invalid."""
    try:
        return base64.b64decode(field, validate=True) if isinstance(field, str) else b""
    except (binascii.Error, ValueError):
        return b""


def parse(request: object) -> x509.CertificateSigningRequest:
    """Parse ``request``, base64 of PEM, and verify its signature. Raises RequestFault."""
    kind, body = next(csr.pem_blocks(decode(request)), ("", b""))
    if kind != "CERTIFICATE REQUEST":
        raise RequestFault(NOT_PEM)
    try:
        parsed = csr.load(body)
        organizations(parsed)
    except ValueError as fault:
        raise RequestFault(UNREADABLE) from fault
    key, algorithm = parsed.public_key(), parsed.signature_hash_algorithm
    if isinstance(algorithm, hashes.SHA1 | hashes.MD5):
        raise RequestFault(f"x509: cannot verify signature: insecure algorithm {algorithm.name.upper()}")
    try:
        valid = parsed.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm):
        valid = False
    if not valid:
        match key:
            case ec.EllipticCurvePublicKey():
                raise RequestFault("x509: ECDSA verification failure")
            case rsa.RSAPublicKey():
                raise RequestFault("crypto/rsa: verification error")
            case _:
                raise RequestFault("x509: Ed25519 verification failure")
    return parsed


def organizations(request: x509.CertificateSigningRequest) -> tuple[str, ...]:
    return texts(request, NameOID.ORGANIZATION_NAME)


def sign(document: Document, *, authority: Authority, now: datetime) -> Document | None:
    """Return the request with its certificate or the reason for the failure; None if there is nothing to do.

    ``now`` has a time zone. Requests of other signers are ignored.
    """
    spec, state = document.get("spec") or {}, document.get("status") or {}
    conditions = state.get("conditions") or []
    decided = {condition.get("type") for condition in conditions if condition.get("status") == "True"}
    signer = spec.get("signerName")
    if "Approved" not in decided or decided & {"Denied", "Failed"} or state.get("certificate"):
        return None
    if signer not in (CLIENT, KUBELET_CLIENT, KUBELET_SERVING):
        return None
    answer = copy.deepcopy(document)
    answer.setdefault("status", {})
    try:
        request = parse(spec.get("request"))
        usages = list(spec.get("usages") or ())
        _check(signer, request, usages)
        certificate = _issue(request, usages, spec.get("expirationSeconds"), authority, now)
    except RequestFault as fault:
        stamp = format_time(now)
        failed = {
            "type": "Failed",
            "status": "True",
            "reason": FAILED,
            "message": str(fault),
            "lastUpdateTime": stamp,
            "lastTransitionTime": stamp,
        }
        answer["status"]["conditions"] = [*conditions, failed]
        return answer
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    answer["status"]["certificate"] = base64.b64encode(pem).decode()
    return answer


def _issue(
    request: x509.CertificateSigningRequest,
    usages: Sequence[str],
    seconds: int | None,
    authority: Authority,
    now: datetime,
) -> x509.Certificate:
    if now >= authority.certificate.not_valid_after_utc:
        raise RequestFault("the signer has expired")
    life = _LIFE if seconds is None else min(max(timedelta(seconds=seconds), _LEAST), _LIFE)
    # A long validity is shifted back to allow for clock skew; a short one can't spare that.
    end = now + life if life < _SHORT_LIFE else now + life - _BACKDATED
    flags = {_KEY_USAGES[usage] for usage in usages if usage in _KEY_USAGES}
    if "key_agreement" not in flags:
        flags -= {"encipher_only", "decipher_only"}
    purposes = dict.fromkeys(_PURPOSES[usage] for usage in usages if usage in _PURPOSES)
    try:
        return authority.issue(
            subject=_subject(request),
            public_key=request.public_key(),
            names=list(_alternatives(request)),
            key_usage=x509.KeyUsage(**{name: name in flags for name in _FLAGS}) if flags else None,
            purposes=purposes,
            start=now - _BACKDATED,
            end=end,
        )
    except (ValueError, TypeError) as fault:
        raise RequestFault("cannot issue a certificate for this request") from fault


_FLAGS: Final = tuple(dict.fromkeys(_KEY_USAGES.values()))


def _subject(request: x509.CertificateSigningRequest) -> x509.Name:
    """Return the attributes to copy; of a repeated common name or serial number the last, as other parsers do."""
    taken: list[x509.NameAttribute[str | bytes]] = []
    for oid in _SUBJECT:
        values = attributes(request, oid)
        taken.extend(values[-1:] if oid in _ONCE else values)
    return x509.Name(taken)


def _alternatives(request: x509.CertificateSigningRequest) -> Iterator[x509.GeneralName]:
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    for name in names:
        if isinstance(name, x509.DNSName | x509.IPAddress | x509.RFC822Name | x509.UniformResourceIdentifier):
            yield name


def _check(signer: str, request: x509.CertificateSigningRequest, usages: Sequence[str]) -> None:
    """Check the rules of the signer."""
    if signer == CLIENT:
        if MASTERS in organizations(request):
            raise RequestFault(NOT_MASTERS)  # rejected on create, too, unless it was stored otherwise
        for usage in usages:
            if usage not in ("client auth", "digital signature", "key encipherment"):
                raise RequestFault(f"invalid usage for client certificate: {usage}")
        if "client auth" not in usages:
            raise RequestFault("missing required usage for client certificate: client auth")
        return
    names = list(_alternatives(request))
    purpose = "client auth" if signer == KUBELET_CLIENT else "server auth"
    if organizations(request) != (_NODES,):
        raise RequestFault("subject organization is not system:nodes")
    if signer == KUBELET_SERVING and not any(isinstance(n, x509.DNSName | x509.IPAddress) for n in names):
        raise RequestFault("DNS or IP subjectAltName is required")
    unwanted: tuple[tuple[type[x509.GeneralName], str], ...] = (
        (x509.RFC822Name, "Email"),
        (x509.UniformResourceIdentifier, "URI"),
    )
    if signer == KUBELET_CLIENT:
        unwanted = ((x509.DNSName, "DNS"), (x509.RFC822Name, "Email"), (x509.IPAddress, "IP"), *unwanted[1:])
    for kind, label in unwanted:
        if any(isinstance(name, kind) for name in names):
            raise RequestFault(f"{label} subjectAltNames are not allowed")
    required = {"digital signature", "key encipherment", purpose}
    has_usages = set(usages) in (required, required - {"key encipherment"})
    common = texts(request, NameOID.COMMON_NAME)
    has_name = bool(common) and common[-1].startswith("system:node:")
    usage_fault = f"usages did not match [{' '.join(sorted(required))}]"
    name_fault = "subject common name does not begin with system:node:"
    checks = [(has_name, name_fault), (has_usages, usage_fault)]
    for right, message in checks if signer == KUBELET_CLIENT else reversed(checks):
        if not right:
            raise RequestFault(message)
