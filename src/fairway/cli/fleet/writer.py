"""Apply the objects in files to a hub, and delete them.

Files of a fleet contain objects as a hub returns them: with versions and uids of another hub, with a status, and in
namespaces that may not exist. So only the fields that users set are applied, status is applied through its subresource,
and missing namespaces are created.

Every applied object gets a label. Existing objects without the label are neither changed nor deleted.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from fairway.api.kinds import KubeObject
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENTS,
)
from fairway.cli.client.names import NAMESPACES
from fairway.cli.client.wait import wait
from fairway.cli.client.watch import Feed
from fairway.cli.errors import BadInputError
from fairway.cli.progress import Advance, progress
from kubewire.api.encoding import encode
from kubewire.api.meta import ObjectMeta
from kubewire.api.resource import Key, key_of
from kubewire.client import Client, Deleted, KubeError, NotFound, Patch, Resource
from kubewire.client.change import Change

MANAGER: Final = "fairway-fleet"
APPLIED: Final = "fairway.dev/fleet"
"""Label of all applied objects."""
LABELS: Final = {APPLIED: "applied"}
CONCURRENT_REQUESTS: Final = 16

ORDER: Final[tuple[Resource[Any], ...]] = (
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANAGED_CLUSTER_SET_BINDINGS,
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    PLACEMENTS,
)
"""Kinds to apply, in this order. The placement controller writes PlacementDecisions."""
REPORTED: Final = frozenset(
    resource.kind for resource in (MANAGED_CLUSTERS, ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES)
)
"""Kinds whose status is applied. Controllers write the status of the others."""

DELETING: Final = "its namespace is being deleted"
NOT_SERVED: Final = (
    "the hub does not serve {plural}, and the files contain {count:,}; install the CRD first: "
    "fairway crds {plural} | kubectl apply -f -"
)

Done = Literal["created", "changed", "unchanged", "deleted", "kept", "absent"]
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of results for one kind."""

    kind: str
    counts: Counter[Done] = field(default_factory=Counter)

    def row(self, columns: Iterable[Done]) -> dict[str, object]:
        return {"kind": self.kind, **{column: self.counts[column] for column in columns}}


@dataclass(frozen=True, slots=True)
class Existing:
    """Metadata of existing objects, by the plural of the kind and by key."""

    objects: Mapping[str, Mapping[Key, ObjectMeta]]

    def find(self, resource: Resource[Any], key: Key) -> ObjectMeta | None:
        return self.objects[resource.plural].get(key)


async def apply(client: Client, objects: Sequence[KubeObject], *, dry_run: bool) -> list[Tally]:
    """Apply objects. Raises KubeErrors, and BadInputError if the hub does not serve a kind."""
    by_kind = {
        resource.kind: [thing for thing in objects if thing.kind == resource.kind] for resource in ORDER
    }
    existing = await _existing(client, {kind: len(things) for kind, things in by_kind.items()})
    wanted = sorted({thing.metadata.namespace for things in by_kind.values() for thing in things} - {""})
    names = {thing.metadata.name for thing in by_kind[MANAGED_CLUSTERS.kind]}
    tallies = [Tally(NAMESPACES.kind), *(Tally(resource.kind) for resource in ORDER)]
    total = len(wanted) + sum(map(len, by_kind.values()))
    with progress("applying", total=total) as advance:

        async def namespace(name: str) -> Done:
            before = existing.find(NAMESPACES, ("", name))
            if before is not None:
                return "unchanged" if _is_ours(before) else "kept"
            labels = LABELS | ({"open-cluster-management.io/cluster-name": name} if name in names else {})
            await client.patch(
                NAMESPACES,
                name,
                {"metadata": {"name": name, "labels": labels}},
                kind=Patch.APPLY,
                field_manager=MANAGER,
                dry_run=dry_run,
            )
            return "created"

        await _run_concurrently(wanted, namespace, tallies[0], advance)
        for resource, tally in zip(ORDER, tallies[1:], strict=True):

            async def write(thing: KubeObject, resource: Resource[Any] = resource) -> Done:
                return await _apply(client, resource, thing, existing, dry_run=dry_run)

            await _run_concurrently(by_kind[resource.kind], write, tally, advance)
    return [tally for tally in tallies if tally.counts]


async def delete(
    client: Client, objects: Sequence[KubeObject], *, dry_run: bool, seconds: float = 0
) -> list[Tally]:
    """Delete the objects in reverse order, then the namespaces that ``apply`` created.

    Wait at most ``seconds`` until these no longer exist. Raises KubeErrors, and NegativeAnswerError on timeout.
    """
    by_kind = {
        resource.kind: [thing for thing in objects if thing.kind == resource.kind] for resource in ORDER
    }
    existing = await _existing(client, {})
    tallies: list[Tally] = []
    namespaces = sorted({thing.metadata.namespace for things in by_kind.values() for thing in things} - {""})
    total = len(namespaces) + sum(map(len, by_kind.values()))
    with progress("deleting", total=total) as advance:
        for resource in reversed(ORDER):

            async def remove(thing: KubeObject, resource: Resource[Any] = resource) -> Done:
                return await _delete(client, resource, key_of(thing), existing, dry_run=dry_run)

            tallies.append(Tally(resource.kind))
            await _run_concurrently(by_kind[resource.kind], remove, tallies[-1], advance)

        async def namespace(name: str) -> Done:
            return await _delete(client, NAMESPACES, ("", name), existing, dry_run=dry_run)

        tallies.append(Tally(NAMESPACES.kind))
        await _run_concurrently(namespaces, namespace, tallies[-1], advance)
    if seconds:
        ours = {
            name for name in namespaces if (meta := existing.find(NAMESPACES, ("", name))) and _is_ours(meta)
        }
        await _wait_deleted(client, ours, seconds)
    return [tally for tally in tallies if tally.counts]


async def _wait_deleted(client: Client, names: Set[str], seconds: float) -> None:
    left: set[str] = set()

    def observe(change: Change[Any]) -> None:
        name = key_of(change.object)[1]
        (left.discard if isinstance(change, Deleted) else left.add)(name)

    await wait(
        client,
        [Feed(resource=NAMESPACES)],
        observe=observe,
        missing=lambda: dict.fromkeys(sorted(left & names), DELETING),
        seconds=seconds,
        reached=lambda: "",
    )


async def _existing(client: Client, wanted: Mapping[str, int]) -> Existing:
    existing: dict[str, Mapping[Key, ObjectMeta]] = {}
    for resource in (NAMESPACES, *ORDER):
        try:
            items = (await client.list(resource)).items
        except NotFound:
            if count := wanted.get(resource.kind, 0):
                raise BadInputError(NOT_SERVED.format(plural=resource.plural, count=count)) from None
            items = ()
        existing[resource.plural] = {key_of(item): item.metadata for item in items}
    return Existing(existing)


async def _apply(
    client: Client, resource: Resource[Any], thing: KubeObject, existing: Existing, *, dry_run: bool
) -> Done:
    key = key_of(thing)
    before = existing.find(resource, key)
    if before is not None and not _is_ours(before):
        return "kept"
    namespace = thing.metadata.namespace or None
    if dry_run and namespace is not None and existing.find(NAMESPACES, ("", namespace)) is None:
        return "created"  # a dry run in a namespace that does not exist fails
    body, status = _parts(thing)
    options: dict[str, Any] = {
        "kind": Patch.APPLY,
        "namespace": namespace,
        "field_manager": MANAGER,
        "force": True,
        "dry_run": dry_run,
    }
    after = await client.patch(resource, key[1], body, **options)
    if status and not (dry_run and before is None):
        meta = {name: value for name, value in body["metadata"].items() if name in ("name", "namespace")}
        reported = {"metadata": meta, "status": status}
        after = await client.patch(resource, key[1], reported, subresource="status", **options)
    if before is None:
        return "created"
    return "unchanged" if after.metadata.resourceVersion == before.resourceVersion else "changed"


def _is_ours(metadata: ObjectMeta) -> bool:
    return metadata.labels.get(APPLIED) == LABELS[APPLIED]


def _parts(thing: KubeObject) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the object without fields that only a hub sets, and its status."""
    document = encode(thing)
    given = document["metadata"]
    kept = {name: given[name] for name in ("name", "namespace", "annotations") if given.get(name)}
    metadata = {**kept, "labels": {**given.get("labels", {}), **LABELS}}
    status = document.pop("status", None) if thing.kind in REPORTED else None
    rest = {name: value for name, value in document.items() if name not in ("metadata", "status")}
    return {**rest, "metadata": metadata}, status or {}


async def _delete(
    client: Client, resource: Resource[Any], key: Key, existing: Existing, *, dry_run: bool
) -> Done:
    before = existing.find(resource, key)
    if before is None:
        return "absent"
    if not _is_ours(before):
        return "kept"
    with suppress(NotFound):
        await client.delete(resource, key[1], namespace=key[0] or None, uid=before.uid, dry_run=dry_run)
    return "deleted"


async def _run_concurrently(
    items: Iterable[_Item], work: Callable[[_Item], Awaitable[Done]], tally: Tally, advance: Advance
) -> None:
    """Process items concurrently. Raises the first KubeError, not an exception group."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            tally.counts[await work(item)] += 1
            advance(1)

    failures: list[KubeError] = []
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENT_REQUESTS):
                group.create_task(worker())
    except* KubeError as errors:
        failures += _leaves(errors)
    if failures:
        raise failures[0]


def _leaves(errors: BaseExceptionGroup[KubeError]) -> Iterator[KubeError]:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
