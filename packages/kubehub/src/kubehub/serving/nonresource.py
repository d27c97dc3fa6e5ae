"""Paths that aren't resources: discovery, OpenAPI, version, health, metrics, token keys."""

import asyncio
import hashlib
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kubehub.openapi import documents, v2_protobuf
from kubehub.registry import Registry
from kubehub.resource import Document, Resource
from kubehub.serving import discovery
from kubehub.version import VERSION

JSON: Final = "application/json"
KUBERNETES: Final = "v1.36.3"
"""The Kubernetes release whose responses this hub gives."""

_AGGREGATED: Final = f"{JSON};g={discovery.AGGREGATED};v=v2;as=APIGroupDiscoveryList"
_EITHER_WAY: Final = ("/api/", "/apis/", "/version/")
"""Paths that may end with a slash."""
WITHHELD: Final = "reason withheld"
_HEALTH: Final = ("/healthz", "/livez", "/readyz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    payload: bytes
    content_type: str = JSON
    code: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class NonResourcePaths:
    """Documents derived from the registry are built on the first request and cached until it changes."""

    def __init__(
        self,
        *,
        registry: Registry,
        address: Callable[[], str],
        faults: Callable[[], Mapping[str, str]],
        metrics: Callable[[], bytes],
        keys: Callable[[], Document],
        issuer: Callable[[], Document],
    ) -> None:
        """``faults`` maps failed parts to the reason; empty when the hub is healthy."""
        self._registry, self._address, self._faults = registry, address, faults
        self._metrics, self._keys, self._issuer = metrics, keys, issuer
        self._made: dict[str, tuple[bytes, str]] = {}
        self._making: dict[str, asyncio.Future[tuple[bytes, str]]] = {}
        self._generation = -1

    async def ensure(self, path: str, *, accept: str) -> None:
        """Build an expensive document in another thread before ``find``, once for all clients that ask for it."""
        key = self._key(path, accept)[0]
        if path != "/openapi/v2" or key in self._made:
            return
        if key not in self._making:
            resources = tuple(self._registry.resources)
            self._making[key] = asyncio.ensure_future(
                asyncio.to_thread(_swagger, resources, protobuf=key != path)
            )
        generation, making = self._generation, self._making[key]
        try:
            payload = await asyncio.shield(making)
        finally:
            if making.done() and self._making.get(key) is making:
                del self._making[key]
        if generation == self._registry.generation:
            self._made[key] = payload

    def find(
        self, path: str, *, accept: str, etag: str, query: Mapping[str, str], known: bool = True
    ) -> Answer | None:
        """``known``: the client is authenticated."""
        if path.startswith(_EITHER_WAY):
            path = path.rstrip("/")
        head, _, check = path.rpartition("/")
        if path in _HEALTH or (head in _HEALTH and check):
            kind, check = (path, "") if path in _HEALTH else (head, check)
            return self._health(kind, check, query, known=known)
        if path == "/version":
            return Answer(payload=_encode(version()))
        if path == "/metrics":
            return Answer(payload=self._metrics(), content_type="text/plain; version=0.0.4; charset=utf-8")
        if path == "/openid/v1/jwks":
            return Answer(payload=_encode(self._keys()), content_type="application/jwk-set+json")
        if path == "/.well-known/openid-configuration":
            return Answer(payload=_encode(self._issuer()))
        if path == "/":
            return Answer(payload=_encode({"paths": self._paths()}))
        return self._cached(path, accept, etag)

    def _health(self, path: str, check: str, query: Mapping[str, str], *, known: bool) -> Answer:
        faults = {name: why for name, why in self._faults().items() if not check or name == check}
        if path == "/livez":
            faults = {}
        if faults:
            # The reason names files, so unauthenticated clients don't get it.
            lines = "".join(
                f"[-]{name} failed: {why if known else WITHHELD}\n" for name, why in faults.items()
            )
            return Answer(payload=lines.encode(), code=503, content_type="text/plain; charset=utf-8")
        text = f"[+]ping ok\n[+]store ok\n{path[1:]} check passed\n" if "verbose" in query else "ok"
        return Answer(payload=text.encode(), content_type="text/plain; charset=utf-8")

    def _paths(self) -> list[str]:
        groups = [f"/apis/{g}" for g in sorted(self._registry.groups) if g]
        versions = [f"/apis/{g}/{v}" for g, vs in self._registry.groups.items() if g for v in vs]
        fixed = [
            "/.well-known/openid-configuration",
            "/api",
            "/api/v1",
            "/apis",
            "/healthz",
            "/livez",
            "/metrics",
        ]
        return sorted([*fixed, *groups, *versions, "/openapi/v2", "/openapi/v3", "/readyz", "/version"])

    def _key(self, path: str, accept: str) -> tuple[str, str]:
        """The cache key of a document, and its content type."""
        if self._generation != self._registry.generation:
            self._made.clear()
            self._making.clear()
            self._generation = self._registry.generation
        if (
            path in ("/api", "/apis")
            and discovery.AGGREGATED in accept
            and "v=v2;" in f"{accept};".replace(",", ";")
        ):
            return f"{path} aggregated", _AGGREGATED
        if path == "/openapi/v2" and any(name in accept for name in v2_protobuf.ASKED):
            return f"{path} protobuf", v2_protobuf.MEDIA
        return path, JSON

    def _cached(self, path: str, accept: str, etag: str) -> Answer | None:
        key, content_type = self._key(path, accept)
        cached = self._made.get(key)
        if cached is None:
            if path == "/openapi/v2":
                cached = _swagger(tuple(self._registry.resources), protobuf=key != path)
            elif (document := self._build(key)) is not None:
                cached = _with_etag(_encode(document))
            else:
                return None
            self._made[key] = cached
        payload, tag = cached
        headers = {"Etag": tag, "Vary": "Accept"}
        if etag == tag:
            return Answer(payload=b"", code=304, headers=headers, content_type=content_type)
        return Answer(payload=payload, headers=headers, content_type=content_type)

    def _build(self, key: str) -> Document | None:
        registry = self._registry
        match key.strip("/").split("/"):
            case ["api"]:
                return discovery.core_versions(self._address())
            case ["api aggregated"]:
                return discovery.aggregated(registry, core=True)
            case ["apis"]:
                return discovery.groups(registry)
            case ["apis aggregated"]:
                return discovery.aggregated(registry, core=False)
            case ["api", version]:
                return discovery.resources(registry, "", version)
            case ["apis", group]:
                return discovery.group(registry, group)
            case ["apis", group, version]:
                return discovery.resources(registry, group, version)
            case ["openapi", "v3"]:
                return documents.index(registry.resources)
            case ["openapi", "v3", "api", version]:
                return self._openapi("", version)
            case ["openapi", "v3", "apis", group, version]:
                return self._openapi(group, version)
            case _:
                return None

    def _openapi(self, group: str, version: str) -> Document | None:
        served = self._registry.of_version(group, version)
        return documents.document(group, version, served) if served else None


def version() -> Document:
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{KUBERNETES}+kubehub.{VERSION}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


def _swagger(resources: Sequence[Resource], *, protobuf: bool) -> tuple[bytes, str]:
    document = documents.swagger(resources)
    return _with_etag(v2_protobuf.encode(document) if protobuf else _encode(document))


def _with_etag(payload: bytes) -> tuple[bytes, str]:
    return payload, f'"{hashlib.sha256(payload).hexdigest().upper()}"'


def _encode(document: Document) -> bytes:
    return msgspec.json.encode(document) + b"\n"
