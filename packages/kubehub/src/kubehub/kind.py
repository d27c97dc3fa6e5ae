"""The hooks of a kind: what it does beyond its schema on create, update and delete."""

from collections.abc import Mapping, Sequence
from typing import Final

from kubehub.resource import Document, Resource
from kubehub.status import Cause
from kubehub.user import User
from kubehub.write_request import WriteRequest
from kubewire.api import naming
from kubewire.api.naming import NameRule


class Kind:
    """The default hooks; kinds override what differs. ``writing.pipeline`` lists the order in which they are called.

    ``document`` and ``old`` have no apiVersion and kind. ``old`` is None on a create. Only ``default``, ``prepare``,
    ``complete`` and ``begin_deletion`` may change ``document``.
    """

    naming: NameRule = staticmethod(naming.subdomain)
    has_generation: bool = False
    """``metadata.generation`` counts changes of the specification. Custom resources always have one."""
    allow_create_on_update: bool = False
    """A PUT of a missing object creates it."""
    allow_unconditional_update: bool = True
    """An update may omit the resourceVersion."""
    allow_propagation_policy: bool = True
    """Foreground and orphan deletion apply."""
    return_deleted_object: bool = False
    """A delete answers with the object, not with a Status, when it removes the object at once."""
    required_fields_non_empty: bool = True
    """Required fields must not be empty; False for kinds whose ``validate`` reports them."""
    annotations_bump_generation: bool = False

    def default(self, document: Document) -> None:
        """Set defaults that the schema doesn't contain. The request's manager owns them."""

    def prepare(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        """Set or reset fields that clients don't control."""

    def authorize(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        """Raise a refusal that precedes validation, such as for granting permissions that the user lacks."""

    def validate(self, document: Document, old: Document | None, request: WriteRequest) -> Sequence[Cause]:
        """Return the faults that the schema doesn't find."""
        return ()

    def complete(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        """Set fields that depend on the document being valid."""

    def check_deletion(self, document: Document, user: User) -> None:
        """Raise a refusal if the object must not be deleted."""

    def is_removable(self, document: Document) -> bool:
        """Return whether an object without finalizers that is being deleted may be removed."""
        return True

    def grace_seconds(self, document: Document, asked: int | None) -> int:
        """Return the seconds between the delete request and the removal."""
        return 0

    def begin_deletion(self, document: Document) -> None:
        """Update an object whose deletion has to wait."""


class RequiresResourceVersion(Kind):
    """Default hooks, but an update must contain the resourceVersion."""

    allow_unconditional_update = False


class RuntimeClass(RequiresResourceVersion):
    allow_create_on_update = True


DEFAULT: Final = Kind()


class Kinds:
    """Finds the hooks of a resource. Custom resources have the default ones."""

    def __init__(self, builtin: Mapping[str, Kind]) -> None:
        self._builtin = builtin

    def of(self, resource: Resource) -> Kind:
        return DEFAULT if resource.custom else self._builtin.get(resource.key, DEFAULT)
