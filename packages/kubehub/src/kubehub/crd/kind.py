"""Hooks of the CustomResourceDefinition kind."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from kubehub.crd import definitions
from kubehub.kind import RequiresResourceVersion
from kubehub.registry import Registry
from kubehub.resource import Document
from kubehub.status import Cause
from kubehub.write_request import WriteRequest
from kubewire.api.meta import format_time

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"


class Definition(RequiresResourceVersion):
    has_generation = True
    required_fields_non_empty = False

    def __init__(self, *, registry: Registry, clock: Callable[[], datetime]) -> None:
        self._registry, self._clock = registry, clock

    def default(self, document: Document) -> None:
        definitions.complete(document)

    def prepare(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        if old is None:
            document["status"] = {}
        definitions.store_version(document)

    def validate(self, document: Document, old: Document | None, request: WriteRequest) -> Sequence[Cause]:
        return definitions.check_definition(document, old)

    def complete(self, document: Document, old: Document | None, request: WriteRequest) -> None:
        """Accept the names at once; no controller is involved."""
        request.warnings.extend(definitions.warnings(document, old))
        document["status"] = {k: v for k, v in document["status"].items() if v is not None}
        definitions.establish(document, self._registry.resources, now=format_time(self._clock()))

    def is_removable(self, document: Document) -> bool:
        """Not before ``controllers.crd_cleanup`` has deleted its objects; the finalizer of a deletion waits for
        that."""
        return "deletionTimestamp" in document["metadata"]

    def begin_deletion(self, document: Document) -> None:
        finalizers = document["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
