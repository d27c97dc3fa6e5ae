"""Open the endpoints of a process for the duration of a block."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from fairway.controllers.serving.access import Authorizer
from fairway.controllers.serving.address import Address
from fairway.controllers.serving.certificate import CertificateFiles, FileCertificate, SelfSignedCertificate
from fairway.controllers.serving.debug import Inspector
from fairway.controllers.serving.endpoint import DebugEndpoint
from fairway.controllers.serving.http_server import listening
from fairway.controllers.serving.probes import ProbeHandlers, Reasons, nothing
from kubewire.client import SYSTEM_CLOCK, Client, Clock

log: Final = logging.getLogger(__name__)

OPEN: Final = "%s at %s"


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugServer:
    """OCM's debug endpoint. Without ``files`` its certificate is self-signed."""

    address: Address
    client: Client
    """The client for access reviews, separate from the one that writes decisions."""
    inspector: Inspector
    files: CertificateFiles | None = None
    hosts: tuple[str, ...] = ()
    """Names in the self-signed certificate."""
    clock: Clock = SYSTEM_CLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The actual addresses, also where the port was 0."""

    health: Address | None = None
    metrics: Address | None = None
    debug: Address | None = None


@asynccontextmanager
async def open_ports(
    *,
    health: Address | None,
    metrics: Address | None,
    debug: DebugServer | None,
    ready: Reasons,
    expose: Callable[[], bytes],
    alive: Reasons = nothing,
) -> AsyncIterator[Ports]:
    """``health`` and ``metrics`` may be the same address. Raises OSError and CertificateError.

    ``ready`` and ``alive`` return why not, ``expose`` returns the metrics; all must be fast.
    """
    async with AsyncExitStack() as stack:
        together = health is not None and health == metrics
        at_health = at_metrics = at_debug = None
        if health is not None:
            pages = ProbeHandlers(ready=ready, alive=alive, expose=expose if together else None)
            at_health = await stack.enter_async_context(listening(health, pages.handle))
            log.info(OPEN, "health", at_health)
        if together:
            at_metrics = at_health
        elif metrics is not None:
            at_metrics = await stack.enter_async_context(
                listening(metrics, ProbeHandlers(expose=expose).handle)
            )
        if at_metrics is not None:
            log.info(OPEN, "metrics", at_metrics)
        if debug is not None:
            at_debug = await stack.enter_async_context(_debugging(debug, ready))
            log.info(OPEN, "debug endpoint", at_debug)
        yield Ports(health=at_health, metrics=at_metrics, debug=at_debug)


@asynccontextmanager
async def _debugging(debug: DebugServer, ready: Reasons) -> AsyncIterator[Address]:
    if debug.files is not None:
        context = FileCertificate(debug.files).context()
    else:
        context = SelfSignedCertificate(hosts=(*debug.hosts, debug.address.host), clock=debug.clock).context()
    endpoint = DebugEndpoint(
        Authorizer(debug.client, clock=debug.clock), debug.inspector, ready=ready, clock=debug.clock
    )
    async with listening(debug.address, endpoint.handle, context=context) as address:
        yield address
