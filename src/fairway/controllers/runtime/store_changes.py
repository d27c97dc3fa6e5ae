"""Changes of informers, held back while the state that they change is being loaded."""

from collections.abc import Callable

from kubewire.api.resource import T
from kubewire.client import Added, Batch, Deleted, Informer, Updated


class StoreChanges:
    """``hold`` begins to hold changes back, ``release`` reports them and all later ones."""

    def __init__(self) -> None:
        self._held: list[Callable[[], None]] | None = None
        self._unsubscribe: list[Callable[[], None]] = []

    def follow(
        self, informer: Informer[T], changed: Callable[[T], None], deleted: Callable[[T], None]
    ) -> None:
        """Report changed and deleted objects, beginning with all objects."""
        self._unsubscribe.append(
            informer.subscribe(lambda batch: self.report(lambda: each_change(batch, changed, deleted)))
        )

    def report(self, handle: Callable[[], None]) -> None:
        """Call a function now, or once changes are released."""
        if self._held is None:
            handle()
        else:
            self._held.append(handle)

    def hold(self) -> None:
        """Hold changes back from now on, and forget those that were held back before."""
        self._held = []

    def release(self) -> None:
        held, self._held = self._held or (), None
        for handle in held:
            handle()

    def close(self) -> None:
        """Report nothing any more."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe.clear()


def each_change(batch: Batch[T], changed: Callable[[T], None], deleted: Callable[[T], None]) -> None:
    for change in batch.changes:
        match change:
            case Added(new) | Updated(_, new):
                changed(new)
            case Deleted(old):
                deleted(old)
