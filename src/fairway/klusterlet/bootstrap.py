"""Install what the agent needs on a managed cluster: two CustomResourceDefinitions and the namespaces of add-ons.

In OCM an operator installs these. Existing objects are not changed, because another version of OCM may need them;
created objects are labelled, so that ``unjoin`` can delete them.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from fairway.api import crds
from fairway.api.resources import APPLIED_MANIFEST_WORKS, CLUSTER_CLAIMS
from fairway.klusterlet import names
from fairway.klusterlet.kinds import DEFINITIONS, NAMESPACES
from fairway.klusterlet.membership import FIELD_MANAGER
from kubewire.client import AlreadyExists, ApiError, Client, NotFound, Resource, ServerError

KINDS: Final[tuple[Resource[Any], ...]] = (APPLIED_MANIFEST_WORKS, CLUSTER_CLAIMS)
SERVED_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.1


def definitions() -> Iterator[Mapping[str, Any]]:
    wanted = {f"{kind.plural}.{kind.group}" for kind in KINDS}
    return (crd for crd in crds() if crd["metadata"]["name"] in wanted)


async def install(cluster: Client, *, name: str) -> list[str]:
    """Create missing CustomResourceDefinitions. Return their names. Raises KubeErrors."""
    created = []
    for definition in definitions():
        meta = {**definition["metadata"], "labels": {names.JOINED_LABEL: name}}
        try:
            await cluster.create(DEFINITIONS, {**definition, "metadata": meta}, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            continue
        created.append(meta["name"])
    async with asyncio.timeout(SERVED_SECONDS):
        for kind in KINDS:
            await _wait_until_served(cluster, kind)
    return created


async def _wait_until_served(cluster: Client, kind: Resource[Any]) -> None:
    """A definition is served shortly after it was accepted, without a notification."""
    while True:
        try:
            await cluster.list(kind, limit=1)
            return
        except (NotFound, ServerError):
            await asyncio.sleep(POLL_SECONDS)


async def ensure_namespace(cluster: Client, namespace: str, *, name: str) -> None:
    body = {"metadata": {"name": namespace, "labels": {names.JOINED_LABEL: name}}}
    with suppress(AlreadyExists):
        await cluster.create(NAMESPACES, body, field_manager=FIELD_MANAGER)


async def uninstall(cluster: Client, *, name: str) -> list[str]:
    """Delete own definitions and namespaces that are not in use. Return what was removed."""
    removed = []
    labels = f"{names.JOINED_LABEL}={name}"
    for definition in (await cluster.list(DEFINITIONS, labels=labels)).items:
        kind = next(
            (known for known in KINDS if f"{known.plural}.{known.group}" == definition.metadata.name), None
        )
        if kind is None or (await cluster.list(kind, limit=1)).items:
            continue  #  deleting the kind would delete these objects
        await cluster.delete(DEFINITIONS, definition.metadata.name, uid=definition.metadata.uid)
        removed.append(f"CustomResourceDefinition {definition.metadata.name}")
    for namespace in (await cluster.list(NAMESPACES, labels=labels)).items:
        if namespace.metadata.deletionTimestamp is not None or await _is_in_use(
            cluster, namespace.metadata.name
        ):
            continue
        await cluster.delete(NAMESPACES, namespace.metadata.name, uid=namespace.metadata.uid)
        removed.append(f"Namespace {namespace.metadata.name}")
    return removed


async def _is_in_use(cluster: Client, namespace: str) -> bool:
    for path in (f"/apis/apps/v1/namespaces/{namespace}/deployments", f"/api/v1/namespaces/{namespace}/pods"):
        try:
            answer = await cluster.request("GET", path, query={"limit": "1"})
        except ApiError:
            return True
        if b'"items":[]' not in answer.body and b'"items": []' not in answer.body:
            return True
    return False
