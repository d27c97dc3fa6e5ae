"""PEM files, and TLS contexts made of them.

Creating a context costs milliseconds and two system calls per certificate, and certificates are replaced while a
process runs. So contexts are cached by their content: a rotated certificate gets a new one.
"""

import contextlib
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, NoReturn

from kubewire.client.errors import ConfigError

NOT_PEM: Final = "contains no certificate in PEM format"


class File:
    """A file that may be replaced: read again when it changes; its content is kept when it is deleted."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._content = b""

    def read(self, *, afresh: bool = False) -> bytes:
        """Raise OSError if it was never readable."""
        try:
            status = os.stat(self.path)
            seen = (status.st_ino, status.st_mtime_ns, status.st_size)
            if afresh or seen != self._seen:
                self._content, self._seen = Path(self.path).read_bytes(), seen
        except OSError:
            if self._seen is None:
                raise
        return self._content


class Pem:
    """PEM text, inline or in a file. ``place`` and ``name`` locate the setting, for messages.

    Text embedded in another file is read again when that file changes: ``extract`` finds it there, or returns None to
    keep the last text.
    """

    def __init__(
        self,
        *,
        data: bytes = b"",
        path: str = "",
        place: str = "",
        name: str = "",
        extract: Callable[[bytes], bytes | None] | None = None,
    ) -> None:
        self._data, self._extract = data, extract
        self._file = File(path) if path and (extract is not None or not data) else None
        self._source = b""
        self.place, self.name = place, name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._file.path if self._file else 'given data'}>"

    def read(self) -> bytes:
        if self._file is None:
            return self._data
        try:
            content = self._file.read()
            if self._extract is None:
                return content
            if content is not self._source:
                self._source = content
                self._data = self._extract(content) or self._data
            return self._data
        except OSError as error:
            if self._data:
                return self._data
            message = f"{self._file.path} cannot be read ({error.strerror})"
            raise ConfigError(
                message, place=self.place, field=self.name, remedy="check the path and who may read the file"
            ) from None


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate and its key, in PEM form."""

    chain: bytes = field(repr=False)
    key: bytes = field(repr=False)


@lru_cache(maxsize=32)
def context_of(
    *, authority: bytes | None = None, certificate: Certificate | None = None, insecure: bool = False
) -> ssl.SSLContext:
    """Trust the given authority, or without one those of the system."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    # As Go's clients, such as kubectl: each certificate of the bundle is trusted, also an intermediate one or the
    # server's own. OpenSSL alone accepts a chain only if it ends in a self-signed certificate.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cadata=authority.decode("ascii", errors="replace"))
        except (ssl.SSLError, ValueError):
            raise ConfigError(
                NOT_PEM,
                field="certificate-authority",
                remedy="give a file that begins with -----BEGIN CERTIFICATE-----",
            ) from None
    if certificate is not None:
        _show(context, certificate)
    return context


def _show(context: ssl.SSLContext, certificate: Certificate) -> None:
    with _on_disk(certificate) as (chain, key):
        try:
            context.load_cert_chain(chain, key, password=_refuse_passphrase)
        except (ssl.SSLError, ValueError) as error:
            why = getattr(error, "reason", None) or "not in PEM form"
            message = f"certificate and key cannot be used together ({why})"
            raise ConfigError(
                message,
                field="client-certificate",
                remedy="give the key of this certificate, both in PEM format",
            ) from None


@contextlib.contextmanager
def _on_disk(certificate: Certificate) -> Iterator[tuple[str, str]]:
    """Load a certificate through private temporary files, because Python's binding of OpenSSL reads only files."""
    with tempfile.TemporaryDirectory(prefix="fairway-tls-") as folder:
        paths = []
        for name, content in (("chain.pem", certificate.chain), ("key.pem", certificate.key)):
            path = os.path.join(folder, name)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
            paths.append(path)
        yield paths[0], paths[1]


def _refuse_passphrase() -> NoReturn:
    # OpenSSL would prompt on the terminal, where a daemon would wait forever.
    raise ConfigError(
        "the private key is protected by a passphrase",
        field="client-key",
        remedy="give a key without a passphrase, or use an exec plugin",
    )
