"""List the names of a kind on a hub, in one attempt, for completion."""

from typing import Any, Final

from msgspec import Struct

from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    HOSTED_CLUSTER_REQUESTS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENTS,
    PODS,
    VIRTUAL_MACHINES,
)
from kubewire.api.meta import ObjectMeta
from kubewire.client import Client, Resource
from kubewire.client.codec import codec_of
from kubewire.client.transport import Retry

MAX_NAMES: Final = 500


class Named(Struct, frozen=True):
    """An object of any kind, with its metadata only."""

    metadata: ObjectMeta = ObjectMeta()


NAMESPACES: Final = Resource(
    group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False, type=Named
)
_KINDS: Final[dict[str, Resource[Any]]] = {
    "clusters": MANAGED_CLUSTERS,
    "clustersets": MANAGED_CLUSTER_SETS,
    "placements": PLACEMENTS,
    "hostedclusterrequests": HOSTED_CLUSTER_REQUESTS,
    "scores": ADD_ON_PLACEMENT_SCORES,
    "namespaces": NAMESPACES,
    "pods": PODS,
    "machines": VIRTUAL_MACHINES,
}


async def names_of(
    kind: str, *, kubeconfig: str | None, context: str | None, namespace: str | None, qualified: bool
) -> list[str]:
    """List names. ``qualified``: names of all namespaces, as ``namespace/name``."""
    resource = _KINDS[kind]
    once = Retry(asked=0, failed=0, unsent=0)
    async with Client.from_environment(kubeconfig, context=context, retry=once) as client:
        where = None
        if resource.namespaced and not qualified:
            where = namespace or client.namespace
        path = resource.path(namespace=where)
        # Only the first page.
        page = await client.request("GET", path, query=[("limit", str(MAX_NAMES))], large=True)
    things = codec_of(Named).page(page.body).items
    if resource is ADD_ON_PLACEMENT_SCORES:
        return sorted({thing.metadata.name for thing in things})
    if resource.namespaced and qualified:
        return sorted(f"{thing.metadata.namespace}/{thing.metadata.name}" for thing in things)
    return sorted(thing.metadata.name for thing in things)
