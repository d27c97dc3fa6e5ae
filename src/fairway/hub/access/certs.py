"""The hub's own certificate authority, and the two certificates it needs at once.

Every identity is kept in one file that holds its key and its certificate, so there is no moment at which one of
the two is new and the other old. Programs that want two files accept the same one twice.
"""

import base64
import ipaddress
import os
import socket
import ssl
import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairway.hub.resource import Document
from fairway.hub.user import MASTERS

ADMIN: Final = "kubernetes-admin"
AUTHORITY_FILE: Final = "ca.pem"
AUTHORITY_CERTIFICATE_FILE: Final = "ca.crt"
SERVING_FILE: Final = "serving.pem"
ADMIN_FILE: Final = "admin.pem"

ALWAYS_SERVED: Final = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
UNUSABLE: Final = "{path} is not a key with its certificate: {why}; move it away to have a new one made"

_AUTHORITY_LIFE: Final = timedelta(days=3650)
_LIFE: Final = timedelta(days=365)
_RENEWAL: Final = timedelta(days=30)
_BACKDATED: Final = timedelta(hours=1)
"""Machines that start together disagree about the time for a while."""

# OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which the ssl module doesn't name. An expired client certificate passes the
# handshake and is refused by ``Authority.verify``: its owner reads 401 Unauthorized, not a broken connection.
_NO_CHECK_TIME: Final = 0x200000


class CertificateFault(Exception):
    """A kept file can't be used, or a certificate isn't one of ours. Never holds key material."""


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


@dataclass(frozen=True, slots=True)
class Authority:
    identity: Identity

    @classmethod
    def create(cls, *, now: datetime) -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fairway-hub-ca")])
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        certificate = (
            _builder(name, name, key.public_key(), now - _BACKDATED, now + _AUTHORITY_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(Identity(certificate, key))

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
        """A certificate that is no authority itself and ends with this one at the latest."""
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
            # RFC 5280: whoever has no subject is named here, so it must be understood.
            unnamed = not list(subject)
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=unnamed)
        return builder.sign(self.identity.key, hashes.SHA256())

    def verify(self, der: bytes, *, now: datetime) -> x509.Certificate:
        """A certificate for clients that this authority issued and whose time it is; else CertificateFault.

        Asks everything the handshake asked again: a front end of another make may ask less.
        """
        try:
            certificate = x509.load_der_x509_certificate(der)
            certificate.verify_directly_issued_by(self.certificate)
            purposes = _purposes(certificate)
        except (ValueError, TypeError, InvalidSignature) as fault:
            raise CertificateFault("not issued by the hub") from fault
        for each in (certificate, self.certificate):
            if not each.not_valid_before_utc <= now <= each.not_valid_after_utc:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """What a hub starts with. Without a folder everything lives and dies with the process."""

    authority: Authority
    serving: Identity
    admin: Identity

    @classmethod
    def open(
        cls, folder: Path | None, *, names: Iterable[str] = (), now: datetime | None = None
    ) -> "Certificates":
        """Reads what the folder has and makes what it lacks, what runs out soon and what lacks a name."""
        now = now or datetime.now(UTC)
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = _read(folder, AUTHORITY_FILE)
        if kept is None or kept.certificate.not_valid_after_utc <= now:
            authority = Authority.create(now=now)
            _keep(folder, AUTHORITY_FILE, authority.identity.pem())
        else:
            authority = Authority(kept)
        if folder is not None:
            _keep(folder, AUTHORITY_CERTIFICATE_FILE, authority.identity.certificate_pem())
        wanted = _general_names((*ALWAYS_SERVED, socket.gethostname(), *names))
        serving = _read(folder, SERVING_FILE)
        if serving is None or not _lasts(serving, authority, now) or not wanted <= _names_of(serving):
            serving = _made(
                authority,
                subject=[(NameOID.COMMON_NAME, "fairway-hub")],
                names=sorted(wanted, key=lambda name: str(name.value)),
                purpose=ExtendedKeyUsageOID.SERVER_AUTH,
                now=now,
            )
            _keep(folder, SERVING_FILE, serving.pem())
        admin = _read(folder, ADMIN_FILE)
        if admin is None or not _lasts(admin, authority, now):
            admin = _made(
                authority,
                subject=[(NameOID.ORGANIZATION_NAME, MASTERS), (NameOID.COMMON_NAME, ADMIN)],
                purpose=ExtendedKeyUsageOID.CLIENT_AUTH,
                now=now,
            )
            _keep(folder, ADMIN_FILE, admin.pem())
        return cls(authority=authority, serving=serving, admin=admin)

    def ssl_context(self) -> ssl.SSLContext:
        """For the server. Clients may show a certificate; one of another authority ends the handshake.

        kube-apiserver lets a foreign certificate in and answers 401. The ssl module can't ask for a certificate
        without checking who issued it, so here the client sees the TLS alert "unknown CA" instead. An expired
        certificate of ours is answered with 401 by both.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Or a client could have the hub shake hands over and over on one connection.
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        context.verify_mode = ssl.CERT_OPTIONAL
        context.verify_flags = ssl.VerifyFlags(context.verify_flags | _NO_CHECK_TIME)
        context.load_verify_locations(cadata=self.authority.identity.certificate_pem().decode())
        with tempfile.TemporaryDirectory(prefix="fairway-") as folder:
            path = Path(folder, SERVING_FILE)
            write_private(path, self.serving.pem())
            context.load_cert_chain(path)
        return context

    def kubeconfig(self, *, server: str) -> Document:
        """For the administrator, with everything embedded: whoever reads it can do anything."""
        name = "fairway"
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": name,
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": _base64(self.authority.identity.certificate_pem()),
                    },
                }
            ],
            "users": [
                {
                    "name": ADMIN,
                    "user": {
                        "client-certificate-data": _base64(self.admin.certificate_pem()),
                        "client-key-data": _base64(self.admin.key_pem()),
                    },
                }
            ],
            "contexts": [{"name": name, "context": {"cluster": name, "user": ADMIN}}],
            "current-context": name,
        }

    def write_kubeconfig(self, path: Path, *, server: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, yaml.safe_dump(self.kubeconfig(server=server), sort_keys=False).encode())


def attributes(
    of: x509.Certificate | x509.CertificateSigningRequest, oid: x509.ObjectIdentifier
) -> list[x509.NameAttribute[str | bytes]]:
    """Those of a subject, in its order.

    Names of users are longer than X.520 wants them, which Kubernetes doesn't mind and the parser warns about.
    """
    with warnings.catch_warnings(action="ignore"):
        return list(of.subject.get_attributes_for_oid(oid))


def texts(
    of: x509.Certificate | x509.CertificateSigningRequest, oid: x509.ObjectIdentifier
) -> tuple[str, ...]:
    found = (each.value for each in attributes(of, oid))
    return tuple(each if isinstance(each, str) else each.decode(errors="replace") for each in found)


def write_private(path: Path, data: bytes) -> None:
    """Replaces the file at once or not at all; nobody but its owner can read it at any moment."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # made with 0600
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


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """In the older form: Kubernetes' programs take no other where they want the public key of a pair."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _keep(folder: Path | None, name: str, data: bytes) -> None:
    if folder is not None and not _holds(folder / name, data):
        write_private(folder / name, data)


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


def _read(folder: Path | None, name: str) -> Identity | None:
    if folder is None or not (path := folder / name).exists():
        return None
    path.chmod(0o600)
    data = path.read_bytes()
    try:
        key = serialization.load_pem_private_key(data, password=None)
        certificate = x509.load_pem_x509_certificate(data)
    except (ValueError, TypeError) as fault:
        # The parser's own words could quote what it read.
        raise CertificateFault(UNUSABLE.format(path=path, why="it can't be parsed")) from fault
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateFault(UNUSABLE.format(path=path, why="the key isn't an elliptic curve key"))
    if key.public_key() != certificate.public_key():
        raise CertificateFault(UNUSABLE.format(path=path, why="they don't belong together"))
    return Identity(certificate, key)


def _lasts(identity: Identity, authority: Authority, now: datetime) -> bool:
    certificate = identity.certificate
    try:
        certificate.verify_directly_issued_by(authority.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    end = certificate.not_valid_after_utc
    # One that ends with its authority can't be renewed any further.
    longest = end >= authority.certificate.not_valid_after_utc
    return certificate.not_valid_before_utc <= now and (end - now > _RENEWAL or (longest and end > now))


def _made(
    authority: Authority,
    *,
    subject: list[tuple[x509.ObjectIdentifier, str]],
    names: Iterable[x509.GeneralName] = (),
    purpose: x509.ObjectIdentifier,
    now: datetime,
) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = authority.issue(
        subject=x509.Name([x509.NameAttribute(oid, value) for oid, value in subject]),
        public_key=key.public_key(),
        names=names,
        key_usage=x509.KeyUsage(True, False, False, False, False, False, False, False, False),
        purposes=[purpose],
        start=now - _BACKDATED,
        end=now + _LIFE,
    )
    return Identity(certificate, key)


def _general_names(names: Iterable[str]) -> frozenset[x509.GeneralName]:
    found: set[x509.GeneralName] = set()
    for name in filter(None, names):
        try:
            found.add(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            if name.isascii():  # a host may have any name, a certificate may not
                found.add(x509.DNSName(name))
    return frozenset(found)


def _names_of(identity: Identity) -> frozenset[x509.GeneralName]:
    extensions = identity.certificate.extensions
    try:
        return frozenset(extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return frozenset()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
