"""`fairway machines migrations`: the moves of virtual machines, their beneficiaries, and the time of each step."""

from datetime import UTC, datetime
from typing import Any, Final

from fairway.cli.errors import EXIT_OK
from fairway.cli.machines import tables
from fairway.cli.machines.objects import STORIES, read_objects
from fairway.cli.machines.settings import load_settings
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.text import say
from fairway.hosts.instant import to_micros
from fairway.whatif.machines.world import ClusterObjects, machine_state
from fairway.workloads.machines.machine import VIRTUAL_MACHINE
from fairway.workloads.machines.migration_story import Story, story_in_event, story_of
from kubewire.api.event import CoreEvent

NONE: Final = "No migrations."


def migrations(running: bool, vm: str, timeline: bool | None, output: OutputFormat, **inputs: Any) -> int:
    now = to_micros(datetime.now(UTC))
    shown = [
        story
        for story in stories(read_objects(STORIES, **inputs))
        if not (running and story.ended) and vm in ("", story.vm, f"{story.namespace}/{story.vm}")
    ]
    if output != "table":
        emit([], columns={}, output=output, document=[tables.story_document(story) for story in shown])
        return EXIT_OK
    if not shown:
        say(NONE)
        return EXIT_OK
    emit(tables.story_rows(shown, now=now), columns=tables.story_columns(shown))
    if timeline or (timeline is None and len(shown) <= MOST_TIMELINES):
        for story in shown:
            say(f"\n{story.id}")
            for line in tables.timeline(story, now=now):
                say(f"  {line}")
    return EXIT_OK


MOST_TIMELINES: Final = 5


def stories(objects: list[Any]) -> list[Story]:
    """Return all migrations, the newest first: those with a record, and those that only events mention."""
    now = to_micros(datetime.now(UTC))
    cluster = ClusterObjects.of(objects)
    state, known = machine_state(cluster, load_settings(None), now=now)
    names = {key: entry.machine.vm for key, entry in state.table.machines.items()}
    by_key: dict[tuple[str, str, str], Story] = {}
    for event in objects:
        story = story_in_event(event) if isinstance(event, CoreEvent) else None
        if story is not None:
            key = (story.kind, story.namespace, story.id)
            if key not in by_key or len(by_key[key].steps) < len(story.steps):
                by_key[key] = story
    for record in known.records():
        namespace, copied = record.source.namespace, None
        moving = cluster.migrations.get((namespace, record.id))
        if record.kind == VIRTUAL_MACHINE and moving is not None:
            copied = moving.status.info.ram.transferred
        by_key[record.kind, namespace, record.id] = story_of(record, names=names, copied=copied)
    return sorted(by_key.values(), key=lambda story: (-story.started, story.id))
