"""`fairway accept --wait`: wait until the accepted clusters have joined and are available."""

from collections.abc import Sequence
from typing import Any, Final

from fairway.api.cluster import CONDITION_ACCEPTED, CONDITION_AVAILABLE, ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.cli.client.wait import wait
from fairway.cli.client.watch import Feed
from fairway.klusterlet.names import JOINED
from kubewire.api.meta import TRUE, Condition, find_condition
from kubewire.client import Client, Deleted
from kubewire.client.change import Change

DELETED: Final = "the cluster was deleted"
NO_HUB: Final = (
    "the hub has not created its namespace and roles: is `fairway run`, or OCM, running on the hub?"
)
NOT_JOINED: Final = "its agent has not joined: is `fairway join`, or OCM's klusterlet, running for it?"
NOT_AVAILABLE: Final = "joined; availability not reported yet"
REACHED: Final = "{count} of {count} clusters available"
REACHED_ONE: Final = "cluster {name} available"

_STEPS: Final = ((CONDITION_ACCEPTED, NO_HUB), (JOINED, NOT_JOINED), (CONDITION_AVAILABLE, NOT_AVAILABLE))
"""Conditions in the order in which they become true, and what is missing while there is no such condition."""


async def wait_available(client: Client, names: Sequence[str], *, seconds: float) -> None:
    """Raises NegativeAnswerError on timeout, and KubeErrors."""
    clusters: dict[str, ManagedCluster] = {}

    def observe(change: Change[Any]) -> None:
        if isinstance(change, Deleted):
            clusters.pop(change.object.metadata.name, None)
            return
        new = change.object
        clusters[new.metadata.name] = new

    def missing() -> dict[str, str]:
        steps = {name: missing_step(clusters.get(name)) for name in names}
        return {name: why for name, why in steps.items() if why}

    # A field selector can name one cluster only; several need a watch of all.
    one = len(names) == 1
    feed = Feed(resource=MANAGED_CLUSTERS, fields=f"metadata.name={names[0]}" if one else "")
    reached = REACHED_ONE.format(name=names[0]) if one else REACHED.format(count=len(names))
    await wait(client, [feed], observe=observe, missing=missing, seconds=seconds, reached=lambda: reached)


def missing_step(cluster: ManagedCluster | None) -> str:
    """Return why a cluster is not available; empty if it is."""
    if cluster is None:
        return DELETED
    for kind, absent in _STEPS:
        condition = find_condition(cluster.status.conditions or (), kind)
        if condition is None or condition.status != TRUE:
            return absent if condition is None else _describe(condition)
    return ""


def _describe(condition: Condition) -> str:
    return f"{condition.reason}: {condition.message}" if condition.message else condition.reason
