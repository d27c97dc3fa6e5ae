"""A write as it travels through the hub."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from fairway.hub.options import Write
from fairway.hub.resource import Document
from fairway.hub.user import User

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

Admit = Callable[[Document | None, Document | None], None]
"""Asks the policies about a write, of which it gets the new and the old object; raises their refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """Who writes, how, and what the answer must warn of."""

    user: User
    options: Write
    subresource: str = ""
    warnings: list[str] = field(default_factory=list)
    may_create: Callable[[str], None] | None = None
    """Raises a 403 for who may change an object of that name, but not make it; None for who may."""
    admit: Admit | None = None
    """None for what the hub writes itself."""

    def admitted(self, new: Document | None, old: Document | None) -> None:
        """Once everything else allows it."""
        if self.admit is not None:
            self.admit(new, old)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    media: str
    body: Any
