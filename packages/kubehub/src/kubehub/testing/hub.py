"""The embedded hub for tests: in the running event loop, or in a thread for tests that block."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kubehub import controllers as hub_controllers
from kubehub.hub import Hub, Settings, running
from kubehub.resource import Document
from kubehub.storage.store import CHANGES_KEPT
from kubehub.testing.background import background


@asynccontextmanager
async def embedded_hub(
    *,
    folder: Path | None = None,
    port: int = 0,
    definitions: Sequence[Document] = (),
    controllers: frozenset[str] = hub_controllers.ALL,
    tokens: Path | None = None,
    history: int = CHANGES_KEPT,
) -> AsyncIterator[Hub]:
    """Run a hub that serves Kubernetes' own kinds, and those of the CustomResourceDefinitions in ``definitions``."""
    settings = Settings(
        folder=folder,
        port=port,
        definitions=tuple(definitions),
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
    definitions: Sequence[Document] = (),
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
