"""CRD rules of a field, declared beside the field.

msgspec's ``Meta`` would enforce bounds while decoding. Existing objects must stay decodable even
if they violate a rule that was added later, so the rules are in a class that msgspec ignores; ``validation``
and ``schema`` read them.
"""

from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

NO_DEFAULT: Final = object()

LABEL_KEY: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
NAMESPACE: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


@dataclass(frozen=True, slots=True)
class Field:
    description: str = ""
    required: bool = False
    default: object = NO_DEFAULT
    enum: tuple[str, ...] = ()
    pattern: str = ""
    format: str = ""
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    max_items: int | None = None
    list_type: Literal["", "atomic", "map", "set"] = ""
    map_keys: tuple[str, ...] = ()
    map_type: Literal["", "atomic"] = ""
    nullable: bool = False
    quantity: bool = False
    embedded: bool = False
    """A complete Kubernetes object: apiVersion and kind are required, and metadata must be valid."""
    validations: tuple[tuple[str, str], ...] = ()
    """CEL rules over several fields, each with its error message. ``check`` implements them by Struct."""

    def override(self, inner: "Field") -> "Field":
        """Merge both; this one takes precedence."""
        given = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}
        return replace(inner, **given)


# Enforced, unlike the rules of a CRD: columns and other programs hold no larger numbers.
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1), Field(format="int32")]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1), Field(format="int64")]
Time = Annotated[datetime, Meta(tz=True)]
QuantityText = Annotated[str | int | float, Field(quantity=True)]
"""A quantity as written: a string, or a JSON number. `kubewire.api.quantity` parses it."""
Manifest = Annotated[
    dict[str, Any], Field("A Kubernetes object of any kind, stored unchanged.", embedded=True)
]


def no_items() -> tuple[Any, ...]:
    """Default of a list that is encoded even when empty; msgspec omits plain ``()`` and ``tuple``."""
    return ()
