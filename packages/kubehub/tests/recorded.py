"""Recorded answers of a real kube-apiserver, from tests/golden."""

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kubehub import builtin
from kubehub.builtin.canonical import encode_fields
from kubehub.patches import fieldset
from kubehub.patches.fieldset import FieldSet
from kubehub.resource import Document
from kubehub.schema import Node, parse

GOLDEN = Path(__file__).parents[3] / "tests" / "golden"
WITHOUT_STATUS = ("ConfigMap", "ServiceAccount")


@dataclass(frozen=True)
class Kind:
    node: Node
    blank: Document | None = None


def recording(name: str) -> tuple[Document, list[Document]]:
    """Return the header and the cases."""
    lines = gzip.decompress((GOLDEN / name).read_bytes()).splitlines()
    header, *cases = (msgspec.json.decode(line) for line in lines)
    return header, cases


def kind(name: str, schema: dict[str, Any] | None = None) -> Kind:
    """A built-in kind, or the custom one of the recording, with this schema."""
    if name == "Widget" and schema is not None:
        return Kind(parse(schema))
    group = "apps" if name == "Deployment" else ""
    made = builtin.kind(group, "v1", name)
    return Kind(made.node, encode_fields(made, {}))


def ignored(case: Document) -> FieldSet:
    """Return the fields that the endpoint of the case doesn't write."""
    if case["subresource"] == "status":
        return fieldset.of(("metadata",), ("spec",))
    return fieldset.EMPTY if case["kind"] in WITHOUT_STATUS else fieldset.of(("status",))


def unordered(refusal: Document) -> Document:
    """Sort the faults of an object and the managers of conflicts, whose order Kubernetes doesn't define."""
    told = dict(refusal)
    if "errors:\n" in told["message"]:
        told["message"] = sorted(told["message"].split("\n"))
    causes = (told.get("details") or {}).get("causes")
    if causes:
        told["details"] = {"causes": sorted(causes, key=lambda cause: sorted(cause.items()))}
    return told
