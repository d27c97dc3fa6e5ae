"""Certificates: an authority that issues and verifies them, and files that only their owner can read."""

import contextlib
import os
import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

REMEDY: Final = "Restore the file from a backup, or replace it with `fairway hub renew-pki --data {data}`"
LOST: Final = (
    "{path} is missing, but {data} contains a hub's data; with a new file the hub would reject every client "
    f"certificate and token issued so far. {REMEDY}"
)
FOREIGN: Final = (
    f"{{path}} doesn't belong to the data in {{data}}: clients and this hub would reject each other. {REMEDY}"
)
UNUSABLE: Final = f"{{path}} cannot be used: {{why}}. {REMEDY}"
UNREADABLE: Final = "{path} cannot be read: {why}; check the owner and the mode of the file and of its folder"

AUTHORITY_LIFE: Final = timedelta(days=3650)
BACKDATED: Final = timedelta(hours=1)
"""Tolerance for clock differences between machines."""


class CertificateFault(Exception):
    """A file can't be used, or a certificate isn't one of ours. The message never contains key material."""


@dataclass(frozen=True, slots=True)
class Identity:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    def pem(self) -> bytes:
        return self.key_pem() + self.certificate_pem()

    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        return private_pem(self.key)


@dataclass(slots=True)
class Authority:
    """``renew`` replaces the certificate and keeps the key, so that issued certificates stay valid."""

    identity: Identity

    @classmethod
    def create(cls, *, now: datetime) -> "Authority":
        return cls(_self_signed(ec.generate_private_key(ec.SECP256R1()), now=now))

    def renew(self, *, now: datetime) -> None:
        self.identity = _self_signed(self.identity.key, now=now)

    @property
    def certificate(self) -> x509.Certificate:
        return self.identity.certificate

    def issue(
        self,
        *,
        subject: x509.Name,
        public_key: CertificatePublicKeyTypes,
        names: Iterable[x509.GeneralName] = (),
        key_usage: x509.KeyUsage | None,
        purposes: Iterable[x509.ObjectIdentifier],
        start: datetime,
        end: datetime,
    ) -> x509.Certificate:
        """Issue a certificate without CA rights that expires no later than the authority's own."""
        own = self.certificate
        end = min(end, own.not_valid_after_utc)
        builder = (
            _builder(subject, own.subject, public_key, start, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.identity.key.public_key()),
                critical=False,
            )
        )
        if key_usage is not None:
            builder = builder.add_extension(key_usage, critical=True)
        if extended := list(purposes):
            builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
        if alternatives := list(names):
            # RFC 5280: without a subject, this extension identifies the holder, so it must be critical.
            unnamed = not list(subject)
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=unnamed)
        return builder.sign(self.identity.key, hashes.SHA256())

    def verify(self, der: bytes, *, now: datetime) -> x509.Certificate:
        """Verify a client certificate of this authority. Raises CertificateFault.

        Repeats the checks of the TLS handshake, because a proxy in front may check less.
        """
        try:
            certificate = x509.load_der_x509_certificate(der)
            certificate.verify_directly_issued_by(self.certificate)
            purposes = _purposes(certificate)
        except (ValueError, TypeError, InvalidSignature) as fault:
            raise CertificateFault("not issued by the hub") from fault
        for checked in (certificate, self.certificate):
            if not checked.not_valid_before_utc <= now <= checked.not_valid_after_utc:
                raise CertificateFault("expired or not valid yet")
        if purposes is not None and not purposes & _FOR_CLIENTS:
            raise CertificateFault("not for client authentication")
        return certificate


_FOR_CLIENTS: Final = frozenset({ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE})


def _purposes(certificate: x509.Certificate) -> frozenset[x509.ObjectIdentifier] | None:
    try:
        return frozenset(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return None


def _self_signed(key: ec.EllipticCurvePrivateKey, *, now: datetime) -> Identity:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fairway-hub-ca")])
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    certificate = (
        _builder(name, name, key.public_key(), now - BACKDATED, now + AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Identity(certificate, key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: CertificatePublicKeyTypes, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def attributes(
    of: x509.Certificate | x509.CertificateSigningRequest, oid: x509.ObjectIdentifier
) -> list[x509.NameAttribute[str | bytes]]:
    """Return the values of an attribute of a subject, in order.

    User names may exceed X.520's length limit; Kubernetes accepts that, and the parser would warn.
    """
    with warnings.catch_warnings(action="ignore"):
        return list(of.subject.get_attributes_for_oid(oid))


def texts(
    of: x509.Certificate | x509.CertificateSigningRequest, oid: x509.ObjectIdentifier
) -> tuple[str, ...]:
    values = (attribute.value for attribute in attributes(of, oid))
    return tuple(value if isinstance(value, str) else value.decode(errors="replace") for value in values)


def write_private(path: Path, data: bytes) -> None:
    """Replace the file atomically; only its owner can read it at any time."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # created with 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    parent = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def read_private(path: Path) -> bytes | None:
    """Read a private file; None if missing. Raises CertificateFault."""
    try:
        with contextlib.suppress(PermissionError):
            path.chmod(0o600)  # a copied file may have any mode
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CertificateFault(UNREADABLE.format(path=path, why=error.strerror)) from error


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Encode in the traditional format: Kubernetes' programs accept no other where they need the public key of a
    pair."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
