"""Delete the scores of a provider from a hub."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES
from fairway.providers.sink import FAIRWAY, MANAGED_BY, PROVIDER
from kubewire.api.resource import T
from kubewire.client import Client, Conflict, NotFound, Resource

CONCURRENT_REQUESTS: Final = 16
KINDS: Final[tuple[Resource[Any], ...]] = (ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    removed: tuple[tuple[str, str], ...]
    """Cluster and name of each object."""
    others: tuple[str, ...]
    """Other providers with scores on the hub."""


async def delete_scores(client: Client, *, provider: str, cluster: str | None, dry_run: bool) -> Cleaned:
    """Raises KubeErrors."""
    removed: list[tuple[str, str]] = []
    others: set[str] = set()
    for resource in KINDS:
        deleted, names = await _of_kind(client, resource, provider=provider, cluster=cluster, dry_run=dry_run)
        removed += deleted
        others |= names
    return Cleaned(removed=tuple(removed), others=tuple(sorted(others - {provider, ""})))


async def _of_kind(
    client: Client, resource: Resource[T], *, provider: str, cluster: str | None, dry_run: bool
) -> tuple[list[tuple[str, str]], set[str]]:
    # List all providers, to suggest names for a misspelt one.
    try:
        listing = await client.list(resource, namespace=cluster, labels=f"{MANAGED_BY}={FAIRWAY}")
    except NotFound:  # most hubs do not serve ManagedClusterScores
        return [], set()
    published = [score.metadata for score in listing.items]
    theirs = [meta for meta in published if meta.labels.get(PROVIDER) == provider]
    limit = asyncio.Semaphore(CONCURRENT_REQUESTS)

    async def remove(namespace: str, name: str, uid: str) -> bool:
        async with limit:
            try:
                await client.delete(resource, name, namespace=namespace, uid=uid, dry_run=dry_run)
            except (NotFound, Conflict):  # deleted, or replaced by another object
                return False
            return True

    done = await asyncio.gather(*(remove(meta.namespace, meta.name, meta.uid) for meta in theirs))
    deleted = sorted(
        (meta.namespace, meta.name) for meta, was_deleted in zip(theirs, done, strict=True) if was_deleted
    )
    return deleted, {meta.labels.get(PROVIDER, "") for meta in published}
