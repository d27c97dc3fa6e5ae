"""`fairway history`: list recorded decisions."""

import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from fairway.cli.errors import EXIT_NO, EXIT_OK
from fairway.cli.history.documents import COLUMNS, LESS, document_of, gap_document, gap_line, row_of
from fairway.cli.history.times import open_archive
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.text import say
from fairway.history.archive import Archive, Stored
from fairway.hosts.instant import to_micros

NONE: Final = "No decisions are recorded."


def history(
    name: str | None,
    since: datetime | None,
    cluster: str | None,
    kind: str | None,
    folder: Path,
    output: OutputFormat,
) -> int:
    with open_archive(folder) as archive:
        shown = [
            stored
            for stored in _asked(archive, name)
            if (since is None or stored.record.at >= to_micros(since))
            and (cluster is None or cluster in stored.record.added or cluster in stored.record.removed)
            and (kind is None or stored.record.kind == kind)
        ]
        gaps = [gap for gap in archive.gaps() if since is None or gap.until >= to_micros(since)]
        if output != "table":
            document = {
                "records": [document_of(stored) for stored in shown],
                "gaps": [gap_document(gap) for gap in gaps],
                "warnings": archive.warnings,
            }
            emit([], columns={}, output=output, document=document)
        elif shown:
            emit([row_of(stored) for stored in shown], columns=COLUMNS, less=LESS)
        else:
            say(NONE)
        if output == "table":
            for gap in gaps:
                say(f"fairway: {gap_line(gap)}", stream=sys.stderr)
            warn(archive)
    return EXIT_OK if shown else EXIT_NO


def warn(archive: Archive) -> None:
    for warning in archive.warnings:
        say(f"fairway: {warning}", stream=sys.stderr)


def _asked(archive: Archive, name: str | None) -> Iterator[Stored]:
    if name is None:
        return archive.records()
    namespace, slash, rest = name.rpartition("/")
    return archive.records(namespace=namespace, name=rest) if slash else archive.records(record_id=name)
