"""Values that replace fields that cannot be decoded.

A dropped field gets the default of its type. That is wrong wherever a missing field grants more than a present one: a
Lease without a holder is free. The rule behind every fallback: an unreadable field must not give its writer more than a
missing one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from kubewire.api.lease import Lease, LeaseSpec
from kubewire.api.meta import UNKNOWN, Condition, ObjectMeta

NO_FALLBACK: Final = object()
"""Use the default of the field."""
REQUIRED: Final = object()
"""Treat the parent as unreadable, too: an item of a list is dropped as a whole."""

UNREADABLE: Final = "Unreadable"
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Fallback:
    value: object = NO_FALLBACK
    item: object = NO_FALLBACK
    """Replaces a single item of a list; without one, the item is dropped."""
    whole: bool = False
    """One unreadable part makes the whole unreadable, because its meaning depends on all parts."""


_NONE: Final = Fallback()

FieldOf = tuple[type[Struct], str]
"""A Struct, and the name of one of its fields."""

_TABLE: Final[dict[FieldOf, Fallback]] = {
    # A deletion with an unreadable time has still begun.
    (ObjectMeta, "deletionTimestamp"): Fallback(LONG_AGO),
    # An unreadable condition is Unknown. The rest of it must be valid, because controllers write the
    # list of conditions back with their own.
    (Condition, "type"): Fallback(REQUIRED),
    (Condition, "status"): Fallback(UNKNOWN),
    (Condition, "lastTransitionTime"): Fallback(LONG_AGO),
    (Condition, "reason"): Fallback(UNREADABLE),
    # A Lease with an unreadable holder must not count as free.
    (LeaseSpec, "holderIdentity"): Fallback(UNREADABLE),
    (Lease, "spec"): Fallback(LeaseSpec(holderIdentity=UNREADABLE)),
}


def register_fallbacks(table: Mapping[FieldOf, Fallback]) -> None:
    """Add the fallbacks of more types. Call it where the types are defined, so that none is decoded before."""
    _TABLE.update(table)


def fallback_of(struct: type[Struct], name: str) -> Fallback:
    """Return the fallback of a field, including inherited ones."""
    for base in struct.__mro__:
        fallback = _TABLE.get((base, name))
        if fallback is not None:
            return fallback
    return _NONE
