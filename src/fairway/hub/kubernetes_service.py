"""The Service ``default/kubernetes``, by which programs find the API server they talk to, and its endpoints.

It is headless: the hub hands out no service addresses, and its endpoint is where the hub listens.
"""

import ipaddress
from collections.abc import Iterator
from typing import Any, Final

from fairway.hub.kinds.network import HEADLESS
from fairway.hub.resource import Document

NAMESPACE: Final = "default"
NAME: Final = "kubernetes"
SERVICES: Final = "services"
ENDPOINTS: Final = "endpoints"
SLICES: Final = "endpointslices.discovery.k8s.io"
KEYS: Final = frozenset({SERVICES, ENDPOINTS, SLICES})

_PORT: Final = "https"
_DEFAULT_PORT: Final = 443


def documents(*, address: str, port: int) -> Iterator[tuple[str, Document]]:
    """Each with the key of its resource; ``address`` may be a name, which only a Service can hold."""
    own: dict[str, Any] = {"name": _PORT, "protocol": "TCP"}
    labels = {"component": "apiserver", "provider": "kubernetes"}
    yield (
        SERVICES,
        _named(labels)
        | {"spec": {"clusterIP": HEADLESS, "ports": [own | {"port": _DEFAULT_PORT, "targetPort": port}]}},
    )
    try:
        version = ipaddress.ip_address(address).version
    except ValueError:
        return
    yield (
        ENDPOINTS,
        _named({"endpointslice.kubernetes.io/skip-mirror": "true"})
        | {"subsets": [{"addresses": [{"ip": address}], "ports": [own | {"port": port}]}]},
    )
    yield (
        SLICES,
        _named({"kubernetes.io/service-name": NAME})
        | {
            "addressType": f"IPv{version}",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [own | {"port": port}],
        },
    )


def _named(labels: dict[str, str]) -> Document:
    return {"metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels}}


def brought(document: Document) -> bool:
    metadata = document["metadata"]
    return (metadata.get("namespace"), metadata["name"]) == (NAMESPACE, NAME)


def reconciled(kept: Document, wanted: Document) -> Document | None:
    """What is kept with where the hub listens now, or None when it is the same place."""
    parts = {name: value for name, value in wanted.items() if name != "metadata"}
    if "spec" in parts:
        parts["spec"] = {**(kept.get("spec") or {}), **parts["spec"]}
    if all(kept.get(name) == value for name, value in parts.items()):
        return None
    return kept | parts
