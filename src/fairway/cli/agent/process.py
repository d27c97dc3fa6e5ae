"""The process of `fairway agent run`: providers of one cluster, until it is told to stop.

The kubeconfig for the hub comes from a Secret, whose files change in place: certificates and tokens are read again by
the client. Should the kubeconfig itself change, which names the hub and whom to trust, everything is begun anew with
it: an agent that has to be restarted to notice is one that goes silent when nobody looks.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairway.cli import signals
from fairway.cli.addon.objects import agent_of
from fairway.cli.agent import confinement
from fairway.cli.agent.lease import Pulse
from fairway.cli.errors import BadInputError, CommandError
from fairway.cli.options.serving import in_a_pod
from fairway.cli.provider.options import listening
from fairway.controllers.serving import Address, open_ports
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    Client,
    ConfigError,
    Connection,
    CredentialError,
    KubeError,
    Unauthorized,
    load,
)
from fairway.kube.kubeconfig import VARIABLE
from fairway.kube.log_throttle import LogThrottle
from fairway.observe.provider_meters import ProviderMeters
from fairway.providers.catalogue import Context, Factory, OptionsError
from fairway.providers.definition import DefinitionError
from fairway.providers.document import Document, DocumentError, read
from fairway.providers.loading import LoadingError
from fairway.providers.loading import load as load_provider
from fairway.providers.message_format import described
from fairway.providers.provider import ClusterProvider, Provider
from fairway.providers.runner import Runner, Settings

log: Final = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
"""Between looks whether the kubeconfig for the hub has changed."""
WAIT_SECONDS: Final = 5.0
"""Before a hub that does not answer is asked again."""
CLUSTER_FILE: Final = "cluster-name"
"""Beside the kubeconfig in the Secret of an add-on."""

NO_HUB: Final = "--hub-kubeconfig: {error}"
OTHER_CLUSTER: Final = (
    "--hub-kubeconfig {path} is that of cluster {theirs}, and --cluster-name says {ours}; "
    "its agent may not write there"
)
REFUSED: Final = (
    "the hub {server} does not know who this is (401 Unauthorized): the credentials in {path} have run out, or are "
    "those of another hub"
)
NO_CLUSTER: Final = "the cluster to score cannot be reached: {error}"
WHICH_CLUSTER: Final = (
    "how is the cluster to score reached? Give its --kubeconfig, name it in KUBECONFIG, or run in a pod of it"
)
NOT_OPTIONS: Final = "{path}: it must be a mapping of providers to their options, and {given} is none"
STRANGE_OPTIONS: Final = "{path}: there are options for {names}, which --providers does not name"
READS_FLEET: Final = (
    "provider {name} reads all clusters of a hub: run it there, with `fairway provider run {name}`"
)
FACTORY_FAILED: Final = "provider {name} could not be made: {error}"

STARTED: Final = "%s of cluster %s on hub %s"
UNREACHABLE: Final = "the hub cannot be reached: %s; trying again"
CHANGED: Final = "%s has changed: beginning anew with it"
STILL_WRONG: Final = "%s has changed, and cannot be used: %s; going on with what it was"
STARTING: Final = "the hub has not answered yet"
STOPPING: Final = "stopping"
STOPPED: Final = "stopped"

NOWHERE: Final = Connection(server="https://127.0.0.1:1")
"""For clients that are never used."""

Factories = Mapping[str, Factory]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the command line asks for."""

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
    """Returns once it was told to stop and has stopped. Raises CommandErrors."""
    factories, options = _factories(job), _document(job)
    connection, cluster = _hub(job), _cluster(job)
    with listening():
        asyncio.run(_serve(Agent(job, factories, options, cluster), connection))
    log.info(STOPPED)


def check(job: Job, *, environment: Mapping[str, str]) -> None:
    """Read all options as an agent does that starts with this environment. Raises BadInputError. Sends no request."""

    async def assemble() -> None:
        async with Client(NOWHERE) as client:
            Agent(job, _factories(job), None, NOWHERE, environment=environment).assemble(
                hub=client, local=client
            )

    asyncio.run(assemble())


class Agent:
    """``running`` is what runs now; nothing does before the hub has answered."""

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
            watching = asyncio.create_task(self._changed(connection))
            working = asyncio.create_task(self._work(connection))
            try:
                await asyncio.wait({watching, working}, return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    working.result()
                connection = await watching
            finally:
                await _ended(watching, working)

    async def _work(self, connection: Connection) -> None:
        async with Client(self._cluster) as local, Client(connection) as hub:
            await self._greet(hub)
            async with _pulse(self.job, local, self.unready):
                self._runner = self.assemble(hub=hub, local=local)
                log.info(STARTED, ", ".join(sorted(self._runner.loops)), self.job.cluster, connection.server)
                try:
                    await self._runner.run()
                finally:
                    self._runner = None

    def assemble(self, *, hub: Client, local: Client) -> Runner:
        """Build all providers from their options. Raises BadInputError. Sends no request."""
        providers = tuple(self._made(name, hub=hub, local=local) for name in self._factories)
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

    async def _greet(self, hub: Client) -> None:
        """Until the hub answers at all. What it may not do yet, it waits for; who it is, it must be able to tell."""
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
                    return  # it has answered
                throttle.log(logging.WARNING, type(error), UNREACHABLE, error)
                await asyncio.sleep(WAIT_SECONDS)
            else:
                return

    async def _changed(self, connection: Connection) -> Connection:
        """The next one, as soon as there is one that can be used."""
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

    def _options_of(self, name: str) -> Mapping[str, Any]:
        return {} if self._options is None else self._options.value.get(name) or {}

    def _made(self, name: str, *, hub: Client, local: Client) -> Provider:
        job = self.job
        context = Context(
            name=name,
            cluster=job.cluster,
            hub=hub,
            local=local,
            owner=agent_of(job.add_on),
            folder=Path() if job.config is None else job.config.parent,
            environment=self._environment,
        )
        try:
            made = self._factories[name](self._options_of(name), context)
        except (LoadingError, DefinitionError) as error:
            raise BadInputError(str(error)) from None
        except OptionsError as error:
            if self._options is None:
                raise BadInputError(f"provider {name}: {error}") from None
            refusal = self._options.refusal(error.message, field=error.field, under=(name,))
            raise BadInputError(str(refusal)) from None
        except Exception as error:  # a factory may be anybody's code
            raise BadInputError(FACTORY_FAILED.format(name=name, error=described(error))) from error
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
async def _pulse(job: Job, local: Client, unready: Any) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        if job.lease:
            pulse = Pulse(
                local, name=job.add_on, namespace=job.namespace or local.namespace, well=lambda: not unready()
            )
            await stack.enter_async_context(pulse)
        yield


async def _ended(*tasks: asyncio.Task[Any]) -> None:
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
            # Named on purpose. The file in somebody's home is not, and may lead to a hub.
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
    try:
        document = read(path)
    except DocumentError as error:
        raise BadInputError(str(error)) from None
    found = document.value
    if not isinstance(found, dict):
        raise BadInputError(NOT_OPTIONS.format(path=path, given="the file"))
    for name, options in found.items():
        if not isinstance(options, dict | None):
            raise BadInputError(NOT_OPTIONS.format(path=path, given=name))
    if strange := sorted(map(str, found.keys() - set(job.providers))):
        raise BadInputError(STRANGE_OPTIONS.format(path=path, names=", ".join(strange)))
    return document


def _content(path: Path) -> bytes | None:
    """None while it cannot be read: files of a Secret are replaced by others now and then."""
    try:
        return path.read_bytes()
    except OSError:
        return None
