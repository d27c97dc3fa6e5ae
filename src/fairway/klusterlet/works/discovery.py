"""Map the apiVersion and kind of a manifest to the resource that the managed cluster serves."""

import asyncio
import math
import re
from typing import Final

import msgspec
from msgspec import Struct

from fairway.klusterlet.works.objects import ObjectVersion
from kubewire.client import Client, NotFound, Resource

STALE_SECONDS: Final = 1.0
"""Minimum interval of requests for a group that lacks a kind."""

_API_VERSION: Final = re.compile(r"(?:(?P<group>[a-z0-9][a-z0-9.-]*)/)?(?P<version>[a-z0-9]+)", re.ASCII)


class _Entry(Struct, frozen=True):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _Listing(Struct, frozen=True):
    resources: tuple[_Entry, ...] = ()


Kinds = dict[str, Resource[ObjectVersion]]


class Discovery:
    """Caches the kinds that the cluster serves; a missing kind is requested again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, tuple[float, Kinds]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def find(self, api_version: str, kind: str) -> Resource[ObjectVersion] | None:
        """Return None if the cluster does not serve the kind. Raises KubeError."""
        lock = self._locks.setdefault(api_version, asyncio.Lock())
        async with lock:
            requested, kinds = self._known.get(api_version, (-math.inf, {}))
            now = asyncio.get_running_loop().time()
            if kind not in kinds and now - requested >= STALE_SECONDS:
                kinds = await self._request(api_version)
                self._known[api_version] = (now, kinds)
            return kinds.get(kind)

    def forget(self, api_version: str) -> None:
        """Drop a cached group, after a request for one of its kinds returned 404."""
        self._known.pop(api_version, None)

    async def _request(self, api_version: str) -> Kinds:
        named = _API_VERSION.fullmatch(api_version)
        if named is None:
            return {}  #  an invalid apiVersion is not served
        group, version = named["group"] or "", named["version"]
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            response = await self._client.request("GET", path)
        except NotFound:
            return {}
        entries = msgspec.json.decode(response.body, type=_Listing).resources
        return {
            resource.kind: Resource(
                group=group,
                version=version,
                plural=resource.name,
                kind=resource.kind,
                namespaced=resource.namespaced,
                type=ObjectVersion,
            )
            for resource in entries
            if "/" not in resource.name
        }
