"""`fairway machines migrations`: the moves of virtual machines, their beneficiaries, and the time of each step."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli.completion import complete
from fairway.cli.errors import EXIT_OK
from fairway.cli.machines.settings import load_settings
from fairway.cli.options.input import input_options
from fairway.cli.output import OutputFormat, emit, output_option, say

if TYPE_CHECKING:
    from fairway.machines.migration_story import Story

NONE: Final = "No migrations."


@click.command(
    short_help="Show migrations with the time of each step.",
    epilog="""\b
Examples:
  fairway machines migrations
  fairway machines migrations --running --timeline
  fairway machines migrations --vm default/vm-b -o json

\b
Migrations that have ended are known from Events about their virtual machine, which a hub keeps for an hour. TOOK is the
time since a migration was planned. Times are local.
""",
)
@click.option("--running", is_flag=True, help="Only migrations that have not ended.")
@click.option(
    "--vm",
    metavar="NAMESPACE/NAME",
    default="",
    shell_complete=complete("machines"),
    help="Only migrations of this virtual machine.",
)
@click.option(
    "--timeline/--no-timeline",
    default=None,
    help="Show each step.  [default: for up to 5 migrations]",
)
@output_option
@input_options
def migrations(running: bool, vm: str, timeline: bool | None, output: OutputFormat, **inputs: Any) -> int:
    """Show the migrations of virtual machines: their steps, reasons, bytes, and the machines that get the room."""
    from fairway.cli.machines import tables
    from fairway.cli.machines.objects import STORIES, read_objects
    from fairway.fleet.instant import to_micros

    now = to_micros(datetime.now(UTC))
    found = [
        each
        for each in stories(read_objects(STORIES, **inputs))
        if not (running and each.ended) and vm in ("", each.vm, f"{each.namespace}/{each.vm}")
    ]
    if output != "table":
        emit([], columns={}, output=output, document=[tables.story_document(each) for each in found])
        return EXIT_OK
    if not found:
        say(NONE)
        return EXIT_OK
    emit(tables.story_rows(found, now=now), columns=tables.story_columns(found))
    if timeline or (timeline is None and len(found) <= MOST_TIMELINES):
        for each in found:
            say(f"\n{each.id}")
            for line in tables.timeline(each, now=now):
                say(f"  {line}")
    return EXIT_OK


MOST_TIMELINES: Final = 5


def stories(objects: list[Any]) -> "list[Story]":
    """Return all migrations, the newest first: those with a record, and those that only events mention."""
    from fairway.api.event import CoreEvent
    from fairway.fleet.instant import to_micros
    from fairway.machines.machine import VIRTUAL_MACHINE
    from fairway.machines.migration_story import story_in_event, story_of
    from fairway.whatif.machines.world import ClusterObjects, machine_state

    now = to_micros(datetime.now(UTC))
    cluster = ClusterObjects.of(objects)
    state, known = machine_state(cluster, load_settings(None), now=now)
    names = {key: machine.vm for key, machine in state.permits.machines.items()}
    found: dict[tuple[str, str, str], Story] = {}
    for event in objects:
        story = story_in_event(event) if isinstance(event, CoreEvent) else None
        if story is not None:
            key = (story.kind, story.namespace, story.id)
            if key not in found or len(found[key].steps) < len(story.steps):
                found[key] = story
    for record in known.records():
        namespace, copied = record.source.namespace, None
        moving = cluster.migrations.get((namespace, record.id))
        if record.kind == VIRTUAL_MACHINE and moving is not None:
            copied = moving.status.info.ram.transferred
        found[record.kind, namespace, record.id] = story_of(record, names=names, copied=copied)
    return sorted(found.values(), key=lambda story: (-story.started, story.id))
