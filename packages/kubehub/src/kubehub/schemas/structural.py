"""A compiled schema: prune, default and validate documents.

A checker is compiled once per schema node, on first use, and shared: it has no state of a request.
"""

from typing import Final

from kubehub import status
from kubehub.budget import Exhausted
from kubehub.resource import Document
from kubehub.schema import Node
from kubehub.schemas import embedded_resources, uniqueness
from kubehub.schemas.cel_validation import Rules
from kubehub.schemas.constraints import TOO_MUCH_TO_CHECK, Constraints
from kubehub.schemas.correlation import ABSENT, same
from kubehub.schemas.embedded_resources import embedded_faults
from kubehub.schemas.fault import ROOT
from kubehub.schemas.object_meta import drop_empty_fields
from kubehub.schemas.pruning import MAX_GROWTH, Defaulting, Pruning
from kubehub.schemas.reachability import reaching
from kubehub.schemas.uniqueness import duplicates
from kubehub.status import Cause

NESTED_TOO_DEEPLY: Final = "the document nests too deeply"
TOO_MUCH_DEFAULTED: Final = f"Request entity too large: limit is {MAX_GROWTH} with defaults"
RULES_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to "
    "complete validation"
)
# A value so wrong that CEL rules would only fail for the same reason.
_BLOCKING: Final = frozenset(
    {status.NOT_SUPPORTED, status.REQUIRED, status.TOO_LONG, status.TOO_MANY, status.TYPE_INVALID}
)


class Checker:
    """Prunes, defaults and validates documents of one schema."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._constraints = Constraints()
        self._prune = Pruning().prune(node)
        self._defaulting = Defaulting(node)
        self._default = self._defaulting.default(node)
        self._check = self._constraints.check(node)
        self._uniques = reaching(node, uniqueness.wanted)
        self._embedded = reaching(node, embedded_resources.wanted)
        self._rules = Rules(node)

    def prune(self, document: Document) -> list[str]:
        """Drop undeclared fields, in place. Returns their paths, such as ``spec.items[0].colour``."""
        dropped: list[str] = []
        metadata = document.get("metadata")
        if type(metadata) is dict:
            drop_empty_fields(metadata)
        try:
            self._prune(document, "", dropped)
        except RecursionError:
            raise status.bad_request(NESTED_TOO_DEEPLY) from None
        dropped.sort()
        return dropped

    def default(self, document: Document) -> None:
        """Set defaults, in place."""
        if self._default is not None:
            self._defaulting.growth.renew()
            try:
                self._default(document)
            except RecursionError:
                raise status.bad_request(NESTED_TOO_DEEPLY) from None
            except Exhausted:
                raise status.too_large(TOO_MUCH_DEFAULTED) from None

    def check(self, document: Document, *, old: Document | None = None, subresource: str = "") -> list[Cause]:
        """Return all faults except those of ``metadata``. Faults of unchanged values are ignored.

        With ``subresource="status"`` only the status is validated.
        """
        self._constraints.effort.renew()
        try:
            causes = self._check_all(document, old, subresource)
        except RecursionError:
            raise status.bad_request(NESTED_TOO_DEEPLY) from None
        except Exhausted:
            raise status.bad_request(TOO_MUCH_TO_CHECK) from None
        return causes

    def _check_all(self, document: Document, old: Document | None, subresource: str) -> list[Cause]:
        causes = self._values(document, old) if subresource != "status" else self._status(document, old)
        if self._embedded and subresource != "status":
            causes += embedded_faults(self._node, document, "", self._embedded)
        if self._uniques:
            repeated = self._duplicates(document)
            if repeated and (old is None or not self._duplicates(old)):
                causes += repeated
        if self._rules:
            if any(cause.reason in _BLOCKING for cause in causes):
                causes.append(status.invalid_value(ROOT, None, RULES_NOT_CHECKED))
            else:
                causes += self._rules.check(document, old)
        return causes

    def _duplicates(self, document: Document) -> list[Cause]:
        """Except ``metadata``, whose lists Kubernetes validates against no schema."""
        body = {name: value for name, value in document.items() if name != "metadata"}
        return list(duplicates(self._node, body, "", self._uniques))

    def _values(self, document: Document, old: Document | None) -> list[Cause]:
        causes: list[Cause] = []
        self._check(document, "", causes, ABSENT if old is None else old)
        return list(dict.fromkeys(causes)) if len(causes) > 1 else causes

    def _status(self, document: Document, old: Document | None) -> list[Cause]:
        node = self._node.properties.get("status")
        if node is None or "status" not in document:
            return []
        value, before = document["status"], (old or {}).get("status", ABSENT)
        causes: list[Cause] = []
        self._constraints.check(node)(value, "", causes, before)
        if not causes or (before is not ABSENT and same(node, value, before)):
            return []
        return [
            Cause(
                field="status" if cause.field == ROOT else f"status.{cause.field}",
                reason=cause.reason,
                message=cause.message,
            )
            for cause in dict.fromkeys(causes)
        ]


def compile(node: Node) -> Checker:  # noqa: A001 - the same name as re.compile
    return Checker(node)
