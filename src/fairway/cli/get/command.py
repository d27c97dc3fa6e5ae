"""`fairway get`: what a hub has, as clusteradm shows it where clusteradm does."""

import re
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import click

from fairway.cli.client.session import HubChoice, hub_options, talk, unknown
from fairway.cli.completion import Kind, complete
from fairway.cli.errors import EXIT_INTERRUPTED, EXIT_OK, BadInputError
from fairway.cli.output import OutputFormat, output_option
from fairway.cli.resource_names import ALIASES, NAMES, resource_of, separate_names

if TYPE_CHECKING:
    from fairway.cli.get.view import Make
    from fairway.kube import Client

NAMES_AND_LABELS: Final = "give either names or -l, not both"
ONE_OR_ALL: Final = "give either -n or -A, not both"
EVENTS_OF_WHAT: Final = "--output-watch-events goes with --watch"
WATCH_AS_TABLE: Final = "--watch goes with -o table or -o wide"
BAD_SET: Final = "cluster set {name} has a selector that selects nothing: {reason}"
NO_SUCH_KIND: Final = "No such kind {word!r}{hint}"
BAD_NAMESPACE: Final = "{text!r} cannot be the name of a namespace"

_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")

_Command = TypeVar("_Command", bound=Callable[..., Any])


class KindGroup(click.Group):
    """Understands what kubectl calls these kinds, in one or many, short or in full."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, resource_of(cmd_name) or cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        args = separate_names(args)
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = get_close_matches(args[0].partition("/")[0].lower(), NAMES, n=1)
            hint = f". Did you mean {near[0]!r}?" if near else f"; there are {', '.join(ALIASES)}."
            ctx.fail(NO_SUCH_KIND.format(word=args[0], hint=hint))
        return super().resolve_command(ctx, args)


def namespace_name(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    if text is not None and not _NAMESPACE.fullmatch(text):
        raise click.BadParameter(BAD_NAMESPACE.format(text=text))
    return text


def _namespaced(command: _Command) -> _Command:
    for option in (
        click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Look in all namespaces."),
        click.option(
            "-n",
            "--namespace",
            metavar="NAME",
            callback=namespace_name,
            shell_complete=complete("namespaces"),
            help="Look in this namespace.  [default: the context's]",
        ),
    ):
        command = option(command)
    return command


def _getting(kind: Kind) -> Callable[[_Command], _Command]:
    """Names, and the options that all kinds have."""

    def decorate(command: _Command) -> _Command:
        for option in (
            hub_options,
            output_option,
            click.option(
                "--output-watch-events",
                "events",
                is_flag=True,
                help="Say of each whether it was ADDED, MODIFIED or DELETED; with --watch.",
            ),
            click.option("-w", "--watch", is_flag=True, help="Go on and show what changes."),
            click.option(
                "-l", "--selector", "labels", default="", metavar="SELECTOR", help="Only with these labels."
            ),
            click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete(kind)),
        ):
            command = option(command)
        return command

    return decorate


@click.group(
    cls=KindGroup,
    short_help="Show clusters, sets, placements, decisions, scores and who publishes them.",
    epilog="""\b
Examples:
  fairway get clusters
  fairway get placements -n ns1
  fairway get scores --cluster apps-fra
  fairway get decisions -A --watch
  fairway get providers

\b
kubectl's names work as well, in one or many: managedclusters, mcl, placementdecision, placement/NAME, ...
""",
)
def get() -> None:
    """Show what a hub has."""


@get.command(
    "clusters",
    short_help="Clusters, with their set, size and version.",
    epilog="""\b
Examples:
  fairway get clusters
  fairway get clusters --clusterset apps
  fairway get clusters -l region=eu --watch
  fairway get cluster apps-fra -o yaml

\b
CPU and MEMORY are what all nodes together have. AVAILABLE is empty until the hub has heard of the cluster.
""",
)
@click.option(
    "--clusterset",
    metavar="NAME",
    shell_complete=complete("clustersets"),
    help="Only members of this set, also of one that selects by labels.",
)
@_getting("clusters")
def clusters(hub: HubChoice, clusterset: str | None, **asked: Any) -> int:
    """Show clusters."""
    from fairway.cli.get.clusters import Clusters

    return _get(Clusters, hub, everywhere=True, clusterset=clusterset, **asked)


@get.command(
    "clustersets",
    short_help="Cluster sets, and the namespaces they are bound to.",
    epilog="""\b
Examples:
  fairway get clustersets
  fairway get clustersets default global -o json
""",
)
@_getting("clustersets")
def clustersets(hub: HubChoice, **asked: Any) -> int:
    """Show cluster sets."""
    from fairway.cli.get.clusters import ClusterSets

    return _get(ClusterSets, hub, everywhere=True, **asked)


@get.command(
    "placements",
    short_help="Placements, whether they are satisfied, and their clusters.",
    epilog="""\b
Examples:
  fairway get placements
  fairway get placements -A
  fairway get placement ns1/most-free-cpu -o yaml
  fairway get placements -n ns1 --watch

\b
fairway explain placement NS/NAME says why.
""",
)
@_namespaced
@_getting("placements")
def placements(hub: HubChoice, **asked: Any) -> int:
    """Show placements."""
    from fairway.cli.get.placements import Placements

    return _get(Placements, hub, **asked)


@get.command(
    "decisions",
    short_help="Which clusters were chosen, with score and reason.",
    epilog="""\b
Examples:
  fairway get decisions
  fairway get decisions most-free-cpu -n ns1
  fairway get decisions -A --watch

\b
NAME is a placement, or one of its PlacementDecisions.
""",
)
@_namespaced
@_getting("placements")
def decisions(hub: HubChoice, **asked: Any) -> int:
    """Show decisions, a line for each chosen cluster."""
    from fairway.cli.get.placements import Decisions

    return _get(Decisions, hub, **asked)


@get.command(
    "scores",
    short_help="Published scores of clusters, and until when they count.",
    epilog="""\b
Examples:
  fairway get scores
  fairway get scores --cluster apps-fra
  fairway get scores resource-usage-score --watch

\b
NAME is an AddOnPlacementScore, or a ManagedClusterScore. With --watch, a score that runs out is shown when it does.
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
    help="Only of this cluster.  [default: of all]",
)
@_getting("scores")
def scores(hub: HubChoice, namespace: str | None, **asked: Any) -> int:
    """Show scores."""
    from fairway.cli.get.scores import Scores

    return _get(Scores, hub, namespace=namespace, everywhere=namespace is None, **asked)


@get.command(
    "providers",
    short_help="Who publishes scores, how fresh they are, and why not.",
    epilog="""\b
Examples:
  fairway get providers
  fairway get providers resource-usage
  fairway get providers --cluster apps-fra
  fairway get providers --resource resource-usage-score -o json
  fairway get providers --watch

\b
CLUSTERS counts those that have the score, of all there are. Of these a score is
  fresh     valid, and its provider has nothing to complain of
  expired   past its validUntil: it counts as missing
  failing   still valid, but its provider says that it could not renew it
  silent    declared silent by the scores controller (-o wide)
  empty     without a single score (-o wide)
  endless   without validUntil: nobody can tell (-o wide)
and the rest are missing. OLDEST is the last write of the score that was written longest ago. PROBLEM tells of the
worst cluster; with NAME or --cluster, every cluster has a line of its own.

\b
NAME is a provider, or the score object or calculator it publishes. A provider that does not say its name is called
like whoever writes the objects.
""",
)
@click.option(
    "--resource", default="", metavar="NAME", help="Only of score objects, or the calculator, of this name."
)
@click.option(
    "-n",
    "--cluster",
    "--namespace",
    "cluster",
    metavar="NAME",
    callback=namespace_name,
    shell_complete=complete("clusters"),
    help="Only of this cluster.  [default: of all]",
)
@click.option(
    "-A", "--all-namespaces", "everywhere", is_flag=True, help="Of all clusters, which is the default."
)
@click.option("-w", "--watch", is_flag=True, help="Go on and show what changes.")
@click.option(
    "--output-watch-events",
    "events",
    is_flag=True,
    help="Say of each whether it was ADDED, MODIFIED or DELETED; with --watch.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(("table", "wide", "yaml", "json")),
    default="table",
    show_default=True,
    help="How to print the answer.",
)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete("scores"))
@hub_options
def providers(
    hub: HubChoice,
    names: tuple[str, ...],
    resource: str,
    cluster: str | None,
    everywhere: bool,
    watch: bool,
    events: bool,
    output: Literal["table", "wide", "yaml", "json"],
) -> int:
    """Show who publishes scores, and whether they can be relied on."""
    if cluster is not None and everywhere:
        raise click.UsageError(ONE_OR_ALL)
    if events and not watch:
        raise click.UsageError(EVENTS_OF_WHAT)
    if watch and output in ("yaml", "json"):
        raise click.UsageError(WATCH_AS_TABLE)

    async def work(client: "Client") -> None:
        from fairway.cli.get import provider_listing

        if watch:
            await provider_listing.watch(
                client,
                names=names,
                resource=resource,
                cluster=cluster or "",
                wide=output == "wide",
                events=events,
            )
        else:
            await provider_listing.show(
                client, names=names, resource=resource, cluster=cluster or "", output=output
            )

    return _talk(hub, work, endless=watch)


def _get(
    make: "Make",
    hub: HubChoice,
    *,
    names: tuple[str, ...],
    labels: str,
    watch: bool,
    events: bool,
    output: OutputFormat,
    namespace: str | None = None,
    everywhere: bool = False,
    clusterset: str | None = None,
) -> int:
    if names and labels:
        raise click.UsageError(NAMES_AND_LABELS)
    if namespace is not None and everywhere:
        raise click.UsageError(ONE_OR_ALL)
    if events and not watch:
        raise click.UsageError(EVENTS_OF_WHAT)

    async def work(client: "Client") -> None:
        from fairway.cli.get import listing
        from fairway.cli.get.view import Wanted

        where = None if everywhere else namespace or client.namespace
        selected = labels
        if clusterset is not None:
            selected = ",".join(filter(None, (labels, await _members(client, clusterset))))
        view = make(Wanted(names=names, namespace=where, labels=selected))
        if watch:
            await listing.watch(client, view, output, events=events)
        else:
            await listing.show(client, view, output)

    return _talk(hub, work, endless=watch)


def _talk(hub: HubChoice, work: "Callable[[Client], Awaitable[None]]", *, endless: bool) -> int:
    try:
        talk(hub, work)
    except KeyboardInterrupt:
        if not endless:
            raise
        return EXIT_INTERRUPTED  # there is no other way to end it, so nothing to complain of
    return EXIT_OK


async def _members(client: "Client", name: str) -> str:
    from fairway.api.selector import SelectorError
    from fairway.cli.client.objects import listed
    from fairway.cli.get.clusters import members
    from fairway.kube import MANAGED_CLUSTER_SETS

    sets = {each.metadata.name: each for each in await listed(client, MANAGED_CLUSTER_SETS)}
    found = sets.get(name)
    if found is None:
        raise unknown("cluster set", name, sets)
    try:
        return members(found)
    except SelectorError as error:
        raise BadInputError(BAD_SET.format(name=name, reason=error)) from None
