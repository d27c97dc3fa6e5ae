"""`fairway join forget`: release the ManifestWorks of a cluster that is lost."""

import sys
from typing import TYPE_CHECKING, Final

import click

from fairway.cli.client.session import NOTE, HubChoice, hub_options, talk, unknown
from fairway.cli.clusterset import DRY_RUN, dry_run_option
from fairway.cli.completion import complete
from fairway.cli.errors import EXIT_NO, EXIT_OK, NegativeAnswerError
from fairway.cli.output import cell, say

if TYPE_CHECKING:
    from fairway.api.work import ManifestWork
    from fairway.kube import Client

MEMBER: Final = (
    "cluster {name} is a member of this hub, and its agent cleans up its works; if the cluster is lost, run first: "
    "kubectl delete managedcluster {name}"
)
ANSWERS: Final = (
    "cluster {name} is being removed, and its agent is still available: it cleans up its works and then "
    "releases them"
)
RELEASED: Final = "ManifestWork {namespace}/{name} released"
DELETED: Final = "ManifestWork {namespace}/{name} already deleted"
CHANGED: Final = "ManifestWork {namespace}/{name} was changed at the same time; run this command again"
KEPT: Final = (
    "ManifestWork {namespace}/{name} kept: it is not being deleted; delete it with its namespace: "
    "kubectl delete namespace {namespace}"
)
NOTHING: Final = "no ManifestWork of cluster {name} is waiting for cleanup"
OBJECTS_STAY: Final = (
    "objects that they created on the cluster stay there; "
    "if the cluster joins again under this name, they are removed one hour later"
)


@click.command(
    short_help="On the hub: release the works of a lost cluster.",
    epilog="""\b
Examples:
  fairway join forget c1 --dry-run
  fairway join forget c1

\b
A deleted ManifestWork remains until the cluster's agent has removed its objects. If the cluster is lost, the work and
its namespace remain forever.
Exit status: 0 all works released, 1 the cluster is still a member, or works are left, 2 bad input.
""",
)
@click.argument("name", metavar="CLUSTER", shell_complete=complete("namespaces"))
@dry_run_option
@hub_options
def forget(name: str, dry_run: bool, hub: HubChoice) -> int:
    """Release the deleted ManifestWorks of a cluster that was removed from the hub and will not return.

    For a running cluster use `fairway join leave`, which also removes the objects of the works.
    """

    async def work(client: "Client") -> bool:
        await _require_removed(client, name)
        return await _release(client, name, dry_run=dry_run)

    return EXIT_OK if talk(hub, work) else EXIT_NO


async def _require_removed(client: "Client", name: str) -> None:
    """Raises NegativeAnswerError unless the cluster was removed.

    In a namespace that is being deleted the agent has lost its permissions, so its works can be released.
    """
    from fairway.api.cluster import CONDITION_AVAILABLE
    from fairway.api.meta import TRUE, find_condition
    from fairway.cli.client.names import NAMESPACES
    from fairway.cli.client.objects import listed
    from fairway.controllers.cluster_names import PREFIX, WORK
    from fairway.controllers.kinds import ROLE_BINDINGS
    from fairway.klusterlet.names import CLUSTER_LABEL
    from fairway.kube import MANAGED_CLUSTERS, NotFound

    try:
        place = await client.get(NAMESPACES, name)
    except NotFound:
        there = [each.metadata.name for each in await listed(client, NAMESPACES, labels=CLUSTER_LABEL)]
        raise unknown("namespace of a cluster", name, there) from None
    try:
        cluster = await client.get(MANAGED_CLUSTERS, name)
    except NotFound:
        return
    try:
        await client.get(ROLE_BINDINGS, f"{PREFIX}{name}:{WORK}", namespace=name)
    except NotFound:
        if place.metadata.deletionTimestamp is not None:
            return
    if cluster.metadata.deletionTimestamp is None:
        raise NegativeAnswerError(MEMBER.format(name=name))
    available = find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
    if available is not None and available.status == TRUE:
        raise NegativeAnswerError(ANSWERS.format(name=name))


async def _release(client: "Client", name: str, *, dry_run: bool) -> bool:
    from fairway.api.work import MANIFEST_WORK_FINALIZER
    from fairway.cli.client.objects import listed
    from fairway.kube import MANIFEST_WORKS

    found = await listed(client, MANIFEST_WORKS, namespace=name)
    held = [each for each in found if MANIFEST_WORK_FINALIZER in each.metadata.finalizers]
    waiting = [each for each in held if each.metadata.deletionTimestamp is not None]
    results = [await _release_work(client, each, dry_run=dry_run) for each in waiting]
    for each in held:
        if each not in waiting:
            say(KEPT.format(namespace=name, name=cell(each.metadata.name)))
    if not waiting:
        say(NOTHING.format(name=name))
    else:
        say(NOTE.format(text=OBJECTS_STAY), stream=sys.stderr)
    return all(results)


async def _release_work(client: "Client", work: "ManifestWork", *, dry_run: bool) -> bool:
    from fairway.api.work import MANIFEST_WORK_FINALIZER
    from fairway.kube import MANIFEST_WORKS, Conflict, NotFound, Patch

    meta = work.metadata
    names = {"namespace": meta.namespace, "name": cell(meta.name)}
    kept = [each for each in meta.finalizers if each != MANIFEST_WORK_FINALIZER]
    patch = {"uid": meta.uid, "resourceVersion": meta.resourceVersion, "finalizers": kept}
    try:
        await client.patch(
            MANIFEST_WORKS,
            meta.name,
            {"metadata": patch},
            kind=Patch.MERGE,
            namespace=meta.namespace,
            dry_run=dry_run,
        )
    except NotFound:
        say(DELETED.format(**names))
    except Conflict:
        say(CHANGED.format(**names))
        return False
    else:
        say(RELEASED.format(**names) + (DRY_RUN if dry_run else ""))
    return True
