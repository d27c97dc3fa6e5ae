"""Configuration of an HTTP endpoint, and its validation."""

import os
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct, field

from fairway.providers.declared import ProviderEntry
from fairway.providers.document import Document, Seconds, Steps
from fairway.providers.password import PasswordFile
from kubewire.client.connection import Connection, proxy_of_environment
from kubewire.client.credentials import Credentials, StoredCredentials, sendable
from kubewire.client.errors import ConfigError, CredentialError
from kubewire.client.tls import Pem

TWO_IDENTITIES: Final = "token, tokenFile and username exclude each other: keep one"
KEY_WITHOUT: Final = "certFile and keyFile belong together: give both"
NO_PASSWORD: Final = "username needs password or passwordFile"
TWO_PASSWORDS: Final = "password and passwordFile exclude each other: keep one"
BAD_URL: Final = (
    "is not the address of a server: write one such as https://prometheus.example:9090, without ? and #"
)
USER_IN_URL: Final = "carries a user name or password: move them to auth"
NO_TIME: Final = "must be greater than 0"
NO_BYTES: Final = "must be at least 1"
BAD_HEADER: Final = "a header must be printable ASCII"
OUR_HEADER: Final = "Authorization is set by auth, not here"

LARGEST_ANSWER: Final = 16 * 1024 * 1024
"""Default of maxBytes."""


class AuthEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    token: str = ""
    token_file: str = ""
    """Read again when it changes, as is ``password_file``."""
    username: str = ""
    password: str = ""
    password_file: str = ""
    cert_file: str = ""
    key_file: str = ""


class TlsEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    ca_file: str = ""
    server_name: str = ""
    insecure: bool = False


class EndpointEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    url: str
    auth: AuthEntry = AuthEntry()
    tls: TlsEntry = TlsEntry()
    headers: dict[str, str] = field(default_factory=dict)
    timeout: Seconds = field(default_factory=lambda: Seconds(10))
    max_bytes: int = LARGEST_ANSWER


class RemoteEntry(ProviderEntry, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Entry of a provider that reads one server."""

    url: str
    auth: AuthEntry = AuthEntry()
    tls: TlsEntry = TlsEntry()
    headers: dict[str, str] = field(default_factory=dict)
    timeout: Seconds = field(default_factory=lambda: Seconds(10))
    max_bytes: int = LARGEST_ANSWER


ServerEntry = EndpointEntry | RemoteEntry
"""Settings of a server connection."""


def check_headers(entry: ServerEntry, document: Document, path: Steps) -> dict[str, str]:
    for name, value in entry.headers.items():
        if name.lower() == "authorization":
            raise document.error(OUR_HEADER, *path, "headers", name)
        if not sendable(value) or not sendable(name):
            raise document.error(BAD_HEADER, *path, "headers", name)
    return dict(entry.headers)


def _check_url(entry: ServerEntry, document: Document, path: Steps) -> str:
    """Errors do not quote the URL, which may contain secrets."""
    try:
        parts = urlsplit(entry.url)
        host = parts.hostname if parts.port != 0 else None
    except ValueError:
        raise document.error(BAD_URL, *path, "url") from None
    if "@" in parts.netloc:
        raise document.error(USER_IN_URL, *path, "url")
    malformed = not sendable(entry.url) or " " in entry.url
    if malformed or parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise document.error(BAD_URL, *path, "url")
    return entry.url.rstrip("/")


def connection_of(entry: ServerEntry, *, folder: Path, document: Document, path: Steps) -> Connection:
    auth, tls = entry.auth, entry.tls
    if sum(map(bool, (auth.token, auth.token_file, auth.username))) > 1:
        raise document.error(TWO_IDENTITIES, *path, "auth")
    if bool(auth.cert_file) != bool(auth.key_file):
        raise document.error(KEY_WITHOUT, *path, "auth")
    if auth.password and auth.password_file:
        raise document.error(TWO_PASSWORDS, *path, "auth")
    if auth.username and not (auth.password or auth.password_file):
        raise document.error(NO_PASSWORD, *path, "auth")

    def absolute(name: str) -> str:
        return str(folder / Path(name).expanduser()) if name else ""

    def pem(name: str, what: str) -> Pem | None:
        return Pem(path=absolute(name), name=what) if name else None

    credentials: Credentials
    try:
        credentials = StoredCredentials(
            token=auth.token,
            token_file=absolute(auth.token_file),
            username="" if auth.password_file else auth.username,
            password=auth.password,
            chain=pem(auth.cert_file, "auth.certFile"),
            key=pem(auth.key_file, "auth.keyFile"),
        )
    except CredentialError as error:
        raise document.error(str(error), *path, "auth", "token") from None
    if auth.password_file:
        file = absolute(auth.password_file)
        credentials = PasswordFile(file, username=auth.username, others=credentials)
    try:
        return Connection(
            server=_check_url(entry, document, path),
            credentials=credentials,
            authority=pem(tls.ca_file, "tls.caFile"),
            tls_server_name=tls.server_name,
            insecure=tls.insecure,
            proxy=proxy_of_environment(entry.url, os.environ),
        )
    except ConfigError as error:
        at = {"insecure-skip-tls-verify": ("tls",)}.get(error.field, ())
        message = f"{error.message}; {error.remedy}" if error.remedy else error.message
        raise document.error(message, *path, *at) from None
