"""The watchdog: calls that exceed their limit are interrupted, and nothing else is."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fairway.engine.fault import Stalled
from fairway.scheduling.watchdog import Watchdog


def forever() -> None:
    while True:
        pass


def test_endless_loop_is_interrupted() -> None:
    with pytest.raises(Stalled):
        Watchdog(limit=0.02).watch(forever)


def test_call_that_waits_in_the_operating_system_is_interrupted() -> None:
    held = threading.Lock()
    held.acquire()
    for waits in (held.acquire, lambda: time.sleep(3600)):
        with pytest.raises(Stalled):
            Watchdog(limit=0.02).watch(waits)


def test_endless_loop_on_another_thread_is_interrupted() -> None:
    with ThreadPoolExecutor() as pool, pytest.raises(Stalled):
        pool.submit(Watchdog(limit=0.02).watch, forever).result()


def test_call_within_the_limit_returns_its_result_and_errors() -> None:
    watchdog = Watchdog(limit=60.0)
    assert watchdog.watch(max, 3, 4) == 4
    with pytest.raises(ZeroDivisionError):
        watchdog.watch(divmod, 1, 0)


def test_plugin_that_catches_the_interruption_is_interrupted_again() -> None:
    caught = []

    def stubborn() -> None:
        for _ in range(3):
            try:
                forever()
            except BaseException as error:
                caught.append(error)

    with pytest.raises(Stalled):
        Watchdog(limit=0.01).watch(stubborn)
    assert len(caught) == 3


def test_interruption_never_leaves_the_call() -> None:
    """Calls that end about when their limit does: Stalled comes from ``watch``, or not at all.

    Calls get longer until one is interrupted, then shorter: they stay near the limit on every machine, however busy.
    """
    watchdog = Watchdog(limit=0.0005)
    returned, interrupted, outside, steps = 0, 0, 0, 1_000
    while min(returned, interrupted) < 100:
        try:
            try:
                watchdog.watch(_count, steps)
                returned, steps = returned + 1, steps + steps // 8
            except Stalled:
                interrupted, steps = interrupted + 1, max(1_000, steps - steps // 8)
            for _ in range(50):
                pass
        except Stalled:
            outside += 1
    assert not outside


def _count(steps: int) -> int:
    total = 0
    for step in range(steps):
        total += step
    return total


def test_nested_call_shares_the_limit_of_the_outer_one() -> None:
    watchdog = Watchdog(limit=0.02)
    with pytest.raises(Stalled):
        watchdog.watch(watchdog.watch, forever)
    watchdog.limit = 60.0
    assert watchdog.watch(watchdog.watch, max, 1, 2) == 2
