"""Input of commands that read objects: `-f`, `--hub`, and related options."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import click

from fairway.cli.options.hub import hub_options

BAD_SIZE: Final = "{text!r} is not a size; write a number with KiB, MiB or GiB, for example 2GiB"
BAD_TIME: Final = "{text!r} is not a time; write for example 2026-01-01T00:00:00Z"
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?\s*\Z", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 10, "m": 20, "g": 30, "t": 40}

_Command = TypeVar("_Command", bound=Callable[..., Any])


def size(text: str | int) -> int:
    """Parse a number of bytes; K, M, G and T are powers of 1,024, with or without the i."""
    if isinstance(text, int):
        return text
    match = _SIZE.match(text)
    if match is None:
        raise click.BadParameter(BAD_SIZE.format(text=text))
    number, unit = match.groups()
    return int(float(number) * (1 << _UNITS[unit[0].lower()] if unit else 1))


def moment(text: str | datetime) -> datetime:
    """Parse a time; UTC unless the text has an offset."""
    if isinstance(text, datetime):
        return text
    try:
        value = datetime.fromisoformat(text)
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, OverflowError):
        raise click.BadParameter(BAD_TIME.format(text=text)) from None


def files_options(command: _Command) -> _Command:
    """Add `-f`, `--max-file-size` and `-v`, passed as `files`, `max_file_size` and `verbose`."""
    return _with_files(command, required=True)


def changes_options(command: _Command) -> _Command:
    """The same, where files are one of several inputs."""
    return _with_files(command, required=False)


def input_options(command: _Command) -> _Command:
    """Add `-f` and its options, `--hub`, and the options that select a hub.

    They are passed as `files`, `max_file_size`, `verbose`, `with_hub` and `hub`. Must be the decorator next to the
    function.
    """
    flag = click.option(
        "--hub",
        "with_hub",
        is_flag=True,
        help="With -f, use the hub as it would be with the files applied; nothing is written. Implied by --kubeconfig "
        "and --context. Without -f, the hub is always used.",
    )
    return _with_files(flag(hub_options(command)), required=False)


def _with_files(command: _Command, *, required: bool) -> _Command:
    for option in (
        click.option("-v", "--verbose", is_flag=True, help="Also report ignored objects."),
        click.option(
            "--max-file-size",
            type=size,
            metavar="SIZE",
            default="512MiB",
            show_default=True,
            help="Reject larger files.",
        ),
        click.option(
            "-f",
            "--file",
            "files",
            multiple=True,
            required=required,
            metavar="FILE|DIR",
            help="YAML or JSON file with Kubernetes objects, plain or gzipped; a directory; - for "
            "standard input. Can be repeated.",
        ),
    ):
        command = option(command)
    return command
