"""`fairway machines top`: what is reserved, kept and denied on nodes, and what virtual machines ask for."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from fairway.cli.client.session import talk
from fairway.cli.client.watch import Feed, following
from fairway.cli.errors import EXIT_INTERRUPTED, EXIT_OK
from fairway.cli.layout import LEFT_OUT, terminal_width
from fairway.cli.machines.keys import quit_key
from fairway.cli.machines.objects import MACHINES, OPTIONAL, is_served, read_objects
from fairway.cli.machines.settings import load_settings
from fairway.cli.machines.tables import (
    LESS_OF_MACHINES,
    LESS_OF_NODES,
    NODE_COLUMNS,
    RESOURCES,
    machine_columns,
    machine_document,
    machine_rows,
    node_document,
    node_rows,
)
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit, plain_table
from fairway.cli.signals import until
from fairway.cli.text import say
from fairway.hosts.instant import to_micros
from fairway.whatif.machines.world import ClusterObjects, machine_state
from fairway.workloads.machines.report import MachineReport, NodeReport, machine_reports, node_reports
from fairway.workloads.machines.settings import MachineSettings
from kubewire.client import Client, Deleted
from kubewire.client.change import Change

WATCH_HUB: Final = "--watch follows a hub: leave out -f"
WATCH_AS_TABLE: Final = "--watch requires -o table"
SUMMARY: Final = "{nodes}, {machines}, {denied} with denied demand, {moves}"
NO_MACHINES: Final = "No virtual machines."
HIDDEN: Final = "… and {count} more"


def top(
    watch: bool | None,
    interval: float,
    resource: str,
    sort: str,
    scheduler_config: Path | None,
    output: OutputFormat,
    **inputs: Any,
) -> int:
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
        return _watch(hub, view, interval=interval)
    nodes, machines = view.reports(read_objects(MACHINES, **inputs))
    if output == "table":
        say(view.text(nodes, machines))
    else:
        document = {
            "nodes": [node_document(node) for node in nodes],
            "machines": [machine_document(machine) for machine in machines],
        }
        emit([], columns={}, output=output, document=document)
    return EXIT_OK


class TopView:
    """Turns objects into reports, and reports into text."""

    def __init__(self, settings: MachineSettings, *, resource: str = "all", sort: str = "name") -> None:
        self._settings, self._resource, self._sort = settings, resource, sort

    def reports(self, objects: Sequence[Any]) -> tuple[list[NodeReport], list[MachineReport]]:
        now = to_micros(datetime.now(UTC))
        state, _ = machine_state(ClusterObjects.of(objects), self._settings, now=now)
        nodes = node_reports(state)
        if self._sort != "name":
            nodes.sort(key=self._rank)
        return nodes, machine_reports(state)

    def _rank(self, report: NodeReport) -> float:
        shares = []
        for resource in RESOURCES:
            capacity = (report.capacity or {}).get(resource, 0)
            part = report.reserved if self._sort == "reserved" else report.pressure
            shares.append(part.get(resource, 0) / capacity if capacity else 0.0)
        return -max(shares)

    def text(
        self,
        nodes: Sequence[NodeReport],
        machines: Sequence[MachineReport],
        *,
        height: int | None = None,
    ) -> str:
        """Return a summary and two tables; with a height, as many machines as fit below the nodes."""
        width = terminal_width()
        resources = RESOURCES if self._resource == "all" else (self._resource,)
        summary = SUMMARY.format(
            nodes=_count(len(nodes), "node"),
            machines=_count(len(machines), "virtual machine"),
            denied=sum(bool(machine.denied) for machine in machines),
            moves=_count(sum(bool(machine.moving) for machine in machines), "migration"),
        )
        upper = plain_table(
            node_rows(nodes, resources),
            columns=NODE_COLUMNS,
            width=width,
            less=LESS_OF_NODES,
            steady=height is not None,
        ).splitlines()
        lower = [NO_MACHINES]
        if machines:
            lower = plain_table(
                machine_rows(machines),
                columns=machine_columns(machines),
                width=width,
                less=LESS_OF_MACHINES,
                steady=height is not None,
            ).splitlines()
        if height is not None:
            upper = _cut(upper, max(3, height - 3 - min(len(lower), height // 2)))
            lower = _cut(lower, max(2, height - 3 - len(upper)))
        return "\n".join([summary, "", *upper, "", *lower])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _cut(lines: list[str], most: int) -> list[str]:
    """Return as many lines of a table as fit, with the note about columns that are left out."""
    if len(lines) <= most:
        return lines
    start = LEFT_OUT.partition("{")[0]
    note = next((at for at, line in enumerate(lines) if line.startswith(start)), len(lines))
    kept = max(1, most - 1 - (len(lines) - note))
    return [*lines[:kept], HIDDEN.format(count=note - kept), *lines[note:]]


def _watch(hub: HubChoice, view: TopView, *, interval: float) -> int:
    async def work(client: Client) -> None:
        objects = ObjectStore()
        served = [
            machine for machine in MACHINES if machine not in OPTIONAL or await is_served(client, machine)
        ]

        async def refresh() -> None:
            with screen() as show:
                async with following(
                    client, [Feed(resource=resource) for resource in served], objects.observe
                ) as changes:
                    while True:
                        show(view, *view.reports(objects.values()))
                        await changes.wait()
                        await asyncio.sleep(interval)

        with quit_key() as quitting:
            await until(quitting, refresh(), on_stop=lambda: None)

    try:
        talk(hub, work)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED  # the normal way to end a watch
    return EXIT_OK


class ObjectStore:
    """The newest version of each object."""

    def __init__(self) -> None:
        self._objects: dict[tuple[type[Any], str, str], Any] = {}

    def observe(self, change: Change[Any]) -> None:
        thing = change.object
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
    console = Console()
    with Live(console=console, auto_refresh=False, screen=True, vertical_overflow="crop") as live:

        def replace(view: TopView, nodes: Any, machines: Any) -> None:
            text = view.text(nodes, machines, height=console.height)
            live.update(Text(text, no_wrap=True, overflow="crop"), refresh=True)

        yield replace
