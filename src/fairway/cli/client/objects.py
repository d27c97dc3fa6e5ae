"""What a live hub holds, in the form that files have when they are loaded."""

import asyncio
import sys
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, field

from fairway.cli.files.loader import MORE_UNREADABLE, LoadedObject, LoadedObjects, Origin
from fairway.cli.output import say
from fairway.cli.progress import Advance, progress
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
    Client,
    Expired,
    NotFound,
    Resource,
)
from fairway.kube.codec import Unreadable, codec_of
from fairway.kube.resource import KubeStruct
from fairway.kube.rest import PAGE

PLACING: Final[tuple[Resource[Any], ...]] = (
    MANAGED_CLUSTERS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTER_SET_BINDINGS,
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    PLACEMENTS,
    PLACEMENT_DECISIONS,
)
"""Everything placements depend on."""
OPTIONAL: Final = frozenset({MANAGED_CLUSTER_SCORES.plural})
"""Kinds that hubs of Open Cluster Management do not have."""

UNREADABLE: Final = "fairway: {kind} {name}: ignored fields that cannot be read: {reason}"
READING: Final = "reading the hub"
_COMPLAINTS: Final = 5
_LARGE: Final = 2_000  # objects; less is read before anybody wonders

T = TypeVar("T", bound=KubeStruct)
R = TypeVar("R")


class _Counted(Struct, frozen=True):
    remaining: int = field(default=0, name="remainingItemCount")


class _Count(Struct, frozen=True):
    metadata: _Counted = _Counted()
    items: tuple[msgspec.Raw, ...] | None = None


async def read_hub(client: Client, resources: Sequence[Resource[Any]] = PLACING) -> LoadedObjects:
    """All objects of these kinds, each as it is now; a line of 0 says that they are not from a file."""
    origin = Origin(client.connection.server, 0, 0)
    with await _shown(client, resources) as advance:
        kinds = await together(listed(client, each, advance=advance) for each in resources)
    objects = [LoadedObject(each, origin) for kind in kinds for each in kind]
    return LoadedObjects(objects=tuple(objects), ignored={})


async def together(questions: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """All at once; of several that fail, the first one's error, so that the same mistake has the same answer."""
    answers = await asyncio.gather(*questions, return_exceptions=True)
    good: list[R] = []
    for each in answers:
        if isinstance(each, BaseException):
            raise each
        good.append(each)
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
    """Fields that cannot be read are reported and ignored; a kind the hub may do without, and does, is empty."""
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
        # The hub forgot the state that the first pages are of. The client knows how to go on.
        found = await client.list(resource, namespace=namespace, labels=labels, fields=fields, limit=0)
        items, unreadable = list(found.items), list(found.unreadable)
    except NotFound:
        if resource.plural not in OPTIONAL:
            raise
    complain(resource, unreadable)
    return items


def complain(resource: Resource[Any], unreadable: Sequence[Unreadable]) -> None:
    for each in unreadable[:_COMPLAINTS]:
        text = UNREADABLE.format(kind=resource.kind, name=each.name, reason=each.reason)
        say(" ".join(text.split()), stream=sys.stderr)
    if len(unreadable) > _COMPLAINTS:
        say(MORE_UNREADABLE.format(count=len(unreadable) - _COMPLAINTS), stream=sys.stderr)


async def _shown(client: Client, resources: Sequence[Resource[Any]]) -> AbstractContextManager[Advance]:
    """A progress bar for somebody who looks, if there is much to read."""
    total = 0
    if sys.stderr.isatty():
        total = sum(await together(_count(client, each) for each in resources))
    return progress(READING, total=total, wanted=total >= _LARGE)


async def _count(client: Client, resource: Resource[Any]) -> int:
    try:
        answer = await client.request("GET", resource.path(), query=[("limit", "1")])
    except NotFound:
        return 0
    found = msgspec.json.decode(answer.body, type=_Count)
    return len(found.items or ()) + found.metadata.remaining
