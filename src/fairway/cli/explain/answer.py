"""The answer of `fairway explain`: what is asked, and how it is shown."""

from dataclasses import dataclass
from typing import Any

from fairway.cli.client.world import recorded, reported
from fairway.cli.errors import BadInputError
from fairway.cli.explain.document import document
from fairway.cli.explain.queue import queue_lines, waits
from fairway.cli.explain.text import lines
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.text import say
from fairway.whatif.explain import explain as explanation_of
from fairway.whatif.names import UnknownNameError, find_cluster, find_placement
from fairway.whatif.world import Key, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    name: str
    cluster: str | None
    everything: bool
    output: OutputFormat


def find(world: World, asked: Question, *, namespace: str = "") -> tuple[Key, str | None]:
    """Find the placement and the cluster. ``namespace`` is tried first. Raises BadInputError."""
    try:
        key = (namespace, asked.name)
        if key not in world.placements:
            key = find_placement(world, asked.name)
        return key, None if asked.cluster is None else find_cluster(world, asked.cluster)
    except UnknownNameError as error:
        raise BadInputError(str(error)) from None


def answer(
    world: World,
    key: Key,
    cluster: str | None,
    asked: Question,
    *,
    now: int,
    live: bool,
    queue: dict[str, Any] | None = None,
    about_queue: bool = False,
) -> str | dict[str, Any]:
    """Return text, or a document for -o yaml and json. ``about_queue``: whether ``queue`` was asked for."""
    explanation = explanation_of(world, key, now=now, cluster=cluster)
    before = recorded(world, key) if live else None
    if asked.output != "table":
        return {**document(explanation, recorded=before), "queue": queue}
    shown = about_queue and (asked.everything or waits(explanation, before, queue))
    state = tuple(queue_lines(queue, name="/".join(key))) if shown else ()
    report = reported(world, key) if live else ""
    return "\n".join(
        lines(
            explanation, everything=asked.everything, live=live, recorded=before, reported=report, queue=state
        )
    )


def show(shown: str | dict[str, Any], output: OutputFormat) -> None:
    if isinstance(shown, str):
        say(shown)
    else:
        emit([], columns={}, output=output, document=shown)
