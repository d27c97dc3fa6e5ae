"""Times and folders of the commands that read the history."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click

from fairway.cli.errors import BadInputError
from fairway.cli.options.input import moment
from fairway.history.archive import Archive, NoHistoryError
from fairway.hosts.instant import Micros, from_micros
from fairway.providers.document import Seconds
from kubewire.api.meta import format_time

SUBFOLDER: Final = "history"
"""Of the data folder of `fairway up`."""
BAD_SINCE: Final = "{text!r} is neither a time nor a duration; write for example 2026-01-01T00:00:00Z or 2d"


def since(text: str | datetime) -> datetime:
    """Parse a time, or a duration before now."""
    if isinstance(text, datetime):
        return text
    try:
        return datetime.now(UTC) - timedelta(seconds=Seconds.parse(text))
    except (ValueError, OverflowError):
        pass
    try:
        return moment(text)
    except click.BadParameter:
        raise click.BadParameter(BAD_SINCE.format(text=text)) from None


def open_archive(folder: Path) -> Archive:
    """Raises BadInputError."""
    inner = folder / SUBFOLDER
    try:
        return Archive.open(inner if inner.is_dir() else folder)
    except NoHistoryError as error:
        raise BadInputError(str(error)) from None


def time_of(at: Micros) -> str:
    return format_time(from_micros(at).replace(microsecond=0))
