"""Responses to writes that depend on a write which is not on disk yet."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from clients.talk import Talk

from fairway.testing.hub import embedded_hub
from kubehub.storage.group_commit import Disk

MAPS = "/api/v1/namespaces/default/configmaps"
NAMED = {"metadata": {"name": "a"}}


async def test_conflict_no_op_and_dry_run_wait_for_the_write_they_depend_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a client could read before the write is visible, and a crash could undo an acknowledged write."""
    gate, run = asyncio.Event(), Disk.run
    gate.set()

    async def gated(disk: Disk, call: Callable[[], None]) -> None:
        await gate.wait()
        await run(disk, call)

    monkeypatch.setattr(Disk, "run", gated)
    async with embedded_hub(folder=tmp_path, definitions=(), controllers=frozenset()) as hub:
        context = ssl.create_default_context(cadata=hub.authority_pem)
        context.load_cert_chain(tmp_path / "pki" / "admin.pem")
        async with Talk(url=hub.url, context=context) as talk:
            gate.clear()
            first = asyncio.create_task(talk.call("POST", MAPS, body=NAMED))
            while hub.store.head(("configmaps", "default", "a")) is None:
                await asyncio.sleep(0)
            dependents = [
                asyncio.create_task(talk.call(method, path, body=body))
                for method, path, body in (
                    ("POST", MAPS, NAMED),
                    ("PUT", f"{MAPS}/a", NAMED),
                    ("PUT", f"{MAPS}/a?dryRun=All", {**NAMED, "data": {"k": "v"}}),
                    ("DELETE", f"{MAPS}/a?dryRun=All", None),
                )
            ]
            committer = hub.store._committer
            while len(committer._waiting) < len(dependents) and not any(task.done() for task in dependents):
                await asyncio.sleep(0)
            early = [task for task in (first, *dependents) if task.done()]
            gate.set()
            assert early == []
            assert [(await task)[0] for task in (first, *dependents)] == [201, 409, 200, 200, 200]
