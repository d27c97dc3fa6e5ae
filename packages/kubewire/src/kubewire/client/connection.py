"""How to reach a hub: address, certificate authority, credentials, proxy."""

import ipaddress
import logging
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from kubewire.client.credentials import Credentials, Impersonation, Proof, StoredCredentials, basic
from kubewire.client.errors import ConfigError
from kubewire.client.tls import Pem, context_of

ACCOUNT_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where Kubernetes mounts a pod's service account."""

NO_SERVER: Final = "names no server"
NO_PROXY_HOST: Final = "is not the address of a proxy"
NOT_IN_A_POD: Final = "this process does not run in a pod with a service account"

WRITE_SERVER: Final = 'write an address like "https://hub.example.com:6443"'
WRITE_PROXY: Final = 'write an address like "http://proxy.example.com:3128"'
UNVERIFIED: Final = "TLS verification is off for %s (insecure-skip-tls-verify): traffic can be intercepted"

_log = logging.getLogger(__name__)
_warned: Final[set[str]] = set()


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy; ``authorization`` is for the proxy alone."""

    url: str
    authorization: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: str, *, place: str = "", field: str = "proxy-url") -> "Proxy":
        """Raise ConfigError without the text, which may hold a password."""
        parts = urlsplit(text if "://" in text else f"http://{text}")
        if parts.scheme != "http":
            message = f"a proxy over {parts.scheme} is not supported"
            raise ConfigError(message, place=place, field=field, remedy=WRITE_PROXY)
        host, _, login = parts.netloc.rpartition("@")[::-1]
        if not parts.hostname:
            raise ConfigError(NO_PROXY_HOST, place=place, field=field, remedy=WRITE_PROXY)
        if not login:
            return cls(f"http://{host}")
        name, _, password = login.partition(":")
        return cls(f"http://{host}", basic(unquote(name), unquote(password)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """``server`` may have a path; ``compression``: whether to accept compressed responses."""

    server: str
    host: str = ""
    """The server as the kubeconfig has it, maybe with a trailing slash: the Host of client-go, which OCM hashes."""
    credentials: Credentials = field(default_factory=StoredCredentials)
    impersonation: Impersonation = field(default_factory=Impersonation)
    authority: Pem | None = None
    tls_server_name: str = ""
    insecure: bool = False
    proxy: Proxy | None = None
    compression: bool = True
    namespace: str = "default"
    place: str = ""
    """The file or variable it was read from, for messages."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.server)
        if not self.server:
            raise self._refusal(NO_SERVER, "server", WRITE_SERVER)
        if "@" in parts.netloc:
            raise self._refusal("carries a user name or password", "server", "move them to the user's entry")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise self._refusal(f"{self.server!r} is not the address of a server", "server", WRITE_SERVER)
        if self.insecure and self.authority is not None:
            raise self._refusal(
                "insecure-skip-tls-verify is set together with a certificate authority",
                "insecure-skip-tls-verify",
                "remove one of them",
            )
        self.impersonation.headers()

    def _refusal(self, message: str, name: str, remedy: str) -> ConfigError:
        return ConfigError(message, place=self.place, field=name, remedy=remedy)

    @classmethod
    def in_cluster(
        cls, *, environ: Mapping[str, str] | None = None, folder: str = ACCOUNT_FOLDER
    ) -> "Connection":
        """Use a pod's service account. Its token is read again whenever Kubernetes replaces it."""
        environ = os.environ if environ is None else environ
        host = environ.get("KUBERNETES_SERVICE_HOST", "")
        port = environ.get("KUBERNETES_SERVICE_PORT", "")
        token, namespace = Path(folder, "token"), Path(folder, "namespace")
        if not host or not port or not token.is_file():
            raise ConfigError(
                NOT_IN_A_POD,
                remedy="give a kubeconfig, or run in a pod whose service account token is mounted",
            )
        host = f"[{host}]" if ":" in host else host
        place = "service account"
        return cls(
            server=f"https://{host}:{port}",
            credentials=StoredCredentials(token_file=str(token)),
            authority=Pem(path=str(Path(folder, "ca.crt")), place=place, name="ca.crt"),
            namespace=namespace.read_text(encoding="utf-8").strip() if namespace.is_file() else "default",
            place=place,
        )

    @property
    def local(self) -> bool:
        """Whether the hub is on this machine, where compression would only cost time."""
        return _is_local(urlsplit(self.server).hostname or "")

    def context(self, proof: Proof) -> ssl.SSLContext | None:
        """Raises ConfigError."""
        if not self.server.startswith("https:"):
            return None
        if self.insecure and self.server not in _warned:
            _warned.add(self.server)
            _log.warning(UNVERIFIED, self.server)
        authority = None if self.authority is None else self.authority.read()
        try:
            return context_of(authority=authority, certificate=proof.certificate, insecure=self.insecure)
        except ConfigError as error:
            place = error.place or self.place
            raise ConfigError(error.message, place=place, field=error.field, remedy=error.remedy) from None


def proxy_of_environment(server: str, environ: Mapping[str, str]) -> Proxy | None:
    """The proxy for ``server`` by HTTPS_PROXY, HTTP_PROXY and NO_PROXY. Raise ConfigError if it is invalid."""
    parts = urlsplit(server)
    host, port = parts.hostname or "", parts.port or {"http": 80}.get(parts.scheme, 443)
    variable = f"{parts.scheme}_proxy"
    name = next((spelling for spelling in (variable.upper(), variable) if environ.get(spelling)), "")
    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if not name or _is_local(host) or any(_excepts(pattern, host, port) for pattern in exceptions.split(",")):
        return None
    return Proxy.parse(environ[name], place="environment", field=name)


def _excepts(pattern: str, host: str, port: int) -> bool:
    pattern = pattern.strip().lower()
    if not pattern:
        return False
    if pattern == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(pattern, strict=False)
    except ValueError:
        pass  # one of them is a host name
    name, colon, number = pattern.rpartition(":")
    if colon and number.isdigit():
        if int(number) != port:
            return False
        pattern = name.strip("[]")
    pattern = pattern.removeprefix("*")
    return host == pattern.removeprefix(".") or host.endswith(f".{pattern.removeprefix('.')}")


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
