"""An embedded hub with clusters on it, and what providers publish there."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS
from fairway.api.score import AddOnPlacementScore
from fairway.testing.hub import HubAddress
from kubewire.client import Client, NotFound, load
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
        score: AddOnPlacementScore | None = None
        try:
            async with asyncio.timeout(DEADLINE):
                while True:
                    score = await self.score(cluster, resource)
                    if score is not None and awaited(score):
                        return score
                    await asyncio.sleep(POLL)
        except TimeoutError:
            raise AssertionError(f"{cluster}/{resource} was not as awaited: {score}") from None


def scores(score: AddOnPlacementScore) -> dict[str, int]:
    return {entry.name: entry.value for entry in score.status.scores}


def condition(score: AddOnPlacementScore) -> tuple[str, str, str]:
    """Status, reason and message; empty while the object is made and not filled yet."""
    if not score.status.conditions:
        return "", "", ""
    (only,) = score.status.conditions
    return only.status, only.reason, only.message


@asynccontextmanager
async def hub_of(address: HubAddress) -> AsyncIterator[Hub]:
    async with Client(load(address.kubeconfig).context()) as client:
        yield Hub(client)
