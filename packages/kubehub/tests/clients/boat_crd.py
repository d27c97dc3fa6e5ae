"""A custom kind that every client meets: boats, with a status and a scale of their own."""

from typing import Any

GROUP = "clients.suite.fairway.dev"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"
PLURAL = "boats"
KIND = "Boat"
DEFINITION_NAME = f"{PLURAL}.{GROUP}"

DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": DEFINITION_NAME},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": PLURAL, "singular": "boat", "kind": KIND, "shortNames": ["bt"]},
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.crew",
                        "statusReplicasPath": ".status.aboard",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "additionalPrinterColumns": [
                    {"name": "Port", "type": "string", "jsonPath": ".spec.port"},
                    {"name": "Crew", "type": "integer", "jsonPath": ".spec.crew"},
                ],
                "selectableFields": [{"jsonPath": ".spec.port"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "port": {"type": "string", "minLength": 1},
                                    "crew": {"type": "integer", "minimum": 0, "default": 1},
                                    "sails": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "area": {"type": "integer"},
                                            },
                                        },
                                    },
                                },
                            },
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                                "properties": {
                                    "aboard": {"type": "integer"},
                                    "selector": {"type": "string"},
                                    "phase": {"type": "string"},
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}


def path(namespace: str, name: str = "") -> str:
    return f"/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}" + (f"/{name}" if name else "")


def boat(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {"port": "home", **spec}}
