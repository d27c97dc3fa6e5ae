"""Forged and flawed tokens and certificates, signed with a hub's own keys or with others."""

import base64
import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from security.wire import Hub

ISSUER = "https://kubernetes.default.svc.cluster.local"
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
NOW = timedelta(0)


def encoded(data: bytes | Mapping[str, Any]) -> str:
    raw = data if isinstance(data, bytes) else json.dumps(data, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decoded(part: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def signed(
    claims: Mapping[str, Any], key: ec.EllipticCurvePrivateKey, header: Mapping[str, Any] | None = None
) -> str:
    text = f"{encoded(header or {'alg': 'ES256'})}.{encoded(claims)}"
    r, s = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def claims_of(namespace: str, account: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """The claims that the hub writes into a token of the service account."""
    name, now = account["metadata"]["name"], int(time.time())
    bound = {"namespace": namespace, "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]}}
    return {
        "aud": [ISSUER],
        "exp": now + 3600,
        "iat": now,
        "nbf": now,
        "iss": ISSUER,
        "sub": f"system:serviceaccount:{namespace}:{name}",
        "kubernetes.io": bound,
        **changes,
    }


class Certificates:
    """Signs client certificates with a hub's CA, or with another CA."""

    def __init__(
        self, folder: Path, *, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
    ) -> None:
        self.certificate, self._key, self._folder = certificate, key, folder

    @classmethod
    def of(cls, hub: Hub, folder: Path) -> "Certificates":
        certificate = x509.load_pem_x509_certificate(hub.authority.read_bytes())
        pem = hub.folder / ("ca.pem" if hub.kind == "embedded" else "ca.key")
        return cls(folder, certificate=certificate, key=read_key(pem))

    @classmethod
    def stranger(cls, folder: Path, *, like: x509.Certificate) -> "Certificates":
        """Another CA with the same subject."""
        key = new_key()
        made = _certificate(
            like.subject, like.subject, key, key, purpose=None, authority=True, start=-HOUR, end=HOUR
        )
        return cls(folder, certificate=made, key=key)

    def client(
        self,
        name: str = "somebody",
        *,
        group: str = "system:masters",
        purpose: x509.ObjectIdentifier = CLIENT,
        start: timedelta = timedelta(hours=-2),
        end: timedelta = timedelta(hours=1),
    ) -> Path:
        """Write a PEM file with a key, its certificate and the certificate of the CA."""
        key = new_key()
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, group),
                x509.NameAttribute(NameOID.COMMON_NAME, name),
            ]
        )
        made = _certificate(
            subject, self.certificate.subject, key, self._key, purpose=purpose, start=start, end=end
        )
        path = self._folder / f"{name}.pem"
        path.write_bytes(
            _pem(key)
            + made.public_bytes(serialization.Encoding.PEM)
            + self.certificate.public_bytes(serialization.Encoding.PEM)
        )
        return path

    def below(self, path: Path) -> "Certificates":
        """Sign with a client certificate as if it were a CA."""
        data = path.read_bytes()
        return Certificates(
            self._folder, certificate=x509.load_pem_x509_certificate(data), key=read_key(path)
        )


HOUR = timedelta(hours=1)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *,
    purpose: x509.ObjectIdentifier | None,
    start: timedelta,
    end: timedelta,
    authority: bool = False,
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + start)
        .not_valid_after(now + end)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if purpose is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    return builder.sign(signer, hashes.SHA256())


def request_for(name: str, group: str) -> str:
    """A certificate signing request, encoded as in the API."""
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(new_key(), hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()
