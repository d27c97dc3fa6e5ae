"""Declaration of `fairway clusterset`: its options and its help."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from fairway.cli.lazy import runs
from fairway.cli.options.dry_run import dry_run_option
from fairway.cli.options.hub import hub_options
from fairway.cli.options.names import complete
from fairway.cli.options.output import output_option

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _namespaces(command: _Command) -> _Command:
    option = click.option(
        "-n",
        "--namespace",
        "namespaces",
        multiple=True,
        metavar="NAME",
        shell_complete=complete("namespaces"),
        help="Namespaces, separated by commas. Can be repeated.  [default: the context's]",
    )
    return option(command)


_set_argument: Final = click.argument("name", metavar="SET", shell_complete=complete("clustersets"))


@click.group(
    short_help="Bind cluster sets to namespaces, and add clusters.",
    epilog="""\b
Examples:
  fairway clusterset bind default -n ns1
  fairway clusterset set apps --clusters c1,c2
  fairway clusterset unbind default -n ns1
  fairway get clustersets
""",
)
def clusterset() -> None:
    """Bind cluster sets to namespaces, and add clusters to them."""


@clusterset.command(
    short_help="Let the placements of a namespace use a set.",
    epilog="""\b
Examples:
  fairway clusterset bind default -n ns1
  fairway clusterset bind apps -n ns1,ns2 --dry-run
""",
)
@_set_argument
@_namespaces
@dry_run_option
@output_option
@hub_options
@runs("fairway.cli.clusterset:bind")
def bind() -> None:
    """Let the placements of a namespace select clusters of a set."""


@clusterset.command(
    short_help="Remove the binding of a set to a namespace.",
    epilog="""\b
Examples:
  fairway clusterset unbind default -n ns1
""",
)
@_set_argument
@_namespaces
@dry_run_option
@output_option
@hub_options
@runs("fairway.cli.clusterset:unbind")
def unbind() -> None:
    """Remove the binding of a set to a namespace. Its placements lose the clusters of the set.

    This also works for a set that was deleted.
    """


@clusterset.command(
    "set",
    short_help="Add clusters to a set.",
    epilog="""\b
Examples:
  fairway clusterset set apps --clusters c1,c2
  fairway clusterset set apps --clusters c1 --clusters c2 --dry-run

\b
A cluster belongs to one such set at a time; adding it to another removes it from the first.
""",
)
@_set_argument
@click.option(
    "--clusters",
    multiple=True,
    metavar="NAMES",
    shell_complete=complete("clusters"),
    help="Clusters, separated by commas. Can be repeated.",
)
@dry_run_option
@output_option
@hub_options
@runs("fairway.cli.clusterset:fill")
def fill() -> None:
    """Add clusters to a set."""
