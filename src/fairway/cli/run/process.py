"""The process of `fairway run`: run controllers and their endpoints until stopped."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final

from fairway.cli import signals
from fairway.cli.client.session import connection_to, hub_errors
from fairway.cli.errors import BadInputError, NegativeAnswerError
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.serving import Listening, cannot_listen, in_a_pod
from fairway.controllers.kinds import NAMESPACES
from fairway.controllers.machines.permit_server import PermitServer, serving_insecure_permits, serving_permits
from fairway.controllers.manager import FIELD_MANAGER, Manager, running
from fairway.controllers.placement.ocm_detection import OcmControllerRunning
from fairway.controllers.placement.shadow import Shadow
from fairway.controllers.required_kinds import RequiredKinds
from fairway.controllers.serving import (
    CertificateError,
    CertificateFiles,
    DebugServer,
    Ports,
    open_ports,
    serving_locally,
)
from fairway.controllers.serving.address import CannotListen
from fairway.controllers.settings import PLACEMENT, Settings
from fairway.observe import traces
from fairway.observe.meters import Meters
from fairway.workloads.machines.policy import PolicyError
from kubewire.client import AlreadyExists, Client, Connection, Forbidden

log: Final = logging.getLogger(__name__)

STARTED: Final = "started %s on hub %s"
SHADOWING: Final = "placement (shadow)"
NOTHING_TO_DEBUG: Final = "debug endpoint disabled: the placement controller is not enabled"
COMPARED: Final = "compared %d placements, %d differ"
STOPPING: Final = "stopping"
STOPPED: Final = "stopped"


def serve(hub: HubChoice, settings: Settings, listening: Listening) -> None:
    """Run until stopped by a signal. Raises CommandErrors."""
    connection = connection_to(hub)
    try:
        with hub_errors(hub, connection):
            asyncio.run(_serve(connection, settings, listening))
    except OcmControllerRunning as found:
        raise NegativeAnswerError(str(found)) from None
    except (CertificateError, PolicyError) as error:
        raise BadInputError(str(error)) from None
    except CannotListen as error:
        raise cannot_listen(error, listening.options) from None


async def _serve(connection: Connection, settings: Settings, listening: Listening) -> None:
    export = traces.configure_from_environment()
    try:
        await _run_until_stopped(connection, settings, listening)
    finally:
        await asyncio.to_thread(export.close)
    log.info(STOPPED)


async def _run_until_stopped(connection: Connection, settings: Settings, listening: Listening) -> None:
    with signals.listening() as stop:
        work = _work(connection, settings, listening)
        await signals.until(stop, work, on_stop=lambda: log.info(STOPPING))


async def _work(connection: Connection, settings: Settings, listening: Listening) -> None:
    if settings.election is not None and not settings.shadow and not in_a_pod():
        await _create_namespace(connection, settings.namespace)
    await _wait_for_kinds(connection, settings, listening)
    meters = Meters()
    async with (
        AsyncExitStack() as stack,
        running(connection, settings, meters=meters) as manager,
        # A separate client, so that debug requests do not delay writes.
        Client(connection) as asking,
        open_ports(
            health=listening.health,
            metrics=listening.metrics,
            debug=_debug(manager, asking, listening),
            ready=manager.unready,
            expose=lambda: _exposed(manager),
        ) as ports,
        _permitting(manager, asking, listening),
        serving_locally(connection.server, manager.placement),
    ):
        stack.callback(_log_summary, manager)
        what = SHADOWING if settings.shadow else ", ".join(sorted(manager.controllers))
        log.info(STARTED, what, connection.server, extra=_details(manager, ports))
        await manager.over()


async def _wait_for_kinds(connection: Connection, settings: Settings, listening: Listening) -> None:
    """Wait until the hub serves the kinds without which no controller can start."""
    async with Client(connection) as client:
        kinds = RequiredKinds(client, {PLACEMENT} if settings.shadow else settings.controllers)
        await kinds.find_missing()
        if not kinds.missing:
            return
        # A kubelet must see a process that is alive, and not ready.
        async with open_ports(
            health=listening.health, metrics=None, debug=None, ready=kinds.unready, expose=bytes
        ):
            await kinds.wait()


def _log_summary(manager: Manager) -> None:
    shadow = manager.placement
    if isinstance(shadow, Shadow):
        log.info(COMPARED, len(shadow.state.records), len(shadow.differences))


async def _create_namespace(connection: Connection, namespace: str) -> None:
    """Create the namespace of the Leases. In a pod the installation does, and the pod may not."""
    async with Client(connection, field_manager=FIELD_MANAGER) as client:
        with suppress(AlreadyExists, Forbidden):
            await client.create(NAMESPACES, {"metadata": {"name": namespace}})


def _debug(manager: Manager, client: Client, listening: Listening) -> DebugServer | None:
    if listening.debug is None:
        return None
    if manager.placement is None:
        log.info(NOTHING_TO_DEBUG)
        return None
    return DebugServer(
        address=listening.debug, client=client, inspector=manager.placement, files=_files(listening)
    )


def _files(listening: Listening) -> CertificateFiles | None:
    if listening.certificate is None or listening.key is None:
        return None
    return CertificateFiles(certificate=listening.certificate, key=listening.key)


@asynccontextmanager
async def _permitting(manager: Manager, client: Client, listening: Listening) -> AsyncIterator[None]:
    """Serve permits while the block runs, if the machines controller does."""
    permits, insecure, machines = listening.permits, listening.insecure_permits, manager.machines
    async with AsyncExitStack() as stack:
        if permits is not None and machines is not None:
            server = PermitServer(
                address=permits.address,
                client=client,
                files=_files(listening),
                client_ca=permits.client_ca,
                audiences=permits.audiences,
                cluster_wide=permits.cluster_wide,
            )
            await stack.enter_async_context(serving_permits(server, machines.ask, observe=machines.replied))
        if insecure is not None and machines is not None:
            agents = machines.follow_agents(insecure.agents)
            plain = serving_insecure_permits(insecure.address, agents, machines.ask, observe=machines.replied)
            await stack.enter_async_context(plain)
        yield


def _exposed(manager: Manager) -> bytes:
    manager.measure()
    return manager.meters.expose()


def _details(manager: Manager, ports: Ports) -> dict[str, str]:
    settings = manager.settings
    details = {"identity": manager.identity, "shard": str(settings.shard)}
    if settings.election is not None:
        details["leases"] = settings.namespace
    for name, address in (("health", ports.health), ("metrics", ports.metrics), ("debug", ports.debug)):
        if address is not None:
            details[name] = str(address)
    return details
