"""The definitions of HostedCluster and NodePool: as HyperShift publishes them, else a short form of our own."""

from pathlib import Path
from typing import Any, Final

import yaml

PUBLISHED: Final = Path(__file__).parents[3] / "shared" / "reference" / "others" / "hypershift"
KINDS: Final = {"hostedclusters": "HostedCluster", "nodepools": "NodePool"}

_REFERENCE: Final = {"type": "object", "properties": {"name": {"type": "string"}}}
_RELEASE: Final = {"type": "object", "required": ["image"], "properties": {"image": {"type": "string"}}}
_PLATFORM: Final = {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}}
_OPEN: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SPECS: Final[dict[str, Any]] = {
    "hostedclusters": {
        "type": "object",
        "required": ["etcd", "networking", "platform", "pullSecret", "release", "services"],
        "properties": {
            "controllerAvailabilityPolicy": {"type": "string"},
            "etcd": {**_OPEN, "default": {"managementType": "Managed"}},
            "networking": {**_OPEN, "default": {"networkType": "OVNKubernetes"}},
            "platform": _PLATFORM,
            "pullSecret": _REFERENCE,
            "release": _RELEASE,
            "services": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["service", "servicePublishingStrategy"],
                    "properties": {"service": {"type": "string"}, "servicePublishingStrategy": _OPEN},
                },
            },
        },
        "x-kubernetes-validations": [
            {
                "rule": "size(self.services) >= 4",
                "message": "spec.services in body should have at least 4 items",
            }
        ],
    },
    "nodepools": {
        "type": "object",
        "required": ["clusterName", "management", "platform", "release"],
        "properties": {
            "clusterName": {"type": "string"},
            "replicas": {"type": "integer"},
            "management": {
                "type": "object",
                "required": ["upgradeType"],
                "properties": {"upgradeType": {"type": "string", "enum": ["Replace", "InPlace"]}},
            },
            "platform": _PLATFORM,
            "release": _RELEASE,
        },
    },
}

SMALLEST: Final[dict[str, Any]] = {
    "platform": {"type": "None"},
    "pullSecret": {"name": "pull"},
    "release": {"image": "quay.io/openshift-release-dev/ocp-release:4.20.0-x86_64"},
    "services": [
        {"service": service, "servicePublishingStrategy": {"type": "Route"}}
        for service in ("APIServer", "Ignition", "Konnectivity", "OAuthServer")
    ],
}
"""A spec of a HostedCluster that HyperShift accepts."""
POOL: Final[dict[str, Any]] = {
    "replicas": 2,
    "management": {"upgradeType": "Replace"},
    "platform": {"type": "None"},
    "release": SMALLEST["release"],
}
"""A spec of a NodePool that HyperShift accepts."""


def definition(plural: str) -> dict[str, Any]:
    """Return the CustomResourceDefinition."""
    path = PUBLISHED / f"hypershift.openshift.io_{plural}.yaml"
    if path.exists():
        document: dict[str, Any] = yaml.safe_load(path.read_text())
        return document
    kind = KINDS[plural]
    schema = {"type": "object", "properties": {"spec": _SPECS[plural], "status": _OPEN}}
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.hypershift.openshift.io"},
        "spec": {
            "group": "hypershift.openshift.io",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }
