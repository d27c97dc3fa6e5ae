"""A certificate authority for tests: server certificates, client certificates, and certificates that a hub signs."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Authority:
    folder: Path
    pair: Pair

    @classmethod
    def create(cls, folder: Path) -> "Authority":
        """Write ca.crt and ca.key into the folder, where issued certificates are stored, too."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("fairway-tests", ())
        return cls(folder, _write(folder, "ca", _authority(name, name, key).sign(key, hashes.SHA256()), key))

    def intermediate(self, folder: Path) -> "Authority":
        """An authority that this one signs, with its files in the folder."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer, signer, identifier = self._signer()
        builder = _authority(_name("fairway-tests-intermediate", ()), issuer.subject, key)
        certificate = builder.add_extension(identifier, critical=False).sign(signer, hashes.SHA256())
        return Authority(folder, _write(folder, "ca", certificate, key))

    def issue(self, name: str, *, groups: Iterable[str] = (), hosts: Iterable[str] = ()) -> Pair:
        """For a server of these hosts, or without any for a client: Kubernetes reads user and groups from it."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer, signer, identifier = self._signer()
        names = [_host(host) for host in hosts]
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _builder(_name(name, groups), issuer.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(identifier, critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _write(self.folder, name, builder.sign(signer, hashes.SHA256()), key)

    def _signer(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey, x509.AuthorityKeyIdentifier]:
        issuer = x509.load_pem_x509_certificate(self.pair.certificate.read_bytes())
        signer = serialization.load_pem_private_key(self.pair.key.read_bytes(), password=None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        own = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        return issuer, signer, x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _authority(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    return (
        _builder(name, issuer, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def key_file(path: Path) -> Path:
    """A private key alone, such as the one that signs service account tokens."""
    path.write_bytes(_pem(ec.generate_private_key(ec.SECP256R1())))
    path.chmod(0o600)
    return path


def _name(name: str, groups: Iterable[str]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks differ
        .not_valid_after(now + VALID)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # The traditional format: kube-apiserver reads the public part of an elliptic key from no other.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _write(folder: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pair.key.write_bytes(_pem(key))
    pair.key.chmod(0o600)
    return pair
