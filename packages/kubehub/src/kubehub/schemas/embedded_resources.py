"""``x-kubernetes-embedded-resource``: validate the embedded object."""

from collections.abc import Iterator
from typing import Any, Final

from kubehub import status
from kubehub.schema import Node
from kubehub.schemas.metadata import check_new
from kubehub.schemas.object_meta import decoding_error
from kubehub.schemas.reachability import Reach
from kubehub.status import Cause
from kubewire.api import naming

NOT_A_STRING: Final = "must be a string"
EMPTY: Final = "must not be empty"
BAD_GROUP_VERSION: Final = "unexpected GroupVersion string: {}"
BAD_KIND: Final = "may have mixed case, but should otherwise match: {}"


def wanted(node: Node) -> bool:
    return node.embedded


def embedded_faults(node: Node, value: Any, path: str, reach: Reach) -> Iterator[Cause]:
    """``reach`` contains the nodes that lead to the ``wanted`` ones."""
    if type(value) is dict:
        if node.embedded:
            yield from _resource(value, path)
        for key, child in value.items():
            named = node.properties.get(key)
            if named is not None and id(named) in reach:
                yield from embedded_faults(named, child, f"{path}.{key}" if path else key, reach)
            elif named is None and node.additional is not None and id(node.additional) in reach:
                yield from embedded_faults(node.additional, child, f"{path}[{key}]", reach)
    elif type(value) is list and node.items is not None and id(node.items) in reach:
        for index, item in enumerate(value):
            yield from embedded_faults(node.items, item, f"{path}[{index}]", reach)


def _resource(value: dict[str, Any], path: str) -> Iterator[Cause]:
    for name in ("apiVersion", "kind"):
        if name not in value:
            yield status.required(f"{path}.{name}")
        else:
            detail = _type_fault(name, value[name])
            if detail is not None:
                yield status.invalid_value(f"{path}.{name}", value[name], detail)
    if "metadata" in value:
        metadata = value["metadata"]
        fault = decoding_error(metadata)
        if fault is not None:
            yield status.invalid_value(f"{path}.metadata", metadata, fault)
            return
        named = {"name": "unnamed"} | (metadata or {})
        yield from check_new(
            named | {"name": named["name"] or "unnamed"},
            namespaced=bool(named.get("namespace")),
            rule=naming.path_segment,
            path=f"{path}.metadata",
        )


def _type_fault(name: str, value: Any) -> str | None:
    if not isinstance(value, str):
        return NOT_A_STRING
    if not value:
        return EMPTY
    if name == "apiVersion":
        return BAD_GROUP_VERSION.format(value) if value.count("/") > 1 else None
    faults = naming.dns1035_label(value.lower())
    return BAD_KIND.format(",".join(faults)) if faults else None
