"""Turns on the event loop: whose request is worked on next, and for how long before others have theirs.

The hub serves all users on one event loop, so whatever one request computes, all others wait for. Requests therefore
take a turn before they compute anything. While the loop has time they get it at once. When the work of one pass
through the loop exceeds ``BUDGET``, requests wait in a queue that is fair by the loop time of their users. Long work
gives its turn back every few milliseconds (``yield_turn``) and takes another. Administrators never wait; leases and
the control plane's own components are served first, as by kube-apiserver's API Priority and Fairness.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, Final, Generic, TypeVar

from fairway.hub import status
from fairway.hub.flowcontrol.fair_queue import FairQueue, Flow, Full
from fairway.hub.request_info import RequestInfo
from fairway.hub.user import MASTERS, User

BUDGET: Final = 0.005
"""Seconds of requests' work in one pass through the event loop."""
STRIDE: Final = 0.0025
"""Seconds of one request's work after which it gives its turn back."""
BUSY: Final = "too many requests, please try again later"

_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_COMPONENTS: Final = frozenset({"system:kube-controller-manager", "system:kube-scheduler"})
_COMPONENT_GROUPS: Final = frozenset({"system:nodes", "system:serviceaccounts:kube-system"})

T = TypeVar("T")

_current: ContextVar["Turn | None"] = ContextVar("turn", default=None)


class Turns:
    """``clock`` tells seconds; ``soon`` calls a function in the next pass through the event loop."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.perf_counter,
        soon: Callable[[Callable[[], None]], object] | None = None,
        queue: "FairQueue[asyncio.Future[float]] | None" = None,
    ) -> None:
        self.clock = clock
        self._soon = soon or (lambda call: asyncio.get_running_loop().call_soon(call))
        self.queue: FairQueue[asyncio.Future[float]] = FairQueue() if queue is None else queue
        self._used = 0.0
        """Seconds of requests' work in this pass through the loop, or a little more."""
        self._since = 0.0
        """When the work that is being done began, or the last was done."""
        self._working: Turn | None = None
        self._pumping = False

    def of(self, user: User, found: RequestInfo) -> "Turn | None":
        """None for requests that never wait: an administrator's, and those about health."""
        if MASTERS in user.groups or (not found.plural and found.path.startswith(_HEALTH)):
            return None
        urgent = (
            (found.plural == "leases" and found.group == "coordination.k8s.io")
            or user.name in _COMPONENTS
            or not _COMPONENT_GROUPS.isdisjoint(user.groups)
        )
        return Turn(self, user.name, urgent=urgent)

    @property
    def congested(self) -> bool:
        if self.queue.length:
            return True
        self.lap()
        return self._used >= BUDGET

    def lap(self) -> None:
        """Add the time since the last call to what it was spent on."""
        now = self.clock()
        passed, self._since = now - self._since, now
        if self._working is not None:
            self._working.took += passed
            self._used += passed
        else:
            # The loop did something else, or nothing.
            self._used = max(0.0, self._used - passed)

    def begin(self, turn: "Turn") -> None:
        self.lap()
        self._working = turn

    def end(self) -> None:
        self.lap()
        self._working = None

    async def wait(self, name: str, *, urgent: bool) -> float:
        """Returns the seconds that the flow was charged with. Raises a 429."""
        granted: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        try:
            self.queue.put(name, granted, urgent=urgent)
        except Full:
            raise status.too_many_requests(BUSY, retry_after=1) from None
        if not self._pumping:
            self._pumping = True
            self._soon(self._pump)
        return await granted

    def _pump(self) -> None:
        """Start as much waiting work as one pass through the loop may take."""
        self.lap()
        self._used = expected = 0.0
        while self.queue.length and expected < BUDGET:
            granted, flow, charged = self.queue.pop()
            if granted.done():
                flow.credit += charged  # its client left
            else:
                granted.set_result(charged)
                expected += charged
        self._pumping = bool(self.queue.length)
        if self._pumping:
            self._soon(self._pump)


class Turn:
    """One request's: taken, given back and taken again while it is answered."""

    __slots__ = ("_charged", "_turns", "_urgent", "name", "took")

    def __init__(self, turns: Turns, name: str, *, urgent: bool) -> None:
        self._turns, self.name, self._urgent = turns, name, urgent
        self._charged = self.took = 0.0

    @property
    def congested(self) -> bool:
        return self._turns.congested

    @property
    def _flow(self) -> Flow[asyncio.Future[float]]:
        return self._turns.queue.flow(self.name)

    async def take(self) -> None:
        """Raises a 429."""
        self.settle()
        if self._turns.congested:
            self._charged = await self._turns.wait(self.name, urgent=self._urgent)
        else:
            flow = self._flow
            self._turns.queue.skip_to(flow)
            self._charged = self._turns.queue.start(flow)

    def settle(self) -> None:
        self._turns.lap()
        if self._charged or self.took:
            self._turns.queue.settle(self._flow, charged=self._charged, took=self.took)
            self._charged = self.took = 0.0

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Take a turn, then do the work, measured step by step."""
        try:
            await self.take()
        except BaseException:
            work.close()
            raise
        token = _current.set(self)
        try:
            return await _Measured(work, self, self._turns)
        finally:
            _current.reset(token)
            self.settle()


class _Measured(Generic[T]):
    """A coroutine whose time on the event loop counts as its turn's."""

    __slots__ = ("_turn", "_turns", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], turn: Turn, turns: Turns) -> None:
        self._work, self._turn, self._turns = work, turn, turns

    def __await__(self) -> Generator[Any, Any, T]:
        send, throw, turn, turns = self._work.send, self._work.throw, self._turn, self._turns
        error: BaseException | None = None
        while True:
            turns.begin(turn)
            try:
                waited = send(None) if error is None else throw(error)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            finally:
                turns.end()
                if turn.took > STRIDE:
                    turn.settle()  # watches last for hours
            error = None
            try:
                yield waited
            except BaseException as thrown:
                error = thrown


async def yield_turn() -> None:
    """Give the turn back and take another. For work that no client's request does, let others have theirs."""
    turn = _current.get()
    if turn is None:
        await asyncio.sleep(0)
        return
    if turn.congested:
        await turn.take()
    else:
        turn.settle()
        await asyncio.sleep(0)
