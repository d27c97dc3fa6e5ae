"""The process of `fairway provider run`: run providers, or print one reading."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from fairway.api.resources import MANAGED_CLUSTERS
from fairway.cli import signals
from fairway.cli.client.messages import NO_HUB
from fairway.cli.client.session import NoHubError, client_warnings, connection_to, hub_errors
from fairway.cli.errors import BadInputError, NegativeAnswerError
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.options.serving import in_a_pod
from fairway.cli.output import emit
from fairway.cli.provider.config import listening, read_options
from fairway.cli.provider.rows import COLUMNS, document, rows
from fairway.controllers.serving import Address, open_ports
from fairway.providers.catalogue import CATALOGUE, Context, Factory, OptionsError
from fairway.providers.definition import DefinitionError
from fairway.providers.document import Document, Steps
from fairway.providers.dry_run import DryRunSink
from fairway.providers.loading import LoadingError, load
from fairway.providers.message_format import describe
from fairway.providers.provider import ClusterProvider, Provider
from fairway.providers.runner import Runner, Settings
from fairway.providers.sink import Sink
from kubewire.client import Client, Connection, KubeError

log: Final = logging.getLogger(__name__)

NEEDS_NAME: Final = "provider {name} reads one cluster: set its name on the hub with --cluster-name"
NEEDS_NO_NAME: Final = "provider {name} reads all clusters of the hub: omit --cluster-name"
NOT_TOGETHER: Final = (
    "provider {one} reads one cluster and provider {other} all clusters of the hub: "
    "run them in separate processes"
)
NEEDS_CONFIG: Final = "{target} requires options: set --config; docs/how-to/hub-side.md has an example"
FACTORY_FAILED: Final = "provider {target}: cannot create it: {error}"
NO_CLUSTER: Final = "cannot reach the cluster: {error}"
STARTED: Final = "started %s on hub %s"
STOPPING: Final = "stopping"
STOPPED: Final = "stopped"
DRY_RUN_CLUSTER: Final = "local"
"""Name of the cluster in a dry run without --cluster-name."""
NOT_ALL: Final = "some scores could not be read or published"
Factories = Mapping[str, Factory]
"""Factories by their name on the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The options of the command line."""

    targets: tuple[str, ...]
    config: Path | None
    managed_kubeconfig: str | None
    managed_context: str | None
    settings: Settings
    hub: HubChoice


def serve(
    job: Job, *, health: Address | None, metrics: Address | None, configure: Callable[[], object]
) -> None:
    """Run until stopped by a signal. Raises CommandErrors.

    ``configure`` sets up logging, after the providers were loaded.
    """
    factories = _factories(job)
    connection = connection_to(job.hub)
    configure()
    with listening(health=health, metrics=metrics), hub_errors(job.hub, connection):
        asyncio.run(_serve(job, factories, connection, health=health, metrics=metrics))
    log.info(STOPPED)


async def _serve(
    job: Job, factories: Factories, connection: Connection, *, health: Address | None, metrics: Address | None
) -> None:
    with signals.listening() as stop:
        work = _work(job, factories, connection, health=health, metrics=metrics)
        await signals.until(stop, work, on_stop=lambda: log.info(STOPPING))


async def _work(
    job: Job, factories: Factories, connection: Connection, *, health: Address | None, metrics: Address | None
) -> None:
    async with Client(connection) as hub, _built(job, factories, hub) as providers:
        runner = _runner(providers, job.settings, client=hub)
        async with open_ports(
            health=health, metrics=metrics, debug=None, ready=runner.unready, expose=runner.meters.expose
        ):
            log.info(STARTED, ", ".join(sorted(runner.loops)), connection.server)
            await runner.run()


def read_once(job: Job, *, dry_run: bool, output: OutputFormat) -> None:
    """Read once and print the scores; publish them without ``dry_run``. Raises CommandErrors."""
    # Output of providers must not mix with the document on stdout.
    with redirect_stdout(sys.stderr):
        factories = _factories(job)
        try:
            connection = connection_to(job.hub)
        except NoHubError:
            if not dry_run:
                raise
            connection = None  # a dry run of one cluster's provider needs no hub
        with client_warnings():
            if connection is None:
                runner = asyncio.run(_once(job, factories, None, dry_run=dry_run))
            else:
                with hub_errors(job.hub, connection):
                    runner = asyncio.run(_once(job, factories, connection, dry_run=dry_run))
    emit(rows(runner), columns=COLUMNS, output=output, document=document(runner))
    if any(loop.problem for loop in runner.loops.values()):  # the warnings name them
        raise NegativeAnswerError(NOT_ALL)


async def _once(job: Job, factories: Factories, connection: Connection | None, *, dry_run: bool) -> Runner:
    async with AsyncExitStack() as stack:
        hub = None if connection is None else await stack.enter_async_context(Client(connection))
        providers = await stack.enter_async_context(_built(job, factories, hub, dry_run=dry_run))
        settings = job.settings
        if dry_run and settings.cluster is None and isinstance(providers[0], ClusterProvider):
            settings = replace(settings, cluster=DRY_RUN_CLUSTER)
        sink_of: Callable[[Provider], Sink] | None = (lambda _: DryRunSink()) if dry_run else None
        runner = _runner(providers, settings, client=hub, sink_of=sink_of)
        if settings.cluster is None:
            if hub is None:
                raise NoHubError(NO_HUB)
            await hub.newest(MANAGED_CLUSTERS)  # fail at once if the hub is unreachable
        await runner.once()
        return runner


def _runner(
    providers: Sequence[Provider],
    settings: Settings,
    *,
    client: Client | None,
    sink_of: Callable[[Provider], Sink] | None = None,
) -> Runner:
    _check_together(providers)
    for provider in providers:
        one = isinstance(provider, ClusterProvider)
        if one and settings.cluster is None:
            raise BadInputError(NEEDS_NAME.format(name=provider.name))
        if not one and settings.cluster is not None:
            raise BadInputError(NEEDS_NO_NAME.format(name=provider.name))
    try:
        return Runner(providers, client=client, settings=settings, sink_of=sink_of)
    except DefinitionError as error:
        raise BadInputError(str(error)) from None


def _check_together(providers: Sequence[Provider]) -> None:
    ones = [provider for provider in providers if isinstance(provider, ClusterProvider)]
    others = [provider for provider in providers if provider not in ones]
    if ones and others:
        raise BadInputError(NOT_TOGETHER.format(one=ones[0].name, other=others[0].name))


@asynccontextmanager
async def _built(
    job: Job, factories: Factories, hub: Client | None, *, dry_run: bool = False
) -> AsyncIterator[tuple[Provider, ...]]:
    """Create the providers, with a client of their cluster that is open during the block."""
    document = None if job.config is None else read_options(job.config)
    async with AsyncExitStack() as stack:
        local = _local(job)
        if local is not None:
            await stack.enter_async_context(local)
        yield tuple(
            create(
                target,
                factory,
                document,
                Context(
                    name=target,
                    cluster=job.settings.cluster,
                    hub=hub,
                    local=local,
                    folder=Path() if job.config is None else job.config.parent,
                    dry_run=dry_run,
                ),
            )
            for target, factory in factories.items()
        )


def _factories(job: Job) -> Factories:
    """Load factories before connecting, so that a misspelt file is reported before a missing kubeconfig."""
    for target in job.targets:
        if job.config is None and target in CATALOGUE and CATALOGUE[target].fleet:
            raise BadInputError(NEEDS_CONFIG.format(target=target))
    try:
        return {target: load(target) for target in job.targets}
    except LoadingError as error:
        raise BadInputError(str(error)) from None


def create(
    target: str, factory: Factory, document: Document | None, context: Context, *, under: Steps = ()
) -> Provider:
    """Create a provider with the options at ``under`` of the document. Raises BadInputError."""
    options: Any = {} if document is None else document.value
    for step in under:
        options = options.get(step) or {}
    try:
        return factory(options, context)
    except (LoadingError, DefinitionError) as error:
        raise BadInputError(str(error)) from None
    except OptionsError as error:
        if document is None:
            raise BadInputError(f"provider {target}: {error}") from None
        raise BadInputError(str(document.error_at(error.message, field=error.field, under=under))) from None
    except Exception as error:  # factories are user code
        raise BadInputError(FACTORY_FAILED.format(target=target, error=describe(error))) from error


def _local(job: Job) -> Client | None:
    try:
        if job.managed_kubeconfig is not None or job.managed_context is not None:
            return Client.from_kubeconfig(job.managed_kubeconfig, context=job.managed_context)
        return Client(Connection.in_cluster()) if in_a_pod() else None
    except KubeError as error:
        raise BadInputError(NO_CLUSTER.format(error=error)) from None
