"""Input of commands that read objects: `-f`, `--hub`, and related options."""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from fairway.cli.client.session import HubChoice, NoHubError, hub_options, talk
from fairway.cli.errors import BadInputError
from fairway.cli.output import say

if TYPE_CHECKING:
    from fairway.cli.files.loader import LoadedObjects
    from fairway.kube import Resource

BAD_SIZE: Final = "{text!r} is not a size; write a number with KiB, MiB or GiB, for example 2GiB"
BAD_TIME: Final = "{text!r} is not a time; write for example 2026-01-01T00:00:00Z"
NO_PLACEMENTS: Final = "no Placement in the input; name a file with one with -f"
NO_PLACEMENTS_ON_HUB: Final = "hub {server} has no Placement; name a file with one with -f and --hub"
NO_INPUT: Final = (
    "no input: name files with -f, or a hub with --kubeconfig or KUBECONFIG; no kubeconfig was found"
)
PASSED_OVER: Final = "; ignored objects of other APIs: {kinds}"
IGNORED: Final = "fairway: ignored {count} {objects} of other kinds: {kinds}"
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


def load_files(
    files: tuple[str, ...], *, max_file_size: int, verbose: bool, expressions: bool = False
) -> "LoadedObjects":
    """Load the files of `-f`; with `-v`, report ignored objects. See `files.loader.load` for `expressions`."""
    from fairway.cli.files.loader import load

    loaded = load(files, max_file_size=max_file_size, expressions=expressions)
    if verbose and loaded.ignored:
        count = sum(loaded.ignored.values())
        objects = "object" if count == 1 else "objects"
        say(IGNORED.format(count=count, objects=objects, kinds=_kinds(loaded)), stream=sys.stderr)
    return loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """The input of a command. ``server`` is the hub's address, empty without a hub."""

    objects: "LoadedObjects"
    files: "LoadedObjects | None"
    """The objects of files; None without files."""
    server: str = ""
    namespace: str = ""
    """The namespace of the hub's context."""


def load_input(
    files: tuple[str, ...],
    *,
    max_file_size: int,
    verbose: bool,
    with_hub: bool,
    hub: HubChoice,
    expressions: bool = False,
    resources: "Sequence[Resource[Any]] | None" = None,
    debits: bool = False,
) -> Input:
    """Load files, or a hub, or a hub with files applied over it. ``resources``: those of placements by default.

    ``debits``: the profile has score debits for all placements.
    """
    loaded = None
    if files:
        loaded = load_files(files, max_file_size=max_file_size, verbose=verbose, expressions=expressions)
        if not with_hub and not hub.given:
            return Input(objects=loaded, files=loaded)
    from fairway.cli.client.objects import PLACING, read_hub
    from fairway.cli.client.overlay import over

    try:
        connection = hub.connection()
    except NoHubError:
        if loaded is None:
            raise BadInputError(NO_INPUT) from None
        raise
    kinds = PLACING if resources is None else resources
    found = talk(hub, lambda client: read_hub(client, kinds, debits=debits))
    return Input(
        objects=found if loaded is None else over(found, loaded),
        files=loaded,
        server=connection.server,
        namespace=connection.namespace,
    )


def no_placements(given: Input) -> BadInputError:
    """Return the error for an input without Placements, with the ignored kinds."""
    if given.server:
        return BadInputError(NO_PLACEMENTS_ON_HUB.format(server=given.server))
    passed_over = PASSED_OVER.format(kinds=_kinds(given.objects)) if given.objects.ignored else ""
    return BadInputError(f"{NO_PLACEMENTS}{passed_over}")


def _kinds(loaded: "LoadedObjects") -> str:
    return ", ".join(f"{kind} ({number})" for kind, number in sorted(loaded.ignored.items()))
