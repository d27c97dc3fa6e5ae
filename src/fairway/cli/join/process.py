"""The process of `fairway join`: register the cluster if necessary, and run the klusterlet until it is stopped."""

import asyncio
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from fairway.api.resources import MANAGED_CLUSTERS
from fairway.cli import signals
from fairway.cli.errors import BadInputError, NegativeAnswerError
from fairway.cli.join.bootstrap import BootstrapChoice, default_state
from fairway.cli.join.messages import cluster_message, hub_message
from fairway.cli.text import say
from fairway.controllers.cluster_names import refusal
from fairway.klusterlet.bootstrap import install
from fairway.klusterlet.certificates import Certificate
from fairway.klusterlet.errors import Refused, StateError
from fairway.klusterlet.klusterlet import Klusterlet, KlusterletOptions
from fairway.klusterlet.registration import (
    ClusterRegistration,
    certificate_spec,
    register,
    wait_for_acceptance,
)
from fairway.klusterlet.state import NOT_A_FOLDER, State
from kubewire.api.meta import format_time
from kubewire.client import Backoff, Client, Connection, KubeError, NotFound
from kubewire.client.transport import Retry

log: Final = logging.getLogger(__name__)

NO_NAME: Final = "no cluster named; for example: fairway join --name c1"
NO_BOOTSTRAP: Final = (
    "cluster {name} has no identity yet (folder {folder}): set --hub-bootstrap-kubeconfig, or --hub-server and "
    "--hub-token; `fairway join token` on the hub prints them"
)
RUN_OUT: Final = (
    "the certificate of cluster {name} in {folder} expired at {ends}; it is {now}. If the clock is right, join the "
    "cluster again with a token from `fairway join token` on the hub"
)
REACHED: Final = "cluster {name}: connected to {server}, Kubernetes {version}"
PREPARED: Final = "created {kind} on the cluster"
RESUMED: Final = "continuing as {user}; certificate valid until {ends}"
STOPPING: Final = "stopping; cluster {name} stays on the hub, start this command again to continue"
FORGOTTEN: Final = "cluster {name} was removed from the hub; joining again"
UNREACHABLE: Final = "{why}; cluster {name} has joined before, retrying"
NOT_SERVED: Final = "the cluster does not serve the klusterlet's CRDs, although they are installed"

_PAUSES: Final = Backoff(base=0.25, cap=5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    name: str
    bootstrap: BootstrapChoice
    kubeconfig: str | None = None
    context: str | None = None
    state: Path | None = None
    url: str | None = None
    lease_seconds: int = 60
    certificate_seconds: int | None = None
    renew_left: int = 20
    """Percent."""
    local_agents: bool = False

    @property
    def folder(self) -> Path:
        return (self.state or default_state(self.name)).absolute()


def check_name(name: str | None) -> str:
    """Check the name of the cluster before anything is created. Raises BadInputError."""
    if not name:
        raise BadInputError(NO_NAME)
    if (reason := refusal(name)) is not None:
        raise BadInputError(reason)
    return name


def serve(settings: Settings) -> None:
    """Run until stopped by a signal. Raises CommandErrors."""
    bootstrap = settings.bootstrap.connection()
    cluster = cluster_connection(settings.kubeconfig, settings.context)
    with klusterlet_errors():
        try:
            with State.locked(settings.folder, cluster=settings.name) as state:
                asyncio.run(_serve(settings, state, bootstrap=bootstrap, cluster=cluster))
        except OSError as error:  # a full or read-only disk
            why = error.strerror or str(error)
            raise BadInputError(NOT_A_FOLDER.format(folder=settings.folder, why=why)) from error


@contextmanager
def klusterlet_errors() -> Iterator[None]:
    try:
        yield
    except StateError as error:
        raise BadInputError(str(error)) from None
    except Refused as error:
        raise NegativeAnswerError(str(error)) from None


def cluster_connection(kubeconfig: str | None, context: str | None) -> Connection:
    """Raises BadInputError."""
    try:
        return Client.from_environment(kubeconfig, context=context).connection
    except KubeError as error:
        raise BadInputError(cluster_message(error)) from None


async def _serve(
    settings: Settings, state: State, *, bootstrap: Connection | None, cluster: Connection
) -> None:
    with signals.listening() as stop:
        work = _work(settings, state, bootstrap=bootstrap, cluster=cluster)
        await signals.until(stop, work, on_stop=lambda: report(STOPPING.format(name=settings.name)))


async def _work(
    settings: Settings, state: State, *, bootstrap: Connection | None, cluster: Connection
) -> None:
    async with Client(cluster) as managed:
        await _wait_for_cluster(managed, settings, retry=state.certificate() is not None)
        await _identify(settings, state, bootstrap=bootstrap, cluster=cluster)
        options = KlusterletOptions(
            certificate_seconds=settings.certificate_seconds,
            left=settings.renew_left / 100,
            local_agents=settings.local_agents,
        )
        async with Client(state.connection()) as hub:
            try:
                await Klusterlet(hub, managed, state, options=options, notify=report).run()
            except KubeError as error:
                raise BadInputError(hub_message(error, hub.connection)) from error


async def _wait_for_cluster(managed: Client, settings: Settings, *, retry: bool) -> None:
    """Connect to the cluster. ``retry``: a cluster that joined before may be starting, as after a power failure."""
    attempt = 0
    while True:
        try:
            await _prepare_cluster(managed, settings)
            return
        except KubeError as error:
            message = cluster_message(error, managed.connection)
            if not retry or not error.retryable:
                raise BadInputError(message) from error
            if attempt == 0:
                report(UNREACHABLE.format(why=message, name=settings.name))
        except msgspec.MsgspecError as error:
            raise BadInputError(cluster_message(error, managed.connection)) from error
        except TimeoutError:
            raise BadInputError(NOT_SERVED) from None
        await asyncio.sleep(_PAUSES.delay(attempt))
        attempt += 1


async def _prepare_cluster(managed: Client, settings: Settings) -> None:
    answer = await managed.request("GET", "/version")
    version = msgspec.json.decode(answer.body, type=dict[str, str]).get("gitVersion", "")
    report(REACHED.format(name=settings.name, server=managed.connection.server, version=version))
    for kind in await install(managed, name=settings.name):
        report(PREPARED.format(kind=kind))


async def _identify(
    settings: Settings, state: State, *, bootstrap: Connection | None, cluster: Connection
) -> None:
    """Make sure that the state contains a valid identity; register the cluster if not."""
    certificate = state.certificate()
    wanted = certificate_spec(state)
    if (
        certificate is not None
        and certificate.ends > datetime.now(UTC)
        and certificate.is_for(wanted.subject)
    ):
        if bootstrap is None or not await _is_removed(bootstrap, state):
            report(RESUMED.format(user=certificate.subject.user, ends=format_time(certificate.ends)))
            return
        report(FORGOTTEN.format(name=settings.name))
    if bootstrap is None:
        raise BadInputError(_no_identity(settings, certificate))
    introduction = ClusterRegistration(
        name=settings.name,
        url=settings.url or cluster.server,
        authority=cluster.authority.read() if cluster.authority is not None and not settings.url else b"",
        lease_seconds=settings.lease_seconds,
    )
    async with Client(bootstrap) as introducing:
        try:
            await register(
                introducing, introduction, state, notify=report, seconds=settings.certificate_seconds
            )
            await wait_for_acceptance(introducing, settings.name, notify=report)
        except KubeError as error:
            raise BadInputError(hub_message(error, bootstrap, joining=True)) from error


async def _is_removed(bootstrap: Connection, state: State) -> bool:
    """Whether the cluster was removed from the hub while this process did not run.

    With its own identity a cluster cannot distinguish removal from missing acceptance; a valid bootstrap identity can.
    """
    state.change_address(bootstrap)
    try:
        async with Client(bootstrap, retry=Retry(asked=1, failed=0, unsent=0), timeout=10) as asking:
            await asking.get(MANAGED_CLUSTERS, state.cluster)
    except NotFound as error:
        return bool(error.details.name)
    except KubeError:
        return False
    return False


def _no_identity(settings: Settings, certificate: Certificate | None) -> str:
    if certificate is None:
        return NO_BOOTSTRAP.format(name=settings.name, folder=settings.folder)
    ends, now = format_time(certificate.ends), format_time(datetime.now(UTC))
    return RUN_OUT.format(name=settings.name, folder=settings.folder, ends=ends, now=now)


def report(text: str) -> None:
    """Print a line of progress immediately."""
    say(text)
    sys.stdout.flush()
