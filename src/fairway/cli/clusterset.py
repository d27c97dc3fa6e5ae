"""`fairway clusterset`: bind cluster sets to namespaces, and add clusters to them.

All names are checked before anything is written, so that a misspelt name changes nothing.
"""

from collections.abc import Iterable
from typing import Final

import click

from fairway.api.cluster import CLUSTER_SET_LABEL
from fairway.api.clusterset import LABEL_SELECTOR
from fairway.api.resources import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS
from fairway.cli.client.names import NAMESPACES
from fairway.cli.client.objects import listed
from fairway.cli.client.session import talk, unknown
from fairway.cli.errors import EXIT_OK, BadInputError
from fairway.cli.get.clusters import members
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.report import ChangeReport
from kubewire.client import AlreadyExists, Client, NotFound, Patch

BOUND: Final = "set {name} bound to namespace {namespace}"
ALREADY_BOUND: Final = "set {name} already bound to namespace {namespace}"
UNBOUND: Final = "set {name} unbound from namespace {namespace}"
NOT_BOUND: Final = "set {name} is not bound to namespace {namespace}"
ADDED: Final = "cluster {cluster} added to set {name}"
MOVED: Final = "cluster {cluster} moved from set {before} to set {name}"
ALREADY_IN: Final = "cluster {cluster} already in set {name}"
UNCHANGED: Final = "unchanged"
CLUSTER_NAMESPACE: Final = (
    "namespace {name} belongs to the cluster of that name, whose agent can read it; bind another namespace"
)
SELECTS: Final = (
    "set {name} selects clusters by label ({selector}), so clusters cannot be added by name; "
    "label the clusters to match the selector"
)
NO_CLUSTERS: Final = "no cluster named; for example: --clusters a,b"
EMPTY_NAME: Final = "{option}: empty name; separate names by one comma"


def names_in(texts: Iterable[str], *, option: str) -> list[str]:
    """Split names at commas and drop duplicates. Raises click's usage error for an empty name."""
    names = [name.strip() for text in texts for name in text.split(",")]
    if not all(names):
        raise click.UsageError(EMPTY_NAME.format(option=option))
    return list(dict.fromkeys(names))


def bind(name: str, namespaces: tuple[str, ...], dry_run: bool, output: OutputFormat, hub: HubChoice) -> int:
    async def work(client: Client) -> None:
        wanted = names_in(namespaces, option="-n") or [client.namespace]
        sets = {cluster_set.metadata.name for cluster_set in await listed(client, MANAGED_CLUSTER_SETS)}
        if name not in sets:
            raise unknown("cluster set", name, sets)
        there = {namespace.metadata.name for namespace in await listed(client, NAMESPACES)}
        clusters = {cluster.metadata.name for cluster in await listed(client, MANAGED_CLUSTERS)}
        for space in wanted:
            if space not in there:
                raise unknown("namespace", space, there)
            if space in clusters:
                raise BadInputError(CLUSTER_NAMESPACE.format(name=space))
        for space in wanted:
            done = await _bind(client, name, space, dry_run=dry_run)
            _report(report, BOUND if done else ALREADY_BOUND, name, space, result="created" if done else "")

    with ChangeReport(output, dry_run=dry_run) as report:
        talk(hub, work)
    return EXIT_OK


async def _bind(client: Client, name: str, namespace: str, *, dry_run: bool) -> bool:
    body = {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterSet": name}}
    try:
        await client.create(MANAGED_CLUSTER_SET_BINDINGS, body, namespace=namespace, dry_run=dry_run)
    except AlreadyExists:
        return False
    return True


def unbind(
    name: str, namespaces: tuple[str, ...], dry_run: bool, output: OutputFormat, hub: HubChoice
) -> int:
    async def work(client: Client) -> None:
        wanted = names_in(namespaces, option="-n") or [client.namespace]
        bound = {
            (binding.metadata.namespace, binding.metadata.name)
            for binding in await listed(client, MANAGED_CLUSTER_SET_BINDINGS)
        }
        if name not in {known for _, known in bound}:
            sets = {cluster_set.metadata.name for cluster_set in await listed(client, MANAGED_CLUSTER_SETS)}
            if name not in sets:
                raise unknown("cluster set", name, sets)
        for space in wanted:
            done = (space, name) in bound
            if done:
                try:
                    await client.delete(MANAGED_CLUSTER_SET_BINDINGS, name, namespace=space, dry_run=dry_run)
                except NotFound:
                    done = False
            _report(report, UNBOUND if done else NOT_BOUND, name, space, result="deleted" if done else "")

    with ChangeReport(output, dry_run=dry_run) as report:
        talk(hub, work)
    return EXIT_OK


def fill(name: str, clusters: tuple[str, ...], dry_run: bool, output: OutputFormat, hub: HubChoice) -> int:
    wanted = names_in(clusters, option="--clusters")
    if not wanted:
        raise click.UsageError(NO_CLUSTERS)

    async def work(client: Client) -> None:
        sets = {
            cluster_set.metadata.name: cluster_set
            for cluster_set in await listed(client, MANAGED_CLUSTER_SETS)
        }
        if name not in sets:
            raise unknown("cluster set", name, sets)
        if sets[name].spec.clusterSelector.selectorType == LABEL_SELECTOR:
            selector = members(sets[name]) or "all clusters"
            raise BadInputError(SELECTS.format(name=name, selector=selector))
        there = {cluster.metadata.name: cluster for cluster in await listed(client, MANAGED_CLUSTERS)}
        for cluster in wanted:
            if cluster not in there:
                raise unknown("cluster", cluster, there)
        for cluster in wanted:
            before = there[cluster].metadata.labels.get(CLUSTER_SET_LABEL, "")
            if before == name:
                text = ALREADY_IN.format(cluster=cluster, name=name)
                report.add(text, kind="ManagedCluster", name=cluster, result=UNCHANGED, changed=False)
                continue
            # With the uid: a new cluster of the same name may belong to another owner.
            metadata = {"uid": there[cluster].metadata.uid, "labels": {CLUSTER_SET_LABEL: name}}
            await client.patch(
                MANAGED_CLUSTERS, cluster, {"metadata": metadata}, kind=Patch.MERGE, dry_run=dry_run
            )
            text = (MOVED if before else ADDED).format(cluster=cluster, name=name, before=before)
            report.add(text, kind="ManagedCluster", name=cluster, result="configured")

    with ChangeReport(output, dry_run=dry_run) as report:
        talk(hub, work)
    return EXIT_OK


def _report(report: ChangeReport, text: str, name: str, namespace: str, *, result: str) -> None:
    """ChangeReport a binding; an empty ``result`` if nothing was to be done."""
    report.add(
        text.format(name=name, namespace=namespace),
        kind="ManagedClusterSetBinding",
        name=name,
        namespace=namespace,
        result=result or UNCHANGED,
        changed=bool(result),
    )
