"""Certificates with any validity, self-signed."""

from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fairway.klusterlet.certificates import KeyPair, Subject, new_key


def signed(subject: Subject, *, begins: datetime, life: timedelta, key: bytes | None = None) -> KeyPair:
    key = key or new_key()
    private = serialization.load_pem_private_key(key, password=None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject.name())
        .issuer_name(x509.Name([]))
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(begins)
        .not_valid_after(begins + life)
        .sign(private, hashes.SHA256())
    )
    return KeyPair(key, certificate.public_bytes(serialization.Encoding.PEM))
