"""Which fields HostedClusters and NodePools require on this cluster, as the value of a ClusterClaim.

A request that lacks one of them would be refused by this cluster, so the hub does not reserve room for it here. The
claim has the digest of the schema and the required fields without a default, in at most 1,024 characters, which is what
a ClusterClaim may hold:

    v1beta1 8E5A0C77D1B0 hostedclusters=platform.type,pullSecret,release.image,services nodepools=...

The schemas come from the discovery of the cluster, which every identity may read.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from kubewire.client import Client, KubeError, NotFound

GROUP_VERSION: Final = "apis/hypershift.openshift.io/v1beta1"
DISCOVERY: Final = "/openapi/v3"
VERSION: Final = "v1beta1"
KINDS: Final = {"HostedCluster": "hostedclusters", "NodePool": "nodepools"}
WRITTEN_BY_HUB: Final = frozenset({"clusterName"})
"""Required fields that no request has to write."""
LONGEST: Final = 1024
DIGEST_LENGTH: Final = 12
DEEPEST: Final = 16
"""Levels of a schema. HyperShift's required fields are at most four deep."""
MORE: Final = "..."
"""In place of fields for which the claim has no room."""
_HASH: Final = re.compile(r"[?&]hash=([0-9A-Za-z]+)")

Schema = Mapping[str, Any]


class RequiredFields:
    """Reads the schemas again only when their digest has changed: they have megabytes."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._digest = self._value = ""

    async def claim(self) -> str:
        """Return the value of the claim; empty while the cluster does not publish the schemas."""
        try:
            index = await self._client.request("GET", DISCOVERY, large=True)
            path = _location(msgspec.json.decode(index.body))
            if not path:
                return ""
            digest = _digest(path)
            if not digest or digest != self._digest:
                document = await self._client.request("GET", path, large=True)
                self._value = claim_of(msgspec.json.decode(document.body), digest=digest)
                self._digest = digest
        except NotFound:
            return ""
        except (KubeError, msgspec.MsgspecError, RecursionError):
            return self._value  # what was read before holds until something else is known
        return self._value


def claim_of(document: object, *, digest: str) -> str:
    """Return the value for an OpenAPI document of the group; empty if it has no HostedClusters."""
    required = {
        plural: list(_required(schema.get("properties", {}).get("spec", {}), "", 0))
        for kind, plural in KINDS.items()
        if (schema := _schema(document, kind)) is not None
    }
    if "hostedclusters" not in required:
        return ""
    value = f"{VERSION} {digest[:DIGEST_LENGTH] or '-'}"
    # Each kind gets its share of the room, so that a long list of one does not displace the other.
    room = (LONGEST - len(value)) // len(required)
    return " ".join([value, *(_bounded(f"{plural}=", paths, room) for plural, paths in required.items())])


def _bounded(prefix: str, paths: list[str], room: int) -> str:
    text = prefix + ",".join(paths)
    if len(text) < room:
        return text
    kept = text[: room - len(MORE) - 2].rpartition(",")[0]
    return f"{kept},{MORE}" if kept else f"{prefix}{MORE}"


def _required(schema: object, path: str, depth: int) -> Iterator[str]:
    """Yield the paths of required fields without a default, and of those inside them."""
    if not isinstance(schema, Mapping) or depth > DEEPEST:
        return
    properties = schema.get("properties")
    names = schema.get("required")
    if not isinstance(properties, Mapping) or not isinstance(names, list):
        return
    for name in sorted(property_ for property_ in names if isinstance(property_, str)):
        child = properties.get(name)
        if name in WRITTEN_BY_HUB or (isinstance(child, Mapping) and "default" in child):
            continue
        inner = list(_required(child, f"{path}{name}.", depth + 1))
        yield from inner or [f"{path}{name}"]


def _schema(document: object, kind: str) -> Schema | None:
    try:
        schemas: Mapping[str, Any] = document["components"]["schemas"]  # type: ignore[index]
        for schema in schemas.values():
            for identity in schema.get("x-kubernetes-group-version-kind", ()):
                if (identity["kind"], identity["version"]) == (kind, VERSION):
                    resolved: Schema = schema
                    return resolved
    except (AttributeError, KeyError, TypeError):
        return None
    return None


def _location(index: object) -> str:
    try:
        path = index["paths"][GROUP_VERSION]["serverRelativeURL"]  # type: ignore[index]
    except (KeyError, TypeError):
        return ""
    return path if isinstance(path, str) and path.startswith(f"{DISCOVERY}/") else ""


def _digest(path: str) -> str:
    match = _HASH.search(path)
    return match[1] if match else ""
