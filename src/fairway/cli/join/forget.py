"""`fairway join forget`: release the add-ons and ManifestWorks of a cluster that is lost."""

import sys
from typing import Any, Final

from fairway.api.cluster import CONDITION_AVAILABLE
from fairway.api.resources import MANAGED_CLUSTER_ADD_ONS, MANAGED_CLUSTERS, MANIFEST_WORKS
from fairway.api.work import MANIFEST_WORK_FINALIZER
from fairway.cli.client.names import NAMESPACES
from fairway.cli.client.objects import listed
from fairway.cli.client.session import NOTE, talk, unknown
from fairway.cli.errors import EXIT_NO, EXIT_OK, NegativeAnswerError
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.report import ChangeReport
from fairway.cli.text import cell, say
from fairway.controllers.addons.names import OLD_PRE_DELETE, PRE_DELETE
from fairway.controllers.cluster_names import PREFIX, WORK
from fairway.controllers.kinds import ROLE_BINDINGS
from fairway.klusterlet.names import CLUSTER_LABEL
from kubewire.api.meta import TRUE, ObjectMeta, find_condition
from kubewire.client import Client, Conflict, NotFound, Patch, Resource

MEMBER: Final = (
    "cluster {name} is a member of this hub, and its agent cleans up its works; if the cluster is lost, run first: "
    "kubectl delete managedcluster {name} --wait=false"
)
ANSWERS: Final = (
    "cluster {name} is being removed, and its agent is still available: it cleans up its works and then "
    "releases them"
)
RELEASED: Final = "{kind} {namespace}/{name} released"
DELETED: Final = "{kind} {namespace}/{name} already deleted"
CHANGED: Final = "{kind} {namespace}/{name} was changed at the same time; run this command again"
KEPT: Final = (
    "ManifestWork {namespace}/{name} kept: it is not being deleted; delete it with its namespace: "
    "kubectl delete namespace {namespace}"
)
NOT_YET: Final = (
    "ManifestWork {namespace}/{name} kept: it is deleted after the cluster's add-ons; run this command again "
    "once they are deleted"
)
NOTHING: Final = "no add-on and no ManifestWork of cluster {name} is waiting for cleanup"
OBJECTS_STAY: Final = (
    "objects that they created on the cluster stay there; "
    "if the cluster joins again under this name, they are removed one hour later"
)


def forget(name: str, dry_run: bool, output: OutputFormat, hub: HubChoice) -> int:
    async def work(client: Client) -> bool:
        await _require_removed(client, name)
        return await _release(client, name, report, dry_run=dry_run)

    with ChangeReport(output, dry_run=dry_run) as report:
        return EXIT_OK if talk(hub, work) else EXIT_NO


async def _require_removed(client: Client, name: str) -> None:
    """Raises NegativeAnswerError unless the cluster was removed.

    In a namespace that is being deleted the agent has lost its permissions, so its works can be released.
    """
    try:
        place = await client.get(NAMESPACES, name)
    except NotFound:
        there = [
            namespace.metadata.name for namespace in await listed(client, NAMESPACES, labels=CLUSTER_LABEL)
        ]
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


async def _release(client: Client, name: str, report: ChangeReport, *, dry_run: bool) -> bool:
    hooks = frozenset({PRE_DELETE, OLD_PRE_DELETE})
    add_ons = await listed(client, MANAGED_CLUSTER_ADD_ONS, namespace=name)
    results = [
        await _release_object(client, report, MANAGED_CLUSTER_ADD_ONS, add_on.metadata, hooks, dry_run)
        for add_on in add_ons
        if add_on.metadata.deletionTimestamp is not None and hooks.intersection(add_on.metadata.finalizers)
    ]
    works = await listed(client, MANIFEST_WORKS, namespace=name)
    held = [work for work in works if MANIFEST_WORK_FINALIZER in work.metadata.finalizers]
    waiting = [work for work in held if work.metadata.deletionTimestamp is not None]
    for work in waiting:
        finalizer = frozenset({MANIFEST_WORK_FINALIZER})
        results.append(
            await _release_object(client, report, MANIFEST_WORKS, work.metadata, finalizer, dry_run)
        )
    members = await listed(client, MANAGED_CLUSTERS, fields=f"metadata.name={name}")
    for work in held:
        if work not in waiting:
            text = NOT_YET if members and add_ons else KEPT
            words = text.format(namespace=name, name=cell(work.metadata.name))
            report.add(
                words,
                kind=work.kind,
                namespace=name,
                name=work.metadata.name,
                result="kept",
                changed=False,
            )
    if not results:
        report.note(NOTHING.format(name=name))
    if waiting:
        say(NOTE.format(text=OBJECTS_STAY), stream=sys.stderr)
    return all(results)


async def _release_object(
    client: Client,
    report: ChangeReport,
    resource: Resource[Any],
    meta: ObjectMeta,
    finalizers: frozenset[str],
    dry_run: bool,
) -> bool:
    names = {"kind": resource.kind, "namespace": meta.namespace, "name": cell(meta.name)}
    kept = [finalizer for finalizer in meta.finalizers if finalizer not in finalizers]
    patch = {"uid": meta.uid, "resourceVersion": meta.resourceVersion, "finalizers": kept}
    try:
        await client.patch(
            resource,
            meta.name,
            {"metadata": patch},
            kind=Patch.MERGE,
            namespace=meta.namespace,
            dry_run=dry_run,
        )
        text, result = RELEASED, "released"
    except NotFound:
        text, result = DELETED, "deleted"
    except Conflict:
        text, result = CHANGED, "conflict"
    report.add(
        text.format(**names),
        kind=resource.kind,
        namespace=meta.namespace,
        name=meta.name,
        result=result,
        changed=result == "released",
    )
    return result != "conflict"
