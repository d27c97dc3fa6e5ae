"""Objects of the chaos tests: config maps and a custom kind, with a token for each write.

The token is in a label and in an annotation, so that half a write would be visible.
"""

from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from chaos.record import Event, Key, State
from clients import boats
from fairway.api.meta import ObjectMeta
from fairway.kube.codec import WatchEvent
from fairway.kube.errors import AlreadyExists, NotFound
from fairway.kube.resource import Resource
from fairway.kube.rest import Client

MARK: Final = "chaos.fairway.dev/token"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Thing(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()


CONFIG_MAPS: Final = Resource(
    group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True, type=Thing
)
BOATS: Final = Resource(
    group=boats.GROUP,
    version=boats.VERSION,
    plural=boats.PLURAL,
    kind=boats.KIND,
    namespaced=True,
    type=Thing,
)
RESOURCES: Final = {each.plural: each for each in (CONFIG_MAPS, BOATS)}


def body(
    resource: Resource[Thing], name: str, token: str, *, size: int = 0, version: int | None = None
) -> dict[str, Any]:
    """``size``: bytes of padding."""
    metadata: dict[str, Any] = {"name": name, "labels": {MARK: token}, "annotations": {MARK: token}}
    if version is not None:
        metadata["resourceVersion"] = str(version)
    padding = "x" * size
    content = {"data": {"padding": padding}} if resource is CONFIG_MAPS else {"spec": {"port": f"p{padding}"}}
    return {"metadata": metadata, **content}


def state_of(resource: Resource[Thing], thing: Thing) -> State:
    meta = thing.metadata
    token, twin = meta.labels.get(MARK, ""), meta.annotations.get(MARK, "")
    return State(
        key=key_of(resource, meta.namespace, meta.name),
        uid=meta.uid,
        version=int(meta.resourceVersion),
        token=token if token == twin else f"half of {token!r} and half of {twin!r}",
    )


def key_of(resource: Resource[Thing], namespace: str, name: str) -> Key:
    return (resource.plural, namespace, name)


def event_of(resource: Resource[Thing], event: WatchEvent[Thing]) -> Event:
    assert event.type != "BOOKMARK"
    return Event(type=event.type, state=state_of(resource, event.object))


async def create_kinds(client: Client, *namespaces: str) -> None:
    """Create the namespaces and the custom kind, and wait until it is served."""
    for name in namespaces:
        await _create(client, "/api/v1/namespaces", {"metadata": {"name": name}})
    await _create(client, DEFINITIONS, boats.DEFINITION)
    while True:
        try:
            await client.newest(BOATS)
            return
        except NotFound:  # a kind is served a moment after its definition was accepted
            await client.request("GET", f"{DEFINITIONS}/{boats.DEFINITION_NAME}")


async def _create(client: Client, path: str, document: dict[str, Any]) -> None:
    with suppress(AlreadyExists):
        await client.request("POST", path, body=document)
