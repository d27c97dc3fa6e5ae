"""`fairway why`: explain a recorded decision."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from fairway.cli.client.world import Recorded
from fairway.cli.errors import EXIT_OK, BadInputError, NegativeAnswerError
from fairway.cli.explain.document import document
from fairway.cli.explain.text import lines
from fairway.cli.history.documents import document_of, story_of
from fairway.cli.history.replay import Profiles
from fairway.cli.history.run import warn
from fairway.cli.history.times import open_archive, time_of
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.text import cell, say
from fairway.history.archive import Archive, NoHistoryError, Stored
from fairway.history.replay import Replayer, ReplayError
from fairway.hosts.instant import to_micros
from fairway.whatif.explain import Explanation
from fairway.whatif.explain import explain as explanation_of
from fairway.whatif.names import UnknownNameError, find_cluster

NOT_RECORDED: Final = (
    "no decision of {name} is recorded at or before {at}; fairway history {name} lists those that are"
)
MOST_CELLS: Final = 8
SINCE: Final = "changed since the decision before, of the clusters at stake:"
ID_WITH_TIME: Final = "--at is for a placement; a record has its own time"
WITHOUT_INPUTS: Final = "Only its trace is known: {why}"


def why(
    name: str, at: datetime | None, cluster: str | None, everything: bool, folder: Path, output: OutputFormat
) -> int:
    with open_archive(folder) as archive:
        stored = _asked(archive, name, at)
        explanation, missing = _explain(stored, cluster)
        changed = [] if explanation is None else _changed(archive, stored)
        if output != "table":
            recorded = Recorded(clusters=tuple(stored.record.after), scores={}, at=None)
            shown = None if explanation is None else document(explanation, recorded=recorded)
            answer = {
                "changed": changed,
                "record": document_of(stored),
                "explanation": shown,
                "missing": missing,
            }
            emit([], columns={}, output=output, document=answer)
            return EXIT_OK
        for line in story_of(stored):
            say(line)
        if changed:
            say(SINCE)
            for line in changed if everything else changed[:MOST_CELLS]:
                say(f"  {cell(line)}")
        if explanation is None:
            say(WITHOUT_INPUTS.format(why=missing))
        else:
            say()
            for line in lines(explanation, everything=everything):
                say(line)
        warn(archive)
    return EXIT_OK


def _asked(archive: Archive, name: str, at: datetime | None) -> Stored:
    namespace, slash, rest = name.rpartition("/")
    if not slash:
        if at is not None:
            raise click.BadParameter(ID_WITH_TIME, param_hint="--at")
        try:
            return archive.find(name)
        except NoHistoryError as error:
            raise BadInputError(str(error)) from None
    moment = to_micros(at or datetime.now(UTC))
    stored = archive.held_at(namespace, rest, moment)
    if stored is None:
        warn(archive)
        raise NegativeAnswerError(NOT_RECORDED.format(name=name, at=time_of(moment)))
    return stored


def _changed(archive: Archive, stored: Stored) -> list[str]:
    """Return what changed since the decision before."""
    before = None
    record = stored.record
    for other in archive.records(namespace=record.namespace, name=record.name):
        if other.record.id == record.id:
            break
        if other.record.kind == record.kind and other.record.inputs is not None:
            before = other
    try:
        return [] if before is None else list(Replayer().changed_cells(before, stored))
    except ReplayError:
        return []


def _explain(stored: Stored, cluster: str | None) -> tuple[Explanation | None, str]:
    """Return the explanation, or None and why there is none."""
    try:
        world, key = Replayer().world(stored, profile=Profiles().of(stored))
    except ReplayError as error:
        return None, str(error)
    try:
        asked = None if cluster is None else find_cluster(world, cluster)
    except UnknownNameError as error:
        raise BadInputError(str(error)) from None
    return explanation_of(world, key, now=stored.record.at, cluster=asked), ""
