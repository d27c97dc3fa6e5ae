"""The certificate of a server, such as the debug endpoint: from files, or self-signed.

Files are checked for changes when a client connects, so the next client gets a renewed certificate. An unusable pair,
as when only one of two files is replaced yet, is ignored: the previous one stays.
"""

import abc
import ipaddress
import logging
import socket
import ssl
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NoReturn

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubewire.client import SYSTEM_CLOCK, Clock

log: Final = logging.getLogger(__name__)

UNUSABLE_CA: Final = "{path} cannot be used as the certificate authority of clients: {why}"
UNUSABLE: Final = "{certificate} and {key} cannot be used as a certificate with its key: {why}"
KEPT: Final = "%s; keeping the previous certificate"
RENEWED: Final = "reloaded the serving certificate"
NOT_PEM: Final = "not in PEM format"
PASSPHRASE: Final = "the key is protected by a passphrase"

LIFE: Final = timedelta(days=365)
RENEWAL: Final = timedelta(days=300)
BACKDATED: Final = timedelta(hours=1)
"""Start of validity before now, because clocks differ."""
ALWAYS: Final = ("localhost", "127.0.0.1", "::1")


class CertificateError(Exception):
    """The files cannot be used. The message never contains their text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFiles:
    """A certificate chain and its key, in PEM form."""

    certificate: Path
    key: Path


class ServingCertificate(abc.ABC):
    """A server's certificate, which is renewed automatically.

    With ``client_ca``, clients may present a certificate, which that authority must have signed.
    """

    def __init__(self, *, client_ca: Path | None = None) -> None:
        self._client_ca = client_ca
        self._current = self._make_context()

    def context(self) -> ssl.SSLContext:
        """The server's context, which selects the current certificate for each client."""
        outer = self._make_context()
        outer.sni_callback = self._choose
        return outer

    def _choose(
        self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _outer: ssl.SSLContext
    ) -> None:
        # At a handshake, not by a timer or a watch of the files: a certificate matters only then, and mounted Secrets
        # are replaced by a rename of a folder, which a watch of the files misses.
        if self._outdated():
            try:
                self._current = self._make_context()
            except CertificateError as error:
                log.warning(KEPT, error)
            else:
                log.info(RENEWED)
        connection.context = self._current

    @abc.abstractmethod
    def _outdated(self) -> bool:
        """Whether to try to renew the certificate."""

    @abc.abstractmethod
    def _load(self, context: ssl.SSLContext) -> None:
        """Raises CertificateError."""

    def _make_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION  # otherwise a client could renegotiate forever
        context.set_alpn_protocols(["http/1.1"])
        self._load(context)
        if self._client_ca is not None:
            try:
                context.load_verify_locations(cafile=self._client_ca)
            except ssl.SSLError as error:
                raise _unusable_ca(self._client_ca, error.reason or NOT_PEM) from None
            except OSError as error:
                raise _unusable_ca(self._client_ca, error.strerror or type(error).__name__) from None
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as kube-apiserver's --client-ca-file
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


class FileCertificate(ServingCertificate):
    """Raise CertificateError if the files cannot be used at the start."""

    def __init__(self, files: CertificateFiles, *, client_ca: Path | None = None) -> None:
        self._files = files
        self._paths = (files.certificate, files.key, *(() if client_ca is None else (client_ca,)))
        self._state = self._read_state()
        super().__init__(client_ca=client_ca)

    def _read_state(self) -> tuple[tuple[int, int, int], ...]:
        try:
            states = [path.stat() for path in self._paths]
        except OSError as error:
            raise self._unusable(error.strerror or type(error).__name__) from None
        return tuple((state.st_ino, state.st_mtime_ns, state.st_size) for state in states)

    def _outdated(self) -> bool:
        try:
            before, self._state = self._state, self._read_state()
        except CertificateError:
            return False  # files may be missing while they are replaced
        return before != self._state

    def _load(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self._files.certificate, self._files.key, password=_no_passphrase)
        except ssl.SSLError as error:
            raise self._unusable(error.reason or NOT_PEM) from None
        except (OSError, ValueError) as error:
            raise self._unusable(getattr(error, "strerror", None) or str(error)) from None

    def _unusable(self, why: str) -> CertificateError:
        return CertificateError(
            UNUSABLE.format(certificate=self._files.certificate, key=self._files.key, why=why)
        )


class SelfSignedCertificate(ServingCertificate):
    """A self-signed certificate for these hosts and the loopback address, renewed long before it expires."""

    def __init__(
        self, *, hosts: Iterable[str] = (), client_ca: Path | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._hosts, self._clock = tuple(hosts), clock
        self._since = clock.wall()
        super().__init__(client_ca=client_ca)

    def _outdated(self) -> bool:
        # Neither expired nor, after the clock was set back, not yet valid.
        return not -BACKDATED < self._clock.wall() - self._since < RENEWAL

    def _load(self, context: ssl.SSLContext) -> None:
        self._since = self._clock.wall()
        # The ssl module reads certificates from files only, so use a private temporary one.
        with tempfile.TemporaryDirectory(prefix="fairway-") as folder:
            path = Path(folder, "own.pem")
            path.write_bytes(_own(self._hosts, now=self._since))
            context.load_cert_chain(path)


def _unusable_ca(path: Path, why: str) -> CertificateError:
    return CertificateError(UNUSABLE_CA.format(path=path, why=why))


def _no_passphrase() -> NoReturn:
    # OpenSSL would prompt on the terminal.
    raise ValueError(PASSPHRASE)


def _own(hosts: Iterable[str], *, now: datetime) -> bytes:
    """Key and certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fairway")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(_names(hosts)), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem + certificate.public_bytes(serialization.Encoding.PEM)


def _names(hosts: Iterable[str]) -> list[x509.GeneralName]:
    wanted = dict.fromkeys((*ALWAYS, socket.gethostname(), *hosts))
    names: list[x509.GeneralName] = []
    for host in filter(None, wanted):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            if host.isascii():  # names in a certificate are ASCII
                names.append(x509.DNSName(host))
    return names
