"""A controller and a fake hub, one step at a time: the test chooses which request is carried out, answered or lost.

A ``Worker`` runs one reconcile as a coroutine without an event loop and stops at each request. Together with a hub that
is not live, every order of events that a real hub allows can be played, and nothing happens by itself.
"""

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, Final, cast

from fairway.kube import PLACEMENT_DECISIONS, PLACEMENTS, Client, KubeError
from rigs.fake_hub import Call, Entry, FakeClient, FakeHub

Key = tuple[str, str]

CONTROLLER: Final = "the controller"
FORMER: Final = "a controller that has stopped"


def stepwise_client() -> Client:
    """A client whose requests are handed to the worker."""
    return cast("Client", FakeClient(lambda call: call))


def collect_garbage(hub: FakeHub) -> None:
    """Delete the decisions whose placement is deleted."""
    owners = {each.metadata.uid for each in hub.all(PLACEMENTS).values()}
    for (namespace, name), each in hub.all(PLACEMENT_DECISIONS).items():
        references = each.metadata.ownerReferences
        if references and not any(reference.uid in owners for reference in references):
            hub.drop(PLACEMENT_DECISIONS, name, namespace=namespace, author="the garbage collector")


def last_write(hub: FakeHub, key: Key) -> Entry:
    """Return the last write of a decision."""
    wanted = (PLACEMENT_DECISIONS.plural, *key)
    return next(entry for entry in reversed(hub.log) if entry.key == wanted)


class Worker:
    """A reconcile in progress. ``call`` is the request that it waits for."""

    def __init__(self, key: Key, coroutine: Coroutine[Any, Any, None]) -> None:
        self.key = key
        self.call: Call | None = None
        self.done = False
        self.failed = False
        self._coroutine = coroutine
        self._answer: Any = None
        self._error: KubeError | None = None
        self.carried_out = False
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
            self.call = go()
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
