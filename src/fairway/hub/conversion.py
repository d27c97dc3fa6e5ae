"""Resources that are shown in another shape than they are kept in."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from fairway.hub.resource import Document, Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Renaming:
    """Top-level fields with another name in the shape that is shown. Values stay as they are."""

    names: Mapping[str, str]
    """From the name in what is kept to the name in what is shown."""

    def outward(self, document: Document) -> Document:
        # What is kept as an empty text isn't shown at all in the other shape.
        return {self.names.get(key, key): value for key, value in document.items() if value != ""}

    def inward(self, document: Document) -> Document:
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


def unified(resource: Resource) -> Resource:
    """Events are one thing with two faces: those of events.k8s.io are kept as core ones."""
    if (resource.group, resource.plural) == ("events.k8s.io", "events"):
        return replace(resource, stored_as="events", conversion=EVENTS)
    return resource
