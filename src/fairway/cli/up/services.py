"""What `fairway up` runs together with its hub: controllers, and the agents of a synthetic fleet.

They connect to the hub like other clients. Controllers take part in the leader election, so that a `fairway run` on the
same hub waits. Their identity is fixed, because a hub has only one such process: after a crash, the next process does
not wait for the old Lease to expire.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from fairway.cli.errors import CommandError, NegativeAnswerError
from fairway.cli.hub.process import Announcement, Companion
from fairway.cli.progress import progress
from fairway.cli.up.demo import Moves, apply_example, apply_request, print_hosting, print_moves
from fairway.cli.up.machines import FLEET as NODES
from fairway.cli.up.machines import create, print_migrations, running_machines
from fairway.cli.up.story import play
from fairway.cli.up.tour import demo_steps, fairway_command, machine_steps, steps
from fairway.controllers.manager import running
from fairway.controllers.placement.ocm_detection import OcmControllerRunning
from fairway.controllers.serving import serving_locally
from fairway.controllers.settings import HOSTING, NAMESPACE, Settings
from fairway.simulation.agents import running_agents
from fairway.simulation.creation import NAMESPACES, SimulationOptions, ensure
from fairway.simulation.creation import create as create_clusters
from fairway.simulation.machines.creation import MachineOptions
from kubehub import Hub
from kubewire.client import Client, KubeError
from kubewire.client.kubeconfig import load

log: Final = logging.getLogger(__name__)

IDENTITY: Final = "fairway-up"
AGENTS: Final = "fairway-agents"
"""Field manager of the agents."""
MAKING: Final = "creating clusters"
MADE: Final = "created %d clusters with seed %d"

CONTROLLERS: Final = "controllers: {names}"
FLEET: Final = "{count} synthetic clusters, each publishes its scores every {period:g} s"
NO_CLUSTERS: Final = "No synthetic clusters; create some with --clusters 12."
ELSEWHERE: Final = "In another terminal (kubectl works, too):"
TRY: Final = "Things to try:"
MACHINES: Final = "Which machines grow, and which move to make room?"
NOT_MADE: Final = "cannot create the synthetic fleet: {error}"


class FleetNotMade(CommandError):
    """The hub refused a request."""


def companion(
    options: SimulationOptions, settings: Settings, *, machines: MachineOptions, demo: bool
) -> Companion:
    """Return the companion of a hub. ``settings`` are those of the controllers.

    ``demo``: apply the example, play its story, and print its decision and its moves, and those of virtual machines.
    """
    # In the story, a move has one cause.
    options = replace(options, walks=not demo)

    @asynccontextmanager
    async def services(_hub: Hub, kubeconfig: Path) -> AsyncIterator[Announcement]:
        connection = load(kubeconfig).context()
        async with Client(connection, field_manager=AGENTS) as client:
            await ensure(client, NAMESPACES, {"metadata": {"name": NAMESPACE}})
            if options.clusters:
                await _create_fleet(client, options)
            if machines.nodes:
                await create(client, machines)
            try:
                async with (
                    running(connection, settings) as manager,
                    running_agents(client, options) as agents,
                    serving_locally(connection.server, manager.placement),
                    running_machines(client, machines, manager.machines),
                ):
                    await manager.synced()
                    names = sorted(manager.controllers)
                    placing = demo and bool(agents.names)
                    hosting = placing and HOSTING in names and agents.hosting
                    printing: list[Callable[[], Coroutine[Any, Any, None]]] = []
                    if placing:
                        if hosting:
                            await apply_request(client)
                            printing.append(partial(print_hosting, client))
                        moves = Moves(await apply_example(client))
                        printing.append(partial(print_moves, client, moves, profile=settings.profile))
                        printing.append(partial(play, agents, moves, period=options.period))
                    if demo and machines.nodes:
                        printing.append(partial(print_migrations, client))
                    yield _announcement(
                        names,
                        len(agents.names),
                        options,
                        machines=machines,
                        demo=placing,
                        hosting=hosting,
                        over=_printing(printing, manager.over),
                    )
            except OcmControllerRunning as found:
                raise NegativeAnswerError(str(found)) from None

    return services


async def _create_fleet(client: Client, options: SimulationOptions) -> None:
    log.info(MAKING)
    try:
        with progress(MAKING, total=options.clusters) as advance:
            await create_clusters(client, options, advance=advance)
    except KubeError as error:
        raise FleetNotMade(NOT_MADE.format(error=error)) from error
    log.info(MADE, options.clusters, options.seed)


def _printing(
    printers: Sequence[Callable[[], Coroutine[Any, Any, None]]], over: Callable[[], Awaitable[None]]
) -> Callable[[], Awaitable[None]]:
    """Return a function that waits like ``over``, and runs the printers meanwhile."""

    async def over_while_printing() -> None:
        tasks = [asyncio.create_task(printer()) for printer in printers]
        try:
            await over()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    return over_while_printing


def _announcement(
    names: Sequence[str],
    count: int,
    options: SimulationOptions,
    *,
    machines: MachineOptions,
    demo: bool,
    hosting: bool,
    over: Callable[[], Awaitable[None]],
) -> Announcement:
    fairway = fairway_command()
    questions: dict[str, tuple[str, ...]]
    questions = demo_steps(fairway, hosting=hosting) if demo else {TRY: steps(fairway)}
    if not count:
        questions = {} if machines.nodes else {"": steps(fairway)[:1]}
    if machines.nodes:
        questions = {MACHINES: machine_steps(fairway), **questions}
    fleet = FLEET.format(count=count, period=options.period) if count else NO_CLUSTERS
    state = [CONTROLLERS.format(names=", ".join(names))]
    facts: dict[str, object] = {"controllers": list(names), "clusters": count}
    if machines.nodes:
        state += [NODES.format(nodes=machines.nodes, machines=machines.count)]
        facts |= {"nodes": machines.nodes, "virtualMachines": machines.count}
    if count or not machines.nodes:
        state.append(fleet)
    commands = [command for answers in questions.values() for command in answers]
    lines = [
        line
        for question, answers in questions.items()
        for line in (*((question,) if question else ()), *(f"  {command}" for command in answers))
    ]
    return Announcement(
        state=(*state, "", ELSEWHERE),
        advice=(*lines, ""),
        facts={**facts, "try": commands},
        over=over,
    )
