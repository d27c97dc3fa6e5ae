"""Turns on the event loop: which request runs next, and for how long.

All users share one event loop, so every computation of a request delays all others. Requests therefore take a turn
before they compute anything. While the loop has time, they get it at once. When the work of one iteration of the
loop exceeds ``BUDGET``, requests wait in a queue that is fair by the loop time of their users. Long work yields its
turn every few milliseconds (``yield_turn``) and takes another. Administrators never wait; leases and the control
plane's own components come first, as with kube-apiserver's API Priority and Fairness.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, Final, Generic, TypeVar

from kubehub import status
from kubehub.flowcontrol.fair_queue import FairQueue, Flow, Full
from kubehub.request_info import RequestInfo
from kubehub.user import MASTERS, User

BUDGET: Final = 0.005
"""Seconds of requests' work in one iteration of the event loop."""
STRIDE: Final = 0.0025
"""Seconds of work after which a request yields its turn."""
BUSY: Final = "too many requests, please try again later"

_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_COMPONENTS: Final = frozenset({"system:kube-controller-manager", "system:kube-scheduler"})
_COMPONENT_GROUPS: Final = frozenset({"system:nodes", "system:serviceaccounts:kube-system"})

T = TypeVar("T")

_current: ContextVar["Turn | None"] = ContextVar("turn", default=None)


class Turns:
    """``clock`` returns seconds."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.perf_counter,
        queue: "FairQueue[asyncio.Future[float]] | None" = None,
    ) -> None:
        self.clock = clock
        self.queue: FairQueue[asyncio.Future[float]] = FairQueue() if queue is None else queue
        self._used = 0.0
        """Seconds of requests' work in this iteration, slightly overestimated."""
        self._since = 0.0
        """When the current work started, or the last work ended."""
        self._working: Turn | None = None
        self._scheduled = False

    def of(self, user: User, info: RequestInfo) -> "Turn | None":
        """Return the flow of a request, None for those that never wait: an administrator's, and health checks."""
        # An administrator must be able to stop what congests the hub, and a probe that waits would restart it.
        if MASTERS in user.groups or (not info.plural and info.path.startswith(_HEALTH)):
            return None
        # A lease that is renewed late costs its holder the leadership, and with it all the work that it repeats.
        urgent = (
            (info.plural == "leases" and info.group == "coordination.k8s.io")
            or user.name in _COMPONENTS
            or not _COMPONENT_GROUPS.isdisjoint(user.groups)
        )
        return Turn(self, user.name, urgent=urgent)

    @property
    def congested(self) -> bool:
        # Requests that came before must run before, even if the budget has room again.
        if self.queue.length:
            return True
        self.charge_elapsed()
        return self._used >= BUDGET

    def charge_elapsed(self) -> None:
        """Charge the time since the last call."""
        now = self.clock()
        passed, self._since = now - self._since, now
        # Only the time between begin and end belongs to a request; other time pays the budget back.
        if self._working is not None:
            self._working.took += passed
            self._used += passed
        else:
            # The loop ran something else, or was idle.
            self._used = max(0.0, self._used - passed)

    def begin(self, turn: "Turn") -> None:
        self.charge_elapsed()
        self._working = turn

    def end(self) -> None:
        self.charge_elapsed()
        self._working = None

    async def wait(self, name: str, *, urgent: bool) -> float:
        """Queue a request. Returns the seconds that the flow was charged with. Raises a 429."""
        granted: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        try:
            self.queue.put(name, granted, urgent=urgent)
        except Full:
            raise status.too_many_requests(BUSY, retry_after=1) from None
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._start_waiting)
        return await granted

    def _start_waiting(self) -> None:
        """Start as much waiting work as one iteration of the loop allows."""
        self.charge_elapsed()
        # By expectation, because work that was started here has not run yet when the loop condition is checked.
        self._used = expected = 0.0
        while self.queue.length and expected < BUDGET:
            granted, flow, charged = self.queue.pop()
            if granted.done():
                flow.credit += charged  # the client disconnected
            else:
                granted.set_result(charged)
                expected += charged
        self._scheduled = bool(self.queue.length)
        if self._scheduled:
            asyncio.get_running_loop().call_soon(self._start_waiting)


class Turn:
    """The turn of one request: taken, yielded and taken again."""

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
        """Wait for the turn. Raises a 429."""
        self.settle()
        if self._turns.congested:
            self._charged = await self._turns.wait(self.name, urgent=self._urgent)
        else:
            flow = self._flow
            self._turns.queue.skip_to(flow)
            self._charged = self._turns.queue.start(flow)

    def settle(self) -> None:
        self._turns.charge_elapsed()
        if self._charged or self.took:
            self._turns.queue.settle(self._flow, charged=self._charged, took=self.took)
            self._charged = self.took = 0.0

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Take a turn, then run the work and measure its steps."""
        try:
            await self.take()
        except BaseException:
            # A coroutine that is never awaited would warn, and its ``finally`` would not run.
            work.close()
            raise
        token = _current.set(self)
        try:
            return await _Measured(work, self, self._turns)
        finally:
            _current.reset(token)
            self.settle()


class _Measured(Generic[T]):
    """A coroutine whose time on the event loop is charged to its turn."""

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
                    turn.settle()  # watches run for hours
            error = None
            try:
                yield waited
            except BaseException as thrown:
                error = thrown


async def yield_turn() -> None:
    """Give the turn back and take another. Outside of a request, only give way to the event loop."""
    turn = _current.get()
    if turn is None:
        await asyncio.sleep(0)
        return
    if turn.congested:
        await turn.take()
    else:
        turn.settle()
        await asyncio.sleep(0)
