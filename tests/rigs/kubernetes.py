"""Start kube-apiserver on etcd, kube-controller-manager, kube-scheduler and kwok, for tests and benchmarks.

kube-controller-manager, kube-scheduler and kwok run on any hub, also on the embedded one.

    async with real_hub(Tools.find(*HUB), folder=folder) as hub:
        ...  # hub.url, hub.ca_file, hub.token, hub.kubeconfig, hub.kubeconfig_for(ALICE)
"""

import asyncio
import json
import secrets
import shutil
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kubehub.testing.background import background
from rigs.certificates import Authority, Pair, key_file
from rigs.kube_tools import Tools, ToolsMissing
from rigs.processes import LOOPBACK, Port, Process, StartFailed, ready

__all__ = [
    "ADMIN",
    "ALICE",
    "API_SERVER",
    "CONTROLLERS",
    "CONTROLLER_MANAGER",
    "ETCD",
    "EVERY_CONTROLLER",
    "HELM",
    "HUB",
    "KUBECTL",
    "KWOK",
    "SCHEDULER",
    "Ran",
    "RealHub",
    "StartFailed",
    "Tools",
    "ToolsMissing",
    "background",
    "controller_manager",
    "kube_scheduler",
    "kubectl",
    "kwok",
    "real_hub",
    "write_kubeconfig",
]

API_SERVER = "kube-apiserver"
ETCD = "etcd"
KUBECTL = "kubectl"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
KWOK = "kwok"
HELM = "helm"
HUB = (API_SERVER, ETCD)
"""Programs that a hub needs."""

ADMIN = "admin"
ALICE = "alice"
USERS: Mapping[str, tuple[str, ...]] = {ADMIN: ("system:masters",), ALICE: ()}
"""Groups of the users with a token: an administrator, and a user without rights."""
NO_USER = "{user} has no token; users of this hub: {users}"

CONTROLLERS = (
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "certificatesigningrequest-signing-controller",
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
)
"""Controllers that users of a hub rely on."""
EVERY_CONTROLLER = ("*",)
STAGES = ("node-initialize.yaml", "pod-ready.yaml", "pod-delete.yaml")
ISSUER = "https://kubernetes.default.svc.cluster.local"
SERVICE_RANGE = "10.0.0.0/24"


@dataclass(frozen=True, slots=True)
class RealHub:
    url: str
    folder: Path
    authority: Authority
    service_account_key: Path
    tokens: Mapping[str, str]
    processes: dict[str, Process] = field(default_factory=dict)
    """By program, in the order they were started."""

    @property
    def ca_file(self) -> Path:
        return self.authority.pair.certificate

    @property
    def token(self) -> str:
        return self.tokens[ADMIN]

    @property
    def kubeconfig(self) -> Path:
        return self.kubeconfig_for(ADMIN)

    def kubeconfig_for(self, user: str) -> Path:
        if user not in self.tokens:
            raise LookupError(NO_USER.format(user=user, users=", ".join(self.tokens)))
        return self.folder / f"{user}.kubeconfig"

    @property
    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self.processes.items()}

    def resident(self) -> dict[str, int]:
        """Memory of each program in bytes. Linux only."""
        return {name: process.resident() for name, process in self.processes.items()}

    def logs(self, lines: int = 40) -> dict[str, str]:
        """The last lines that each program wrote."""
        return {name: process.tail(lines) for name, process in self.processes.items()}

    async def restart(self, *, grace: float = 10) -> None:
        """Restart kube-apiserver on the same port and data; a grace of 0 kills it."""
        await self.processes[API_SERVER].restart(grace=grace)
        await self.ready()

    async def ready(self, *, deadline: float = 180) -> None:
        needed = (self.processes[API_SERVER], self.processes[ETCD])
        tls = ssl.create_default_context(cafile=self.ca_file)
        await ready(f"{self.url}/readyz", *needed, deadline=deadline, tls=tls, token=self.token)


@asynccontextmanager
async def real_hub(
    tools: Tools,
    *,
    folder: Path,
    controllers: Sequence[str] = (),
    with_kwok: bool = False,
    fsync: bool = False,
    service_accounts: bool = False,
    users: Mapping[str, tuple[str, ...]] = USERS,
    extra_args: Sequence[str] = (),
    deadline: float = 180,
) -> AsyncIterator[RealHub]:
    """Run a hub on free ports of the loopback interface, with its files in the folder; the data is deleted at the end.

    Without `fsync` etcd's data survives a crash of the programs, but not of the machine. With `service_accounts` pods
    are rejected until a controller has created the default service account of their namespace.
    """
    tools.require(*HUB, *([CONTROLLER_MANAGER] if controllers else ()), *([KWOK] if with_kwok else ()))
    folder.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:  # which stops what was started last first, and etcd after its users
        stack.callback(shutil.rmtree, folder / "etcd", ignore_errors=True)  # 130 MB even if nearly empty
        client, peer, port = (stack.enter_context(Port()) for _ in range(3))
        authority = Authority.create(folder)
        hub = RealHub(
            url=f"https://{LOOPBACK}:{port}",
            folder=folder,
            authority=authority,
            service_account_key=key_file(folder / "service-accounts.key"),
            tokens={user: secrets.token_urlsafe() for user in users},
        )
        for user, token in hub.tokens.items():
            write_kubeconfig(
                hub.kubeconfig_for(user), url=hub.url, ca_file=hub.ca_file, user=user, token=token
            )

        command = _etcd(tools, folder=folder, client=client, peer=peer, fsync=fsync)
        hub.processes[ETCD] = Process(command, log=folder / "etcd.log")
        stack.push_async_callback(hub.processes[ETCD].stop)

        command = [
            *_api_server(tools, hub=hub, port=port, store=client, users=users),
            *([] if service_accounts else ["--disable-admission-plugins=ServiceAccount"]),
            *extra_args,
        ]
        hub.processes[API_SERVER] = Process(command, log=folder / "kube-apiserver.log")
        stack.push_async_callback(hub.processes[API_SERVER].stop)
        await hub.ready(deadline=deadline)

        if controllers:
            hub.processes[CONTROLLER_MANAGER] = await stack.enter_async_context(
                controller_manager(
                    tools,
                    kubeconfig=hub.kubeconfig,
                    folder=folder,
                    controllers=controllers,
                    leader_elect=False,
                    signer=authority.pair,
                    service_account_key=hub.service_account_key,
                    deadline=deadline,
                )
            )
        if with_kwok:
            hub.processes[KWOK] = await stack.enter_async_context(
                kwok(tools, kubeconfig=hub.kubeconfig, folder=folder, deadline=deadline)
            )
        yield hub


@asynccontextmanager
async def controller_manager(
    tools: Tools,
    *,
    kubeconfig: Path,
    folder: Path,
    controllers: Sequence[str] = CONTROLLERS,
    leader_elect: bool = True,
    signer: Pair | None = None,
    service_account_key: Path | None = None,
    extra_args: Sequence[str] = (),
    deadline: float = 180,
) -> AsyncIterator[Process]:
    """kube-controller-manager on any hub. Without a signer or a key, the controllers that need them stay idle.

    If it is elected, it does not release its Lease: the next one on the same hub waits 15 seconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with Port() as port:
        command = [
            str(tools.path(CONTROLLER_MANAGER)),
            f"--kubeconfig={kubeconfig}",
            f"--controllers={','.join(controllers)}",
            f"--leader-elect={str(leader_elect).lower()}",
            "--use-service-account-credentials=false",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--cert-dir={folder / 'kube-controller-manager'}",
        ]
        if signer:
            command += [
                f"--cluster-signing-cert-file={signer.certificate}",
                f"--cluster-signing-key-file={signer.key}",
                f"--root-ca-file={signer.certificate}",
            ]
        if service_account_key:
            command.append(f"--service-account-private-key-file={service_account_key}")
        process = Process([*command, *extra_args], log=folder / "kube-controller-manager.log")
        try:
            await _sign_of_life(port, process, deadline=deadline)
            yield process
        finally:
            await process.stop()


@asynccontextmanager
async def kube_scheduler(
    tools: Tools,
    *,
    kubeconfig: Path,
    folder: Path,
    configuration: Mapping[str, object] | None = None,
    deadline: float = 180,
) -> AsyncIterator[Process]:
    """kube-scheduler on any hub, not elected. ``configuration`` replaces fields of its KubeSchedulerConfiguration."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "kube-scheduler.yaml"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": False},
        **(configuration or {}),
    }
    file.write_text(json.dumps(document), encoding="utf-8")
    with Port() as port:
        command = [
            str(tools.path(SCHEDULER)),
            f"--config={file}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--cert-dir={folder / 'kube-scheduler'}",
        ]
        process = Process(command, log=folder / "kube-scheduler.log")
        try:
            await _sign_of_life(port, process, deadline=deadline)
            yield process
        finally:
            await process.stop()


async def _sign_of_life(port: Port, process: Process, *, deadline: float) -> None:
    """Wait for a program with a self-signed certificate."""
    tls = ssl.create_default_context()
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    await ready(f"https://{LOOPBACK}:{port}/healthz", process, deadline=deadline, tls=tls)


@asynccontextmanager
async def kwok(
    tools: Tools, *, kubeconfig: Path, folder: Path, extra_args: Sequence[str] = (), deadline: float = 180
) -> AsyncIterator[Process]:
    """Kubelets for every node of any hub: nodes become Ready, bound pods Running, and deleted pods are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    with Port() as port:
        command = [
            str(tools.path(KWOK)),
            f"--kubeconfig={kubeconfig}",
            "--manage-all-nodes=true",
            *(f"--config={tools.path(stage)}" for stage in STAGES),
            f"--server-address={LOOPBACK}:{port}",
        ]
        process = Process([*command, *extra_args], log=folder / "kwok.log")
        try:
            await ready(f"http://{LOOPBACK}:{port}/healthz", process, deadline=deadline)
            yield process
        finally:
            await process.stop()


@dataclass(frozen=True, slots=True)
class Ran:
    status: int
    output: str
    errors: str


async def kubectl(tools: Tools, *arguments: str, kubeconfig: Path, given: str = "") -> Ran:
    """Run kubectl, with its caches next to the kubeconfig, because a port may be used by another hub later."""
    process = await asyncio.create_subprocess_exec(
        tools.path(KUBECTL),
        f"--kubeconfig={kubeconfig}",
        f"--cache-dir={kubeconfig.parent / 'kubectl'}",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await process.communicate(given.encode())
    finally:
        if process.returncode is None:  # cancelled
            process.kill()
            await process.wait()
    return Ran(process.returncode or 0, output.decode(), errors.decode())


def write_kubeconfig(path: Path, *, url: str, ca_file: Path, user: str, token: str) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": user, "context": {"cluster": "hub", "user": user}}],
        "current-context": user,
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")


def _etcd(tools: Tools, *, folder: Path, client: Port, peer: Port, fsync: bool) -> list[str]:
    clients, peers = f"http://{LOOPBACK}:{client}", f"http://{LOOPBACK}:{peer}"
    return [
        str(tools.path(ETCD)),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        *([] if fsync else ["--unsafe-no-fsync"]),
    ]


def _api_server(
    tools: Tools, *, hub: RealHub, port: Port, store: Port, users: Mapping[str, tuple[str, ...]]
) -> list[str]:
    tokens = hub.folder / "tokens.csv"
    tokens.touch(mode=0o600)
    lines = (f'{token},{user},{user},"{",".join(users[user])}"\n' for user, token in hub.tokens.items())
    tokens.write_text("".join(lines), encoding="utf-8")
    serving = hub.authority.issue(
        "kube-apiserver", hosts=(LOOPBACK, "localhost", "kubernetes.default.svc", "10.0.0.1")
    )
    return [
        str(tools.path(API_SERVER)),
        f"--etcd-servers=http://{LOOPBACK}:{store}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={hub.ca_file}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={hub.service_account_key}",
        f"--service-account-signing-key-file={hub.service_account_key}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--endpoint-reconciler-type=none",  # it would try to publish an address of the loopback, which is refused
        "--allow-privileged=true",  # what runs virtual machines asks for it
    ]
