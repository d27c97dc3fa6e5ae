"""`fairway clusterset`: bind cluster sets to namespaces, and add clusters to them.

All names are checked before anything is written, so that a misspelt name changes nothing.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from fairway.cli.client.session import HubChoice, hub_options, talk, unknown
from fairway.cli.completion import complete
from fairway.cli.errors import EXIT_OK, BadInputError
from fairway.cli.output import say

if TYPE_CHECKING:
    from fairway.kube import Client

BOUND: Final = "set {name} bound to namespace {namespace}"
ALREADY_BOUND: Final = "set {name} already bound to namespace {namespace}"
UNBOUND: Final = "set {name} unbound from namespace {namespace}"
NOT_BOUND: Final = "set {name} is not bound to namespace {namespace}"
ADDED: Final = "cluster {cluster} added to set {name}"
MOVED: Final = "cluster {cluster} moved from set {before} to set {name}"
ALREADY_IN: Final = "cluster {cluster} already in set {name}"
DRY_RUN: Final = " (dry run)"

CLUSTER_NAMESPACE: Final = (
    "namespace {name} belongs to the cluster of that name, whose agent can read it; bind another namespace"
)
SELECTS: Final = (
    "set {name} selects clusters by label ({selector}), so clusters cannot be added by name; "
    "label the clusters to match the selector"
)
NO_CLUSTERS: Final = "no cluster named; for example: --clusters a,b"
EMPTY_NAME: Final = "{option}: empty name"

_Command = TypeVar("_Command", bound=Callable[..., Any])


def names_in(texts: Iterable[str], *, option: str) -> list[str]:
    """Split names at commas and drop duplicates. Raises click's usage error for an empty name."""
    names = [name.strip() for text in texts for name in text.split(",")]
    if not all(names):
        raise click.UsageError(EMPTY_NAME.format(option=option))
    return list(dict.fromkeys(names))


dry_run_option: Final = click.option(
    "--dry-run", is_flag=True, help="Send dry-run requests and write nothing."
)


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
@hub_options
def bind(name: str, namespaces: tuple[str, ...], dry_run: bool, hub: HubChoice) -> int:
    """Let the placements of a namespace select clusters of a set."""

    async def work(client: "Client") -> None:
        from fairway.cli.client.names import NAMESPACES
        from fairway.cli.client.objects import listed
        from fairway.kube import MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS

        wanted = names_in(namespaces, option="-n") or [client.namespace]
        sets = {each.metadata.name for each in await listed(client, MANAGED_CLUSTER_SETS)}
        if name not in sets:
            raise unknown("cluster set", name, sets)
        there = {each.metadata.name for each in await listed(client, NAMESPACES)}
        clusters = {each.metadata.name for each in await listed(client, MANAGED_CLUSTERS)}
        for each in wanted:
            if each not in there:
                raise unknown("namespace", each, there)
            if each in clusters:
                raise BadInputError(CLUSTER_NAMESPACE.format(name=each))
        for each in wanted:
            done = await _bind(client, name, each, dry_run=dry_run)
            _report(BOUND if done else ALREADY_BOUND, dry_run=done and dry_run, name=name, namespace=each)

    talk(hub, work)
    return EXIT_OK


async def _bind(client: "Client", name: str, namespace: str, *, dry_run: bool) -> bool:
    from fairway.kube import MANAGED_CLUSTER_SET_BINDINGS, AlreadyExists

    body = {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterSet": name}}
    try:
        await client.create(MANAGED_CLUSTER_SET_BINDINGS, body, namespace=namespace, dry_run=dry_run)
    except AlreadyExists:
        return False
    return True


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
@hub_options
def unbind(name: str, namespaces: tuple[str, ...], dry_run: bool, hub: HubChoice) -> int:
    """Remove the binding of a set to a namespace. Its placements lose the clusters of the set.

    This also works for a set that was deleted.
    """

    async def work(client: "Client") -> None:
        from fairway.cli.client.objects import listed
        from fairway.kube import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, NotFound

        wanted = names_in(namespaces, option="-n") or [client.namespace]
        bound = {
            (each.metadata.namespace, each.metadata.name)
            for each in await listed(client, MANAGED_CLUSTER_SET_BINDINGS)
        }
        if name not in {known for _, known in bound}:
            sets = {each.metadata.name for each in await listed(client, MANAGED_CLUSTER_SETS)}
            if name not in sets:
                raise unknown("cluster set", name, sets)
        for each in wanted:
            done = (each, name) in bound
            if done:
                try:
                    await client.delete(MANAGED_CLUSTER_SET_BINDINGS, name, namespace=each, dry_run=dry_run)
                except NotFound:
                    done = False
            _report(UNBOUND if done else NOT_BOUND, dry_run=done and dry_run, name=name, namespace=each)

    talk(hub, work)
    return EXIT_OK


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
@hub_options
def fill(name: str, clusters: tuple[str, ...], dry_run: bool, hub: HubChoice) -> int:
    """Add clusters to a set."""
    wanted = names_in(clusters, option="--clusters")
    if not wanted:
        raise click.UsageError(NO_CLUSTERS)

    async def work(client: "Client") -> None:
        from fairway.api.cluster import CLUSTER_SET_LABEL
        from fairway.api.clusterset import LABEL_SELECTOR
        from fairway.cli.client.objects import listed
        from fairway.cli.get.clusters import members
        from fairway.kube import MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS, Patch

        sets = {each.metadata.name: each for each in await listed(client, MANAGED_CLUSTER_SETS)}
        if name not in sets:
            raise unknown("cluster set", name, sets)
        if sets[name].spec.clusterSelector.selectorType == LABEL_SELECTOR:
            selector = members(sets[name]) or "all clusters"
            raise BadInputError(SELECTS.format(name=name, selector=selector))
        there = {each.metadata.name: each for each in await listed(client, MANAGED_CLUSTERS)}
        for each in wanted:
            if each not in there:
                raise unknown("cluster", each, there)
        for each in wanted:
            before = there[each].metadata.labels.get(CLUSTER_SET_LABEL, "")
            if before == name:
                _report(ALREADY_IN, cluster=each, name=name)
                continue
            # With the uid: a new cluster of the same name may belong to another owner.
            metadata = {"uid": there[each].metadata.uid, "labels": {CLUSTER_SET_LABEL: name}}
            await client.patch(
                MANAGED_CLUSTERS, each, {"metadata": metadata}, kind=Patch.MERGE, dry_run=dry_run
            )
            _report(MOVED if before else ADDED, dry_run=dry_run, cluster=each, name=name, before=before)

    talk(hub, work)
    return EXIT_OK


def _report(text: str, *, dry_run: bool = False, **parts: str) -> None:
    say(text.format(**parts) + (DRY_RUN if dry_run else ""))
