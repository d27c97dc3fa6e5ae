"""`fairway machines top`: what is reserved, kept and denied on nodes, and what virtual machines ask for."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli.client.session import HubChoice, talk
from fairway.cli.errors import EXIT_OK
from fairway.cli.machines.settings import load_settings
from fairway.cli.options.input import input_options
from fairway.cli.options.scheduler import scheduler_option
from fairway.cli.output import OutputFormat, emit, output_option, plain_table, say

if TYPE_CHECKING:
    from fairway.kube import Client
    from fairway.kube.change import Change
    from fairway.machines.report import MachineReport, NodeReport
    from fairway.machines.settings import MachineSettings

WATCH_HUB: Final = "--watch follows a hub: leave out -f"
WATCH_AS_TABLE: Final = "--watch requires -o table"
SUMMARY: Final = "{nodes}, {machines}, {denied} with denied demand, {moves}"
NO_MACHINES: Final = "No virtual machines."
HIDDEN: Final = "… and {count} more"
RESOURCE_CHOICES: Final = ("cpu", "memory", "all")
SORTS: Final = ("name", "reserved", "pressure")


@click.command(
    short_help="Show nodes and virtual machines, refreshed in place.",
    epilog="""\b
Examples:
  fairway machines top
  fairway machines top --sort pressure --resource cpu
  fairway machines top --no-watch -o json
  fairway machines top -f cluster.yaml

\b
RESERVED is what counts as used: permits of virtual machines divided by their overcommit factors, and requests of other
pods. COMMITTED is the same before overcommitment. EARMARKED is room that is kept for a machine, or will be when another
has left. PRESSURE is denied demand, and use above the WATERMARK. For machines, SIZE is what they use, PERMIT what they
may use, DEMAND what their agent asks for, each as CPUs / memory. Machines of KubeVirt have no permits; if there are
any, KIND is the kind of each machine.
Only objects of the hub are read, so this works without access to the scheduler.
""",
)
@click.option(
    "-w/-W",
    "--watch/--no-watch",
    default=None,
    help="Keep running, and refresh in place on a terminal.  [default: on a terminal]",
)
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Shortest time between two refreshes.",
)
@click.option(
    "--resource", type=click.Choice(RESOURCE_CHOICES), default="all", show_default=True, help="Rows of nodes."
)
@click.option("--sort", type=click.Choice(SORTS), default="name", show_default=True, help="Order of nodes.")
@scheduler_option
@output_option
@input_options
def top(
    watch: bool | None,
    interval: float,
    resource: str,
    sort: str,
    scheduler_config: Path | None,
    output: OutputFormat,
    **inputs: Any,
) -> int:
    """Show what is reserved, kept and denied on each node, and the demand and permit of each virtual machine."""
    files, hub = inputs["files"], inputs["hub"]
    if watch and files:
        raise click.UsageError(WATCH_HUB)
    if watch and output != "table":
        raise click.UsageError(WATCH_AS_TABLE)
    settings = load_settings(scheduler_config)
    view = TopView(settings, resource=resource, sort=sort)
    if watch is None:
        watch = output == "table" and not files and sys.stdout.isatty()
    if watch:
        _watch(hub, view, interval=interval)
        return EXIT_OK
    from fairway.cli.machines.objects import MACHINES, read_objects

    nodes, machines = view.reports(read_objects(MACHINES, **inputs))
    if output == "table":
        say(view.text(nodes, machines))
    else:
        from fairway.cli.machines.tables import machine_document, node_document

        document = {
            "nodes": [node_document(each) for each in nodes],
            "machines": [machine_document(each) for each in machines],
        }
        emit([], columns={}, output=output, document=document)
    return EXIT_OK


class TopView:
    """Turns objects into reports, and reports into text."""

    def __init__(self, settings: "MachineSettings", *, resource: str = "all", sort: str = "name") -> None:
        self._settings, self._resource, self._sort = settings, resource, sort

    def reports(self, objects: Sequence[Any]) -> "tuple[list[NodeReport], list[MachineReport]]":
        from fairway.fleet.instant import to_micros
        from fairway.machines.report import machine_reports, node_reports
        from fairway.whatif.machines.world import ClusterObjects, machine_state

        now = to_micros(datetime.now(UTC))
        state, _ = machine_state(ClusterObjects.of(objects), self._settings, now=now)
        nodes = node_reports(state)
        if self._sort != "name":
            nodes.sort(key=self._rank)
        return nodes, machine_reports(state)

    def _rank(self, report: "NodeReport") -> float:
        from fairway.cli.machines.tables import RESOURCES

        shares = []
        for resource in RESOURCES:
            capacity = (report.capacity or {}).get(resource, 0)
            part = report.reserved if self._sort == "reserved" else report.pressure
            shares.append(part.get(resource, 0) / capacity if capacity else 0.0)
        return -max(shares)

    def text(
        self,
        nodes: "Sequence[NodeReport]",
        machines: "Sequence[MachineReport]",
        *,
        height: int | None = None,
    ) -> str:
        """Return a summary and two tables; with a height, as many machines as fit below the nodes."""
        from fairway.cli.machines.tables import (
            NODE_COLUMNS,
            RESOURCES,
            machine_columns,
            machine_rows,
            node_rows,
        )

        resources = RESOURCES if self._resource == "all" else (self._resource,)
        summary = SUMMARY.format(
            nodes=_count(len(nodes), "node"),
            machines=_count(len(machines), "virtual machine"),
            denied=sum(bool(each.denied) for each in machines),
            moves=_count(sum(bool(each.moving) for each in machines), "migration"),
        )
        upper = plain_table(node_rows(nodes, resources), columns=NODE_COLUMNS).splitlines()
        lower = [NO_MACHINES]
        if machines:
            lower = plain_table(machine_rows(machines), columns=machine_columns(machines)).splitlines()
        if height is not None:
            upper = _cut(upper, max(3, height - 3 - min(len(lower), height // 2)))
            lower = _cut(lower, max(2, height - 3 - len(upper)))
        return "\n".join([summary, "", *upper, "", *lower])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _cut(lines: list[str], most: int) -> list[str]:
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], HIDDEN.format(count=len(lines) - most + 1)]


def _watch(hub: HubChoice, view: TopView, *, interval: float) -> None:
    from fairway.cli.client.watch import Feed, following
    from fairway.cli.machines.objects import MACHINES, OPTIONAL, is_served

    async def work(client: "Client") -> None:
        import asyncio

        objects = ObjectStore()
        served = [each for each in MACHINES if each not in OPTIONAL or await is_served(client, each)]
        with screen() as show:
            async with following(
                client, [Feed(resource=each) for each in served], objects.observe
            ) as changes:
                while True:
                    show(view, *view.reports(objects.values()))
                    await changes.wait()
                    await asyncio.sleep(interval)

    talk(hub, work)


class ObjectStore:
    """The newest version of each object."""

    def __init__(self) -> None:
        self._objects: dict[tuple[type[Any], str, str], Any] = {}

    def observe(self, change: "Change[Any]") -> None:
        from fairway.kube import Deleted, Updated

        thing = change.new if isinstance(change, Updated) else change.object
        key = (type(thing), thing.metadata.namespace, thing.metadata.name)
        if isinstance(change, Deleted):
            self._objects.pop(key, None)
        else:
            self._objects[key] = thing

    def values(self) -> list[Any]:
        return list(self._objects.values())


@contextmanager
def screen() -> Iterator[Any]:
    """Yield a function that shows a view: in place on a terminal, otherwise below what it showed before."""
    if not sys.stdout.isatty():

        def append(view: TopView, nodes: Any, machines: Any) -> None:
            say(f"{view.text(nodes, machines)}\n")
            sys.stdout.flush()

        yield append
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(console=console, auto_refresh=False, screen=True, vertical_overflow="crop") as live:

        def replace(view: TopView, nodes: Any, machines: Any) -> None:
            text = view.text(nodes, machines, height=console.height)
            live.update(Text(text, no_wrap=True, overflow="crop"), refresh=True)

        yield replace
