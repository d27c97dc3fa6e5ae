"""The Unix socket on which controllers report queue states to commands of the same user."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from controllers.serving.inspecting import Fleet
from fairway.controllers.serving import ask_locally, serving_locally
from fairway.testing.builders import placement

SERVER = "https://hub.example:6443"


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path_factory.mktemp("run")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(made))
    return made / "fairway"


@pytest.fixture
async def served(folder: Path) -> AsyncIterator[Path]:
    async with serving_locally(SERVER, Fleet([placement("p1", namespace="team")])) as path:
        assert path is not None
        yield path


async def ask(name: str = "p1", *, server: str = SERVER) -> dict[str, Any] | None:
    return await asyncio.to_thread(ask_locally, server, namespace="team", name=name)


async def test_queue_state_is_served_to_the_same_user(served: Path) -> None:
    assert await ask() == {"state": "settled"}
    assert stat.S_IMODE(served.parent.stat().st_mode) == 0o700


async def test_unknown_placement_and_unknown_hub_have_no_queue_state(served: Path) -> None:
    assert await ask("other") is None
    assert await ask("p1/../p1") is None
    assert await ask(server="https://other.example:6443") is None


async def test_socket_is_removed_at_the_end(folder: Path) -> None:
    async with serving_locally(SERVER, Fleet()) as path:
        assert path is not None
        assert path.exists()
    assert not path.exists()
    assert await ask() is None


async def test_socket_of_a_crashed_process_is_removed_and_does_not_disturb(
    folder: Path, served: Path
) -> None:
    crashed = served.with_name(served.name.replace(str(os.getpid()), str(2**22 + 1)))
    crashed.touch()
    assert await ask() == {"state": "settled"}
    async with serving_locally(SERVER, Fleet()):
        assert not crashed.exists()


async def test_folder_that_others_may_use_is_not_used(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    async with serving_locally(SERVER, Fleet([placement("p1", namespace="team")])) as path:
        assert path is None
        assert await ask() is None


async def test_process_without_placement_controller_serves_no_socket(folder: Path) -> None:
    async with serving_locally(SERVER, None) as path:
        assert path is None
    assert not folder.exists()
