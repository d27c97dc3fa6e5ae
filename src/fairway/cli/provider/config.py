"""Durations and the file of `--config` of `fairway provider run` and `fairway agent run`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from fairway.cli.errors import BadInputError
from fairway.cli.options.serving import cannot_listen
from fairway.controllers.serving.address import Address, CannotListen
from fairway.providers.document import Document, DocumentError, Seconds, read

NOT_OPTIONS: Final = "{path}: the options of a provider must be a mapping of names to values"


def duration(text: str | float) -> float | None:
    """Parse a duration. An empty text, as from an unset template variable, is None."""
    if not isinstance(text, str):
        return text
    if not text.strip():
        return None
    try:
        return float(Seconds.parse(float(text) if text.replace(".", "", 1).isdigit() else text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def read_options(path: Path) -> Document:
    """Read the file of `--config`. Raises BadInputError."""
    try:
        document = read(path)
    except DocumentError as error:
        raise BadInputError(str(error)) from None
    if not isinstance(document.value, dict):
        raise BadInputError(NOT_OPTIONS.format(path=path))
    return document


@contextmanager
def listening(*, health: Address | None, metrics: Address | None) -> Iterator[None]:
    """Raise failures to listen as BadInputErrors."""
    try:
        yield
    except CannotListen as error:
        raise cannot_listen(error, {"--health-address": health, "--metrics-address": metrics}) from None
