"""Keys, certificate requests and certificates: create, parse, and compute when to renew."""

import warnings
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.x509.oid import NameOID, ObjectIdentifier

from fairway.klusterlet.errors import KlusterletError

NOT_A_CERTIFICATE: Final = "the hub returned an invalid certificate"
OTHER_KEY: Final = "the certificate is for another key than the requested one"


class CertificateError(KlusterletError):
    """A certificate that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Subject of a certificate; for a hub, the user's name and groups."""

    user: str
    groups: tuple[str, ...] = ()
    units: tuple[str, ...] = ()

    def name(self) -> x509.Name:
        parts = (
            *((NameOID.ORGANIZATION_NAME, group) for group in self.groups),
            *((NameOID.ORGANIZATIONAL_UNIT_NAME, unit) for unit in self.units),
            (NameOID.COMMON_NAME, self.user),
        )
        # User names exceed the length of X.520, which Kubernetes accepts and the library warns about.
        with warnings.catch_warnings(action="ignore"):
            return x509.Name([x509.NameAttribute(oid, value, _validate=False) for oid, value in parts])


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    subject: Subject
    begins: datetime
    ends: datetime

    @classmethod
    def read(cls, chain: bytes) -> "Certificate":
        """Parse the first certificate of the chain. Raises CertificateError."""
        try:
            leaf = x509.load_pem_x509_certificates(chain)[0]
        except (ValueError, IndexError):
            raise CertificateError(NOT_A_CERTIFICATE) from None
        return cls(
            subject=Subject(
                user="".join(_texts(leaf, NameOID.COMMON_NAME)),
                groups=_texts(leaf, NameOID.ORGANIZATION_NAME),
                units=_texts(leaf, NameOID.ORGANIZATIONAL_UNIT_NAME),
            ),
            begins=leaf.not_valid_before_utc,
            ends=leaf.not_valid_after_utc,
        )

    def is_for(self, subject: Subject) -> bool:
        """Compare groups as sets, because signers may reorder them."""
        mine = self.subject
        return (
            mine.user == subject.user
            and set(mine.groups) == set(subject.groups)
            and set(mine.units) == set(subject.units)
        )

    def renewal_time(self, *, left: float) -> datetime:
        """When the share ``left`` of the validity remains; from 0 to 1."""
        return self.ends - (self.ends - self.begins) * left


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A private key and the certificate for it, in PEM form."""

    key: bytes = field(repr=False)
    chain: bytes = field(repr=False)

    def check(self) -> Certificate:
        """Raises CertificateError if the certificate is for another key."""
        certificate = Certificate.read(self.chain)
        if public_part(self.key) != public_part_of_certificate(self.chain):
            raise CertificateError(OTHER_KEY)
        return certificate


def new_key() -> bytes:
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def request_for(key: bytes, subject: Subject, *, hosts: tuple[str, ...] = ()) -> bytes:
    """Create a request in PEM form. ``hosts`` are additional DNS names."""
    private = serialization.load_pem_private_key(key, password=None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject.name())
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(private, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def public_part(key: bytes) -> bytes:
    """Raises CertificateError for an invalid key."""
    try:
        return _public(serialization.load_pem_private_key(key, password=None).public_key())
    except (ValueError, TypeError):
        raise CertificateError(OTHER_KEY) from None


def public_part_of_certificate(chain: bytes) -> bytes:
    return _public(x509.load_pem_x509_certificates(chain)[0].public_key())


def _public(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _texts(certificate: x509.Certificate, oid: ObjectIdentifier) -> tuple[str, ...]:
    with warnings.catch_warnings(action="ignore"):  # about the length, as above
        return tuple(str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(oid))
