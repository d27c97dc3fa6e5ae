"""`fairway replay`: decide recorded decisions again."""

import tempfile
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click

from fairway.api.placement import Placement
from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError
from fairway.cli.files.loader import load
from fairway.cli.history.run import warn
from fairway.cli.history.times import open_archive, time_of
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.scheduling import load_scheduling
from fairway.cli.text import say
from fairway.engine.profile import Profile
from fairway.history import PLACEMENT
from fairway.history.archive import Archive, NoHistoryError, Stored
from fairway.history.replay import Replayer, ReplayError
from fairway.hosts.instant import to_micros

WHICH: Final = "name a record by its ID, or replay all with --all"
ONLY_WITH_ALL: Final = "--name and --since require --all"
LARGEST: Final = 16 << 20
"""Bytes of the file of --placement."""
ONE_PLACEMENT: Final = "{path}: expected one Placement; it has {count}"
COLUMNS: Final = {"at": "Time", "name": "Placement", "result": "Result", "id": "ID", "note": "Note"}
SAME, DIFFERS, UNKNOWN = "same", "differs", "unknown"
SUMMARY: Final = "{same} of {count} the same, {differs} differ, {unknown} cannot be decided"
OUTDATED: Final = "not recorded with it: {names}"
OTHER_VERSION: Final = "decided by Fairway {version}"


class Profiles:
    """The profiles of the files of a history, each loaded once."""

    def __init__(self, given: Path | None = None) -> None:
        self._given = None if given is None else load_scheduling(given).profile
        self._known: dict[str, Profile] = {}

    def of(self, stored: Stored) -> Profile:
        """Raises ReplayError, and InputProblemsError for a recorded configuration that cannot be loaded any more."""
        if self._given is not None:
            return self._given
        text = stored.profile
        if text not in self._known:
            self._known[text] = _load(text)
        return self._known[text]


def _load(text: str) -> Profile:
    if not text:
        return load_scheduling(None).profile
    with tempfile.TemporaryDirectory(prefix="fairway-profile-") as folder:
        path = Path(folder, "recorded-scheduler-config.yaml")
        path.write_text(text, encoding="utf-8")
        return load_scheduling(path, beside_pods=True).profile


def replay(
    record: str | None,
    everything: bool,
    name: str | None,
    since: datetime | None,
    placement: Path | None,
    scheduler_config: Path | None,
    folder: Path,
    output: OutputFormat,
) -> int:
    if (record is None) != everything:
        raise click.UsageError(WHICH)
    if record is not None and (name is not None or since is not None):
        raise click.UsageError(ONLY_WITH_ALL)
    given = None if placement is None else _placement(placement)
    profiles = Profiles(scheduler_config)
    with open_archive(folder) as archive:
        replayer = Replayer()
        rows = [
            _row(stored, replayer, profiles, given, exact=given is None and scheduler_config is None)
            for stored in _asked(archive, record, name, since)
        ]
        counts = {state: sum(row["result"] == state for row in rows) for state in (SAME, DIFFERS, UNKNOWN)}
        if output == "table":
            emit(rows, columns=COLUMNS)
            say(SUMMARY.format(count=len(rows), **counts))
        else:
            document = {"replays": rows, **counts, "warnings": archive.warnings}
            emit([], columns={}, output=output, document=document)
        warn(archive)
    return EXIT_OK if counts[SAME] == len(rows) else EXIT_NO


def _row(
    stored: Stored, replayer: Replayer, profiles: Profiles, given: Placement | None, *, exact: bool
) -> dict[str, Any]:
    record = stored.record
    row: dict[str, Any] = {"at": time_of(record.at), "name": record.key, "id": record.id}
    try:
        replayed = replayer.replay(stored, profile=profiles.of(stored), placement=given)
    except ReplayError as error:
        return {**row, "result": UNKNOWN, "selected": None, "note": str(error)}
    selected = replayed.selected
    notes = []
    same = replayed.same if exact else set(selected) == set(record.after)
    if not same:
        notes.append(_difference(record.after, selected) or "other scores, reasons or pages")
    if replayed.missing:
        notes.append(OUTDATED.format(names=", ".join(replayed.missing)))
    return {
        **row,
        "result": SAME if same else DIFFERS,
        "selected": list(selected),
        "note": "; ".join(notes),
    }


def _difference(before: Iterable[str], after: Iterable[str]) -> str:
    old, new = set(before), set(after)
    return " ".join(
        [*(f"+{name}" for name in sorted(new - old)), *(f"-{name}" for name in sorted(old - new))]
    )


def _asked(
    archive: Archive, record: str | None, name: str | None, since: datetime | None
) -> Iterable[Stored]:
    if record is not None:
        try:
            return [archive.find(record)]
        except NoHistoryError as error:
            raise BadInputError(str(error)) from None
    namespace, slash, rest = (name or "").rpartition("/")
    records = archive.records(namespace=namespace, name=rest) if slash else archive.records()
    return (
        stored
        for stored in records
        if stored.record.kind == PLACEMENT and (since is None or stored.record.at >= to_micros(since))
    )


def _placement(path: Path) -> Placement:
    loaded = load((str(path),), max_file_size=LARGEST, expressions=True)
    placements = [item.object for item in loaded if isinstance(item.object, Placement)]
    if len(placements) != 1:
        raise BadInputError(ONE_PLACEMENT.format(path=path, count=len(placements)))
    return placements[0]
