"""The user of a request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
ANONYMOUS: Final = "system:anonymous"
UNAUTHENTICATED: Final = "system:unauthenticated"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
