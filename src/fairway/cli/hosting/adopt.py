"""`fairway hosting adopt`: requests for hosted clusters that exist, so that plans see them.

Three writes adopt one: the request, which its annotation keeps from being placed; the labels of the ManifestWork, so
that two requests cannot adopt one; the status with the place. Killed after any of them, the next run continues with the
request that it finds. None of them changes what runs on a host.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from fairway.api.hosted_request import DEFAULT_POLICY, REQUEST_UID_LABEL, HostedClusterRequest
from fairway.api.resources import HOSTED_CLUSTER_REQUESTS, MANIFEST_WORKS
from fairway.api.work import ManifestWork
from fairway.cli.client.objects import listed, together
from fairway.cli.client.session import talk
from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError, InputProblemsError
from fairway.cli.files import sources
from fairway.cli.files.loader import documents_in, malformed
from fairway.cli.hosting.run import NEEDS_HUB, keys_of, load
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.text import say
from fairway.hosts.clusters.promises import place_of
from fairway.workloads.hosting import Adoption, AdoptionPlan, DemandError, plan_adoption
from fairway.workloads.hosting.planning.adoption import ExistingHostedCluster, in_works, on_host
from fairway.workloads.hosting.requests.request_status import patch_of, summarize
from fairway.workloads.hosting.requests.work import (
    REQUEST_ANNOTATION,
    adopting_metadata,
    is_kind,
    object_name,
)
from fairway.workloads.hosting.rules.policy import PolicyError
from fairway.workloads.hosting.workload import ADOPTS
from kubewire.api.encoding import encode
from kubewire.api.meta import ObjectMeta
from kubewire.client import AlreadyExists, ApiError, Client, Conflict, Invalid, NotFound, Patch
from kubewire.documents.parser import DocumentError
from kubewire.documents.reader import value_of

ONE_HOST: Final = "--from has the hosted clusters of one host: name that HOST, and no other one"
NO_HOSTED_CLUSTERS: Final = "{file}: contains no HostedCluster of hypershift.openshift.io"
ALL_ADOPTED: Final = "Nothing to adopt: {adopted} hosted clusters have a HostedClusterRequest."
PLAN: Final = "{count} hosted clusters can be adopted. Adopt them with the same command and --apply."
DONE: Final = "{count} hosted clusters adopted. Nothing changed on their hosts."
REFUSED: Final = "{count} cannot be adopted."
UNKNOWN: Final = (
    "{host}: {count} more have no request, and their names are not on the hub. Read them there:\n"
    "  kubectl --context {host} get hostedclusters,nodepools -A -o yaml > {host}.yaml\n"
    "  fairway hosting adopt {host} --from {host}.yaml"
)
NO_LOAD: Final = "{host}: its load is unknown, and so is whether more hosted clusters have no request."
NAME_TAKEN: Final = "HostedClusterRequest {name} was created meanwhile; repeat the command"
WORK_CHANGED: Final = "ManifestWork {name} no longer carries it"
WORK_TAKEN: Final = "ManifestWork {name} is adopted by HostedClusterRequest {request}"
REQUEST_CHANGED: Final = "HostedClusterRequest {name} was changed meanwhile; repeat the command"
AT_ONCE: Final = 8
"""Adoptions that write at the same time."""
MOST_CONFLICTS: Final = 5
"""Writes of the controller that a status may meet: it writes why the request is not placed, once."""


def adopt(
    hosts: tuple[str, ...],
    source: str | None,
    namespace: str | None,
    policy: str | None,
    size: str,
    is_applied: bool,
    output: OutputFormat,
    now: datetime | None,
    hub: HubChoice,
    **inputs: Any,
) -> int:
    if is_applied and inputs["files"]:
        raise BadInputError(NEEDS_HUB)
    if source is not None and len(hosts) != 1:
        raise BadInputError(ONE_HOST)
    max_file_size = inputs["max_file_size"]
    loaded = load(now, hub=hub, **inputs)
    names = [key.name for key in keys_of(loaded.state, hosts or sorted(loaded.state.facts))]
    works = list(loaded.given.objects.of(ManifestWork))
    if loaded.given.server:
        works += talk(hub, lambda client: _works(client, names))
    existing = list(in_works(works))
    if source is not None:
        existing += on_host(names[0], _read(source, max_file_size=max_file_size))
    try:
        plan = plan_adoption(
            loaded.state,
            loaded.requests,
            existing,
            names,
            namespace=namespace or loaded.given.namespace or "default",
            policy=policy or DEFAULT_POLICY,
            size=size,
        )
    except (PolicyError, DemandError) as error:
        raise BadInputError(str(error)) from None
    failed = talk(hub, lambda client: adopt_all(client, plan.adoptions)) if is_applied else {}
    incomplete = bool(plan.refused or plan.unknown or failed)
    if output != "table":
        emit([], columns={}, output=output, document=_document(plan, failed, is_applied=is_applied))
        return EXIT_NO if incomplete else EXIT_OK
    _print(plan, failed, is_applied=is_applied)
    return EXIT_NO if incomplete else EXIT_OK


async def _works(client: Client, hosts: Sequence[str]) -> list[ManifestWork]:
    """List the ManifestWorks of hosting clusters only: a hub has many others."""
    lists = await together(listed(client, MANIFEST_WORKS, namespace=host) for host in hosts)
    return [work for works in lists for work in works]


def _read(path: str, *, max_file_size: int) -> list[Mapping[str, Any]]:
    """Return the HostedClusters and NodePools of a file, as `kubectl get -o yaml` prints them."""
    try:
        source = sources.read(path, max_bytes=max_file_size)
        values = [value_of(document) for document in documents_in(source)]
    except sources.SourceError as error:
        raise InputProblemsError([error.problem]) from None
    except DocumentError as error:
        raise InputProblemsError([malformed(source, error)]) from None
    items: list[Mapping[str, Any]] = [
        item
        for value in values
        for item in (
            value["items"] if isinstance(value, dict) and isinstance(value.get("items"), list) else [value]
        )
        if isinstance(item, dict)
    ]
    if not any(is_kind(item, "HostedCluster") for item in items):
        raise BadInputError(NO_HOSTED_CLUSTERS.format(file=source.name))
    return items


async def adopt_all(client: Client, adoptions: Iterable[Adoption]) -> dict[str, str]:
    """Adopt them. Return why some could not be adopted, by identity."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def adopted(adoption: Adoption) -> str:
        async with slots:
            try:
                return await _adopt(client, adoption)
            except ApiError as error:
                return str(error)

    wanted = list(adoptions)
    reasons = await together(adopted(adoption) for adoption in wanted)
    return {
        str(adoption.existing.identity): reason
        for adoption, reason in zip(wanted, reasons, strict=True)
        if reason
    }


async def _adopt(client: Client, adoption: Adoption) -> str:
    """Return why the hosted cluster could not be adopted; empty if it is."""
    request = await _created(client, adoption)
    if request is None:
        return NAME_TAKEN.format(name=_name(adoption.request.metadata))
    if place_of(request) is not None:
        return ""
    if adoption.existing.work is not None and (reason := await _take(client, adoption, request)):
        if not adoption.is_begun:
            await client.delete(
                HOSTED_CLUSTER_REQUESTS,
                request.metadata.name,
                namespace=request.metadata.namespace,
                uid=request.metadata.uid,
            )
        return reason
    return await _record(client, adoption, request)


async def _created(client: Client, adoption: Adoption) -> HostedClusterRequest | None:
    """Create the request, or return the one that an earlier run or another person has created for it."""
    meta = adoption.request.metadata
    if not adoption.is_begun:
        body = {
            "apiVersion": adoption.request.apiVersion,
            "kind": adoption.request.kind,
            "metadata": encode(meta),
            "spec": encode(adoption.request.spec),
        }
        try:
            return await client.create(HOSTED_CLUSTER_REQUESTS, body, namespace=meta.namespace)
        except AlreadyExists:
            pass
    return await _current(client, adoption, meta)


async def _current(client: Client, adoption: Adoption, meta: ObjectMeta) -> HostedClusterRequest | None:
    try:
        request = await client.get(HOSTED_CLUSTER_REQUESTS, meta.name, namespace=meta.namespace)
    except NotFound:
        return None
    same = request.metadata.annotations.get(ADOPTS) == str(adoption.existing.identity)
    return request if same and request.metadata.deletionTimestamp is None else None


async def _take(client: Client, adoption: Adoption, request: HostedClusterRequest) -> str:
    """Label the ManifestWork for the request, unless another one has. Return why not; empty if it has the labels."""
    identity, seen = adoption.existing.identity, adoption.existing.work
    assert seen is not None
    name = seen.metadata.name
    for _ in range(MOST_CONFLICTS):
        try:
            work = await client.get(MANIFEST_WORKS, name, namespace=identity.host)
        except NotFound:
            return WORK_CHANGED.format(name=name)
        manifests = work.spec.workload.manifests
        carried = [object_name(manifest) for manifest in manifests if is_kind(manifest, "HostedCluster")]
        if work.metadata.deletionTimestamp is not None or identity[1:] not in carried:
            return WORK_CHANGED.format(name=name)
        owner = work.metadata.labels.get(REQUEST_UID_LABEL, "")
        if owner == request.metadata.uid:
            return ""
        if owner and (other := await _owner(client, work, owner)):
            return WORK_TAKEN.format(name=name, request=other)
        version = {"uid": work.metadata.uid, "resourceVersion": work.metadata.resourceVersion}
        body = {"metadata": {**adopting_metadata(request), **version}}
        try:
            await client.patch(MANIFEST_WORKS, name, body, kind=Patch.MERGE, namespace=identity.host)
        except Conflict:
            continue
        return ""
    return WORK_CHANGED.format(name=name)


async def _owner(client: Client, work: ManifestWork, uid: str) -> str:
    """Return the request to which a ManifestWork belongs; empty if that was deleted."""
    named = work.metadata.annotations.get(REQUEST_ANNOTATION, "")
    namespace, _, name = named.partition("/")
    if not namespace or not name:
        return ""
    try:
        other = await client.get(HOSTED_CLUSTER_REQUESTS, name, namespace=namespace)
    except NotFound:
        return ""
    return named if other.metadata.uid == uid else ""


async def _record(client: Client, adoption: Adoption, request: HostedClusterRequest) -> str:
    """Write the place into the status of the version that was read."""
    for _ in range(MOST_CONFLICTS):
        meta = request.metadata
        version = [
            {"op": "replace", "path": "/metadata/uid", "value": meta.uid},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": meta.resourceVersion},
        ]
        status = adoption.status(request, now=datetime.now(UTC))
        try:
            await client.patch(
                HOSTED_CLUSTER_REQUESTS,
                meta.name,
                [*version, *patch_of(summarize(request, status))],
                kind=Patch.JSON,
                namespace=meta.namespace,
                subresource="status",
            )
        except (Conflict, Invalid, NotFound):
            # The controller writes why an unplaced request waits, at about the same time.
            current = await _current(client, adoption, meta)
            if current is None or current.metadata.uid != meta.uid:
                break
            if place_of(current) is not None:
                return ""
            request = current
        else:
            return ""
    return REQUEST_CHANGED.format(name=_name(request.metadata))


def _print(plan: AdoptionPlan, failed: Mapping[str, str], *, is_applied: bool) -> None:
    rows = [
        {
            **_row(adoption.existing),
            "request": _name(adoption.request.metadata),
            "size": adoption.request.spec.size,
            "reason": failed.get(str(adoption.existing.identity), ""),
        }
        for adoption in plan.adoptions
    ]
    rows += [{**_row(item), "reason": item.obstacle} for item in plan.refused]
    if rows:
        columns = {"host": "Host", "hosted": "Hosted cluster", "request": "Request", "size": "Size"}
        if plan.refused or failed:
            columns["reason"] = "Why not"
        emit(rows, columns=columns)
    elif not plan.unknown:
        say(ALL_ADOPTED.format(adopted=plan.adopted))
    if is_applied:
        say(DONE.format(count=len(plan.adoptions) - len(failed)))
    elif plan.adoptions:
        say(PLAN.format(count=len(plan.adoptions)))
    if plan.refused or failed:
        say(REFUSED.format(count=len(plan.refused) + len(failed)))
    for host, count in plan.unknown.items():
        say(NO_LOAD.format(host=host) if count is None else UNKNOWN.format(host=host, count=count))


def _row(item: ExistingHostedCluster) -> dict[str, Any]:
    return {"host": item.identity.host, "hosted": f"{item.identity.namespace}/{item.identity.name}"}


def _document(plan: AdoptionPlan, failed: Mapping[str, str], *, is_applied: bool) -> dict[str, Any]:
    return {
        "applied": is_applied,
        "adoptions": [
            {
                **_identity(adoption.existing),
                "request": _name(adoption.request.metadata),
                "size": adoption.request.spec.size,
                "manifestWork": adoption.existing.work and adoption.existing.work.metadata.name,
                "counted": adoption.counted,
                "failed": failed.get(str(adoption.existing.identity)),
            }
            for adoption in plan.adoptions
        ],
        "refused": [{**_identity(item), "reason": item.obstacle} for item in plan.refused],
        "adopted": plan.adopted,
        "unknown": [{"host": host, "count": count} for host, count in plan.unknown.items()],
    }


def _identity(item: ExistingHostedCluster) -> dict[str, str]:
    return {
        "host": item.identity.host,
        "namespace": item.identity.namespace,
        "name": item.identity.name,
    }


def _name(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}"
