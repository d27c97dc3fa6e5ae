"""Read objects of a hub into the form of objects loaded from files."""

import asyncio
import sys
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, field

from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    CLUSTER_MANAGEMENT_ADD_ONS,
    HOSTED_CLUSTER_REQUESTS,
    HOSTING_POLICIES,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.cli.files.loader import MORE_UNREADABLE, LoadedObject, LoadedObjects, Origin
from fairway.cli.progress import Advance, progress
from fairway.cli.text import say
from fairway.workloads.placement.plugins.score_debits import SCORE_DEBITS
from kubewire.api.resource import KubeStruct
from kubewire.client import Client, Expired, Forbidden, NotFound, Resource
from kubewire.client.codec import Unreadable, codec_of
from kubewire.client.rest import PAGE

PLACING: Final[tuple[Resource[Any], ...]] = (
    MANAGED_CLUSTERS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTER_SET_BINDINGS,
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    PLACEMENTS,
    PLACEMENT_DECISIONS,
    HOSTED_CLUSTER_REQUESTS,
)
"""All kinds that placements depend on."""
HOSTING: Final[tuple[Resource[Any], ...]] = (
    MANAGED_CLUSTERS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTER_SET_BINDINGS,
    ADD_ON_PLACEMENT_SCORES,
    PLACEMENTS,
    PLACEMENT_DECISIONS,
    HOSTED_CLUSTER_REQUESTS,
    HOSTING_POLICIES,
)
"""All kinds that HostedClusterRequests depend on."""
LINTED: Final[tuple[Resource[Any], ...]] = (*PLACING, CLUSTER_MANAGEMENT_ADD_ONS, HOSTING_POLICIES)
"""All kinds that lint rules read."""
OPTIONAL: Final = frozenset(
    {
        MANAGED_CLUSTER_SCORES.plural,
        HOSTED_CLUSTER_REQUESTS.plural,
        CLUSTER_MANAGEMENT_ADD_ONS.plural,
        HOSTING_POLICIES.plural,
    }
)
"""Kinds that a hub may not serve."""

UNREADABLE: Final = "fairway: {kind} {name}: cannot decode, ignored: {reason}"
NOT_LINTED: Final = "fairway: {kinds} cannot be listed, so that they are not checked: {reason}"
NOT_COUNTED: Final = "fairway: {kind}s cannot be listed, so that score debits do not include them: {reason}"
READING: Final = "reading the hub"
_MAX_REPORTS: Final = 5
_LARGE: Final = 2_000  # objects; fewer need no progress bar

T = TypeVar("T", bound=KubeStruct)
R = TypeVar("R")


class _Counted(Struct, frozen=True):
    remaining: int = field(default=0, name="remainingItemCount")


class _Count(Struct, frozen=True):
    metadata: _Counted = _Counted()
    items: tuple[msgspec.Raw, ...] | None = None


async def read_hub(
    client: Client, resources: Sequence[Resource[Any]] = PLACING, *, debits: bool = False
) -> LoadedObjects:
    """Read all objects of these kinds. Their origin has line 0, because they are not from a file.

    ``debits``: the profile has score debits for all placements.
    """
    origin = Origin(client.connection.server, 0, 0)
    refused: dict[Resource[Any], str] = {}
    lenient: tuple[Resource[Any], ...] = ()
    if resources is PLACING or resources is LINTED:
        lenient = (HOSTED_CLUSTER_REQUESTS, CLUSTER_MANAGEMENT_ADD_ONS, HOSTING_POLICIES)
    with await _shown(client, resources) as advance:
        kinds = await together(
            _listed_leniently(client, resource, advance, refused)
            if resource in lenient
            else listed(client, resource, advance=advance)
            for resource in resources
        )
    reason = refused.pop(HOSTED_CLUSTER_REQUESTS, "")
    if reason and (
        debits or any(SCORE_DEBITS in thing.metadata.annotations for kind in kinds for thing in kind)
    ):
        say(NOT_COUNTED.format(kind=HOSTED_CLUSTER_REQUESTS.kind, reason=reason), stream=sys.stderr)
    for kind, text in refused.items():
        plural = f"{kind.kind.removesuffix('y')}ies" if kind.kind.endswith("y") else f"{kind.kind}s"
        say(NOT_LINTED.format(kinds=plural, reason=text), stream=sys.stderr)
    objects = [LoadedObject(thing, origin) for kind in kinds for thing in kind]
    return LoadedObjects(objects=tuple(objects), ignored={})


async def together(requests: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """Run requests concurrently. Raises the error of the first failed one in order, so that errors are stable."""
    answers = await asyncio.gather(*requests, return_exceptions=True)
    good: list[R] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        good.append(answer)
    return good


async def listed(
    client: Client,
    resource: Resource[T],
    *,
    namespace: str | None = None,
    labels: str = "",
    fields: str = "",
    advance: Advance = lambda _amount: None,
) -> list[T]:
    """List objects. Fields that cannot be decoded are reported and ignored; an optional kind may be missing."""
    path = resource.path(namespace=namespace)
    asked = [("labelSelector", labels), ("fieldSelector", fields), ("limit", str(PAGE))]
    query = [(name, value) for name, value in asked if value]
    decode = codec_of(resource.type).page
    items: list[T] = []
    unreadable: list[Unreadable] = []
    token = ""
    try:
        while True:
            more = [("continue", token)] if token else []
            page = decode((await client.request("GET", path, query=[*query, *more], large=True)).body)
            items += page.items
            unreadable += page.unreadable
            advance(len(page.items))
            if not page.token or page.token == token:
                break
            token = page.token
    except Expired:
        # The continue token expired: list again without pages.
        listing = await client.list(resource, namespace=namespace, labels=labels, fields=fields, limit=0)
        items, unreadable = list(listing.items), list(listing.unreadable)
    except NotFound:
        if resource.plural not in OPTIONAL:
            raise
    report_unreadable(resource, unreadable)
    return items


async def _listed_leniently(
    client: Client, resource: Resource[T], advance: Advance, refused: dict[Resource[Any], str]
) -> list[T]:
    """List objects of a kind that a command can do without. Add why they are missing."""
    try:
        return await listed(client, resource, advance=advance)
    except Forbidden as error:
        refused[resource] = str(error)
        return []


def report_unreadable(resource: Resource[Any], unreadable: Sequence[Unreadable]) -> None:
    for line in unreadable[:_MAX_REPORTS]:
        text = UNREADABLE.format(kind=resource.kind, name=line.name, reason=line.reason)
        say(" ".join(text.split()), stream=sys.stderr)
    if len(unreadable) > _MAX_REPORTS:
        say(MORE_UNREADABLE.format(count=len(unreadable) - _MAX_REPORTS), stream=sys.stderr)


async def _shown(client: Client, resources: Sequence[Resource[Any]]) -> AbstractContextManager[Advance]:
    """Return a progress bar if stderr is a terminal and there are many objects."""
    total = 0
    if sys.stderr.isatty():
        total = sum(await together(_count(client, resource) for resource in resources))
    return progress(READING, total=total, wanted=total >= _LARGE)


async def _count(client: Client, resource: Resource[Any]) -> int:
    try:
        answer = await client.request("GET", resource.path(), query=[("limit", "1")])
    except (Forbidden, NotFound):
        return 0
    count = msgspec.json.decode(answer.body, type=_Count)
    return len(count.items or ()) + count.metadata.remaining
