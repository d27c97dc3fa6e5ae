"""Recorded answers of Kubernetes' own libraries about schemas, from tests/golden."""

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from kubehub.crd import definitions
from kubehub.schema import Node
from kubehub.status import Cause

GOLDEN = Path(__file__).parents[3] / "tests" / "golden"


def answers(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the header and the cases."""
    lines = gzip.decompress((GOLDEN / f"schema-{name}.jsonl.gz").read_bytes()).splitlines()
    header, *cases = (msgspec.json.decode(line) for line in lines)
    return header, cases


def causes_of(causes: Iterable[Cause]) -> list[list[str]]:
    return sorted([cause.field, cause.reason, cause.message] for cause in causes)


def boat(spec: dict[str, Any], **root: Any) -> Node:
    """Return the schema of a custom resource with this schema of its spec."""
    return definitions.root_node({"type": "object", "properties": {"spec": spec}, **root})


def definition(spec: dict[str, Any] | None = None, **version: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": spec or {"type": "object"}}}
    entry = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.sea.example"},
        "spec": {
            "group": "sea.example",
            "names": {"kind": "Boat", "plural": "boats"},
            "scope": "Namespaced",
            "versions": [entry | version],
        },
    }
