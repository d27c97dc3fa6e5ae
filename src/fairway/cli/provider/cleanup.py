"""Taking the scores of a provider off a hub, and nothing else."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SCORES,
    Client,
    Conflict,
    NotFound,
    Resource,
)
from fairway.kube.resource import T
from fairway.providers.sink import FAIRWAY, MANAGED_BY, PROVIDER

AT_A_TIME: Final = 16
KINDS: Final[tuple[Resource[Any], ...]] = (ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    removed: tuple[tuple[str, str], ...]
    """Cluster and name of the object."""
    others: tuple[str, ...]
    """Providers that have scores there, too."""


async def cleaned(client: Client, *, provider: str, cluster: str | None, dry_run: bool) -> Cleaned:
    """Raises KubeError."""
    removed: list[tuple[str, str]] = []
    others: set[str] = set()
    for resource in KINDS:
        gone, names = await _of_kind(client, resource, provider=provider, cluster=cluster, dry_run=dry_run)
        removed += gone
        others |= names
    return Cleaned(removed=tuple(removed), others=tuple(sorted(others - {provider, ""})))


async def _of_kind(
    client: Client, resource: Resource[T], *, provider: str, cluster: str | None, dry_run: bool
) -> tuple[list[tuple[str, str]], set[str]]:
    # All of Fairway's, for whoever mistypes a name wants to know which there are.
    try:
        listing = await client.list(resource, namespace=cluster, labels=f"{MANAGED_BY}={FAIRWAY}")
    except NotFound:  # a hub of OCM does not know ManagedClusterScores
        return [], set()
    found = [each.metadata for each in listing.items]
    theirs = [each for each in found if each.labels.get(PROVIDER) == provider]
    turns = asyncio.Semaphore(AT_A_TIME)

    async def remove(namespace: str, name: str, uid: str) -> bool:
        async with turns:
            try:
                await client.delete(resource, name, namespace=namespace, uid=uid, dry_run=dry_run)
            except (NotFound, Conflict):  # it is gone, or another one is in its place
                return False
            return True

    done = await asyncio.gather(*(remove(each.namespace, each.name, each.uid) for each in theirs))
    gone = sorted((each.namespace, each.name) for each, well in zip(theirs, done, strict=True) if well)
    return gone, {each.labels.get(PROVIDER, "") for each in found}
