"""Thousands of idle watches use little memory, get their events and do not block other requests.

FAIRWAY_WATCHES=9000 opens that many; the limit of open files must allow it.
"""

import asyncio
import os
import sys
from asyncio import sslproto
from pathlib import Path

import pytest

from cli.hub_process import served
from security.hubs import target_of, write_tokens
from security.wire import ADMIN, Hub, ask, connect, request

WATCHES = int(os.environ.get("FAIRWAY_WATCHES", "300"))
MAX_EACH = 160 * 1024
"""Bytes per watch. About 50 KiB is usual, mostly TLS; asyncio's default buffers alone would use 256 KiB."""
AT_ONCE = 50
MAPS = "/api/v1/namespaces/default/configmaps"


def resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise LookupError(pid)


async def open_watches(target: Hub, count: int) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    turns = asyncio.Semaphore(AT_ONCE)
    sent = request("GET", f"{MAPS}?watch=1&fieldSelector=metadata.name%3Dnews", token=target.tokens[ADMIN])

    async def one() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with turns:
            reader, writer = await connect(target, limit=4096)
            writer.write(sent)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK"), head
            return reader, writer

    return await asyncio.gather(*(one() for _ in range(count)))


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for the hub's memory")
async def test_idle_watches_use_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", 16 * 1024)  # includes the clients of this test
    data = tmp_path / "data"
    tokens = write_tokens(tmp_path)
    with served(tmp_path, "--data", data, "--token-file", tokens, "--no-crds") as hub:
        target = target_of(hub.url, authority=data / "pki" / "ca.crt", data=data)
        assert (await ask(target, "GET", MAPS)).code == 200
        before = resident(hub.process.pid)
        watches = await open_watches(target, WATCHES)
        per_watch = (resident(hub.process.pid) - before) / WATCHES
        assert per_watch < MAX_EACH
        assert (await ask(target, "GET", MAPS)).code == 200
        made = await ask(target, "POST", MAPS, body={"metadata": {"name": "news"}, "data": {"a": "b"}})
        assert made.code == 201
        answers = await asyncio.gather(*(reader.readuntil(b'"ADDED"') for reader, _ in watches))
        assert len(answers) == WATCHES
        for _, writer in watches:
            writer.transport.abort()
        while b"apiserver_longrunning_requests 0.0" not in (await ask(target, "GET", "/metrics")).body:
            pass
        assert hub.errors.read_text() == ""
