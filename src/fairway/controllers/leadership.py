"""Leadership of a controller: checked before every batch of writes, and locally before every write."""

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final, Protocol

from fairway.kube import Elector, Fence


class Leadership(Protocol):
    def batch(self) -> AbstractAsyncContextManager[object]:
        """Wrap writes that belong together. Raises Lost if another process leads, also if that begins within the
        block."""

    def ensure(self) -> None:
        """Check right before a write. Raises Lost. Costs no request."""


class _AlwaysLeading:
    """The only process."""

    def batch(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    def ensure(self) -> None: ...


ALONE: Final[Leadership] = _AlwaysLeading()


class Elected:
    """One leadership term."""

    def __init__(self, elector: Elector, fence: Fence) -> None:
        self._elector, self._fence = elector, fence

    def batch(self) -> AbstractAsyncContextManager[object]:
        # Others wait many times longer before they take the Lease.
        return self._elector.guard(fresh=self._elector.timing.fresh)

    def ensure(self) -> None:
        self._fence.ensure()
