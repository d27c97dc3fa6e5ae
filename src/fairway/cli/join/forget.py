"""`fairway join forget`: the end of a membership on the hub's side, where the cluster cannot have a part in it."""

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
    "cluster {name} is a member of this hub, and its agent removes what its works brought; if the cluster is gone for "
    "good, run first: kubectl delete managedcluster {name}"
)
ANSWERS: Final = (
    "cluster {name} is being removed, and its agent still answers: it removes what its works brought, and then lets go "
    "of them"
)
RELEASED: Final = "ManifestWork {namespace}/{name} is let go"
GONE: Final = "ManifestWork {namespace}/{name} is gone already"
CHANGED: Final = "ManifestWork {namespace}/{name} was changed at the same time; run this again"
STAYS: Final = (
    "ManifestWork {namespace}/{name} stays, for nobody has deleted it; with the whole namespace it goes by: "
    "kubectl delete namespace {namespace}"
)
NOTHING: Final = "no ManifestWork of cluster {name} waits for it"
STAY_THERE: Final = (
    "what they brought to the cluster stays there; "
    "should it join again under this name, that is removed an hour later"
)


@click.command(
    short_help="On the hub: let go of what waits for a cluster that is gone.",
    epilog="""\b
Examples:
  fairway join forget c1 --dry-run
  fairway join forget c1

\b
A ManifestWork that is deleted stays until the agent of its cluster has removed what it brought. If the cluster is gone
for good, nobody does, and its namespace stays, too.
Exit status: 0 nothing waits any more, 1 the cluster is still a member, or something is left, 2 bad input.
""",
)
@click.argument("name", metavar="CLUSTER", shell_complete=complete("namespaces"))
@dry_run_option
@hub_options
def forget(name: str, dry_run: bool, hub: HubChoice) -> int:
    """Let go of the deleted ManifestWorks of a cluster that was removed from the hub and does not come again.

    For one that is alive, `fairway join leave` or its own agent do better: they remove what the works brought.
    """

    async def work(client: "Client") -> bool:
        await _refuse_members(client, name)
        return await _release(client, name, dry_run=dry_run)

    return EXIT_OK if talk(hub, work) else EXIT_NO


async def _refuse_members(client: "Client", name: str) -> None:
    """A namespace that is being deleted has no rights for an agent any more, whatever its cluster is."""
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
    results = [await _let_go(client, each, dry_run=dry_run) for each in waiting]
    for each in held:
        if each not in waiting:
            say(STAYS.format(namespace=name, name=cell(each.metadata.name)))
    if not waiting:
        say(NOTHING.format(name=name))
    else:
        say(NOTE.format(text=STAY_THERE), stream=sys.stderr)
    return all(results)


async def _let_go(client: "Client", work: "ManifestWork", *, dry_run: bool) -> bool:
    from fairway.api.work import MANIFEST_WORK_FINALIZER
    from fairway.kube import MANIFEST_WORKS, Conflict, NotFound, Patch

    meta = work.metadata
    words = {"namespace": meta.namespace, "name": cell(meta.name)}
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
        say(GONE.format(**words))
    except Conflict:
        say(CHANGED.format(**words))
        return False
    else:
        say(RELEASED.format(**words) + (DRY_RUN if dry_run else ""))
    return True
