"""A group of tasks ends with its leadership term."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kubewire.client.fence import Lost, TermGroup


async def lose(reason: str) -> None:
    raise Lost(reason)


async def run(*work: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(60), TermGroup() as group:
        for coroutine in work:
            group.create_task(coroutine)


async def test_end_of_the_term_cancels_the_other_tasks_and_is_raised_without_a_group() -> None:
    cancelled = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    with pytest.raises(Lost, match="taken"):
        await run(wait(), lose("taken"))
    assert cancelled


async def test_end_of_the_term_is_raised_through_plain_groups() -> None:
    async def nested() -> None:
        async with asyncio.TaskGroup() as inner:
            inner.create_task(lose("taken"))
            inner.create_task(lose("taken"))

    with pytest.raises(Lost, match="taken"):
        await run(nested())


async def test_failure_beside_the_end_of_the_term_is_not_hidden() -> None:
    async def fail() -> None:
        raise OSError("disk full")

    with pytest.raises(ExceptionGroup) as raised:
        await run(lose("taken"), fail())
    assert {type(error) for error in raised.value.exceptions} == {Lost, OSError}


async def test_cancellation_passes_through_a_term_group() -> None:
    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(run(wait()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
