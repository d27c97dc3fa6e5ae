"""Access reviews use a hub: the embedded one, and a real kube-apiserver."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controllers.serving.accounts import FAIRWAY, OTHERS, TEAM, Accounts, create
from controllers.serving.asking import LOOPBACK, Answer, ask, unverified
from controllers.serving.inspecting import Fleet
from fairway.controllers.serving import Address, DebugServer, open_ports
from fairway.testing.builders import binding, cluster, cluster_set, placement
from fairway.testing.hub import hub_in_thread
from kubewire.client import Client, Connection, load
from kubewire.client.credentials import StoredCredentials
from kubewire.client.transport import Response


@dataclass(frozen=True, kw_only=True)
class Hub:
    kubeconfig: Path
    """The administrator's."""
    accounts: Accounts

    def connection(self, account: str = "") -> Connection:
        """Of an account, or of the administrator."""
        admin = load(self.kubeconfig).context()
        if not account:
            return admin
        return Connection(
            server=admin.server,
            authority=admin.authority,
            credentials=StoredCredentials(token=self.accounts.tokens[account]),
        )


async def _created(kubeconfig: Path) -> Accounts:
    async with Client(load(kubeconfig).context()) as client:
        return await create(client)


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp(f"serving-{request.param}")
    if request.param == "embedded":
        with hub_in_thread(folder=folder, controllers=frozenset()) as embedded:
            yield Hub(kubeconfig=embedded.kubeconfig, accounts=asyncio.run(_created(embedded.kubeconfig)))
        return
    real = request.getfixturevalue("real_ocm_hub")
    yield Hub(kubeconfig=real.kubeconfig, accounts=asyncio.run(_created(real.kubeconfig)))


class RecordingClient(Client):
    """Keeps what it was asked to send."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.sent: list[tuple[str, str]] = []

    async def request(self, method: str, path: str, **options: Any) -> Response:
        self.sent.append((method, path))
        return await super().request(method, path, **options)


@dataclass(frozen=True, kw_only=True)
class Debugged:
    """A debug endpoint that is open, with everything a test may want to change about it."""

    address: Address
    fleet: Fleet
    accounts: Accounts
    sent: list[tuple[str, str]]
    """What it sent to the hub, as method and path."""
    unready: list[str]

    async def ask(
        self, account: str, method: str, path: str, *, body: object = None, headers: tuple[str, ...] = ()
    ) -> Answer:
        """As an account, or without a token."""
        token = self.accounts.tokens[account] if account else ""
        return await ask(
            self.address, method, path, tls=unverified(), token=token, body=body, headers=headers
        )


def made_fleet() -> Fleet:
    return Fleet(
        [
            cluster_set("default"),
            binding("default", namespace=TEAM),
            cluster("c1"),
            cluster("c2"),
            placement("p1", namespace=TEAM),
            placement("p1", namespace=OTHERS),
        ]
    )


@pytest.fixture
async def debugged(hub: Hub) -> AsyncIterator[Debugged]:
    """It has exactly its declared rights."""
    fleet = made_fleet()
    unready: list[str] = []
    client = RecordingClient(hub.connection(FAIRWAY))
    async with (
        client,
        open_ports(
            health=None,
            metrics=None,
            debug=DebugServer(address=LOOPBACK, client=client, inspector=fleet),
            ready=lambda: unready,
            expose=lambda: b"",
        ) as ports,
    ):
        assert ports.debug is not None
        yield Debugged(
            address=ports.debug, fleet=fleet, accounts=hub.accounts, sent=client.sent, unready=unready
        )
