"""Kubeconfig files: parse them, merge them as kubectl does, and make a Connection.

In a list of files, the first one with a cluster, user or context of a name wins, whole entries at a time; so does the
first current context. Missing files are skipped. Paths in a file are relative to its folder.
"""

import difflib
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct, field

from kubewire.api.encoding import without_nulls
from kubewire.client.connection import Connection, Proxy, proxy_of_environment
from kubewire.client.credentials import Credentials, Impersonation, StoredCredentials
from kubewire.client.errors import ConfigError, CredentialError
from kubewire.client.exec_plugin import ExecPlugin, ExecSpec
from kubewire.client.tls import Pem
from kubewire.documents.parser import DocumentError, Rules
from kubewire.documents.reader import yaml_document
from kubewire.documents.scalars import resolve_null

VARIABLE: Final = "KUBECONFIG"
DEFAULT_PATH: Final = ".kube/config"
EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"

NO_SUCH_FILE: Final = "does not exist"
UNREADABLE: Final = "cannot be read ({why})"
NOTHING_FOUND: Final = "no kubeconfig was found"
NO_CURRENT: Final = "no current context is set"
NO_CLUSTER: Final = "names no cluster"
NOT_BASE64: Final = "is not base64"
AUTH_PROVIDER: Final = "is an auth-provider, which Kubernetes no longer has"
TOKEN_AND_USER: Final = "has both a token and a user name"
INCOMPLETE_PAIR: Final = "has a client certificate without its key, or a key without its certificate"

SET_VARIABLE: Final = f"give a kubeconfig, or name one in {VARIABLE}"
WRITE_SHAPE: Final = 'compare it with the output of "kubectl config view"'
WRITE_CLUSTER: Final = "write the name of one of its clusters"
USE_EXEC: Final = "use an exec plugin instead"
ONE_WAY: Final = "leave one"
GIVE_BOTH: Final = "give both"


class Cluster(Struct, frozen=True, kw_only=True, rename="kebab"):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False

    def __repr__(self) -> str:
        # A proxy's address may hold a password.
        return f"<Cluster {self.server}>"


class User(Struct, frozen=True, kw_only=True, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: ExecSpec | None = None
    auth_provider: dict[str, Any] | None = None
    impersonate: str = field(default="", name="as")
    impersonate_uid: str = field(default="", name="as-uid")
    impersonate_groups: tuple[str, ...] = field(default=(), name="as-groups")
    impersonate_extra: dict[str, tuple[str, ...]] = field(default_factory=dict, name="as-user-extra")

    def __repr__(self) -> str:
        return "<User>"


class Context(Struct, frozen=True, kw_only=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(Struct, frozen=True):
    name: str
    cluster: Cluster = Cluster()


class _NamedUser(Struct, frozen=True):
    name: str
    user: User = field(default_factory=User)


class _NamedContext(Struct, frozen=True):
    name: str
    context: Context = Context()


class _Document(Struct, frozen=True, rename="kebab"):
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()


E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class SourcedEntry(Generic[E]):
    """A parsed file and its path."""

    value: E
    file: Path

    def path(self, written: str) -> str:
        return str(self.file.parent / written) if written else ""


@dataclass(slots=True)
class Kubeconfig:
    """Merged files."""

    current: str = ""
    clusters: dict[str, SourcedEntry[Cluster]] = dataclass_field(default_factory=dict)
    users: dict[str, SourcedEntry[User]] = dataclass_field(default_factory=dict)
    contexts: dict[str, SourcedEntry[Context]] = dataclass_field(default_factory=dict)
    files: tuple[Path, ...] = ()

    def add(self, document: _Document, file: Path) -> None:
        self.files += (file,)
        self.current = self.current or document.current_context
        for cluster in document.clusters:
            self.clusters.setdefault(cluster.name, SourcedEntry(cluster.cluster, file))
        for user in document.users:
            self.users.setdefault(user.name, SourcedEntry(user.user, file))
        for context in document.contexts:
            self.contexts.setdefault(context.name, SourcedEntry(context.context, file))

    def context(self, name: str | None = None, *, environ: Mapping[str, str] | None = None) -> Connection:
        """The Connection of a context, by default the current one, with proxies from ``environ``. Raise ConfigError."""
        name = name or self.current
        if not name:
            known = ", ".join(self.contexts) or "none"
            place = ", ".join(map(str, self.files))
            raise ConfigError(
                NO_CURRENT,
                place=place,
                remedy=f'choose one with "kubectl config use-context", or name it; there are {known}',
            )
        context = _entry(self.contexts, name, what="context", place=self._place(self.files))
        where = f"contexts[{name}].context"
        if not context.value.cluster:
            raise ConfigError(
                NO_CLUSTER, place=str(context.file), field=f"{where}.cluster", remedy=WRITE_CLUSTER
            )
        place = str(context.file)
        cluster = _entry(
            self.clusters, context.value.cluster, what="cluster", place=place, field=f"{where}.cluster"
        )
        user = SourcedEntry(User(), context.file)
        if context.value.user:
            user = _entry(self.users, context.value.user, what="user", place=place, field=f"{where}.user")
        environ = os.environ if environ is None else environ
        return _connect(context.value, cluster=cluster, user=user, environ=environ)

    @staticmethod
    def _place(files: Iterable[Path]) -> str:
        return ", ".join(map(str, files))


def load(path: str | Path | None = None, *, environ: Mapping[str, str] | None = None) -> Kubeconfig:
    """Load the given file, the files in KUBECONFIG, or ``~/.kube/config``. Raise ConfigError."""
    environ = os.environ if environ is None else environ
    merged = Kubeconfig()
    if path is not None:
        if not Path(path).exists():
            raise ConfigError(NO_SUCH_FILE, place=str(path), remedy="check the path")
        candidates = [Path(path)]
    elif listed := [part for part in environ.get(VARIABLE, "").split(os.pathsep) if part]:
        candidates = list(dict.fromkeys(map(Path, listed)))
    else:
        candidates = [Path(environ.get("HOME") or Path.home(), DEFAULT_PATH)]
    for candidate in candidates:
        if candidate.exists():
            merged.add(_read(candidate), candidate)
    if not merged.files:
        raise ConfigError(NOTHING_FOUND, place=", ".join(map(str, candidates)), remedy=SET_VARIABLE)
    return merged


_RULES: Final = Rules(resolve=resolve_null, strict=False)
"""Scalars stay text, because a token of digits is not a number; msgspec converts booleans."""


def _read(file: Path) -> _Document:
    place = str(file)
    try:
        document = yaml_document(file.read_bytes(), _RULES)
    except OSError as error:
        raise ConfigError(
            UNREADABLE.format(why=error.strerror), place=place, remedy="check who may read it"
        ) from None
    except DocumentError as error:
        # Not the error's own text, which may contain a token.
        why = f"line {error.line}" if error.line else "no valid document"
        raise ConfigError(f"is not YAML ({why})", place=place, remedy=WRITE_SHAPE) from None
    try:
        return msgspec.convert(without_nulls(document.value) if document else {}, _Document, strict=False)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        name = path.rstrip("`").removeprefix(".")
        raise ConfigError(
            f"is not a kubeconfig: {message}", place=place, field=name, remedy=WRITE_SHAPE
        ) from None


def _entry(
    entries: Mapping[str, SourcedEntry[E]], name: str, *, what: str, place: str, field: str = ""
) -> SourcedEntry[E]:
    entry = entries.get(name)
    if entry is not None:
        return entry
    near = difflib.get_close_matches(name, entries, n=1)
    known = ", ".join(entries) or "none"
    remedy = f"did you mean {near[0]!r}?" if near else f"there are {known}"
    raise ConfigError(f"there is no {what} {name!r}", place=place, field=field, remedy=remedy)


def _connect(
    context: Context, *, cluster: SourcedEntry[Cluster], user: SourcedEntry[User], environ: Mapping[str, str]
) -> Connection:
    at, where = cluster.value, f"clusters[{context.cluster}].cluster"
    place = str(cluster.file)
    authority = _pem(
        cluster,
        data=at.certificate_authority_data,
        path=at.certificate_authority,
        name=f"{where}.certificate-authority",
        reread=lambda current: (
            _same_cluster(current, cluster.value, context.cluster).certificate_authority_data
        ),
    )
    server = at.server.rstrip("/")
    if server and "://" not in server:
        safe = authority is not None or at.insecure_skip_tls_verify
        server = f"{'https' if safe else 'http'}://{server}"
    if at.proxy_url:
        proxy: Proxy | None = Proxy.parse(at.proxy_url, place=place, field=f"{where}.proxy-url")
    else:
        proxy = proxy_of_environment(server, environ)
    who = user.value
    return Connection(
        server=server,
        host=at.server,
        credentials=_credentials(user, user_name=context.user, cluster=cluster, cluster_name=context.cluster),
        impersonation=Impersonation(
            user=who.impersonate,
            uid=who.impersonate_uid,
            groups=who.impersonate_groups,
            extra=who.impersonate_extra,
        ),
        authority=authority,
        tls_server_name=at.tls_server_name,
        insecure=at.insecure_skip_tls_verify,
        proxy=proxy,
        compression=not at.disable_compression,
        namespace=context.namespace or "default",
        place=place,
    )


def _pem(
    entry: SourcedEntry[Any],
    *,
    data: str,
    path: str,
    name: str,
    reread: Callable[[Kubeconfig], str] | None = None,
) -> Pem | None:
    """As in kubectl, data takes precedence over a file. ``find_user`` finds it in a kubeconfig that was replaced."""
    place = str(entry.file)
    if not data:
        return Pem(path=entry.path(path), place=place, name=name) if path else None
    try:
        content = b64decode("".join(data.split()), validate=True)
    except ValueError:
        raise ConfigError(
            NOT_BASE64,
            place=place,
            field=f"{name}-data",
            remedy="write the base64 form of the PEM text, or name a file in the field without -data",
        ) from None

    def extract(_: bytes) -> bytes | None:
        # If the file is invalid or for another hub by now, keep the last valid entry.
        try:
            return b64decode("".join(reread(load(entry.file)).split()), validate=True) if reread else None
        except (ConfigError, KeyError, ValueError):
            return None

    path = str(entry.file) if reread else ""
    return Pem(data=content, path=path, place=place, name=f"{name}-data", extract=extract if reread else None)


def _same_cluster(current: Kubeconfig, cluster: Cluster, name: str) -> Cluster:
    """The same cluster's entry. Raise KeyError if the name now refers to another server."""
    entry = current.clusters[name].value
    if entry.server != cluster.server:
        raise KeyError(name)
    return entry


def _credentials(
    entry: SourcedEntry[User], *, user_name: str, cluster: SourcedEntry[Cluster], cluster_name: str
) -> Credentials:
    user, place, name = entry.value, str(entry.file), f"users[{user_name}].user"
    token = bool(user.token or user.token_file)
    if token and user.username:
        raise ConfigError(TOKEN_AND_USER, place=place, field=name, remedy=ONE_WAY)
    if user.exec is not None and not token:
        spec = user.exec
        if os.sep in spec.command:
            spec = msgspec.structs.replace(spec, command=entry.path(spec.command))
        info = _cluster_info(cluster, cluster_name) if spec.provide_cluster_info else None
        return ExecPlugin(spec, cluster=info, place=place, field=name)
    if user.auth_provider is not None and not token:
        raise ConfigError(AUTH_PROVIDER, place=place, field=f"{name}.auth-provider", remedy=USE_EXEC)

    def find_user(current: Kubeconfig) -> User:
        if cluster_name in current.clusters:
            _same_cluster(current, cluster.value, cluster_name)
        return current.users[user_name].value

    chain = _pem(
        entry,
        data=user.client_certificate_data,
        path=user.client_certificate,
        name=f"{name}.client-certificate",
        reread=lambda current: find_user(current).client_certificate_data,
    )
    key = _pem(
        entry,
        data=user.client_key_data,
        path=user.client_key,
        name=f"{name}.client-key",
        reread=lambda current: find_user(current).client_key_data,
    )
    if (chain is None) != (key is None):
        raise ConfigError(INCOMPLETE_PAIR, place=place, field=name, remedy=GIVE_BOTH)
    try:
        return StoredCredentials(
            token=user.token,
            token_file=entry.path(user.token_file),
            username=user.username,
            password=user.password,
            chain=chain,
            key=key,
        )
    except CredentialError as error:
        raise ConfigError(
            str(error), place=place, field=f"{name}.token", remedy="paste the token again"
        ) from None


def _cluster_info(entry: SourcedEntry[Cluster], name: str) -> dict[str, Any]:
    """The cluster information for an exec plugin. The plugin's own configuration keeps its types."""
    cluster = entry.value
    info: dict[str, Any] = {"server": cluster.server}
    authority = _pem(
        entry,
        data=cluster.certificate_authority_data,
        path=cluster.certificate_authority,
        name=f"clusters[{name}].cluster.certificate-authority",
    )
    info |= {
        key: value
        for key, value in {
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "certificate-authority-data": b64encode(authority.read()).decode() if authority else "",
            "proxy-url": cluster.proxy_url,
            "disable-compression": cluster.disable_compression,
        }.items()
        if value
    }
    document = yaml_document(entry.file.read_bytes(), Rules(strict=False))
    for candidate in document.value["clusters"] if document else ():
        if str(candidate["name"]) != name:
            continue
        for extension in candidate["cluster"].get("extensions") or ():
            if extension.get("name") == EXEC_EXTENSION:
                info["config"] = extension.get("extension")
        break
    return info
