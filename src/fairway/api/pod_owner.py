"""Services, ReplicationControllers, ReplicaSets and StatefulSets: which pods belong together."""

from msgspec import Struct

from kubewire.api.meta import ObjectMeta
from kubewire.api.selector import LabelSelector


class LabelsSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    selector: dict[str, str] | None = None


class SelectorSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    selector: LabelSelector | None = None


class Service(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "v1"
    kind: str = "Service"
    metadata: ObjectMeta = ObjectMeta()
    spec: LabelsSpec = LabelsSpec()


class ReplicationController(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "v1"
    kind: str = "ReplicationController"
    metadata: ObjectMeta = ObjectMeta()
    spec: LabelsSpec = LabelsSpec()


class ReplicaSet(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "apps/v1"
    kind: str = "ReplicaSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: SelectorSpec = SelectorSpec()


class StatefulSet(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "apps/v1"
    kind: str = "StatefulSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: SelectorSpec = SelectorSpec()


PodOwner = Service | ReplicationController | ReplicaSet | StatefulSet
"""An object whose selector means pods."""
