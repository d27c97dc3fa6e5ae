"""Leadership terms: a controller writes only in the term that its task belongs to.

The term is a context variable, so a task inherits it from the task that creates it. A task that outlives its term keeps
the fence of that term: it cannot write in the next one, although it shares the writer with the tasks of that one. Code
that runs in no term, such as an observation of an informer, cannot write at all.
"""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Final, Protocol

from kubewire.client import Elector, Fence, Lost

OUTSIDE: Final = "this task belongs to no leadership term"


class Leadership(Protocol):
    """One term."""

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
    """A term that an elector won."""

    def __init__(self, elector: Elector, fence: Fence) -> None:
        self._elector, self._fence = elector, fence

    def batch(self) -> AbstractAsyncContextManager[object]:
        # Others wait many times longer before they take the Lease.
        return self._elector.guard(fresh=self._elector.timing.fresh)

    def ensure(self) -> None:
        self._fence.ensure()


_leadership: Final[ContextVar[Leadership]] = ContextVar("leadership")


@contextmanager
def leading(leadership: Leadership) -> Iterator[None]:
    """Let the block, and the tasks that are created in it, write in this term."""
    token = _leadership.set(leadership)
    try:
        yield
    finally:
        _leadership.reset(token)


def current_leadership() -> Leadership:
    """Return the term of the running task. Raises Lost if it belongs to none."""
    leadership = _leadership.get(None)
    if leadership is None:
        raise Lost(OUTSIDE)
    return leadership
