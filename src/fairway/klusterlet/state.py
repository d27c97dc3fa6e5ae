"""State of a klusterlet between runs: agent name, hub credentials and pending certificate requests.

It is stored in a local folder, not in a Secret on the managed cluster as OCM's is: OCM's agent runs in a pod, into
which a Secret can be mounted. So the hub credentials belong to the user who runs the klusterlet, and not to everyone
who may read Secrets on the managed cluster.

    hub/        kubeconfig, tls.crt, tls.key, cluster-name, agent-name: replaced together
    pending/    pending certificate requests
    agents/     processes of add-ons, with --local-agents
    lock        held by the process that uses the folder
"""

import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from fairway.klusterlet import names
from fairway.klusterlet.atomic_directory import PRIVATE, AtomicDirectory, make_private
from fairway.klusterlet.certificates import Certificate, CertificateError, KeyPair
from fairway.klusterlet.enrolment import PendingCertificate
from fairway.klusterlet.errors import StateError
from kubewire.client import Connection, load

OTHER_CLUSTER: Final = (
    "{folder} holds the identity of cluster {recorded}, not of {name}; name another folder with --state"
)
OTHER_HUB: Final = (
    "{folder} holds the identity of cluster {name} on hub {recorded}, not on {server}; name another folder with "
    "--state, or leave that hub with fairway join leave"
)
IN_USE: Final = "{folder} is in use by another fairway join ({pid}); stop that one, or name another folder"
NOT_A_FOLDER: Final = "{folder} cannot store the identity ({why}); name another folder with --state"
FOREIGN_OWNER: Final = (
    "{path} belongs to another user ({owner}), who could read or replace the identity of the cluster; "
    "name another folder with --state"
)
WRITABLE_BY_ALL: Final = (
    "{path} is writable by all users, who could replace the cluster's identity; name another folder with --state, or "
    "run: chmod o-w {path}"
)
BROKEN: Final = (
    "{folder} contains files that are not the identity of a cluster ({why}); "
    "name another folder with --state, or empty this one"
)

LONGEST_NAME: Final = 200
_PARTS: Final = ("hub", "pending", "agents")
_CONTEXT: Final = "default-context"
_USER: Final = "default-auth"
_NAMESPACE: Final = "configuration"
"""As OCM writes it; the namespace is not used."""


class State:
    """Open with ``State.locked``: only one process may use a folder."""

    def __init__(self, folder: Path, *, cluster: str) -> None:
        self.folder, self.cluster = folder, cluster
        self.hub = AtomicDirectory(folder / "hub")

    @classmethod
    @contextmanager
    def locked(cls, folder: Path, *, cluster: str) -> Iterator["State"]:
        """Raises StateError if it is of another cluster, or in use."""
        state = cls(folder, cluster=cluster)
        try:
            make_private(folder)
            _check_ownership(folder)
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StateError(NOT_A_FOLDER.format(folder=folder, why=error.strerror)) from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                pid = os.pread(lock, 32, 0).decode("ascii", errors="replace").strip()
                raise StateError(IN_USE.format(folder=folder, pid=f"process {pid}")) from None
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            state._check_owner()
            yield state
        finally:
            os.close(lock)

    def _check_owner(self) -> None:
        recorded = self._read().get(names.CLUSTER_NAME, b"").decode("utf-8", errors="replace")
        if recorded and recorded != self.cluster:
            raise StateError(OTHER_CLUSTER.format(folder=self.folder, recorded=recorded, name=self.cluster))

    def _read(self) -> dict[str, bytes]:
        try:
            return self.hub.read()
        except OSError as error:
            raise StateError(NOT_A_FOLDER.format(folder=self.folder, why=error.strerror)) from None

    @property
    def agent(self) -> str:
        """Agent name, constant for the folder: the hub distinguishes the agents of a cluster by it."""
        files = self._read()
        known = files.get(names.AGENT_NAME, b"").decode("ascii", errors="replace")
        if known:
            return known
        made = names.random_suffix()
        own = {names.CLUSTER_NAME: self.cluster.encode(), names.AGENT_NAME: made.encode()}
        self.hub.write({**files, **own})
        return made

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the hub with this cluster's identity."""
        return self.hub.path / names.KUBECONFIG

    def certificate(self) -> Certificate | None:
        """None without an identity. Raises StateError for an invalid one."""
        files = self._read()
        if not {names.KUBECONFIG, names.CERTIFICATE, names.KEY} <= files.keys():
            return None
        try:
            return KeyPair(files[names.KEY], files[names.CERTIFICATE]).check()
        except CertificateError as fault:
            raise StateError(BROKEN.format(folder=self.folder, why=fault)) from None

    @property
    def agent_id(self) -> str:
        """ID of the work agent: constant while the hub's address changes, and different for each hub."""
        return f"{self.cluster}-{self.agent}"

    def change_address(self, hub: Connection) -> None:
        """Use another address of the same hub. Raises StateError if its certificate authority differs."""
        known = self.connection()
        if known.server == hub.server:
            return
        if hub.authority is None or known.authority is None or hub.authority.read() != known.authority.read():
            raise StateError(
                OTHER_HUB.format(
                    folder=self.folder, name=self.cluster, recorded=known.server, server=hub.server
                )
            )
        self.hub.write({**self._read(), names.KUBECONFIG: kubeconfig_for(hub)})

    def connection(self) -> Connection:
        """Connection to the hub as this cluster. Reloads a renewed certificate."""
        return load(self.kubeconfig).context()

    def store(self, pair: KeyPair, *, hub: Connection) -> None:
        """Store an identity for ``hub``."""
        self.renew(pair, kubeconfig=kubeconfig_for(hub))

    def renew(self, pair: KeyPair, *, kubeconfig: bytes | None = None) -> None:
        files = {**self._read(), names.KEY: pair.key, names.CERTIFICATE: pair.chain}
        if kubeconfig is not None:
            files[names.KUBECONFIG] = kubeconfig
        files[names.CLUSTER_NAME] = self.cluster.encode()
        self.hub.write(files)

    def pending(self, what: str) -> PendingCertificate:
        """``what``: ``hub``, or the name of an add-on and its signer."""
        plain = what.replace("/", "_")
        if len(plain) > LONGEST_NAME:  #  add-on and signer may exceed the length of a file name
            plain = hashlib.sha256(what.encode()).hexdigest()
        return PendingCertificate(self.folder / "pending" / f"{plain}.json")

    @property
    def agents(self) -> Path:
        return self.folder / "agents"

    def clear(self) -> None:
        """Delete everything except the folder, which another program may have created."""
        for part in _PARTS:
            shutil.rmtree(self.folder / part, ignore_errors=True)
        (self.folder / "lock").unlink(missing_ok=True)


def _check_ownership(folder: Path) -> None:
    """A kubeconfig may contain a program to run, so no other user may write here.

    Raises StateError and OSError.
    """
    if folder.stat().st_mode & stat.S_IWOTH:
        raise StateError(WRITABLE_BY_ALL.format(path=folder))
    for path in (folder, *(folder / part for part in _PARTS)):
        try:
            info = path.stat(follow_symlinks=path == folder)
        except FileNotFoundError:
            continue
        if info.st_uid != os.geteuid():
            raise StateError(FOREIGN_OWNER.format(path=path, owner=info.st_uid))
        if path != folder and stat.S_ISDIR(info.st_mode) and stat.S_IMODE(info.st_mode) != PRIVATE:
            path.chmod(PRIVATE)


def kubeconfig_for(hub: Connection, *, token: bool = False) -> bytes:
    """Create a kubeconfig that refers to files beside it: a certificate and its key, or a token."""
    cluster: dict[str, Any] = {"server": hub.host or hub.server}
    if hub.authority is not None:
        cluster["certificate-authority-data"] = hub.authority.read()
    if hub.tls_server_name:
        cluster["tls-server-name"] = hub.tls_server_name
    if hub.insecure:
        cluster["insecure-skip-tls-verify"] = True
    if hub.proxy is not None and not hub.proxy.authorization:
        cluster["proxy-url"] = hub.proxy.url
    user = (
        {"tokenFile": "token"}
        if token
        else {"client-certificate": names.CERTIFICATE, "client-key": names.KEY}
    )
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": cluster}],
        "users": [{"name": _USER, "user": user}],
        "contexts": [
            {"name": _CONTEXT, "context": {"cluster": "hub", "user": _USER, "namespace": _NAMESPACE}}
        ],
        "current-context": _CONTEXT,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1)
