"""A sandbox returns in time, whatever the provider does."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from fairway.providers.daemon_threads import MAX_THREADS
from fairway.providers.provider import ClusterProvider, ProviderError, Reading, Wake
from fairway.providers.sandbox import (
    BUSY,
    CLOSED,
    TIMED_OUT,
    InlineSandbox,
    Sandbox,
    ThreadSandbox,
    sandbox_for,
)

SOON = 0.05
"""Seconds that something is given which never ends."""
LONG = 120.0


class Guest(ClusterProvider):
    name, resource, scores = "guest", "guest-score", ()

    def __init__(self) -> None:
        self.events: list[str] = []
        self.wake: Wake | None = None
        self.thread: int | None = None
        self.opening: Callable[[], object] = lambda: None
        self.dies = False

    @asynccontextmanager
    async def running(self, wake: Wake, /) -> AsyncIterator[None]:
        self.opening()
        self.wake, self.thread = wake, threading.get_ident()
        self.events.append("opened")
        try:
            async with asyncio.TaskGroup() as group:
                if self.dies:
                    group.create_task(self._die())
                yield
        finally:
            assert threading.get_ident() == self.thread
            self.events.append("closed")

    async def _die(self) -> None:
        raise RuntimeError("lost its mind")

    async def read(self) -> Reading:
        return Reading(values={"thread": threading.get_ident()})


@pytest.fixture
def guest() -> Guest:
    return Guest()


@pytest.fixture(params=[InlineSandbox, ThreadSandbox])
async def sandbox(request: pytest.FixtureRequest, guest: Guest) -> AsyncIterator[Sandbox]:
    made: Sandbox = request.param(guest)
    yield made
    await made.close()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "provider guest"]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    for thread in threads():
        thread.join(LONG)
    assert not threads()


async def begun(sandbox: Sandbox, read: Callable[[], Awaitable[object]], calls: list[int]) -> None:
    """Expect a timeout after the call started; on a slow machine it may time out before, and is repeated."""
    reasons = []
    while not calls:
        with pytest.raises(ProviderError) as caught:
            await sandbox.call(read, deadline=SOON)
        reasons.append(caught.value.reason)
        await asyncio.sleep(0)  #  the loop reports the end in its next turn
    assert reasons[0] == TIMED_OUT
    assert set(reasons) <= {TIMED_OUT, BUSY}


async def once_free(sandbox: Sandbox, guest: Guest) -> Reading:
    """Return the next reading after the earlier call has ended."""
    while True:
        try:
            return await sandbox.call(guest.read, deadline=LONG)
        except ProviderError as error:
            if error.reason != BUSY:
                raise
            await asyncio.sleep(0)


async def test_sandbox_opens_calls_and_closes(sandbox: Sandbox, guest: Guest) -> None:
    await sandbox.open(lambda: None, deadline=LONG)
    assert not sandbox.closed
    reading = await sandbox.call(guest.read, deadline=LONG)
    assert reading.values["thread"] == guest.thread
    assert (guest.thread == threading.get_ident()) is isinstance(sandbox, InlineSandbox)
    await sandbox.close()
    assert guest.events == ["opened", "closed"]
    await sandbox.open(lambda: None, deadline=LONG)
    assert guest.events == ["opened", "closed", "opened"]


async def test_sandbox_propagates_errors(sandbox: Sandbox, guest: Guest) -> None:
    async def read() -> Reading:
        raise ZeroDivisionError("no queue")

    await sandbox.open(lambda: None, deadline=LONG)
    with pytest.raises(ZeroDivisionError, match="no queue"):
        await sandbox.call(read, deadline=LONG)
    await sandbox.call(guest.read, deadline=LONG)


async def test_sandbox_cancels_endless_await(sandbox: Sandbox, guest: Guest) -> None:
    ended, calls = threading.Event(), list[int]()

    async def read() -> None:
        calls.append(1)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await sandbox.open(lambda: None, deadline=LONG)
    await begun(sandbox, read, calls)
    assert await asyncio.to_thread(ended.wait, LONG)
    await once_free(sandbox, guest)


async def test_sandbox_call_without_time_to_start_is_released(guest: Guest) -> None:
    """Its thread did not run before the timeout."""
    sandbox, go, calls = ThreadSandbox(guest), threading.Event(), list[int]()

    async def read() -> None:
        calls.append(1)

    await sandbox.open(lambda: None, deadline=LONG)
    assert sandbox._inside is not None
    sandbox._inside.call_soon_threadsafe(go.wait, LONG)
    with pytest.raises(ProviderError, match=f"timed out after {SOON:g} s") as caught:
        await sandbox.call(read, deadline=SOON)
    assert caught.value.reason == TIMED_OUT
    go.set()
    await once_free(sandbox, guest)
    assert not calls
    await sandbox.close()


async def test_sandbox_abandons_blocking_call(guest: Guest) -> None:
    sandbox, go, calls = ThreadSandbox(guest), threading.Event(), list[int]()

    async def read() -> None:
        calls.append(1)
        go.wait(LONG)

    await sandbox.open(lambda: None, deadline=LONG)
    await begun(sandbox, read, calls)
    for _ in range(3):
        with pytest.raises(ProviderError, match="still running") as caught:
            await sandbox.call(read, deadline=SOON)
        assert caught.value.reason == BUSY
    assert calls == [1]
    assert len(threads()) == 1
    go.set()
    await once_free(sandbox, guest)
    await sandbox.close()


async def test_closing_sandbox_does_not_wait_for_blocking_call(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairway.providers.sandbox.CLOSING_SECONDS", SOON)
    sandbox, go, calls = ThreadSandbox(guest), threading.Event(), list[int]()

    async def read() -> None:
        calls.append(1)
        go.wait(LONG)

    await sandbox.open(lambda: None, deadline=LONG)
    await begun(sandbox, read, calls)
    await sandbox.close()
    (thread,) = threads()
    assert thread.daemon
    go.set()


async def test_sandbox_does_not_repeat_uncancellable_call(sandbox: Sandbox, guest: Guest) -> None:
    go = asyncio.Event() if isinstance(sandbox, InlineSandbox) else None
    free, calls = threading.Event(), list[int]()

    async def read() -> None:
        calls.append(1)
        while not (go.is_set() if go is not None else free.is_set()):
            try:
                await asyncio.sleep(SOON)
            except asyncio.CancelledError:
                continue

    await sandbox.open(lambda: None, deadline=LONG)
    await begun(sandbox, read, calls)
    with pytest.raises(ProviderError, match="still running"):
        await sandbox.call(guest.read, deadline=LONG)
    free.set()
    if go is not None:
        go.set()


async def test_sandbox_contains_system_exit() -> None:
    guest = Guest()
    sandbox = ThreadSandbox(guest)

    async def leave() -> None:
        sys.exit(3)

    async def cancel() -> None:
        raise asyncio.CancelledError

    await sandbox.open(lambda: None, deadline=LONG)

    async def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(ProviderError, match=r"^SystemExit: 3$"):
        await sandbox.call(leave, deadline=LONG)
    with pytest.raises(ProviderError, match=r"^KeyboardInterrupt$"):
        await sandbox.call(interrupt, deadline=LONG)
    with pytest.raises(ProviderError, match="it cancelled itself"):
        await sandbox.call(cancel, deadline=LONG)
    await sandbox.call(guest.read, deadline=LONG)
    await sandbox.close()


async def test_failed_sandbox_opening_can_be_repeated(sandbox: Sandbox, guest: Guest) -> None:
    def refuse() -> None:
        raise OSError("no such device")

    guest.opening = refuse
    with pytest.raises(OSError, match="no such device"):
        await sandbox.open(lambda: None, deadline=LONG)
    assert sandbox.closed
    guest.opening = lambda: None
    await sandbox.open(lambda: None, deadline=LONG)
    await sandbox.call(guest.read, deadline=LONG)


async def test_blocking_sandbox_opening_times_out(guest: Guest) -> None:
    sandbox, go, calls = ThreadSandbox(guest), threading.Event(), list[int]()

    def opening() -> None:
        calls.append(1)
        go.wait(LONG)

    guest.opening = opening
    while not calls:  #  on a slow machine the call may be cancelled before it starts
        with pytest.raises(ProviderError, match=r"timed out after|still running"):
            await sandbox.open(lambda: None, deadline=SOON)
        await asyncio.sleep(0)  #  the loop reports the end in its next turn
    with pytest.raises(ProviderError, match="still running"):
        await sandbox.open(lambda: None, deadline=SOON)
    go.set()
    while not sandbox.closed:
        await asyncio.sleep(0)
    guest.opening = lambda: None
    await sandbox.open(lambda: None, deadline=LONG)
    await sandbox.close()


async def test_sandbox_reports_context_that_ended_early(sandbox: Sandbox, guest: Guest) -> None:
    guest.dies = True
    await sandbox.open(lambda: None, deadline=LONG)
    while not sandbox.closed:
        await asyncio.sleep(0)
    with pytest.raises(ProviderError, match="context ended early: ExceptionGroup") as caught:
        await sandbox.call(guest.read, deadline=LONG)
    assert caught.value.reason == CLOSED
    guest.dies = False
    await sandbox.open(lambda: None, deadline=LONG)
    await sandbox.call(guest.read, deadline=LONG)


def test_third_party_providers_get_a_thread(guest: Guest) -> None:
    assert isinstance(sandbox_for(guest), InlineSandbox)
    guest.isolated = True
    assert isinstance(sandbox_for(guest), ThreadSandbox)


async def test_hanging_executor_calls_are_limited(guest: Guest) -> None:
    sandbox, go, results = ThreadSandbox(guest), threading.Event(), []
    behind: list[threading.Thread] = []

    def hang() -> None:
        behind.append(threading.current_thread())
        go.wait(LONG)

    async def read() -> Reading:
        await asyncio.to_thread(hang)
        results.append(threading.current_thread().daemon)
        return Reading()

    try:
        # On a slow machine a call may be cancelled before its executor call starts, which uses a thread.
        while len(behind) < MAX_THREADS:
            with pytest.raises(ProviderError) as caught:
                await sandbox.call(read, deadline=SOON)
            assert caught.value.reason in (TIMED_OUT, BUSY)
            await once_free(sandbox, guest)  # the room itself is free: only its thread was left behind
        with pytest.raises(ProviderError, match=f"all {MAX_THREADS} threads") as caught:
            await sandbox.call(read, deadline=LONG)
        assert caught.value.reason == BUSY
        assert [(thread.name, thread.daemon) for thread in behind] == [
            ("provider guest, handed on", True)
        ] * MAX_THREADS
    finally:
        go.set()
    for thread in behind:
        thread.join(LONG)
    await sandbox.call(read, deadline=LONG)
    assert results == [True]
    with pytest.raises(ZeroDivisionError):
        await sandbox.call(lambda: asyncio.to_thread(lambda: 1 // 0), deadline=LONG)
    await sandbox.close()
