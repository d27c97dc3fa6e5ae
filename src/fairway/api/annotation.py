"""What a CRD says about a field beyond its type, written beside the field.

msgspec's own ``Meta`` would enforce bounds while decoding. Objects that live on a hub must stay readable even
when they break a rule that was added later, so the rules are kept in a class msgspec ignores; ``validation``
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
    """A whole Kubernetes object: apiVersion and kind must be there, and its metadata must be sound."""
    validations: tuple[tuple[str, str], ...] = ()
    """CEL rules over several fields, each with the message of its refusal. ``check`` knows them by the Struct."""

    def over(self, inner: "Field") -> "Field":
        """Both, this one winning wherever it says something."""
        said = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}
        return replace(inner, **said)


# Enforced, unlike the rules of a CRD: columns and other programs hold no larger numbers.
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1), Field(format="int32")]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1), Field(format="int64")]
Time = Annotated[datetime, Meta(tz=True)]
QuantityText = Annotated[str | int | float, Field(quantity=True)]
"""A quantity as written: text, or a bare JSON number. `fairway.api.quantity` gives it a value."""
Manifest = Annotated[dict[str, Any], Field("A Kubernetes object of any kind, as it is.", embedded=True)]


def no_items() -> tuple[Any, ...]:
    """Default of a list that must be written even when empty; msgspec leaves out plain ``()`` and ``tuple``."""
    return ()
