"""Objects of any kind on a hub, by the paths that its discovery names."""

from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from kubewire.client import Client, NotFound, Patch

Document = dict[str, Any]

PAGE: Final = 500


class NotServed(Exception):
    """The hub does not serve the kind of an object."""


class HubObjects:
    """Objects without a namespace are in that of the hub's context, if their kind is namespaced."""

    def __init__(self, client: Client, *, field_manager: str) -> None:
        self._client, self._manager = client, field_manager
        self._served: dict[str, dict[str, dict[str, Any]]] = {}
        """The kinds of each apiVersion that was asked for."""

    async def get(self, document: Document) -> Document | None:
        """Return an object as the hub has it; None if it, or its kind, does not exist."""
        path = await self._path(document)
        if path is None:
            return None
        try:
            response = await self._client.request("GET", path)
        except NotFound:
            return None
        live: Document = decode(response.body)
        return live

    async def apply(self, document: Document, *, force: bool, dry_run: bool) -> Document:
        """Return an object as the hub has it after it is applied, or would have it. Raises NotServed."""
        path = await self._path(document)
        if path is None:
            raise NotServed
        response = await self._client.request(
            "PATCH",
            path,
            query=[
                ("fieldManager", self._manager),
                ("force", "true" if force else "false"),
                *((("dryRun", "All"),) if dry_run else ()),
            ],
            body=msgspec.json.encode(document),
            content_type=Patch.APPLY.value,
        )
        applied: Document = decode(response.body)
        return applied

    async def list(self, version: str, kind: str, *, labels: str = "") -> AsyncIterator[Document]:
        """Yield the objects of a kind, with kind and apiVersion; none if the hub does not serve it."""
        served = await self._kind(version, kind)
        token = ""
        while served is not None:
            query = [("limit", str(PAGE))]
            query += [("labelSelector", labels)] if labels else []
            query += [("continue", token)] if token else []
            response = await self._client.request(
                "GET", f"{_root(version)}/{served['name']}", query=query, large=True
            )
            page = decode(response.body)
            for item in page["items"]:
                yield {"apiVersion": version, "kind": kind, **item}
            token = page.get("metadata", {}).get("continue", "")
            if not token:
                return

    async def delete(self, document: Document) -> bool:
        """Delete an object, with what it owns. Return whether it existed. One that was created again is left alone."""
        path = await self._path(document)
        if path is None:
            return False
        uid = document["metadata"].get("uid")
        body: Document = {"propagationPolicy": "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            await self._client.request("DELETE", path, body=body)
        except NotFound:
            return False
        return True

    async def _path(self, document: Document) -> str | None:
        version, metadata = document["apiVersion"], document["metadata"]
        served = await self._kind(version, document["kind"])
        if served is None:
            return None
        namespace = metadata.get("namespace") or self._client.namespace
        where = f"/namespaces/{namespace}" if served["namespaced"] else ""
        return f"{_root(version)}{where}/{served['name']}/{metadata['name']}"

    async def _kind(self, version: str, kind: str) -> dict[str, Any] | None:
        # A kind that was missing may be served by now: its CRD may be among the objects.
        if kind not in self._served.get(version, {}):
            try:
                resources = decode((await self._client.request("GET", _root(version))).body)["resources"]
            except NotFound:
                resources = []
            self._served[version] = {
                resource["kind"]: resource for resource in resources if "/" not in resource["name"]
            }
        return self._served[version].get(kind)


def name_of(document: Document) -> str:
    """Return the name of an object as kubectl prints it."""
    group = document["apiVersion"].rpartition("/")[0]
    kind = document["kind"].lower() + (f".{group}" if group else "")
    return f"{kind}/{document['metadata']['name']}"


def decode(body: bytes) -> Any:
    return msgspec.json.decode(body)


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"
