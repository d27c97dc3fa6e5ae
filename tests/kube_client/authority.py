"""A certificate authority for tests, with real keys."""

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True)
class Pair:
    chain: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        chain, key = folder / f"{name}.crt", folder / f"{name}.key"
        chain.write_bytes(self.chain)
        key.write_bytes(self.key)
        return chain, key


class Authority:
    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        own = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate = _pem(own.sign(self._key, hashes.SHA256()))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
        )

    def server(self, *names: str) -> Pair:
        alternatives: list[x509.GeneralName] = []
        for name in names:
            try:
                alternatives.append(x509.IPAddress(ipaddress.ip_address(name)))
            except ValueError:
                alternatives.append(x509.DNSName(name))
        return self._issue(
            "server", x509.SubjectAlternativeName(alternatives), ExtendedKeyUsageOID.SERVER_AUTH
        )

    def client(self, name: str) -> Pair:
        return self._issue(name, None, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self, name: str, alternatives: x509.SubjectAlternativeName | None, usage: x509.ObjectIdentifier
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        return Pair(_pem(builder.sign(self._key, hashes.SHA256())), key_pem(key))

    def serving(self, pair: Pair, folder: Path, *, asks_clients: bool = False) -> ssl.SSLContext:
        """For a server that shows ``pair``, and takes only clients of this authority if it asks."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*pair.write(folder, "server"))
        if asks_clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=self.certificate.decode())
        return context


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey, passphrase: bytes | None = None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        encryption = serialization.BestAvailableEncryption(passphrase)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
