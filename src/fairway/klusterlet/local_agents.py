"""Run add-on agents as local processes, for clusters without a kubelet.

A klusterlet applies Deployments, but without a kubelet nothing runs their pods. Deployments of Fairway's own agent are
started as processes beside the klusterlet, with the files of their Secrets and the token of their service account; the
result of their readiness probe is written to the status of the Deployment.
"""

import asyncio
import logging
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from fairway.klusterlet.atomic_directory import AtomicDirectory, make_private
from fairway.klusterlet.errors import KlusterletError
from fairway.klusterlet.kinds import SECRETS
from fairway.klusterlet.local_launch import (
    DEPLOYMENTS,
    LOOPBACK,
    REVISION,
    Deployment,
    DeploymentCondition,
    Launch,
    launch_of,
)
from fairway.klusterlet.local_options import NotLaunchable
from fairway.klusterlet.local_process import LocalProcess
from fairway.klusterlet.membership import FIELD_MANAGER
from fairway.klusterlet.state import kubeconfig_for
from kubewire.api.meta import format_time
from kubewire.api.resource import Key, key_of
from kubewire.client import SYSTEM_CLOCK, Client, Clock, Informer, KubeError, NotFound, Patch
from kubewire.client.log_throttle import LogThrottle

log: Final = logging.getLogger(__name__)

MOST_PORTS: Final = 8
MOST_AGENTS: Final = 20
"""Limit of processes; the oldest Deployments win."""
CHECK_SECONDS: Final = 0.5
"""Interval of checks of an agent that is not ready."""
FILES_SECONDS: Final = 5.0
"""Interval of checks of its Secrets."""
LONGEST_MESSAGE: Final = 1000
TOKEN_SECONDS: Final = 3600
TOKEN_LEFT: Final = 0.5

AVAILABLE: Final = "Available"
READY: Final = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
NOT_READY: Final = "Deployment does not have minimum availability."
WAITS: Final = "AgentWaits"
RUNS: Final = "MinimumReplicasUnavailable"

MANAGED: Final = "Deployment %s/%s is managed by a deployment controller; skipped"
TOO_MANY: Final = f"the limit of {MOST_AGENTS} local agents is reached"
NO_SECRET: Final = "Secret {name} is missing"
UNEXPECTED_ERROR: Final = "unexpected error in %s; retrying when its Deployment changes"
AGENT_FAILED: Final = "local agent %s: %s"


class LocalAgents:
    """``folder`` gets a folder for each agent, with ``pid``, ``log`` and its files."""

    def __init__(self, cluster: Client, folder: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._cluster, self._folder, self._clock = cluster, folder, clock
        self._deployments = Informer(cluster, DEPLOYMENTS)
        self._woken = asyncio.Event()
        self._running: dict[Key, tuple[object, asyncio.Task[None]]] = {}
        self._skipped: set[Key] = set()
        self._deployments.subscribe(lambda _: self._woken.set())

    async def run(self) -> None:
        """Run until cancelled; then stop all agents."""
        async with AsyncExitStack() as stack:
            session = await stack.enter_async_context(aiohttp.ClientSession(trust_env=False))
            await stack.enter_async_context(self._deployments)
            stack.push_async_callback(self._stop_all)
            await self._deployments.synced.wait()
            while True:
                self._woken.clear()
                await self._sync(session)
                await self._woken.wait()

    async def _sync(self, session: aiohttp.ClientSession) -> None:
        wanted = {
            key: deployment
            for key, deployment in self._deployments.store.items()
            if self._is_ours(deployment)
        }
        oldest_first = sorted(wanted, key=lambda key: (str(wanted[key].metadata.creationTimestamp), key))
        surplus = frozenset(oldest_first[MOST_AGENTS:])
        shapes = {key: (_shape(deployment), key in surplus) for key, deployment in wanted.items()}
        for key in list(self._running):
            if shapes.get(key) != self._running[key][0]:
                await self._stop(key)
        for key, deployment in wanted.items():
            if key not in self._running:
                agent = _Agent(
                    self._cluster,
                    self._deployments,
                    deployment,
                    folder=self._folder / ".".join(key),
                    session=session,
                    rejected=TOO_MANY if key in surplus else "",
                    clock=self._clock,
                )
                task = asyncio.create_task(agent.run(), name=f"local agent {'/'.join(key)}")
                task.add_done_callback(_log_failure)
                self._running[key] = (shapes[key], task)

    def _is_ours(self, deployment: Deployment) -> bool:
        if deployment.agent is None or deployment.metadata.deletionTimestamp is not None:
            return False
        key = key_of(deployment)
        if REVISION in deployment.metadata.annotations:
            if key not in self._skipped:
                self._skipped.add(key)
                log.warning(MANAGED, *key)
            return False
        return True

    async def _stop(self, key: Key) -> None:
        _, task = self._running.pop(key)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _stop_all(self) -> None:
        for key in list(self._running):
            await self._stop(key)


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error(UNEXPECTED_ERROR, task.get_name(), exc_info=error)


def truncate(text: str) -> str:
    """Limit a message that quotes the Deployment."""
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 1]}…"


def _shape(deployment: Deployment) -> object:
    """Fields whose change requires another process."""
    return deployment.metadata.uid, deployment.spec


class _Agent:
    """The agent of one Deployment."""

    def __init__(
        self,
        cluster: Client,
        deployments: Informer[Deployment],
        deployment: Deployment,
        *,
        folder: Path,
        session: aiohttp.ClientSession,
        rejected: str,
        clock: Clock,
    ) -> None:
        self._cluster, self._deployments, self._deployment = cluster, deployments, deployment
        self._shape, self._rejected = _shape(deployment), rejected
        self._folder, self._session, self._clock = folder, session, clock
        self._name = "/".join(key_of(deployment))
        self._check_due = asyncio.Event()
        self._token_due = 0.0
        self._reported: _Status | None = None
        """Status that was written last; the informer may not have it yet."""
        self._throttle = LogThrottle(log)

    async def run(self) -> None:
        if self._deployment.spec.replicas == 0:
            await self._report(replicas=0, ready=False)
            return
        with reserve_ports(MOST_PORTS) as ports:
            try:
                if self._rejected:
                    raise NotLaunchable(self._rejected)
                launch = launch_of(self._deployment, folder=self._folder, ports=ports)
            except NotLaunchable as fault:
                log.warning(AGENT_FAILED, self._name, fault)
                await self._report(ready=False, why=truncate(str(fault)))
                return
            try:
                await self._wait_for_files(launch)
                await self._supervise(launch)
            finally:
                # Keys and tokens must not remain; a later start writes them again.
                for path in (self._folder / "volumes", self._identity.path):
                    shutil.rmtree(path, ignore_errors=True)

    async def _supervise(self, launch: Launch) -> None:
        process = LocalProcess(
            self._name,
            launch.arguments,
            variables={**launch.variables, "KUBECONFIG": str(self._identity.path / "kubeconfig")},
            folder=self._folder,
            changed=self._check_due.set,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(process.run())
            group.create_task(self._keep_files(launch))
            group.create_task(self._watch(process, launch))

    @property
    def _identity(self) -> AtomicDirectory:
        """Credentials for the managed cluster: the service account of the Deployment."""
        return AtomicDirectory(self._folder / "cluster")

    async def _wait_for_files(self, launch: Launch) -> None:
        while True:
            try:
                make_private(self._folder)
                for path in launch.empty:
                    make_private(path)
                await self._write_files(launch)
                return
            except (KubeError, KlusterletError, OSError) as error:
                self._throttle.log(logging.INFO, str(error), AGENT_FAILED, self._name, error)
                await self._report(ready=False, why=truncate(str(error)))
            await asyncio.sleep(CHECK_SECONDS)

    async def _keep_files(self, launch: Launch) -> None:
        while True:
            await asyncio.sleep(FILES_SECONDS)
            try:
                await self._write_files(launch)
            except (KubeError, KlusterletError, OSError) as error:
                self._throttle.log(logging.WARNING, type(error), AGENT_FAILED, self._name, error)

    async def _write_files(self, launch: Launch) -> None:
        namespace = self._deployment.metadata.namespace
        for path, name in launch.folders.items():
            try:
                data: Mapping[str, bytes] = (await self._cluster.get(SECRETS, name, namespace=namespace)).data
            except NotFound:
                if name not in launch.optional:
                    raise NotLaunchable(NO_SECRET.format(name=name)) from None
                data = {}
            AtomicDirectory(path).write(data)
        if self._clock.monotonic() >= self._token_due:
            await self._renew_token(launch.account)

    async def _renew_token(self, account: str) -> None:
        namespace = self._deployment.metadata.namespace
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        answer = await self._cluster.request("POST", path, body=body)
        token: str = msgspec.json.decode(answer.body)["status"]["token"]
        kubeconfig = kubeconfig_for(self._cluster.connection, token=True)
        self._identity.write({"kubeconfig": kubeconfig, "token": token.encode()})
        self._token_due = self._clock.monotonic() + TOKEN_SECONDS * (1 - TOKEN_LEFT)

    async def _watch(self, process: LocalProcess, launch: Launch) -> None:
        """Probe readiness, and report it."""
        while True:
            self._check_due.clear()
            ready = process.alive and await self._is_ready(launch)
            await self._report(ready=ready)
            probe = launch.ready
            pause = probe.period if probe is not None and ready else CHECK_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._check_due.wait()

    async def _is_ready(self, launch: Launch) -> bool:
        if launch.ready is None:
            return True
        timeout = aiohttp.ClientTimeout(total=launch.ready.timeout)
        try:
            async with self._session.get(launch.ready.url, timeout=timeout, allow_redirects=False) as answer:
                return 200 <= answer.status < 400
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    async def _report(self, *, ready: bool, replicas: int = 1, why: str = "") -> None:
        """Write the status of the Deployment if it differs."""
        namespace, name = key_of(self._deployment)
        known = self._deployments.get(name, namespace=namespace)
        if known is None or _shape(known) != self._shape:
            return  #  the Deployment changed; its new agent reports
        waits = ("False", WAITS if why else RUNS, why or NOT_READY)
        status = _Status(
            generation=known.metadata.generation,
            replicas=replicas,
            ready=int(ready),
            condition=READY if ready or replicas == 0 else waits,
        )
        if status.is_in(known) and self._reported in (None, status):
            return
        try:
            await self._cluster.patch(
                DEPLOYMENTS,
                name,
                {"status": status.document(known, clock=self._clock)},
                kind=Patch.MERGE,
                namespace=namespace,
                subresource="status",
                field_manager=FIELD_MANAGER,
            )
            self._reported = status
        except KubeError as error:
            self._throttle.log(logging.WARNING, type(error), AGENT_FAILED, self._name, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Status:
    generation: int
    replicas: int
    ready: int
    condition: tuple[str, str, str]
    """Status, reason and message."""

    def is_in(self, known: Deployment) -> bool:
        before, old = known.status, _available(known)
        return (
            old is not None
            and (old.status, old.reason, old.message) == self.condition
            and (before.observed_generation, before.replicas, before.ready_replicas)
            == (self.generation, self.replicas, self.ready)
        )

    def document(self, known: Deployment, *, clock: Clock) -> dict[str, Any]:
        now, old = format_time(clock.wall()), _available(known)
        status, reason, message = self.condition
        kept = old.last_transition_time if old is not None and old.status == status else ""
        return {
            "observedGeneration": self.generation,
            "replicas": self.replicas,
            "updatedReplicas": self.replicas,
            "readyReplicas": self.ready,
            "availableReplicas": self.ready,
            "unavailableReplicas": self.replicas - self.ready,
            "conditions": [
                {
                    "type": AVAILABLE,
                    "status": status,
                    "reason": reason,
                    "message": message,
                    "lastUpdateTime": now,
                    "lastTransitionTime": kept or now,
                }
            ],
        }


def _available(deployment: Deployment) -> DeploymentCondition | None:
    return next(
        (condition for condition in deployment.status.conditions if condition.type == AVAILABLE), None
    )


@contextmanager
def reserve_ports(count: int) -> Iterator[list[int]]:
    """Reserve loopback ports while the block runs.

    The kernel does not assign the port of a bound socket; a server with SO_REUSEADDR can still listen there.
    """
    with ExitStack() as stack:
        numbers: list[int] = []
        for _ in range(count):
            holder = stack.enter_context(socket.socket())
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind((LOOPBACK, 0))
            numbers.append(holder.getsockname()[1])
        yield numbers
