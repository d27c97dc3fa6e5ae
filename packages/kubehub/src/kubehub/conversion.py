"""Conversion of resources that are stored in another version than the client's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kubehub.resource import Document, Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Renaming:
    """Renames top-level fields. Values stay the same."""

    names: Mapping[str, str]
    """From the stored field name to the served one."""

    def from_storage(self, document: Document) -> Document:
        # Fields that are stored as an empty string are omitted in the served version.
        return {self.names.get(key, key): value for key, value in document.items() if value != ""}

    def to_storage(self, document: Document) -> Document:
        back = {shown: kept for kept, shown in self.names.items()}
        return {back.get(key, key): value for key, value in document.items()}


EVENTS: Final = Renaming(
    names={
        "involvedObject": "regarding",
        "message": "note",
        "source": "deprecatedSource",
        "firstTimestamp": "deprecatedFirstTimestamp",
        "lastTimestamp": "deprecatedLastTimestamp",
        "count": "deprecatedCount",
        "reportingComponent": "reportingController",
    }
)


PLACEMENTS: Final = "placements.cluster.open-cluster-management.io"


class OldPlacements:
    """Placements before v1beta1 named built-in prioritizers directly."""

    def to_storage(self, document: Document) -> Document:
        def add_coordinate(config: Document) -> Document:
            name = config.get("name")
            kept = {key: value for key, value in config.items() if key != "name"}
            if name and not kept.get("scoreCoordinate"):
                kept["scoreCoordinate"] = {"type": "BuiltIn", "builtIn": name}
            return kept

        return _map_configurations(document, add_coordinate)

    def from_storage(self, document: Document) -> Document:
        def add_name(config: Document) -> Document:
            built_in = (config.get("scoreCoordinate") or {}).get("builtIn")
            return {"name": built_in, **config} if built_in else config

        return _map_configurations(document, add_name)


def _map_configurations(document: Document, change: Callable[[Document], Document]) -> Document:
    policy = (document.get("spec") or {}).get("prioritizerPolicy") or {}
    listed = policy.get("configurations")
    if not listed:
        return document
    changed = {**policy, "configurations": [change(configuration) for configuration in listed]}
    return {**document, "spec": {**document["spec"], "prioritizerPolicy": changed}}


def with_conversion(resource: Resource) -> Resource:
    """Add the conversion to a resource that needs one: events of events.k8s.io are stored as core events."""
    if (resource.group, resource.plural) == ("events.k8s.io", "events"):
        return replace(resource, stored_as="events", conversion=EVENTS)
    if (resource.key, resource.version) == (PLACEMENTS, "v1alpha1"):
        return replace(resource, conversion=OldPlacements())
    return resource
