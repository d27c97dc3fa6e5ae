"""Events about objects with fields that cannot be decoded.

Such a field counts as its safest value (see ``fairway.api.fallbacks``). The Event lets a user find the field with
``kubectl describe``.
"""

from collections.abc import Callable
from typing import Any, Final

from fairway.controllers.runtime.informer_factory import InformerFactory
from kubewire.api.event import WARNING, ObjectReference
from kubewire.api.meta import UnreadableField, reason_of, unreadable_fields
from kubewire.client import Batch, Deleted, Informer, Recorder, Updated

REASON: Final = "UnreadableField"
ACTION: Final = "Decode"
MESSAGE: Final = "Fields that cannot be read are ignored: {fields}"


class UnreadableReporter:
    """Subscribes to all ``informers``. Only one process is ``enabled``, so that each Event is created once."""

    def __init__(
        self, informers: InformerFactory, recorder: Recorder, *, enabled: Callable[[], bool]
    ) -> None:
        self._informers, self._recorder, self._enabled = informers, recorder, enabled
        informers.follow(self._follow)

    def report_all(self) -> None:
        """Report everything, after this process was enabled."""
        if self._enabled():
            for informer in self._informers.all:
                for key, fields in informer.unreadable.items():
                    self._report(informer, informer.store[key], fields)

    def _follow(self, informer: Informer[Any]) -> None:
        def changed(batch: Batch[Any]) -> None:
            # In the usual case there is nothing to do.
            if not informer.unreadable or not self._enabled():
                return
            for change in batch.changes:
                if isinstance(change, Deleted):
                    continue
                new = change.object
                before = unreadable_fields(change.old) if isinstance(change, Updated) else ()
                fields = unreadable_fields(new)
                if fields and fields != before:
                    self._report(informer, new, fields)

        informer.subscribe(changed)

    def _report(self, informer: Informer[Any], obj: Any, fields: tuple[UnreadableField, ...]) -> None:
        meta = obj.metadata
        about = ObjectReference(
            apiVersion=informer.resource.api_version,
            kind=informer.resource.kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resourceVersion=meta.resourceVersion,
        )
        message = MESSAGE.format(fields=reason_of(fields))
        self._recorder.event(about, reason=REASON, message=message, type_=WARNING, action=ACTION)
