"""Map the apiVersion and kind of a manifest to the resource that the managed cluster serves."""

import asyncio
import math
import re
from typing import Final

import msgspec
from msgspec import Struct

from fairway.klusterlet.works.objects import ObjectVersion
from fairway.kube import Client, NotFound, Resource

STALE_SECONDS: Final = 1.0
"""A kind that is not known is asked for again, but one group not more often than this."""

_API_VERSION: Final = re.compile(r"(?:(?P<group>[a-z0-9][a-z0-9.-]*)/)?(?P<version>[a-z0-9]+)", re.ASCII)


class _Entry(Struct, frozen=True):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _Listing(Struct, frozen=True):
    resources: tuple[_Entry, ...] = ()


Kinds = dict[str, Resource[ObjectVersion]]


class Discovery:
    """Remembers what the cluster serves; what is missing is looked for again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, tuple[float, Kinds]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def find(self, api_version: str, kind: str) -> Resource[ObjectVersion] | None:
        """None if the cluster does not serve it. Raises KubeError if the cluster does not tell."""
        lock = self._locks.setdefault(api_version, asyncio.Lock())
        async with lock:
            asked, kinds = self._known.get(api_version, (-math.inf, {}))
            now = asyncio.get_running_loop().time()
            if kind not in kinds and now - asked >= STALE_SECONDS:
                kinds = await self._ask(api_version)
                self._known[api_version] = (now, kinds)
            return kinds.get(kind)

    def forget(self, api_version: str) -> None:
        """Something said to be served was not found there."""
        self._known.pop(api_version, None)

    async def _ask(self, api_version: str) -> Kinds:
        named = _API_VERSION.fullmatch(api_version)
        if named is None:
            return {}  # a manifest can name anything; what cannot be part of a path is served nowhere
        group, version = named["group"] or "", named["version"]
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            response = await self._client.request("GET", path)
        except NotFound:
            return {}
        entries = msgspec.json.decode(response.body, type=_Listing).resources
        return {
            each.kind: Resource(
                group=group,
                version=version,
                plural=each.name,
                kind=each.kind,
                namespaced=each.namespaced,
                type=ObjectVersion,
            )
            for each in entries
            if "/" not in each.name
        }
