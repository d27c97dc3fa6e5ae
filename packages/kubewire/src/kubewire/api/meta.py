"""Metadata and conditions of Kubernetes objects."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final, Protocol

from msgspec import Struct, field, structs

from kubewire.api.annotation import LABEL_KEY, Field, Int64, Time

TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"

NAMED_FIELDS: Final = 3


class OwnerReference(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    # A default from a factory is always encoded: these four are required.
    apiVersion: str = field(default_factory=str)
    kind: str = field(default_factory=str)
    name: str = field(default_factory=str)
    uid: str = field(default_factory=str)
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None


class ObjectMeta(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Unused fields, such as ``managedFields``, are dropped when decoding."""

    name: str = ""
    generateName: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: Int64 = 0
    creationTimestamp: Time | None = None
    deletionTimestamp: Time | None = None
    deletionGracePeriodSeconds: Int64 | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    ownerReferences: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    def partial(self, unreadable: "tuple[UnreadableField, ...]") -> "PartialMeta":
        """Return a copy with these unreadable fields."""
        known = {name: getattr(self, name) for name in ObjectMeta.__struct_fields__}
        return PartialMeta(**known, unreadable=unreadable)


class UnreadableField(Struct, frozen=True, gc=False):
    """A field that could not be decoded and was dropped. The reason does not contain its value."""

    path: str
    reason: str
    count: int = 1
    """Number of items of the lists and maps on the path with the same unreadable field; ``path`` is the first."""

    def __str__(self) -> str:
        more = f" (and {self.count - 1} more)" if self.count > 1 else ""
        return f"{self.path}: {self.reason}{more}"

    @property
    def field(self) -> str:
        """The path without indices and keys, so that there are as many as the schema has fields."""
        return _INDEX.sub("[]", self.path)


_INDEX: Final = re.compile(r"\[[^\]]*\]")


class PartialMeta(ObjectMeta, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Metadata of a partly unreadable object. Created while decoding, never encoded."""

    unreadable: tuple[UnreadableField, ...] = ()


class _Object(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


def unreadable_fields(obj: _Object) -> tuple[UnreadableField, ...]:
    """Return the unreadable fields that were dropped from the object."""
    meta = obj.metadata
    return meta.unreadable if isinstance(meta, PartialMeta) else ()


def reason_of(fields: Sequence[UnreadableField]) -> str:
    """Format the first few fields for a message."""
    named = "; ".join(str(dropped) if dropped.path else dropped.reason for dropped in fields[:NAMED_FIELDS])
    return named if len(fields) <= NAMED_FIELDS else f"{named}; and {len(fields) - NAMED_FIELDS} more"


def is_dropped(obj: _Object, path: str) -> bool:
    """Return whether the field or one of its parents was unreadable."""
    return any(
        path == dropped.path or path.startswith(f"{dropped.path}.") for dropped in unreadable_fields(obj)
    )


def unreadable_within(obj: _Object, section: str) -> UnreadableField | None:
    """Return the first unreadable field below ``section``, such as ``spec``."""
    for dropped in unreadable_fields(obj):
        if dropped.path == section or dropped.path.startswith((f"{section}.", f"{section}[")):
            return dropped
    return None


class Condition(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: Annotated[
        str,
        Field(
            "Type of the condition, in CamelCase or as prefix/CamelCase.",
            required=True,
            max_length=316,
            pattern=LABEL_KEY,
        ),
    ] = field(default_factory=str)
    status: Annotated[
        str, Field("Whether the condition holds.", required=True, enum=(TRUE, FALSE, UNKNOWN))
    ] = field(default_factory=str)
    observedGeneration: Annotated[
        Int64, Field("The generation of the object this condition was derived from.", minimum=0)
    ] = 0
    lastTransitionTime: Annotated[Time | None, Field("When the status last changed.", required=True)] = None
    reason: Annotated[
        str,
        Field(
            "Reason of the last transition, as one CamelCase word.",
            required=True,
            min_length=1,
            max_length=1024,
            pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        ),
    ] = field(default_factory=str)
    message: Annotated[
        str,
        Field("Details of the last transition for people. May be empty.", required=True, max_length=32768),
    ] = field(default_factory=str)


Conditions = Annotated[
    tuple[Condition, ...], Field("Conditions of the object.", list_type="map", map_keys=("type",))
]


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == type_), None)


def set_condition(
    conditions: tuple[Condition, ...], condition: Condition, *, now: datetime
) -> tuple[Condition, ...]:
    """Return ``conditions`` with ``condition`` replacing the one of its type, or appended.

    The transition time changes only with the status. A transition time of the caller is used;
    ``now`` replaces a missing one. Returns ``conditions`` itself if nothing changed.
    """
    transition = condition.lastTransitionTime
    for index, old in enumerate(conditions):
        if old.type != condition.type:
            continue
        moment = (transition or now) if old.status != condition.status else old.lastTransitionTime
        new = structs.replace(condition, lastTransitionTime=moment)
        return conditions if new == old else (*conditions[:index], new, *conditions[index + 1 :])
    return (*conditions, structs.replace(condition, lastTransitionTime=transition or now))


def format_time(moment: datetime) -> str:
    """Format as Kubernetes does: UTC, whole seconds (fractions are truncated)."""
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:  # its offset leads beyond the first or the last year there is
        moment = datetime.min if moment.year == datetime.min.year else datetime.max
    return (
        f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}"
        f"T{moment.hour:02d}:{moment.minute:02d}:{moment.second:02d}Z"
    )
