"""A write as it travels through the hub."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from fairway.hub.options import Write
from fairway.hub.user import User

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Who writes, how, and what the answer must warn of."""

    user: User
    options: Write
    subresource: str = ""
    warnings: list[str] = field(default_factory=list)
    may_create: Callable[[str], None] | None = None
    """Raises a 403 for who may change an object of that name, but not make it; None for who may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    media: str
    body: Any
