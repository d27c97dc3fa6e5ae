"""Custom resource definitions."""

from collections.abc import Sequence

from fairway.hub import crds
from fairway.hub.kinds import Kind
from fairway.hub.registry import Registry
from fairway.hub.requests import Request
from fairway.hub.resource import Document
from fairway.hub.status import Cause
from fairway.hub.upkeep.definitions import FINALIZER


class Definition(Kind):
    generation = True
    presence = False

    def __init__(self, *, registry: Registry) -> None:
        self._registry = registry

    def prepare(self, document: Document, old: Document | None, request: Request) -> None:
        crds.default(document)
        if old is None:
            document["status"] = {}

    def check(self, document: Document, old: Document | None, request: Request) -> Sequence[Cause]:
        return crds.check_definition(document, old)

    def complete(self, document: Document, old: Document | None, request: Request) -> None:
        """Its names are taken at once; nothing waits for a controller here."""
        crds.establish(document, self._registry.resources)

    def deleting(self, document: Document) -> None:
        finalizers = document["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
