"""What a built-in kind does beyond its schema: names, defaults of its own, checks, deletion."""

from collections.abc import Sequence
from typing import Final

from fairway.hub.resource import Document
from fairway.hub.schemas import naming
from fairway.hub.schemas.naming import NameRule
from fairway.hub.status import Cause
from fairway.hub.user import User
from fairway.hub.write_request import WriteRequest


class Kind:
    """The behaviour of plain objects; built-in kinds override what differs.

    ``document`` and ``old`` come without apiVersion and kind. ``old`` is None on a create.
    """

    naming: NameRule = staticmethod(naming.subdomain)
    generation: bool = False
    """metadata.generation counts changes. Custom resources always do."""
    upsert: bool = False
    """An update of an object that isn't there creates it."""
    unconditional: bool = True
    """An update may leave out the version that it replaces."""
    collected: bool = True
    """Deletion policies that need the garbage collector apply."""
    returned: bool = False
    """A deletion answers with the object even when it is gone at once."""

    presence: bool = True
    """Fields that the schema calls required must not be empty; False for kinds that say so themselves."""

    annotated: bool = False
    """Annotations count as a change of the specification."""

    def default(self, document: Document) -> None:
        """Defaults of the kind that no schema tells. They belong to whoever wrote the object."""

    def prepare(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        """Fields that a client has no say in, or leaves to the hub. May change ``document``; nobody owns the change."""

    def check(self, document: Document, old: Document | None, request: WriteRequest) -> Sequence[Cause]:
        return ()

    def admit_early(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        """Raise a refusal that comes before any about a field."""

    def complete(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        """The document is valid; fill in what follows from that. May change ``document``."""

    def admit_deletion(self, document: Document, user: User) -> None:
        """Raise a refusal."""

    def finished(self, document: Document) -> bool:
        """Whether an object being deleted may go, once its finalizers are gone."""
        return True

    def grace(self, document: Document, asked: int | None) -> int:
        """Seconds between the deletion and its end."""
        return 0

    def deleting(self, document: Document) -> None:
        """The deletion has begun. May change ``document``."""


class Conditional(Kind):
    """Plain, but an update must name the version that it replaces."""

    unconditional = False


class RuntimeClass(Conditional):
    upsert = True


PLAIN: Final = Kind()
