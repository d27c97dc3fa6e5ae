"""What `fairway up` runs together with its hub: controllers, and the agents of a synthetic fleet.

They connect to the hub like other clients. Controllers take part in the leader election, so that a `fairway run` on the
same hub waits. Their identity is fixed, because a hub has only one such process: after a crash, the next process does
not wait for the old Lease to expire.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from fairway.cli.errors import CommandError, NegativeAnswerError
from fairway.cli.hub.process import Announcement, Companion
from fairway.cli.progress import progress
from fairway.cli.up.demo import apply_example, apply_request, print_hosting, print_moves
from fairway.cli.up.tour import demo_steps, fairway_command, steps
from fairway.controllers.manager import running
from fairway.controllers.placement.ocm_detection import OcmControllerRunning
from fairway.controllers.serving import serving_locally
from fairway.controllers.settings import HOSTING, NAMESPACE, Settings
from fairway.hub import Hub
from fairway.kube import Client, KubeError
from fairway.kube.kubeconfig import load
from fairway.whatif.simulation.agents import running_agents
from fairway.whatif.simulation.creation import NAMESPACES, SimulationOptions, create, ensure
from fairway.whatif.world import Key

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
TRY: Final = "Things to try (kubectl works, too):"
NOT_MADE: Final = "cannot create the synthetic fleet: {error}"


class FleetNotMade(CommandError):
    """The hub refused a request."""


def companion(options: SimulationOptions, settings: Settings, *, demo: bool) -> Companion:
    """Return the companion of a hub. ``settings`` are those of the controllers.

    ``demo``: apply the example, and print its decision and its moves.
    """

    @asynccontextmanager
    async def services(_hub: Hub, kubeconfig: Path) -> AsyncIterator[Announcement]:
        connection = load(kubeconfig).context()
        async with Client(connection, field_manager=AGENTS) as client:
            await ensure(client, NAMESPACES, {"metadata": {"name": NAMESPACE}})
            if options.clusters:
                await _create_fleet(client, options)
            try:
                async with (
                    running(connection, settings) as manager,
                    running_agents(client, options) as agents,
                    serving_locally(connection.server, manager.placement),
                ):
                    await manager.synced()
                    names = sorted(manager.controllers)
                    over: Callable[[], Awaitable[None]] = manager.over
                    hosting = demo and HOSTING in names and agents.hosting
                    if demo and agents.names:
                        if hosting:
                            await apply_request(client)
                        key = await apply_example(client)
                        over = _with_moves(client, key, settings, manager.over, hosting=hosting)
                    yield _announcement(
                        names, len(agents.names), options, demo=demo, hosting=hosting, over=over
                    )
            except OcmControllerRunning as found:
                raise NegativeAnswerError(str(found)) from None

    return services


async def _create_fleet(client: Client, options: SimulationOptions) -> None:
    log.info(MAKING)
    try:
        with progress(MAKING, total=options.clusters) as advance:
            await create(client, options, advance=advance)
    except KubeError as error:
        raise FleetNotMade(NOT_MADE.format(error=error)) from error
    log.info(MADE, options.clusters, options.seed)


def _with_moves(
    client: Client, key: Key, settings: Settings, over: Callable[[], Awaitable[None]], *, hosting: bool
) -> Callable[[], Awaitable[None]]:
    async def over_with_moves() -> None:
        printing = [asyncio.create_task(print_moves(client, key, profile=settings.profile))]
        if hosting:
            printing.append(asyncio.create_task(print_hosting(client)))
        try:
            await over()
        finally:
            for task in printing:
                task.cancel()
            await asyncio.gather(*printing, return_exceptions=True)

    return over_with_moves


def _announcement(
    names: Sequence[str],
    count: int,
    options: SimulationOptions,
    *,
    demo: bool,
    hosting: bool,
    over: Callable[[], Awaitable[None]],
) -> Announcement:
    fairway = fairway_command()
    tries = demo_steps(fairway, hosting=hosting) if demo else steps(fairway)
    fleet = FLEET.format(count=count, period=options.period) if count else NO_CLUSTERS
    shown = tries if count else tries[:1]
    return Announcement(
        state=(CONTROLLERS.format(names=", ".join(names)), fleet, "", ELSEWHERE),
        advice=(*((TRY,) if count else ()), *(f"  {each}" for each in shown), ""),
        facts={"controllers": list(names), "clusters": count, "try": list(shown)},
        over=over,
    )
