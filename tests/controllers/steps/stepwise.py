"""A controller and a fake hub, one step at a time: the test chooses which request is carried out, answered or lost.

A ``Worker`` runs one reconcile as a coroutine without an event loop and stops at each request. Together with a hub that
is not live, every order of events that a real hub allows can be played, and nothing happens by itself.
"""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from datetime import datetime
from typing import Any, Final, cast

from fairway.api.resources import PLACEMENT_DECISIONS, PLACEMENTS
from fairway.controllers.placement.scheduler import PlacementScheduler
from fairway.controllers.runtime.leadership import ALONE, Leadership, leading
from fairway.controllers.runtime.scheduling_loop import call_plugin, is_long
from fairway.engine.commit.instructions import ForCaller, ReadBack, RunBind, RunPostBind, RunPreBind
from kubewire.client import Client, KubeError
from kubewire.client.fence import Lost
from rigs.fake_hub import Call, Entry, FakeClient, FakeHub

Key = tuple[str, str]

CONTROLLER: Final = "the controller"
FORMER: Final = "a controller that has stopped"


def stepwise_client() -> Client:
    """A client whose requests are handed to the worker."""
    return cast("Client", FakeClient(lambda call: call))


def collect_garbage(hub: FakeHub) -> None:
    """Delete the decisions whose placement is deleted."""
    owners = {placement.metadata.uid for placement in hub.all(PLACEMENTS).values()}
    for (namespace, name), decision in hub.all(PLACEMENT_DECISIONS).items():
        references = decision.metadata.ownerReferences
        if references and not any(reference.uid in owners for reference in references):
            hub.drop(PLACEMENT_DECISIONS, name, namespace=namespace, author="the garbage collector")


def last_write(hub: FakeHub, key: Key) -> Entry:
    """Return the last write of a decision."""
    wanted = (PLACEMENT_DECISIONS.plural, *key)
    return next(entry for entry in reversed(hub.log) if entry.key == wanted)


async def carry_out(scheduler: PlacementScheduler, instructions: list[ForCaller]) -> None:
    """Carry out the instructions of one placement, as the loop does."""
    now = 0
    while instructions:
        (instruction,) = instructions
        if isinstance(instruction, ReadBack):
            key, token = instruction.key, instruction.token
            with suppress(KubeError):
                shown = await scheduler.read_decisions(key)
                instructions = scheduler.read_back(key, token, shown, now=now)
            continue
        assert isinstance(instruction, RunPreBind | RunBind | RunPostBind)
        key, token = instruction.key, instruction.token
        try:
            result = await call_plugin(instruction, long=is_long(instruction))
        except Lost:
            raise
        except Exception as error:
            instructions = scheduler.failed(key, token, error, now=now)
        else:
            instructions = scheduler.finished(key, token, result, now=now)


class Worker:
    """A reconcile in progress, in a context of its own as a task has. ``call`` is the request that it waits for."""

    def __init__(
        self, key: Key, coroutine: Coroutine[Any, Any, None], *, leadership: Leadership = ALONE
    ) -> None:
        self.key = key
        self.call: Call | None = None
        self.done = False
        self.failed = False
        self._coroutine = coroutine
        self._answer: Any = None
        self._error: KubeError | None = None
        self.carried_out = False
        with leading(leadership):
            self._context = copy_context()
        self._go(lambda: coroutine.send(None))

    def carry_out(self, hub: FakeHub) -> None:
        assert self.call is not None
        self.carried_out = True
        try:
            self._answer = hub.answer(self.call, author=CONTROLLER)
        except KubeError as error:
            self._error = error

    def answer(self) -> None:
        answer, error = self._answer, self._error
        if error is not None:
            self.fail(error)
        else:
            self._go(lambda: self._coroutine.send(answer))

    def fail(self, error: KubeError) -> None:
        self._go(lambda: self._coroutine.throw(error))

    def _go(self, go: Callable[[], Any]) -> None:
        self.call, self.carried_out, self._answer, self._error = None, False, None, None
        try:
            self.call = self._context.run(go)
        except StopIteration:
            self.done = True
        except KubeError:
            self.done = self.failed = True


class FakeClock:
    def __init__(self, now: datetime) -> None:
        self.now = now

    def wall(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return self.now.timestamp()


class FakeRecorder:
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def event(self, _about: object, *, reason: str, message: str, **_rest: object) -> None:
        self.told.append((reason, message))
