"""Events, of the core group and of events.k8s.io."""

from typing import Annotated, Final

from msgspec import Struct

from kubewire.api.annotation import Field, Int32, Time
from kubewire.api.lease import MicroTime
from kubewire.api.meta import ObjectMeta

NORMAL: Final = "Normal"
WARNING: Final = "Warning"


class ObjectReference(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resourceVersion: str = ""
    fieldPath: Annotated[str, Field("Part of the object, such as spec.containers{web}.")] = ""


class EventSource(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    component: str = ""
    host: str = ""


class EventSeries(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    count: Annotated[Int32, Field("Number of occurrences, including the first; at least 2.")] = 0
    lastObservedTime: MicroTime = ""


class CoreEvent(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """An event of the core group, as ``kubectl describe`` shows it, with ``count`` and two timestamps."""

    apiVersion: str = "v1"
    kind: str = "Event"
    metadata: ObjectMeta = ObjectMeta()
    involvedObject: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    firstTimestamp: Time | None = None
    lastTimestamp: Time | None = None
    count: Int32 = 0
    type: Annotated[str, Field(enum=(NORMAL, WARNING))] = ""
    eventTime: MicroTime | None = None
    series: EventSeries | None = None
    action: str = ""
    related: ObjectReference | None = None
    reportingComponent: str = ""
    reportingInstance: str = ""


class Event(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """An event of events.k8s.io: all fields except ``series`` are immutable."""

    apiVersion: str = "events.k8s.io/v1"
    kind: str = "Event"
    metadata: ObjectMeta = ObjectMeta()
    eventTime: MicroTime | None = None
    series: EventSeries | None = None
    reportingController: str = ""
    reportingInstance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: Annotated[str, Field(enum=(NORMAL, WARNING))] = ""
    deprecatedSource: EventSource = EventSource()
    deprecatedFirstTimestamp: Time | None = None
    deprecatedLastTimestamp: Time | None = None
    deprecatedCount: Int32 = 0
