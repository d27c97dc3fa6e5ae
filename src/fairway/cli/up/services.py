"""What `fairway up` runs together with its hub: controllers, and the agents of a synthetic fleet.

They connect to the hub like other clients. Controllers take part in the leader election, so that a `fairway run` on the
same hub waits. Their identity is fixed, because a hub has only one such process: after a crash, the next process does
not wait for the old Lease to expire.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from fairway.cli.errors import CommandError, NegativeAnswerError
from fairway.cli.hub.process import Announcement, Companion
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
"""Field manager of the agents."""
MAKING: Final = "creating clusters"
MADE: Final = "created %d clusters with seed %d"

CONTROLLERS: Final = "controllers: {names}"
FLEET: Final = "{count} synthetic clusters, each publishes new scores every {period:g} s"
NO_CLUSTERS: Final = "No synthetic clusters; create some with --clusters 12."
ELSEWHERE: Final = "In another terminal:"
TRY: Final = "Three things to try:"
NOT_MADE: Final = "cannot create the synthetic fleet: {error}"


class FleetNotMade(CommandError):
    """The hub refused a request."""


def companion(motion: Motion, settings: Settings) -> Companion:
    """Return the companion of a hub. ``settings`` are those of the controllers."""

    @asynccontextmanager
    async def services(_hub: Hub, kubeconfig: Path) -> AsyncIterator[Announcement]:
        connection = load(kubeconfig).context()
        async with Client(connection, field_manager=AGENTS) as client:
            await ensure(client, NAMESPACES, {"metadata": {"name": NAMESPACE}})
            if motion.clusters:
                await _create_fleet(client, motion)
            try:
                async with (
                    running(connection, settings) as manager,
                    moving(client, motion) as agents,
                ):
                    await manager.synced()
                    names = sorted(manager.controllers)
                    yield _announcement(names, len(agents.names), motion, over=manager.over)
            except OcmControllerRunning as found:
                raise NegativeAnswerError(str(found)) from None

    return services


async def _create_fleet(client: Client, motion: Motion) -> None:
    log.info(MAKING)
    try:
        with progress(MAKING, total=motion.clusters) as advance:
            await create(client, motion, advance=advance)
    except KubeError as error:
        raise FleetNotMade(NOT_MADE.format(error=error)) from error
    log.info(MADE, motion.clusters, motion.seed)


def _announcement(
    names: Sequence[str], count: int, motion: Motion, *, over: Callable[[], Awaitable[None]]
) -> Announcement:
    tries = steps(fairway_command()) if count else (CLUSTERS,)
    fleet = FLEET.format(count=count, period=motion.period) if count else NO_CLUSTERS
    return Announcement(
        state=(CONTROLLERS.format(names=", ".join(names)), fleet, "", ELSEWHERE),
        advice=(*((TRY,) if count else ()), *(f"  {each}" for each in tries), ""),
        facts={"controllers": list(names), "clusters": count, "try": tries},
        over=over,
    )
