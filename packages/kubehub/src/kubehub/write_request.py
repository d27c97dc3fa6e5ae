"""A write request, as the serving layer passes it to the writing layer."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kubehub.options import Write
from kubehub.resource import Document
from kubehub.user import User

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

Admit = Callable[[Document | None, Document | None], None]
"""Run admission policies on the new and the old object. Raises the refusal of a policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """The user and options of a write, and the warnings to send with the response."""

    user: User
    options: Write
    subresource: str = ""
    warnings: list[str] = field(default_factory=list)
    authorize_create: Callable[[str], None] | None = None
    """Raises a 403 if the user may update an object of that name but not create it; None skips the check."""
    admit: Admit | None = None
    """None for writes of the hub itself."""

    def run_admission(self, new: Document | None, old: Document | None) -> None:
        if self.admit is not None:
            self.admit(new, old)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    media: str
    body: Any
