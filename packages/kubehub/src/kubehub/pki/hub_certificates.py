"""The certificates of a hub: its authority, the serving certificate, the administrator's client certificate.

An identity is one file with key and certificate, so that the two are always replaced together. Programs that want
two files accept the same file twice.

Clients trust the authority's key. It is created with the hub's first data and never replaced silently: ``open``
raises if it is missing or another one. The hub reissues everything else when it is missing or expires soon, at the
start and while it runs, including the authority's own certificate, with the same key.
"""

import base64
import contextlib
import hashlib
import ipaddress
import logging
import os
import socket
import ssl
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubehub.pki.certificates import (
    BACKDATED,
    FOREIGN,
    LOST,
    UNUSABLE,
    Authority,
    CertificateFault,
    Identity,
    read_private,
    write_private,
)
from kubehub.resource import Document
from kubehub.user import MASTERS

log: Final = logging.getLogger(__name__)

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
NOT_A_PAIR: Final = "not a key and its certificate in PEM format"
NOT_ELLIPTIC: Final = "not an elliptic curve key"
MISMATCHED: Final = "the key and the certificate do not belong together"
RENEWED: Final = "renewed the %s certificate, valid until %s"
AUTHORITY_RENEWED: Final = (
    "renewed the authority's certificate with the same key; clients that pinned the old one (%s) need the new one "
    "from then on: %s"
)
NOT_SAVED: Final = "cannot save %s, using it from memory: %s"
REISSUED: Final = "%s; issuing a new one"

_LIFE: Final = timedelta(days=365)
_RENEWAL: Final = timedelta(days=30)
_AUTHORITY_RENEWAL: Final = timedelta(days=730)
"""Longer than the certificates it issues, so that none has to end early; clients have a year to fetch the new one."""

# OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which the ssl module doesn't name. An expired client certificate passes the
# handshake and ``Authority.verify`` rejects it: the client gets a 401, not a broken connection.
_NO_CHECK_TIME: Final = 0x200000


class Certificates:
    """Created by ``open``. Without a folder, certificates last as long as the process."""

    def __init__(self, folder: Path | None, authority: Authority, *, names: Iterable[str]) -> None:
        self.authority = authority
        self._folder = folder
        self._names = _general_names((*ALWAYS_SERVED, socket.gethostname(), *names))
        self._contexts: list[ssl.SSLContext] = []
        self._due: tuple[datetime, datetime] | None = None
        self.serving: Identity
        self.admin: Identity

    @classmethod
    def open(
        cls,
        folder: Path | None,
        *,
        names: Iterable[str] = (),
        now: datetime | None = None,
        expected: bool = False,
        trusted: str | None = None,
    ) -> "Certificates":
        """Load the certificates of a folder, and issue those that are missing, expire soon or lack a name.

        ``expected``: the hub has data, so an authority must exist. ``trusted`` is the fingerprint it had. Raises
        CertificateFault.
        """
        now = now or datetime.now(UTC)
        if folder is not None and not expected:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = None
        if folder is not None:
            authority = read_authority(folder, expected=expected, trusted=trusted)
        if authority is None:
            authority = Authority.create(now=now)
            if folder is not None:
                write_private(folder / AUTHORITY_FILE, authority.identity.pem())
        opened = cls(folder, authority, names=names)
        opened._issue_due(now)
        return opened

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self.authority.certificate)

    def renew(self, *, now: datetime | None = None) -> bool:
        """Reissue what expires soon, or isn't valid yet because the clock was set back. Returns whether anything
        was.

        Contexts of ``ssl_context`` use the new certificate in the next handshake; connections stay open.
        """
        now = now or datetime.now(UTC)
        if self._due is not None and self._due[0] <= now < self._due[1]:
            return False
        serving = self.serving
        changed = self._issue_due(now)
        if self.serving is not serving:
            for context in self._contexts:
                _load(context, self.serving)
        return changed

    def _issue_due(self, now: datetime) -> bool:
        changed = False
        own = self.authority.certificate
        if not own.not_valid_before_utc <= now < own.not_valid_after_utc - _AUTHORITY_RENEWAL:
            self.authority.renew(now=now)
            self._write_file(AUTHORITY_FILE, self.authority.identity.pem())
            log.warning(AUTHORITY_RENEWED, own.not_valid_after_utc, AUTHORITY_CERTIFICATE_FILE)
            changed = True
        self._write_file(AUTHORITY_CERTIFICATE_FILE, self.authority.identity.certificate_pem())
        serving = getattr(self, "serving", None) or self._read_existing(SERVING_FILE)
        if serving is None or not self._is_current(serving, now) or not self._names <= _names_of(serving):
            serving = self._issue(
                SERVING_FILE,
                subject=[(NameOID.COMMON_NAME, "fairway-hub")],
                names=sorted(self._names, key=lambda name: str(name.value)),
                purpose=ExtendedKeyUsageOID.SERVER_AUTH,
                now=now,
            )
            changed = True
        admin = getattr(self, "admin", None) or self._read_existing(ADMIN_FILE)
        if admin is None or not self._is_current(admin, now):
            admin = self._issue(
                ADMIN_FILE,
                subject=[(NameOID.ORGANIZATION_NAME, MASTERS), (NameOID.COMMON_NAME, ADMIN)],
                purpose=ExtendedKeyUsageOID.CLIENT_AUTH,
                now=now,
            )
            changed = True
        self.serving, self.admin = serving, admin
        issued = [identity.certificate for identity in (serving, admin)]
        self._due = (
            max(certificate.not_valid_before_utc for certificate in (*issued, self.authority.certificate)),
            min(
                self.authority.certificate.not_valid_after_utc - _AUTHORITY_RENEWAL,
                *(certificate.not_valid_after_utc - _RENEWAL for certificate in issued),
            ),
        )
        return changed

    def _is_current(self, identity: Identity, now: datetime) -> bool:
        certificate = identity.certificate
        try:
            certificate.verify_directly_issued_by(self.authority.certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - _RENEWAL

    def _issue(
        self,
        name: str,
        *,
        subject: list[tuple[x509.ObjectIdentifier, str]],
        names: Iterable[x509.GeneralName] = (),
        purpose: x509.ObjectIdentifier,
        now: datetime,
    ) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self.authority.issue(
            subject=x509.Name([x509.NameAttribute(oid, value) for oid, value in subject]),
            public_key=key.public_key(),
            names=names,
            key_usage=x509.KeyUsage(True, False, False, False, False, False, False, False, False),
            purposes=[purpose],
            start=now - BACKDATED,
            end=now + _LIFE,
        )
        identity = Identity(certificate, key)
        self._write_file(name, identity.pem())
        log.info(RENEWED, name.removesuffix(".pem"), certificate.not_valid_after_utc)
        return identity

    def _read_existing(self, name: str) -> Identity | None:
        """Return None for an unusable certificate that the authority can reissue."""
        if self._folder is None:
            return None
        try:
            return _read(self._folder / name)
        except CertificateFault as fault:
            log.warning(REISSUED, fault)
            return None

    def _write_file(self, name: str, data: bytes) -> None:
        """Write a file if possible. On a full disk the hub runs with the certificate in memory; the next start
        reissues it."""
        if self._folder is None:
            return
        path = self._folder / name
        try:
            if not path.is_file() or path.read_bytes() != data:
                write_private(path, data)
        except OSError as error:
            log.warning(NOT_SAVED, path, error.strerror)

    def ssl_context(self) -> ssl.SSLContext:
        """Create the server's context. Client certificates are optional; one of another authority fails the
        handshake.

        kube-apiserver accepts a foreign certificate and answers 401. The ssl module can't request a certificate
        without verifying its issuer, so the client gets the TLS alert "unknown CA" instead. Both answer an expired
        certificate of their own with 401.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Otherwise a client could force handshakes over and over on one connection.
        context.options |= ssl.OP_NO_RENEGOTIATION
        # Kubernetes clients don't resume sessions, and tickets are a quarter of the cost of a handshake.
        context.num_tickets = 0
        context.set_alpn_protocols(["http/1.1"])
        context.verify_mode = ssl.CERT_OPTIONAL
        context.verify_flags = ssl.VerifyFlags(context.verify_flags | _NO_CHECK_TIME)
        context.load_verify_locations(cadata=self.authority.identity.certificate_pem().decode())
        _load(context, self.serving)
        self._contexts.append(context)
        return context

    def kubeconfig(self, *, server: str) -> Document:
        """Return the administrator's kubeconfig, with embedded credentials that allow everything."""
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
        """Write the file unless it is up to date. Raises OSError."""
        content = yaml.safe_dump(self.kubeconfig(server=server), sort_keys=False).encode()
        with contextlib.suppress(OSError):
            if path.read_bytes() == content:
                path.chmod(0o600)
                return
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, content)


def read_authority(folder: Path, *, expected: bool, trusted: str | None) -> Authority | None:
    """Return None if missing, unless one is ``expected``; see ``Certificates.open``."""
    path, data = folder / AUTHORITY_FILE, folder.parent
    try:
        kept = _read(path)
    except _Unusable as fault:
        raise CertificateFault(UNUSABLE.format(path=path, why=fault.why, data=data)) from fault
    if kept is None:
        if expected:
            raise CertificateFault(LOST.format(path=path, data=data))
        return None
    if expected and trusted is None:
        # Data of a version without a stored fingerprint: compare with the public certificate beside it.
        with contextlib.suppress(OSError, ValueError):
            public = x509.load_pem_x509_certificate((folder / AUTHORITY_CERTIFICATE_FILE).read_bytes())
            trusted = _fingerprint(public)
    if trusted not in (None, _fingerprint(kept.certificate)):
        raise CertificateFault(FOREIGN.format(path=path, data=data))
    return Authority(kept)


def _fingerprint(certificate: x509.Certificate) -> str:
    """Return the fingerprint of the key, which a renewal keeps."""
    public = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(public).hexdigest()


class _Unusable(CertificateFault):
    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.why = why


def _read(path: Path) -> Identity | None:
    data = read_private(path)
    if data is None:
        return None
    try:
        key = serialization.load_pem_private_key(data, password=None)
        certificate = x509.load_pem_x509_certificate(data)
    except (ValueError, TypeError) as fault:
        # The parser's message could quote what it read.
        raise _Unusable(path, NOT_A_PAIR) from fault
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise _Unusable(path, NOT_ELLIPTIC)
    if key.public_key() != certificate.public_key():
        raise _Unusable(path, MISMATCHED)
    return Identity(certificate, key)


def _load(context: ssl.SSLContext, identity: Identity) -> None:
    """Load an identity through a file, as the ssl module reads no other source. It is in memory, for full disks."""
    if not hasattr(os, "memfd_create"):
        with tempfile.TemporaryDirectory(prefix="fairway-") as folder:
            path = Path(folder, SERVING_FILE)
            write_private(path, identity.pem())
            context.load_cert_chain(path)
        return
    descriptor = os.memfd_create("fairway-certificate")
    with os.fdopen(descriptor, "wb") as file:
        file.write(identity.pem())
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")


def _general_names(names: Iterable[str]) -> frozenset[x509.GeneralName]:
    general: set[x509.GeneralName] = set()
    for name in filter(None, names):
        try:
            general.add(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            if name.isascii():  # not every host name is valid in a certificate
                general.add(x509.DNSName(name))
    return frozenset(general)


def _names_of(identity: Identity) -> frozenset[x509.GeneralName]:
    extensions = identity.certificate.extensions
    try:
        return frozenset(extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return frozenset()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
