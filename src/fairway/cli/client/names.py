"""List the names of a kind on a hub, in one attempt, for completion."""

from typing import Any, Final

from msgspec import Struct

from fairway.api.meta import ObjectMeta
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENTS,
    Client,
    Resource,
)
from fairway.kube.codec import codec_of
from fairway.kube.resource import PODS, VIRTUAL_MACHINES
from fairway.kube.transport import Retry

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
    found = codec_of(Named).page(page.body).items
    if resource is ADD_ON_PLACEMENT_SCORES:
        return sorted({each.metadata.name for each in found})
    if resource.namespaced and qualified:
        return sorted(f"{each.metadata.namespace}/{each.metadata.name}" for each in found)
    return sorted(each.metadata.name for each in found)
