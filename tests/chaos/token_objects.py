"""Objects of the chaos tests: config maps and a custom kind, with a token for each write.

The token is in a label and in an annotation, so that half a write would be visible.
"""

from contextlib import suppress
from typing import Any, Final

from clients import boat_crd
from msgspec import Struct

from chaos.record import Event, Key, State
from kubewire.api.meta import ObjectMeta
from kubewire.api.resource import Resource
from kubewire.client.codec import WatchEvent
from kubewire.client.errors import AlreadyExists, NotFound
from kubewire.client.rest import Client

MARK: Final = "chaos.fairway.dev/token"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class TokenObject(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()


CONFIG_MAPS: Final = Resource(
    group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True, type=TokenObject
)
BOATS: Final = Resource(
    group=boat_crd.GROUP,
    version=boat_crd.VERSION,
    plural=boat_crd.PLURAL,
    kind=boat_crd.KIND,
    namespaced=True,
    type=TokenObject,
)
RESOURCES: Final = {known.plural: known for known in (CONFIG_MAPS, BOATS)}


def body(
    resource: Resource[TokenObject], name: str, token: str, *, size: int = 0, version: int | None = None
) -> dict[str, Any]:
    """``size``: bytes of padding."""
    metadata: dict[str, Any] = {"name": name, "labels": {MARK: token}, "annotations": {MARK: token}}
    if version is not None:
        metadata["resourceVersion"] = str(version)
    padding = "x" * size
    content = {"data": {"padding": padding}} if resource is CONFIG_MAPS else {"spec": {"port": f"p{padding}"}}
    return {"metadata": metadata, **content}


def state_of(resource: Resource[TokenObject], obj: TokenObject) -> State:
    meta = obj.metadata
    token, twin = meta.labels.get(MARK, ""), meta.annotations.get(MARK, "")
    return State(
        key=key_of(resource, meta.namespace, meta.name),
        uid=meta.uid,
        version=int(meta.resourceVersion),
        token=token if token == twin else f"half of {token!r} and half of {twin!r}",
    )


def key_of(resource: Resource[TokenObject], namespace: str, name: str) -> Key:
    return (resource.plural, namespace, name)


def event_of(resource: Resource[TokenObject], event: WatchEvent[TokenObject]) -> Event:
    assert event.type != "BOOKMARK"
    return Event(type=event.type, state=state_of(resource, event.object))


async def create_kinds(client: Client, *namespaces: str) -> None:
    """Create the namespaces and the custom kind, and wait until it is served."""
    for name in namespaces:
        await _create(client, "/api/v1/namespaces", {"metadata": {"name": name}})
    await _create(client, DEFINITIONS, boat_crd.DEFINITION)
    while True:
        try:
            await client.newest(BOATS)
            return
        except NotFound:  # a kind is served a moment after its definition was accepted
            await client.request("GET", f"{DEFINITIONS}/{boat_crd.DEFINITION_NAME}")


async def _create(client: Client, path: str, document: dict[str, Any]) -> None:
    with suppress(AlreadyExists):
        await client.request("POST", path, body=document)
