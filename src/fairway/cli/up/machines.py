"""Synthetic nodes and virtual machines of `fairway up`, and the lines that it prints about their migrations."""

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from fairway.cli.errors import CommandError
from fairway.cli.progress import progress
from fairway.cli.text import say
from fairway.controllers.machines import MachinesController
from fairway.controllers.machines.permit_server import PermitServer, serving_permits
from fairway.controllers.serving.address import Address
from fairway.controllers.settings import NAMESPACE
from fairway.hosts.instant import SECOND, to_micros
from fairway.simulation.machines.agents import ScalingAgents
from fairway.simulation.machines.creation import MachineOptions, create_machines
from fairway.simulation.machines.kubelet import Kubelets
from fairway.simulation.machines.neonvm import NeonVM
from fairway.simulation.machines.permit_client import agent_user, permit_client
from fairway.workloads.machines.migration import Phase
from fairway.workloads.machines.migration_story import PHASES, Story, story_in_event
from kubewire.api.event import CoreEvent
from kubewire.client import Batch, Client, Deleted, Informer, KubeError
from kubewire.client.events import CORE_EVENTS

log: Final = logging.getLogger(__name__)

CREATING: Final = "creating nodes and machines"
CREATED: Final = "created %d nodes and %d virtual machines with seed %d"
NOT_CREATED: Final = "cannot create synthetic nodes: {error}"
LOOPBACK: Final = "127.0.0.1"
BANDWIDTH: Final = 1 << 30
"""Bytes per second of a synthetic copy."""
START_SECONDS: Final = 0.5
STOP_SECONDS: Final = 0.5
"""What a synthetic kubelet needs to start and to stop a pod."""

FLEET: Final = "{nodes} synthetic nodes, {machines} virtual machines"
PLANNED: Final = "{time}  {vm} moves from {source} to {target}{purpose}"
SWITCHED: Final = "{time}  {vm} runs on {target}"
COMPLETED: Final = "{time}  {vm} left {source} after {seconds:.1f} s{grown}"
STAYS: Final = "{time}  {vm} stays on {source}: {message}"
PURPOSE: Final = " to make room for {beneficiaries}"
GROWN: Final = "; its room belongs to {beneficiaries}"


class NodesNotCreated(CommandError):
    """The hub refused a request."""


async def create(client: Client, options: MachineOptions) -> None:
    """Raises NodesNotCreated."""
    log.info(CREATING)
    try:
        with progress(CREATING, total=options.nodes + options.count) as advance:
            await create_machines(client, options, advance=advance)
    except KubeError as error:
        raise NodesNotCreated(NOT_CREATED.format(error=error)) from error
    log.info(CREATED, options.nodes, options.count, options.seed)


@asynccontextmanager
async def running_machines(
    client: Client, options: MachineOptions, controller: MachinesController | None
) -> AsyncIterator[None]:
    """Run kubelets, the stand-in for NeonVM's controller, the permit server, and agents that ask it."""
    if not options.nodes:
        yield
        return
    async with (
        Kubelets(client, start=START_SECONDS, stop=STOP_SECONDS).running(),
        NeonVM(client, bandwidth=BANDWIDTH).running(),
    ):
        if controller is None:
            yield
            return
        server = PermitServer(
            address=Address(host=LOOPBACK), client=client, cluster_wide=frozenset({agent_user(NAMESPACE)})
        )
        async with (
            serving_permits(server, controller.ask, observe=controller.replied) as address,
            permit_client(client, address, namespace=NAMESPACE) as permits,
            ScalingAgents(client, permits.ask, seed=options.seed, period=options.period).running(),
        ):
            yield


async def print_migrations(client: Client) -> None:
    """Print a line whenever a migration begins, switches over or ends, until cancelled."""
    began = to_micros(datetime.now(UTC)) - 2 * SECOND
    seen: set[tuple[str, str, str]] = set()

    def look(batch: Batch[CoreEvent]) -> None:
        for change in batch.changes:
            if isinstance(change, Deleted):
                continue
            event = change.object
            story = story_in_event(event)
            if story is None or story.latest < began:
                continue
            key = (story.namespace, story.id, event.reason)
            if key not in seen:
                seen.add(key)
                time = datetime.fromtimestamp(story.latest / SECOND).strftime("%H:%M:%S")
                say(describe(story, PHASES[event.reason], time=time))
        sys.stdout.flush()

    async with Informer(client, CORE_EVENTS) as events:
        async for batch in events.changes():
            look(batch)


def describe(story: Story, phase: Phase, *, time: str) -> str:
    """Return the line about a migration that reached a phase."""
    vm, beneficiaries = f"{story.namespace}/{story.vm}", ", ".join(story.beneficiaries)
    match phase:
        case Phase.PLANNED:
            purpose = PURPOSE.format(beneficiaries=beneficiaries) if beneficiaries else ""
            return PLANNED.format(time=time, vm=vm, source=story.source, target=story.target, purpose=purpose)
        case Phase.CUTOVER:
            return SWITCHED.format(time=time, vm=vm, target=story.target)
        case Phase.CLEANED:
            grown = GROWN.format(beneficiaries=beneficiaries) if beneficiaries else ""
            seconds = story.steps[-1].seconds
            return COMPLETED.format(time=time, vm=vm, source=story.source, seconds=seconds, grown=grown)
        case _:
            return STAYS.format(time=time, vm=vm, source=story.source, message=story.message)
