"""Leadership of a controller: checked before every batch of writes, and locally before every write."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol

from fairway.kube import Elector, Fence

FRESH_SECONDS: Final = 1.0
"""A lease confirmed so recently is proof enough: others leave it alone for many times longer."""


class Leadership(Protocol):
    def batch(self) -> AbstractAsyncContextManager[None]:
        """Around the writes that belong together. Raises Lost if somebody else leads, also when that begins within."""

    def ensure(self) -> None:
        """Right before a write. Raises Lost. Costs no request."""


class _AlwaysLeading:
    """Of a process that nobody competes with."""

    @asynccontextmanager
    async def batch(self) -> AsyncIterator[None]:
        yield

    def ensure(self) -> None: ...


ALONE: Final[Leadership] = _AlwaysLeading()


class Elected:
    """Of one term."""

    def __init__(self, elector: Elector, fence: Fence, *, fresh: float = FRESH_SECONDS) -> None:
        self._elector, self._fence, self._fresh = elector, fence, fresh

    @asynccontextmanager
    async def batch(self) -> AsyncIterator[None]:
        async with self._elector.guard(fresh=self._fresh):
            yield

    def ensure(self) -> None:
        self._fence.ensure()
