"""`fairway accept --wait`: until the clusters that were let in have joined, and are available."""

from collections.abc import Sequence
from typing import Any, Final

from fairway.api.cluster import CONDITION_ACCEPTED, CONDITION_AVAILABLE, ManagedCluster
from fairway.api.meta import TRUE, Condition, find_condition
from fairway.cli.client.wait import wait
from fairway.cli.client.watch import Feed
from fairway.klusterlet.names import JOINED
from fairway.kube import MANAGED_CLUSTERS, Client, Deleted, Updated
from fairway.kube.change import Change

GONE: Final = "it is not there any more"
NO_HUB: Final = (
    "the hub has not given it its namespace and rights: does `fairway run`, or OCM, run on the hub?"
)
NOT_JOINED: Final = "its agent has not joined: does `fairway join`, or OCM's klusterlet, run for it?"
NOT_AVAILABLE: Final = "it has joined, and its state is not known yet"

_STEPS: Final = ((CONDITION_ACCEPTED, NO_HUB), (JOINED, NOT_JOINED), (CONDITION_AVAILABLE, NOT_AVAILABLE))
"""In the order they are reached, and what is missing as long as nobody says anything."""


async def available(client: Client, names: Sequence[str], *, seconds: float) -> None:
    """Raises NegativeAnswerError when the time is up, KubeErrors."""
    clusters: dict[str, ManagedCluster] = {}

    def hear(change: Change[Any]) -> None:
        if isinstance(change, Deleted):
            clusters.pop(change.object.metadata.name, None)
            return
        new = change.new if isinstance(change, Updated) else change.object
        clusters[new.metadata.name] = new

    def look() -> dict[str, str]:
        found = {name: missing(clusters.get(name)) for name in names}
        return {name: why for name, why in found.items() if why}

    # One cluster is followed by itself; of several, the hub can only be asked for all there are.
    fields = f"metadata.name={names[0]}" if len(names) == 1 else ""
    await wait(
        client, [Feed(resource=MANAGED_CLUSTERS, fields=fields)], hear=hear, look=look, seconds=seconds
    )


def missing(cluster: ManagedCluster | None) -> str:
    """Nothing if the cluster is available."""
    if cluster is None:
        return GONE
    for kind, silent in _STEPS:
        found = find_condition(cluster.status.conditions or (), kind)
        if found is None or found.status != TRUE:
            return silent if found is None else _said(found)
    return ""


def _said(condition: Condition) -> str:
    return f"{condition.reason}: {condition.message}" if condition.message else condition.reason
