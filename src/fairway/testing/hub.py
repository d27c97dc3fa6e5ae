"""The embedded hub for tests: in the running event loop, or in a thread of its own for tests that block."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fairway.api import crds
from fairway.hub import upkeep as parts
from fairway.hub.hub import Hub, Settings, running
from fairway.hub.resource import Document
from fairway.hub.store import CHANGES_KEPT


@asynccontextmanager
async def embedded_hub(
    *,
    folder: Path | None = None,
    port: int = 0,
    definitions: Sequence[Document] | None = None,
    upkeep: frozenset[str] = parts.ALL,
    tokens: Path | None = None,
    history: int = CHANGES_KEPT,
) -> AsyncIterator[Hub]:
    """A hub that serves OCM's and Fairway's kinds, unless other ``definitions`` are given."""
    settings = Settings(
        folder=folder,
        port=port,
        definitions=tuple(crds()) if definitions is None else definitions,
        upkeep=upkeep,
        tokens=tokens,
        history=history,
    )
    async with running(settings) as hub:
        yield hub


@dataclass(frozen=True, slots=True, kw_only=True)
class HubProcess:
    """What a test needs of a hub that runs elsewhere."""

    url: str
    kubeconfig: Path
    authority: Path


@contextmanager
def hub_in_thread(
    *,
    folder: Path,
    data: Path | None = None,
    definitions: Sequence[Document] | None = None,
    upkeep: frozenset[str] = parts.ALL,
    tokens: Path | None = None,
    history: int = CHANGES_KEPT,
) -> Iterator[HubProcess]:
    """``folder`` gets the kubeconfig; ``data`` is where the hub keeps its objects, in memory if None."""
    ready = threading.Event()
    started: list[HubProcess] = []
    faults: list[BaseException] = []
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        stop = asyncio.Event()
        loops.append((asyncio.get_running_loop(), stop))
        async with embedded_hub(
            folder=data, definitions=definitions, upkeep=upkeep, tokens=tokens, history=history
        ) as hub:
            kubeconfig, authority = folder / "kubeconfig", folder / "ca.crt"
            hub.certificates.write_kubeconfig(kubeconfig, server=hub.url)
            authority.write_text(hub.authority_pem)
            started.append(HubProcess(url=hub.url, kubeconfig=kubeconfig, authority=authority))
            ready.set()
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            faults.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="fairway-hub", daemon=True)
    thread.start()
    ready.wait()
    if faults:
        raise faults[0]
    try:
        yield started[0]
    finally:
        loop, stop = loops[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join()
    if faults:
        raise faults[0]
