"""Credentials for the hub: tokens, certificates, and where they come from.

Credentials change while a process runs: token files are rotated, plugins return short-lived ones. So each request asks
for the current ``Proof``, and after a 401 it asks once for a newer one.
"""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import quote

from kubewire.client.errors import ConfigError, CredentialError
from kubewire.client.tls import Certificate, File, Pem

NO_TOKEN_FILE: Final = "token file {path} cannot be read ({why})"
EMPTY_TOKEN_FILE: Final = "token file {path} is empty"
BAD_TOKEN: Final = "the token has characters that no HTTP header can carry"
BAD_HEADER: Final = "cannot be sent as an HTTP header: it has characters outside printable ASCII"
NO_USER: Final = "sets groups, a uid or extra fields without a user to act as"


@dataclass(frozen=True, slots=True)
class Proof:
    """The credentials of one request. Never printed."""

    authorization: str = field(default="", repr=False)
    certificate: Certificate | None = field(default=None, repr=False)


class Credentials(Protocol):
    async def proof(self) -> Proof:
        """The current credentials. Raise CredentialError or ConfigError if there are none."""

    async def renew(self, rejected: Proof) -> bool:
        """Whether ``proof`` may now return other credentials than those that the hub just rejected."""


class StoredCredentials:
    """Credentials from a kubeconfig or from files. Files are read again whenever they change.

    As in kubectl, a token file takes precedence over a token, and both over a name and password.
    """

    def __init__(
        self,
        *,
        token: str = "",
        token_file: str = "",
        username: str = "",
        password: str = "",
        chain: Pem | None = None,
        key: Pem | None = None,
    ) -> None:
        self._file = File(token_file) if token_file else None
        self._token: bytes | None = None
        self._authorization = ""
        if token:
            self._authorization = bearer(token)
        elif username:
            self._authorization = basic(username, password)
        self._chain, self._key = chain, key
        self._last = Proof()

    def __repr__(self) -> str:
        kinds = [
            "token file" if self._file else "authorization" if self._authorization else "",
            "certificate" if self._chain else "",
        ]
        return f"<{type(self).__name__}: {' and '.join(kind for kind in kinds if kind) or 'nothing'}>"

    async def proof(self) -> Proof:
        return self._read(afresh=False)

    async def renew(self, rejected: Proof) -> bool:
        return self._read(afresh=True) != rejected

    def _read(self, *, afresh: bool) -> Proof:
        if self._file is not None:
            self._read_token(self._file, afresh=afresh)
        authorization = self._authorization
        last, certificate = self._last, None
        if self._chain is not None and self._key is not None:
            chain, key = self._chain.read(), self._key.read()
            if self._chain.read() != chain:  # replaced between the two reads
                chain, key = self._chain.read(), self._key.read()
            certificate = Certificate(chain, key)
        # Returning the same object keeps the lookup of its TLS context cheap.
        if authorization != last.authorization or certificate != last.certificate:
            self._last = Proof(authorization, certificate)
        return self._last

    def _read_token(self, file: File, *, afresh: bool) -> None:
        try:
            content = file.read(afresh=afresh)
        except OSError as error:
            raise CredentialError(NO_TOKEN_FILE.format(path=file.path, why=error.strerror)) from None
        if content is self._token:  # checked before; a token has a kilobyte
            return
        token = content.decode("utf-8", errors="replace").strip()
        if not token:
            raise CredentialError(EMPTY_TOKEN_FILE.format(path=file.path))
        self._authorization, self._token = bearer(token), content


def bearer(token: str) -> str:
    if not sendable(token):
        raise CredentialError(BAD_TOKEN)
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    return "Basic " + b64encode(f"{username}:{password}".encode()).decode()


def sendable(text: str) -> bool:
    return text.isascii() and text.isprintable()


@dataclass(frozen=True, slots=True, kw_only=True)
class Impersonation:
    """The identity to act as, if the user may impersonate it."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def headers(self) -> tuple[tuple[str, str], ...]:
        """Raises ConfigError."""
        if not self.user:
            if self.uid or self.groups or self.extra:
                raise ConfigError(NO_USER, field="as", remedy='add "as: <user>" or remove the others')
            return ()
        headers = [("Impersonate-User", self.user)]
        if self.uid:
            headers.append(("Impersonate-Uid", self.uid))
        headers += [("Impersonate-Group", group) for group in self.groups]
        for key, values in self.extra.items():
            header = f"Impersonate-Extra-{quote(key, safe='')}"
            headers += [(header, value) for value in values]
        for name, value in headers:
            if not sendable(value):
                raise ConfigError(BAD_HEADER, field=name, remedy="write it in printable ASCII")
        return tuple(headers)
