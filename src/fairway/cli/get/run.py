"""`fairway get`: list the objects of a hub, in clusteradm's columns where clusteradm has them."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

import click

from fairway.api.resources import MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS
from fairway.cli.client.names import NAMESPACES
from fairway.cli.client.objects import listed
from fairway.cli.client.session import talk, unknown
from fairway.cli.errors import EXIT_INTERRUPTED, EXIT_OK, BadInputError
from fairway.cli.get import listing, provider_listing
from fairway.cli.get.clusters import Clusters, ClusterSets, members
from fairway.cli.get.placements import Decisions, Placements
from fairway.cli.get.requests import Requests
from fairway.cli.get.scores import Scores
from fairway.cli.get.view import Make, Wanted
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from kubewire.api.selector import SelectorError
from kubewire.client import Client, Forbidden, NotFound, Resource
from kubewire.client.errors import BadRequest

NAMES_AND_LABELS: Final = "give either names or -l, not both"
ONE_OR_ALL: Final = "give either -n or -A, not both"
EVENTS_OF_WHAT: Final = "--output-watch-events requires --watch"
WATCH_AS_TABLE: Final = "--watch requires -o table or -o wide"
BAD_SELECTOR: Final = (
    "-l {given!r} is not a label selector: {reason}; write for example env=prod, 'env in (prod,stage)' "
    "or !edge"
)
BAD_SET: Final = "cluster set {name} has an invalid selector: {reason}"


def clusters(hub: HubChoice, clusterset: str | None, **asked: Any) -> int:
    return _get(Clusters, hub, everywhere=True, clusterset=clusterset, **asked)


def clustersets(hub: HubChoice, **asked: Any) -> int:
    return _get(ClusterSets, hub, everywhere=True, **asked)


def placements(hub: HubChoice, **asked: Any) -> int:
    return _get(Placements, hub, **asked)


def decisions(hub: HubChoice, **asked: Any) -> int:
    return _get(Decisions, hub, **asked)


def scores(hub: HubChoice, namespace: str | None, **asked: Any) -> int:
    return _get(Scores, hub, namespace=namespace, everywhere=namespace is None, cluster=namespace, **asked)


def hostedclusterrequests(hub: HubChoice, **asked: Any) -> int:
    return _get(Requests, hub, **asked)


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
    if cluster is not None and everywhere:
        raise click.UsageError(ONE_OR_ALL)
    if events and not watch:
        raise click.UsageError(EVENTS_OF_WHAT)
    if watch and output in ("yaml", "json"):
        raise click.UsageError(WATCH_AS_TABLE)

    async def work(client: Client) -> None:
        if cluster is not None:
            await _require_cluster(client, cluster)
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
    make: Make,
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
    cluster: str | None = None,
) -> int:
    if names and labels:
        raise click.UsageError(NAMES_AND_LABELS)
    if namespace is not None and everywhere:
        raise click.UsageError(ONE_OR_ALL)
    if events and not watch:
        raise click.UsageError(EVENTS_OF_WHAT)

    async def work(client: Client) -> None:
        if cluster is not None:
            await _require_cluster(client, cluster)
        where = None if everywhere else namespace or client.namespace
        selected = labels
        if clusterset is not None:
            selected = ",".join(filter(None, (labels, await _members(client, clusterset))))
        view = make(Wanted(names=names, namespace=where, labels=selected))
        try:
            if watch:
                await listing.watch(client, view, output, events=events)
            else:
                await listing.show(client, view, output)
        except BadRequest as error:
            if not labels:
                raise
            raise BadInputError(BAD_SELECTOR.format(given=labels, reason=error.message)) from None

    return _talk(hub, work, endless=watch)


def _talk(hub: HubChoice, work: Callable[[Client], Awaitable[None]], *, endless: bool) -> int:
    try:
        talk(hub, work)
    except KeyboardInterrupt:
        if not endless:
            raise
        return EXIT_INTERRUPTED  # the normal way to end a watch
    return EXIT_OK


async def _require_cluster(client: Client, name: str) -> None:
    """Raises BadInputError unless a cluster or a namespace has the name; scores may outlive their cluster."""
    kinds: tuple[Resource[Any], ...] = (MANAGED_CLUSTERS, NAMESPACES)
    for resource in kinds:
        try:
            await client.get(resource, name)
        except NotFound as error:
            if not error.details.name:
                raise
        except Forbidden:
            return  # whether it exists is unknown
        else:
            return
    clusters = await listed(client, MANAGED_CLUSTERS)
    raise unknown("cluster", name, [cluster.metadata.name for cluster in clusters])


async def _members(client: Client, name: str) -> str:
    sets = {
        cluster_set.metadata.name: cluster_set for cluster_set in await listed(client, MANAGED_CLUSTER_SETS)
    }
    cluster_set = sets.get(name)
    if cluster_set is None:
        raise unknown("cluster set", name, sets)
    try:
        return members(cluster_set)
    except SelectorError as error:
        raise BadInputError(BAD_SET.format(name=name, reason=error)) from None
