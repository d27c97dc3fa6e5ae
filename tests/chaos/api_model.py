"""A model of the API: objects, their versions and their watch events."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from clients import boat_crd

from chaos.blocking import Document

Kind = Literal["configmaps", "boats"]
KINDS: tuple[Kind, ...] = ("configmaps", "boats")
Key = tuple[Kind, str]

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """State of one object in the model."""

    uid: str
    version: int
    value: str
    """In the part that is specified."""
    label: str
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    generation: int | None = None

    def with_(self, **changes: Any) -> "Object":
        """Return a changed copy; a changed spec increases the generation."""
        made = replace(self, **changes)
        if made.value != self.value and self.generation is not None:
            made = replace(made, generation=self.generation + 1)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    type: str
    kind: Kind
    name: str
    object: Object


@dataclass(slots=True)
class Model:
    objects: dict[Key, Object] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    newest: int = 0

    def put(self, key: Key, made: Object) -> None:
        type_ = "MODIFIED" if key in self.objects else "ADDED"
        self.objects[key] = made
        self._tell(type_, key, made)

    def drop(self, key: Key, version: int) -> None:
        self._tell("DELETED", key, replace(self.objects.pop(key), version=version))

    def _tell(self, type_: str, key: Key, made: Object) -> None:
        assert made.version > self.newest
        self.newest = made.version
        self.events.append(Event(type=type_, kind=key[0], name=key[1], object=made))

    def at(self, kind: Kind, version: int) -> dict[str, Object]:
        objects: dict[str, Object] = {}
        for event in self.events:
            if event.kind == kind and event.object.version <= version:
                objects.pop(event.name, None)
                if event.type != "DELETED":
                    objects[event.name] = event.object
        return objects


def path(kind: Kind, namespace: str, name: str = "") -> str:
    if kind == "boats":
        return boat_crd.path(namespace, name)
    return f"/api/v1/namespaces/{namespace}/configmaps" + (f"/{name}" if name else "")


def typed(kind: Kind) -> Document:
    if kind == "boats":
        return {"apiVersion": boat_crd.API_VERSION, "kind": boat_crd.KIND}
    return {"apiVersion": "v1", "kind": "ConfigMap"}


def written(kind: Kind, value: str) -> Document:
    return {"data": {"value": value}} if kind == "configmaps" else {"spec": {"port": value}}


def read(kind: Kind, document: Document) -> Object:
    metadata = document["metadata"]
    return Object(
        uid=metadata["uid"],
        version=int(metadata["resourceVersion"]),
        value=document["data"]["value"] if kind == "configmaps" else document["spec"]["port"],
        label=metadata.get("labels", {}).get("label", ""),
        finalizers=tuple(metadata.get("finalizers", ())),
        deleting="deletionTimestamp" in metadata,
        generation=metadata.get("generation"),
    )
