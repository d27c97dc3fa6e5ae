"""What `fairway up` runs beside its hub: the controllers, and the agents of a synthetic fleet.

They are clients like any other, over the hub's own address. They take part in the election, so that a `fairway run` on
the same hub waits. Their identity is always the same, for there is only one such process to a hub: after a crash the
next one need not wait for the lease of the one before to run out.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from fairway.cli.errors import CommandError, NegativeAnswerError
from fairway.cli.hub.process import Beside, Told
from fairway.cli.progress import progress
from fairway.cli.up.tour import CLUSTERS, fairway_command, steps
from fairway.controllers.manager import NAMESPACE, Settings, running
from fairway.controllers.placement.ocm_detection import OcmControllerRunning
from fairway.hub import Hub
from fairway.kube import Client, KubeError
from fairway.kube.kubeconfig import load
from fairway.whatif.moving import Motion, create, moving
from fairway.whatif.moving_creation import NAMESPACES, ensure

log: Final = logging.getLogger(__name__)

IDENTITY: Final = "fairway-up"
AGENTS: Final = "fairway-agents"
"""Under whose name the hub books what the agents write."""
MAKING: Final = "making clusters"
MADE: Final = "%d clusters are there, of seed %d"

CONTROLLERS: Final = "controllers: {names}"
FLEET: Final = "{count} synthetic clusters, each with new scores every {period:g} s"
NO_CLUSTERS: Final = "No synthetic clusters: --clusters 12 makes some."
ELSEWHERE: Final = "In another terminal:"
TRY: Final = "Three things to try:"
NOT_MADE: Final = "the synthetic fleet could not be made: {error}"


class FleetNotMade(CommandError):
    """The hub refused a part of it."""


def beside(motion: Motion, settings: Settings) -> Beside:
    """``settings`` are those of the controllers."""

    @asynccontextmanager
    async def parts(_hub: Hub, kubeconfig: Path) -> AsyncIterator[Told]:
        connection = load(kubeconfig).context()
        async with Client(connection, field_manager=AGENTS) as client:
            await ensure(client, NAMESPACES, {"metadata": {"name": NAMESPACE}})
            if motion.clusters:
                await _make(client, motion)
            try:
                async with (
                    running(connection, settings) as manager,
                    moving(client, motion) as agents,
                ):
                    await manager.synced()
                    names = sorted(manager.controllers)
                    yield _told(names, len(agents.names), motion, over=manager.over)
            except OcmControllerRunning as found:
                raise NegativeAnswerError(str(found)) from None

    return parts


async def _make(client: Client, motion: Motion) -> None:
    log.info(MAKING)
    try:
        with progress(MAKING, total=motion.clusters) as advance:
            await create(client, motion, advance=advance)
    except KubeError as error:
        raise FleetNotMade(NOT_MADE.format(error=error)) from error
    log.info(MADE, motion.clusters, motion.seed)


def _told(names: Sequence[str], count: int, motion: Motion, *, over: Callable[[], Awaitable[None]]) -> Told:
    tries = steps(fairway_command()) if count else (CLUSTERS,)
    fleet = FLEET.format(count=count, period=motion.period) if count else NO_CLUSTERS
    return Told(
        state=(CONTROLLERS.format(names=", ".join(names)), fleet, "", ELSEWHERE),
        advice=(*((TRY,) if count else ()), *(f"  {each}" for each in tries), ""),
        facts={"controllers": list(names), "clusters": count, "try": tries},
        over=over,
    )
