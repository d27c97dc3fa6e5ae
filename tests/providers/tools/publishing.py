"""An embedded hub with clusters on it, and what providers publish there."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fairway.api.score import AddOnPlacementScore
from fairway.kube import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS, Client, NotFound, load
from fairway.testing.hub import HubAddress
from rigs.processes import POLL

DEADLINE = 120.0


@dataclass(frozen=True, slots=True)
class Hub:
    client: Client

    async def cluster(self, name: str, **labels: str) -> None:
        await self.client.create(MANAGED_CLUSTERS, {"metadata": {"name": name, "labels": labels}})
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.client.request("POST", "/api/v1/namespaces", body=namespace)

    async def score(self, cluster: str, resource: str) -> AddOnPlacementScore | None:
        try:
            return await self.client.get(ADD_ON_PLACEMENT_SCORES, resource, namespace=cluster)
        except NotFound:
            return None

    async def until(
        self, cluster: str, resource: str, awaited: Callable[[AddOnPlacementScore], bool]
    ) -> AddOnPlacementScore:
        """The object, as soon as it is as awaited."""
        found: AddOnPlacementScore | None = None
        try:
            async with asyncio.timeout(DEADLINE):
                while True:
                    found = await self.score(cluster, resource)
                    if found is not None and awaited(found):
                        return found
                    await asyncio.sleep(POLL)
        except TimeoutError:
            raise AssertionError(f"{cluster}/{resource} was not as awaited: {found}") from None


def scores(found: AddOnPlacementScore) -> dict[str, int]:
    return {each.name: each.value for each in found.status.scores}


def condition(found: AddOnPlacementScore) -> tuple[str, str, str]:
    """Status, reason and message; empty while the object is made and not filled yet."""
    if not found.status.conditions:
        return "", "", ""
    (only,) = found.status.conditions
    return only.status, only.reason, only.message


@asynccontextmanager
async def hub_of(address: HubAddress) -> AsyncIterator[Hub]:
    async with Client(load(address.kubeconfig).context()) as client:
        yield Hub(client)
