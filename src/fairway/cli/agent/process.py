"""The process of `fairway agent run`: the providers of one cluster, until it is stopped.

The hub kubeconfig comes from a Secret, whose files change in place. The client reloads certificates and tokens. When
the kubeconfig itself changes, which names the hub and its authority, the agent reconnects with it; otherwise a rotated
hub would silence every agent until it is restarted.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairway.api.resources import ADD_ON_PLACEMENT_SCORES
from fairway.cli import signals
from fairway.cli.agent import confinement
from fairway.cli.errors import BadInputError, CommandError
from fairway.cli.options.serving import in_a_pod
from fairway.cli.provider.config import listening, read_options
from fairway.cli.provider.process import create
from fairway.controllers.serving import Address, open_ports
from fairway.observe.provider_meters import ProviderMeters
from fairway.providers.addon import agent_name
from fairway.providers.agent_lease import AgentLease
from fairway.providers.catalogue import Context, Factory
from fairway.providers.definition import DefinitionError
from fairway.providers.document import Document
from fairway.providers.loading import LoadingError
from fairway.providers.loading import load as load_provider
from fairway.providers.provider import ClusterProvider, Provider
from fairway.providers.runner import Runner, Settings
from kubewire.client import Client, ConfigError, Connection, CredentialError, KubeError, Unauthorized, load
from kubewire.client.kubeconfig import VARIABLE
from kubewire.client.log_throttle import LogThrottle

log: Final = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
"""Pause between checks whether the hub kubeconfig has changed."""
WAIT_SECONDS: Final = 5.0
"""Pause before retrying an unreachable hub."""
CLUSTER_FILE: Final = "cluster-name"
"""Name of a file beside the kubeconfig in the Secret of an add-on."""

NO_HUB: Final = "--hub-kubeconfig: {error}"
OTHER_CLUSTER: Final = (
    "--hub-kubeconfig {path} belongs to cluster {theirs}, but --cluster-name is {ours}; "
    "use the kubeconfig of {ours}"
)
REFUSED: Final = "credentials in {path} were rejected by hub {server} (401): expired, or for another hub"
NO_CLUSTER: Final = "cannot reach the cluster to score: {error}"
WHICH_CLUSTER: Final = (
    "no kubeconfig of the cluster to score: set --kubeconfig or KUBECONFIG, or run in a pod of the cluster"
)
NOT_OPTIONS: Final = "{path}: must map providers to their options; {given} is not a mapping"
STRANGE_OPTIONS: Final = "{path}: options for {names}, which --providers does not name"
READS_FLEET: Final = "provider {name} reads all clusters of a hub; run it with `fairway provider run {name}`"

STARTED: Final = "started %s for cluster %s on hub %s"
UNREACHABLE: Final = "hub unreachable, retrying: %s"
CHANGED: Final = "%s changed; reconnecting with it"
STILL_WRONG: Final = "%s changed but cannot be used: %s; keeping the last valid version"
STARTING: Final = "the hub has not responded yet"
STOPPING: Final = "stopping"
STOPPED: Final = "stopped"

NOWHERE: Final = Connection(server="https://127.0.0.1:1")
"""Connection of clients that send no request."""

Factories = Mapping[str, Factory]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The options of the command line."""

    hub_kubeconfig: Path
    cluster: str
    kubeconfig: str | None
    context: str | None
    providers: tuple[str, ...]
    config: Path | None
    interval: float | None
    valid_for: float | None
    adopt: bool
    managed_cluster_scores: bool
    add_on: str
    namespace: str | None
    lease: bool
    confined_to: Path | None
    health: Address | None
    metrics: Address | None


def serve(job: Job) -> None:
    """Run until stopped by a signal. Raises CommandErrors."""
    factories, options = _factories(job), _document(job)
    connection, cluster = _hub(job), _cluster(job)
    with listening(health=job.health, metrics=job.metrics):
        asyncio.run(_serve(Agent(job, factories, options, cluster), connection))
    log.info(STOPPED)


def check(job: Job, *, environment: Mapping[str, str]) -> None:
    """Build all providers as an agent with this environment would. Raises BadInputError. Sends no request."""

    async def assemble() -> None:
        async with Client(NOWHERE) as client:
            Agent(job, _factories(job), None, NOWHERE, environment=environment).assemble(
                hub=client, local=client
            )

    asyncio.run(assemble())


class Agent:
    """Runs providers against the current hub kubeconfig; no runner exists before the hub has responded."""

    def __init__(
        self,
        job: Job,
        factories: Factories,
        options: Document | None,
        cluster: Connection,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.job, self._factories, self._options, self._cluster = job, factories, options, cluster
        self._environment = os.environ if environment is None else environment
        self.meters = ProviderMeters()
        self._runner: Runner | None = None

    def unready(self) -> list[str]:
        return [STARTING] if self._runner is None else self._runner.unready()

    async def run(self, connection: Connection) -> None:
        """Until cancelled. Raises CommandErrors."""
        while True:
            watching = asyncio.create_task(self._next_connection(connection))
            working = asyncio.create_task(self._work(connection))
            try:
                await asyncio.wait({watching, working}, return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    working.result()
                connection = await watching
            finally:
                await _cancel(watching, working)

    async def _work(self, connection: Connection) -> None:
        async with Client(self._cluster) as local, Client(connection) as hub:
            await self._wait_for_hub(hub)
            async with _renewing_lease(self.job, local, self.unready):
                self._runner = self.assemble(hub=hub, local=local)
                log.info(STARTED, ", ".join(sorted(self._runner.loops)), self.job.cluster, connection.server)
                try:
                    await self._runner.run()
                finally:
                    self._runner = None

    def assemble(self, *, hub: Client, local: Client) -> Runner:
        """Build all providers from their options. Raises BadInputError. Sends no request."""
        providers = tuple(self._create(name, hub=hub, local=local) for name in self._factories)
        settings = Settings(
            cluster=self.job.cluster,
            interval=self.job.interval,
            valid_for=self.job.valid_for,
            adopt=self.job.adopt,
            managed_cluster_scores=self.job.managed_cluster_scores,
        )
        try:
            return Runner(providers, client=hub, settings=settings, meters=self.meters)
        except DefinitionError as error:
            raise BadInputError(str(error)) from None

    async def _wait_for_hub(self, hub: Client) -> None:
        """Wait until the hub responds. Missing permissions are waited for later; rejected credentials raise at once."""
        throttle = LogThrottle(log, every=60.0)
        while True:
            try:
                await hub.list(ADD_ON_PLACEMENT_SCORES, namespace=self.job.cluster, limit=1)
            except Unauthorized:
                path = self.job.hub_kubeconfig
                raise BadInputError(REFUSED.format(server=hub.connection.server, path=path)) from None
            except (ConfigError, CredentialError) as error:
                raise BadInputError(NO_HUB.format(error=error)) from None
            except KubeError as error:
                if getattr(error, "code", 0):
                    return  # the hub has responded
                throttle.log(logging.WARNING, type(error), UNREACHABLE, error)
                await asyncio.sleep(WAIT_SECONDS)
            else:
                return

    async def _next_connection(self, connection: Connection) -> Connection:
        """Wait for a changed kubeconfig that can be used, and return its connection."""
        path = self.job.hub_kubeconfig
        before = _content(path)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = _content(path)
            if now is None or now == before:
                continue
            before = now
            try:
                connection = _hub(self.job)
            except CommandError as error:
                log.error(STILL_WRONG, path, error)
                continue
            log.info(CHANGED, path)
            return connection

    def _create(self, name: str, *, hub: Client, local: Client) -> Provider:
        job = self.job
        context = Context(
            name=name,
            cluster=job.cluster,
            hub=hub,
            local=local,
            owner=agent_name(job.add_on),
            folder=Path() if job.config is None else job.config.parent,
            environment=self._environment,
        )
        made = create(name, self._factories[name], self._options, context, under=(name,))
        if not isinstance(made, ClusterProvider):
            raise BadInputError(READS_FLEET.format(name=name))
        return made


async def _serve(agent: Agent, connection: Connection) -> None:
    job = agent.job
    with signals.listening() as stop:
        async with open_ports(
            health=job.health,
            metrics=job.metrics,
            debug=None,
            ready=agent.unready,
            expose=agent.meters.expose,
        ):
            await signals.until(stop, agent.run(connection), on_stop=lambda: log.info(STOPPING))


@asynccontextmanager
async def _renewing_lease(job: Job, local: Client, unready: Any) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        if job.lease:
            lease = AgentLease(
                local,
                name=job.add_on,
                namespace=job.namespace or local.namespace,
                is_healthy=lambda: not unready(),
            )
            await stack.enter_async_context(lease)
        yield


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _hub(job: Job) -> Connection:
    path = job.hub_kubeconfig
    try:
        config = load(path)
        if job.confined_to is not None:
            confinement.check(config, folder=job.confined_to)
        connection = config.context()
    except KubeError as error:
        raise BadInputError(NO_HUB.format(error=error)) from None
    beside = _content(path.with_name(CLUSTER_FILE))
    theirs = job.cluster if beside is None else beside.decode(errors="replace").strip()
    if theirs and theirs != job.cluster:
        raise BadInputError(OTHER_CLUSTER.format(path=path, theirs=theirs, ours=job.cluster))
    return connection


def _cluster(job: Job) -> Connection:
    try:
        if job.kubeconfig is not None or job.context is not None:
            return load(job.kubeconfig).context(job.context)
        if in_a_pod():
            return Connection.in_cluster()
        if os.environ.get(VARIABLE):
            # Set explicitly. The default file in the home folder may belong to a hub.
            return load().context()
    except KubeError as error:
        raise BadInputError(NO_CLUSTER.format(error=error)) from None
    raise BadInputError(WHICH_CLUSTER)


def _factories(job: Job) -> Factories:
    if job.confined_to is not None:
        confinement.check_providers(job.providers)
    try:
        return {name: load_provider(name) for name in job.providers}
    except LoadingError as error:
        raise BadInputError(str(error)) from None


def _document(job: Job) -> Document | None:
    path = job.config
    if path is None:
        return None
    if job.confined_to is not None:
        raise BadInputError(confinement.NO_CONFIG)
    document = read_options(path)
    sections = document.value
    for name, options in sections.items():
        if not isinstance(options, dict | None):
            raise BadInputError(NOT_OPTIONS.format(path=path, given=name))
    if strange := sorted(map(str, sections.keys() - set(job.providers))):
        raise BadInputError(STRANGE_OPTIONS.format(path=path, names=", ".join(strange)))
    return document


def _content(path: Path) -> bytes | None:
    """Read a file; None while it is being replaced, as the files of a Secret are."""
    try:
        return path.read_bytes()
    except OSError:
        return None
