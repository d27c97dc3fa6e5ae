"""The embedded hub for tests: in the running event loop, or in a thread for tests that block."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fairway.api import crds
from fairway.hub import CHANGES_KEPT, Document, Hub, Settings, running
from fairway.hub import controllers as hub_controllers
from fairway.testing.background import background


@asynccontextmanager
async def embedded_hub(
    *,
    folder: Path | None = None,
    port: int = 0,
    definitions: Sequence[Document] | None = None,
    controllers: frozenset[str] = hub_controllers.ALL,
    tokens: Path | None = None,
    history: int = CHANGES_KEPT,
) -> AsyncIterator[Hub]:
    """Run a hub that serves OCM's and Fairway's kinds, or the given ``definitions``."""
    settings = Settings(
        folder=folder,
        port=port,
        definitions=tuple(crds()) if definitions is None else definitions,
        controllers=controllers,
        tokens=tokens,
        history=history,
    )
    async with running(settings) as hub:
        yield hub


@dataclass(frozen=True, slots=True, kw_only=True)
class HubAddress:
    """The address and credentials of a running hub."""

    url: str
    kubeconfig: Path
    """The administrator's kubeconfig, with embedded certificates."""
    authority: Path
    """The CA certificate of the hub."""


@contextmanager
def hub_in_thread(
    *,
    folder: Path,
    data: Path | None = None,
    definitions: Sequence[Document] | None = None,
    controllers: frozenset[str] = hub_controllers.ALL,
    tokens: Path | None = None,
    history: int = CHANGES_KEPT,
) -> Iterator[HubAddress]:
    """Run a hub in a thread. ``folder`` gets the kubeconfig; ``data`` is its data folder, in memory if None."""
    kubeconfig, authority = folder / "kubeconfig", folder / "ca.crt"
    manager = embedded_hub(
        folder=data, definitions=definitions, controllers=controllers, tokens=tokens, history=history
    )
    with background(manager) as hub:
        hub.certificates.write_kubeconfig(kubeconfig, server=hub.url)
        authority.write_text(hub.authority_pem)
        yield HubAddress(url=hub.url, kubeconfig=kubeconfig, authority=authority)
