"""Declaration of `fairway get`: its options and its help."""

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import click

from fairway.cli.lazy import runs
from fairway.cli.options.hub import hub_options
from fairway.cli.options.names import Kind, complete
from fairway.cli.options.output import FORMATS, note_wide, output_option
from fairway.cli.resource_names import ALIASES, NAMES, resource_of, separate_names

NO_SUCH_KIND: Final = "No such kind {word!r}{hint}"
BAD_NAMESPACE: Final = (
    "{text!r} is not a valid namespace name; use lower-case letters, digits and '-', at most 63 characters"
)
_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_Command = TypeVar("_Command", bound=Callable[..., Any])


class KindGroup(click.Group):
    """Accepts kubectl's names of the kinds: singular, plural, short and full."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, resource_of(cmd_name) or cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        args = separate_names(args)
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = get_close_matches(args[0].partition("/")[0].lower(), NAMES, n=1)
            hint = f". Did you mean {near[0]!r}?" if near else f"; known: {', '.join(ALIASES)}."
            ctx.fail(NO_SUCH_KIND.format(word=args[0], hint=hint))
        return super().resolve_command(ctx, args)


def namespace_name(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    if text is not None and not _NAMESPACE.fullmatch(text):
        raise click.BadParameter(BAD_NAMESPACE.format(text=text))
    return text


def _namespaced(command: _Command) -> _Command:
    for option in (
        click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="List all namespaces."),
        click.option(
            "-n",
            "--namespace",
            metavar="NAME",
            callback=namespace_name,
            shell_complete=complete("namespaces"),
            help="Namespace to list.  [default: the context's]",
        ),
    ):
        command = option(command)
    return command


def _getting(kind: Kind) -> Callable[[_Command], _Command]:
    """Add the names argument and the options of all kinds."""

    def decorate(command: _Command) -> _Command:
        for option in (
            hub_options,
            output_option,
            click.option(
                "--output-watch-events",
                "events",
                is_flag=True,
                help="With --watch, show for each row whether it was ADDED, MODIFIED or DELETED.",
            ),
            click.option("-w", "--watch", is_flag=True, help="Keep running and show changes."),
            click.option(
                "-l",
                "--selector",
                "labels",
                default="",
                metavar="SELECTOR",
                help="Only objects with these labels.",
            ),
            click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete(kind)),
        ):
            command = option(command)
        return command

    return decorate


@click.group(
    cls=KindGroup,
    short_help="List clusters, sets, placements, decisions, scores and providers.",
    epilog="""\b
Examples:
  fairway get clusters
  fairway get placements -n ns1
  fairway get scores --cluster apps-fra
  fairway get decisions -A --watch
  fairway get providers

\b
kubectl's names work, too, singular or plural: managedclusters, mcl, placementdecision, placement/NAME, ...
""",
)
def get() -> None:
    """List objects of a hub."""


@get.command(
    "clusters",
    short_help="List clusters with their set, capacity and version.",
    epilog="""\b
Examples:
  fairway get clusters
  fairway get clusters --clusterset apps
  fairway get clusters -l region=eu --watch
  fairway get cluster apps-fra -o yaml

\b
CPU and MEMORY are the capacity of all nodes. AVAILABLE is empty until the cluster has reported.
""",
)
@click.option(
    "--clusterset",
    metavar="NAME",
    shell_complete=complete("clustersets"),
    help="List only members of this set, including sets that select by label.",
)
@_getting("clusters")
@runs("fairway.cli.get.run:clusters")
def clusters() -> None:
    """List clusters."""


@get.command(
    "clustersets",
    short_help="List cluster sets and the namespaces they are bound to.",
    epilog="""\b
Examples:
  fairway get clustersets
  fairway get clustersets default global -o json
""",
)
@_getting("clustersets")
@runs("fairway.cli.get.run:clustersets")
def clustersets() -> None:
    """List cluster sets."""


@get.command(
    "placements",
    short_help="List placements, whether they are satisfied, and their clusters.",
    epilog="""\b
Examples:
  fairway get placements
  fairway get placements -A
  fairway get placement ns1/most-free-cpu -o yaml
  fairway get placements -n ns1 --watch

\b
To see the reasons: fairway explain placement NS/NAME
""",
)
@_namespaced
@_getting("placements")
@runs("fairway.cli.get.run:placements")
def placements() -> None:
    """List placements."""


@get.command(
    "decisions",
    short_help="List selected clusters with score and reason.",
    epilog="""\b
Examples:
  fairway get decisions
  fairway get decisions most-free-cpu -n ns1
  fairway get decisions -A --watch

\b
NAME is a placement, or one of its PlacementDecisions. With --watch, every change is shown with its time and its cause.
""",
)
@_namespaced
@_getting("placements")
@runs("fairway.cli.get.run:decisions")
def decisions() -> None:
    """List decisions, one row for each selected cluster."""


@get.command(
    "scores",
    short_help="List published scores and until when they are valid.",
    epilog="""\b
Examples:
  fairway get scores
  fairway get scores --cluster apps-fra
  fairway get scores resource-usage-score --watch

\b
NAME is an AddOnPlacementScore or a ManagedClusterScore. With --watch, a score is also shown when it expires.
""",
)
@click.option(
    "-n",
    "--namespace",
    "--cluster",
    "namespace",
    metavar="NAME",
    callback=namespace_name,
    shell_complete=complete("clusters"),
    help="List only this cluster.  [default: all]",
)
@_getting("scores")
@runs("fairway.cli.get.run:scores")
def scores() -> None:
    """List scores."""


@get.command(
    "hostedclusterrequests",
    short_help="List requests of hosted clusters, and where they are hosted.",
    epilog="""\b
Examples:
  fairway get hostedclusterrequests -A
  fairway get hostedclusterrequests -n default --watch

\b
REASON and MESSAGE are those of the first condition that is not True, or else of the last step that is done.
To see more: fairway hosting explain NAMESPACE/NAME
""",
)
@_namespaced
@_getting("hostedclusterrequests")
@runs("fairway.cli.get.run:hostedclusterrequests")
def hostedclusterrequests() -> None:
    """List HostedClusterRequests."""


@get.command(
    "providers",
    short_help="List score providers and the state of their scores.",
    epilog="""\b
Examples:
  fairway get providers
  fairway get providers resource-usage
  fairway get providers --cluster apps-fra
  fairway get providers --resource resource-usage-score -o json
  fairway get providers --watch

\b
CLUSTERS is the number of clusters with the score, of all clusters. A score is
  fresh     valid, and its provider reports no failure
  expired   past its validUntil: it counts as missing
  failing   still valid, but its provider reports that it could not renew it
  silent    marked silent by the scores controller (-o wide)
  empty     an object without scores (-o wide)
  endless   without validUntil: a dead publisher would go unnoticed (-o wide)
or missing. OLDEST is the age of the oldest last write. PROBLEM describes the most severe problem; with NAME or
--cluster, every cluster has its own row.

\b
NAME is a provider, or the score object or calculator that it publishes. A provider without a label has the name of the
field manager that writes the objects.
""",
)
@click.option(
    "--resource", default="", metavar="NAME", help="List only score objects, or the calculator, of this name."
)
@click.option(
    "-n",
    "--cluster",
    "--namespace",
    "cluster",
    metavar="NAME",
    callback=namespace_name,
    shell_complete=complete("clusters"),
    help="List only this cluster.  [default: all]",
)
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="List all clusters (the default).")
@click.option("-w", "--watch", is_flag=True, help="Keep running and show changes.")
@click.option(
    "--output-watch-events",
    "events",
    is_flag=True,
    help="With --watch, show for each row whether it was ADDED, MODIFIED or DELETED.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(FORMATS),
    callback=note_wide,
    default="table",
    show_default=True,
    help="Output format.",
)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete("scores"))
@hub_options
@runs("fairway.cli.get.run:providers")
def providers() -> None:
    """List score providers and the state of their scores."""
