"""Load the input of commands that read objects: files, a hub, or a hub with files applied over it."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairway.cli.client.objects import PLACING, read_hub
from fairway.cli.client.overlay import over
from fairway.cli.client.session import NoHubError, connection_to, talk
from fairway.cli.errors import BadInputError
from fairway.cli.files.loader import LoadedObjects, load
from fairway.cli.options.hub import HubChoice
from fairway.cli.text import say
from kubewire.client import Resource

NO_PLACEMENTS: Final = "no Placement in the input; name a file with one with -f"
NO_PLACEMENTS_ON_HUB: Final = "hub {server} has no Placement; name a file with one with -f and --hub"
NO_INPUT: Final = (
    "no input: name files with -f, or a hub with --kubeconfig or KUBECONFIG; no kubeconfig was found"
)
PASSED_OVER: Final = "; ignored objects of other APIs: {kinds}"
IGNORED: Final = "fairway: ignored {count} {objects} of other kinds: {kinds}"


def load_files(
    files: tuple[str, ...], *, max_file_size: int, verbose: bool, expressions: bool = False
) -> LoadedObjects:
    """Load the files of `-f`; with `-v`, report ignored objects. See `files.loader.load` for `expressions`."""
    loaded = load(files, max_file_size=max_file_size, expressions=expressions)
    if verbose and loaded.ignored:
        count = sum(loaded.ignored.values())
        objects = "object" if count == 1 else "objects"
        say(IGNORED.format(count=count, objects=objects, kinds=_kinds(loaded)), stream=sys.stderr)
    return loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """The input of a command. ``server`` is the hub's address, empty without a hub."""

    objects: LoadedObjects
    files: LoadedObjects | None
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
    resources: Sequence[Resource[Any]] | None = None,
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
    try:
        connection = connection_to(hub)
    except NoHubError:
        if loaded is None:
            raise BadInputError(NO_INPUT) from None
        raise
    kinds = PLACING if resources is None else resources
    on_hub = talk(hub, lambda client: read_hub(client, kinds, debits=debits))
    return Input(
        objects=on_hub if loaded is None else over(on_hub, loaded),
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


def _kinds(loaded: LoadedObjects) -> str:
    return ", ".join(f"{kind} ({number})" for kind, number in sorted(loaded.ignored.items()))
