"""Taking the scores of a provider off a hub, and nothing else."""

import asyncio
from dataclasses import dataclass
from typing import Final

from fairway.kube import ADD_ON_PLACEMENT_SCORES, Client, Conflict, NotFound
from fairway.providers.sink import FAIRWAY, MANAGED_BY, PROVIDER

AT_A_TIME: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    removed: tuple[tuple[str, str], ...]
    """Cluster and resource."""
    others: tuple[str, ...]
    """Providers that have scores there, too."""


async def cleaned(client: Client, *, provider: str, cluster: str | None, dry_run: bool) -> Cleaned:
    """Raises KubeError."""
    # All of Fairway's, for whoever mistypes a name wants to know which there are.
    listing = await client.list(
        ADD_ON_PLACEMENT_SCORES, namespace=cluster, labels=f"{MANAGED_BY}={FAIRWAY}", skip_unreadable=True
    )
    theirs = [each.metadata for each in listing.items if each.metadata.labels.get(PROVIDER) == provider]
    names = {each.metadata.labels.get(PROVIDER, "") for each in listing.items}
    turns = asyncio.Semaphore(AT_A_TIME)

    async def remove(namespace: str, name: str, uid: str) -> bool:
        async with turns:
            try:
                await client.delete(
                    ADD_ON_PLACEMENT_SCORES, name, namespace=namespace, uid=uid, dry_run=dry_run
                )
            except (NotFound, Conflict):  # it is gone, or another one is in its place
                return False
            return True

    done = await asyncio.gather(*(remove(each.namespace, each.name, each.uid) for each in theirs))
    return Cleaned(
        removed=tuple(
            sorted((each.namespace, each.name) for each, gone in zip(theirs, done, strict=True) if gone)
        ),
        others=tuple(sorted(names - {provider, ""})),
    )
