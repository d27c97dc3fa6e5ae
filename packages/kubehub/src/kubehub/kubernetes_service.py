"""The Service ``default/kubernetes`` and its endpoints, through which programs find the API server.

It is headless: the hub assigns no service addresses, and the endpoint is the hub's own address.
"""

import ipaddress
from collections.abc import Iterator
from typing import Any, Final

from kubehub.kinds.network import HEADLESS
from kubehub.resource import Document

NAMESPACE: Final = "default"
NAME: Final = "kubernetes"
SERVICES: Final = "services"
ENDPOINTS: Final = "endpoints"
SLICES: Final = "endpointslices.discovery.k8s.io"
KEYS: Final = frozenset({SERVICES, ENDPOINTS, SLICES})

_PORT: Final = "https"
_DEFAULT_PORT: Final = 443


def documents(*, address: str, port: int) -> Iterator[tuple[str, Document]]:
    """Yield each object with its resource key. ``address`` may be a host name, which only a Service can contain."""
    own: dict[str, Any] = {"name": _PORT, "protocol": "TCP"}
    labels = {"component": "apiserver", "provider": "kubernetes"}
    yield (
        SERVICES,
        _metadata(labels)
        | {"spec": {"clusterIP": HEADLESS, "ports": [own | {"port": _DEFAULT_PORT, "targetPort": port}]}},
    )
    try:
        version = ipaddress.ip_address(address).version
    except ValueError:
        return
    yield (
        ENDPOINTS,
        _metadata({"endpointslice.kubernetes.io/skip-mirror": "true"})
        | {"subsets": [{"addresses": [{"ip": address}], "ports": [own | {"port": port}]}]},
    )
    yield (
        SLICES,
        _metadata({"kubernetes.io/service-name": NAME})
        | {
            "addressType": f"IPv{version}",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [own | {"port": port}],
        },
    )


def _metadata(labels: dict[str, str]) -> Document:
    return {"metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels}}


def is_default(document: Document) -> bool:
    metadata = document["metadata"]
    return (metadata.get("namespace"), metadata["name"]) == (NAMESPACE, NAME)


def reconcile(stored: Document, wanted: Document) -> Document | None:
    """Return the stored object with the hub's present address, or None if it is up to date."""
    parts = {name: value for name, value in wanted.items() if name != "metadata"}
    if "spec" in parts:
        parts["spec"] = {**(stored.get("spec") or {}), **parts["spec"]}
    if all(stored.get(name) == value for name, value in parts.items()):
        return None
    return stored | parts
