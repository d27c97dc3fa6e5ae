"""An agent that dies after any of its requests leaves only objects that the next one finds."""

import asyncio
from typing import Any

import pytest

from klusterlet.works.harness import WorksHarness
from kubewire.client import Client, Connection
from kubewire.client.transport import Response

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class WriteAllowance:
    """How many writes are left, over all clients of an agent."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.over = asyncio.Event()


class Mortal(Client):
    """Stops responding after its last write, so that the agent gets no response to it."""

    def __init__(
        self, connection: Connection, lives: WriteAllowance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        super().__init__(connection)
        ask = self._transport.request

        async def request(method: str, path: str, **options: Any) -> Response:
            if method in WRITES and lives.left <= 0:
                await asyncio.Event().wait()
            if method not in WRITES:
                return await ask(method, path, **options)
            lives.left -= 1
            last = lives.left == 0
            answer = await ask(method, path, **options)
            if last:
                lives.over.set()
                await asyncio.Event().wait()
            return answer

        monkeypatch.setattr(self._transport, "request", request)


@pytest.mark.parametrize("writes", range(1, 9))
@pytest.mark.parametrize("then", ["deleted", "emptied"])
async def test_agent_killed_after_any_write_converges(
    small_world: WorksHarness, monkeypatch: pytest.MonkeyPatch, writes: int, then: str
) -> None:
    harness, lives = small_world, WriteAllowance(writes)
    await harness.give("a", harness.config_map("one", {"k": "1"}), harness.config_map("two", {"k": "2"}))
    async with (
        Mortal(harness.hub.connection, lives, monkeypatch) as hub,
        Mortal(harness.cluster.connection, lives, monkeypatch) as cluster,
        harness.agent(hub=hub, cluster=cluster),
    ):
        done = asyncio.create_task(harness.applied("a"))
        died = asyncio.create_task(lives.over.wait())
        await asyncio.wait((done, died), return_when=asyncio.FIRST_COMPLETED)
        done.cancel()
        died.cancel()
    if then == "deleted":
        await harness.take_back("a")
    else:
        await harness.give("a", harness.config_map("three", {}))
    async with harness.agent():
        if then == "deleted":
            await harness.until_deleted("a")
        else:
            await harness.applied("a")
            await harness.eventually(lambda: "three" in harness.maps())
    assert await harness.there() == ({} if then == "deleted" else {"three": {}})
