"""The `-f` every verb that reads objects has, and what belongs to it."""

import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from fairway.cli.errors import BadInputError
from fairway.cli.output import say

if TYPE_CHECKING:
    from fairway.cli.files import LoadedObjects

BAD_SIZE: Final = "{text!r} is not a size; write a number with KiB, MiB or GiB, such as 2GiB"
BAD_TIME: Final = "{text!r} is not a time; write it like 2026-01-01T00:00:00Z"
NO_PLACEMENTS: Final = "no Placement in the input; give a file that has one to -f"
PASSED_OVER: Final = "; passed over, as of other APIs, were {kinds}"
IGNORED: Final = "fairway: ignored {count} {objects} of kinds Fairway has no use for: {kinds}"
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?\s*\Z", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 10, "m": 20, "g": 30, "t": 40}

_Command = TypeVar("_Command", bound=Callable[..., Any])


def size(text: str | int) -> int:
    """A number of bytes; K, M, G and T count in 1024s, with or without the i."""
    if isinstance(text, int):
        return text
    match = _SIZE.match(text)
    if match is None:
        raise click.BadParameter(BAD_SIZE.format(text=text))
    number, unit = match.groups()
    return int(float(number) * (1 << _UNITS[unit[0].lower()] if unit else 1))


def moment(text: str | datetime) -> datetime:
    """A point in time; UTC unless the text says otherwise."""
    if isinstance(text, datetime):
        return text
    try:
        value = datetime.fromisoformat(text)
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, OverflowError):
        raise click.BadParameter(BAD_TIME.format(text=text)) from None


def files_options(command: _Command) -> _Command:
    """Adds `-f`, `--max-file-size` and `-v`; they arrive as `files`, `max_file_size` and `verbose`."""
    return _with_files(command, required=True)


def optional_files_options(command: _Command) -> _Command:
    """The same for a command that can do something without files; it calls `require_files` when it cannot."""
    return _with_files(command, required=False)


def require_files(files: tuple[str, ...]) -> None:
    """Complains as click does of a required option."""
    if not files:
        context = click.get_current_context()
        option = next(each for each in context.command.params if each.name == "files")
        raise click.MissingParameter(ctx=context, param=option)


def _with_files(command: _Command, *, required: bool) -> _Command:
    for option in (
        click.option("-v", "--verbose", is_flag=True, help="Also say what was ignored."),
        click.option(
            "--max-file-size",
            type=size,
            metavar="SIZE",
            default="512MiB",
            show_default=True,
            help="Refuse files larger than this.",
        ),
        click.option(
            "-f",
            "--file",
            "files",
            multiple=True,
            required=required,
            metavar="FILE|DIR",
            help="YAML or JSON with Kubernetes objects, plain or gzipped; a directory to search; - for "
            "standard input. May be given several times.",
        ),
    ):
        command = option(command)
    return command


def load_files(
    files: tuple[str, ...], *, max_file_size: int, verbose: bool, expressions: bool = False
) -> "LoadedObjects":
    """Load what `-f` named; with `-v` tells on stderr what was ignored. See `files.load` for `expressions`."""
    from fairway.cli.files import load

    loaded = load(files, max_file_size=max_file_size, expressions=expressions)
    if verbose and loaded.ignored:
        count = sum(loaded.ignored.values())
        objects = "object" if count == 1 else "objects"
        say(IGNORED.format(count=count, objects=objects, kinds=_kinds(loaded)), stream=sys.stderr)
    return loaded


def no_placements(loaded: "LoadedObjects") -> BadInputError:
    """The complaint of a verb that needs one; a Placement of another API may be why there is none."""
    passed_over = PASSED_OVER.format(kinds=_kinds(loaded)) if loaded.ignored else ""
    return BadInputError(f"{NO_PLACEMENTS}{passed_over}")


def _kinds(loaded: "LoadedObjects") -> str:
    return ", ".join(f"{kind} ({number})" for kind, number in sorted(loaded.ignored.items()))
