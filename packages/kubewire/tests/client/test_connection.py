"""Connections to the hub: TLS with real certificates, proxies, and error messages."""

import asyncio
import errno
import logging
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from client.authority import Authority, Pair
from client.conftest import QUICK

from kubewire.client import connection as connections
from kubewire.client.connection import Connection, Proxy, proxy_of_environment
from kubewire.client.credentials import Impersonation, StoredCredentials
from kubewire.client.errors import ConfigError, KubeError, TransportError, UntrustedError
from kubewire.client.kubeconfig import load
from kubewire.client.rest import Client
from kubewire.client.tls import Pem
from rigs.fake_server import PATH, FakeServer


async def ask(connection: Connection) -> int:
    async with Client(connection, retry=QUICK) as client:
        return (await client.request("GET", PATH)).status


@asynccontextmanager
async def serving(context: ssl.SSLContext) -> AsyncIterator[FakeServer]:
    hub = FakeServer()
    await hub.start(ssl_context=context)
    try:
        yield hub
    finally:
        await hub.stop()


def trusting(authority: Authority, hub: FakeServer, **options: Any) -> Connection:
    return Connection(server=hub.url, authority=Pem(data=authority.certificate), **options)


class TestTls:
    async def test_server_with_trusted_certificate_is_accepted(self, tmp_path: Path) -> None:
        authority = Authority()
        async with serving(authority.serving(authority.server("127.0.0.1"), tmp_path)) as hub:
            assert await ask(trusting(authority, hub)) == 200

    async def test_certificate_of_another_authority_is_rejected(self, tmp_path: Path) -> None:
        authority = Authority()
        async with serving(authority.serving(authority.server("127.0.0.1"), tmp_path)) as hub:
            with pytest.raises(UntrustedError, match="check certificate-authority"):
                await ask(trusting(Authority(), hub))
            with pytest.raises(UntrustedError, match="is not trusted"):
                await ask(Connection(server=hub.url))
            assert hub.requests == []

    async def test_intermediate_authority_and_own_certificate_of_the_server_are_trusted(
        self, tmp_path: Path
    ) -> None:
        """As by kubectl, whose library trusts every certificate of certificate-authority."""
        root = Authority()
        intermediate = root.intermediate()
        pair = intermediate.server("127.0.0.1")
        async with serving(root.serving(pair, tmp_path)) as hub:
            for trusted in (intermediate.certificate, pair.chain, Authority().certificate + pair.chain):
                assert await ask(Connection(server=hub.url, authority=Pem(data=trusted))) == 200
            # The server shows no intermediate certificate, so the root alone proves nothing.
            for foreign in (root, root.intermediate()):
                with pytest.raises(UntrustedError):
                    await ask(trusting(foreign, hub))

    async def test_own_certificate_of_the_server_is_trusted_for_its_host_name_only(
        self, tmp_path: Path
    ) -> None:
        authority = Authority()
        pair = authority.server("hub.example")
        async with serving(authority.serving(pair, tmp_path)) as hub:
            with pytest.raises(UntrustedError, match="tls-server-name"):
                await ask(Connection(server=hub.url, authority=Pem(data=pair.chain)))

    async def test_certificate_of_another_host_name_is_rejected(self, tmp_path: Path) -> None:
        authority = Authority()
        async with serving(authority.serving(authority.server("hub.example"), tmp_path)) as hub:
            with pytest.raises(UntrustedError, match="tls-server-name if the name differs"):
                await ask(trusting(authority, hub))
            assert await ask(trusting(authority, hub, tls_server_name="hub.example")) == 200

    async def test_skipped_tls_verification_is_logged_once(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        authority = Authority()
        async with serving(authority.serving(authority.server("hub.example"), tmp_path)) as hub:
            with caplog.at_level(logging.WARNING):
                assert await ask(Connection(server=hub.url, insecure=True)) == 200
                assert await ask(Connection(server=hub.url, insecure=True)) == 200
        assert [record.message for record in caplog.records] == [connections.UNVERIFIED % hub.url]

    async def test_client_certificate_of_a_kubeconfig_is_used(self, tmp_path: Path) -> None:
        authority = Authority()
        context = authority.serving(authority.server("127.0.0.1"), tmp_path, asks_clients=True)

        def encoded(pem: bytes) -> str:
            return b64encode(pem).decode()

        def written(hub: FakeServer, pair: Pair) -> Path:
            path = tmp_path / "config"
            path.write_text(
                f"""
current-context: x
contexts: [{{name: x, context: {{cluster: x, user: x}}}}]
clusters:
- name: x
  cluster: {{server: "{hub.url}", certificate-authority-data: {encoded(authority.certificate)}}}
users:
- name: x
  user: {{client-certificate-data: {encoded(pair.chain)}, client-key-data: {encoded(pair.key)}}}
""",
                encoding="utf-8",
            )
            return path

        async with serving(context) as hub:
            ours = load(written(hub, authority.client("jane"))).context()
            assert await ask(ours) == 200
            foreign = load(written(hub, Authority().client("jane"))).context()
            with pytest.raises(TransportError):
                await ask(foreign)
            with pytest.raises(TransportError):
                await ask(trusting(authority, hub))
            assert len(hub.requests) == 1

    async def test_replaced_client_certificate_is_used(self, tmp_path: Path) -> None:
        authority = Authority()
        server = authority.serving(authority.server("127.0.0.1"), tmp_path, asks_clients=True)
        chain, key = Authority().client("stranger").write(tmp_path, "client")
        credentials = StoredCredentials(chain=Pem(path=str(chain)), key=Pem(path=str(key)))
        async with (
            serving(server) as hub,
            Client(trusting(authority, hub, credentials=credentials), retry=QUICK) as client,
        ):
            with pytest.raises(TransportError):
                await client.request("GET", PATH)
            authority.client("jane").write(tmp_path, "client")
            assert (await client.request("GET", PATH)).status == 200

    async def test_invalid_certificate_names_its_file(self, tmp_path: Path) -> None:
        connection = Connection(server="https://x", authority=Pem(data=b"no"), place="a/config")
        with pytest.raises(ConfigError) as caught:
            await ask(connection)
        assert str(caught.value).startswith("a/config: certificate-authority: contains no certificate")


class ConnectProxy:
    """An HTTP proxy that opens tunnels, forwards requests and records them."""

    def __init__(self, *, code: int = 200) -> None:
        self.heads: list[str] = []
        self._code = code
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "ConnectProxy":
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head.decode())
        method, target = head.decode().split(" ")[:2]
        if self._code != 200:
            writer.write(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % self._code)
            return
        address = target.removeprefix("http://").partition("/")[0]
        host, _, port = address.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        self._writers.append(far_writer)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            far_writer.write(head)
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            self._tasks.append(asyncio.create_task(self._pump(source, sink)))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.close()


class TestProxies:
    async def test_https_goes_through_a_proxy_tunnel(self, tmp_path: Path) -> None:
        authority = Authority()
        context = authority.serving(authority.server("hub.example"), tmp_path)
        async with serving(context) as hub, ConnectProxy() as proxy:
            connection = trusting(
                authority,
                hub,
                tls_server_name="hub.example",
                credentials=StoredCredentials(token="secret"),
                proxy=Proxy.parse(f"http://me:pass@{proxy.address}"),
            )
            assert await ask(connection) == 200
            assert hub.requests[0].headers["Authorization"] == "Bearer secret"
            assert "Proxy-Authorization" not in hub.requests[0].headers
        assert proxy.heads[0].startswith(f"CONNECT {hub.url.removeprefix('https://')} ")
        assert "Proxy-Authorization: Basic bWU6cGFzcw==" in proxy.heads[0]
        assert "secret" not in proxy.heads[0]

    async def test_http_goes_through_a_proxy(self, hub: FakeServer) -> None:
        async with ConnectProxy() as proxy:
            assert await ask(Connection(server=hub.url, proxy=Proxy.parse(proxy.address))) == 200
        assert proxy.heads[0].startswith(f"GET {hub.url}{PATH} ")

    async def test_proxy_that_refuses_is_reported(self, tmp_path: Path) -> None:
        async with ConnectProxy(code=407) as proxy:
            connection = Connection(server="https://hub.example", proxy=Proxy.parse(proxy.address))
            with pytest.raises(TransportError, match=r"the proxy refused the connection to .*: 407 No"):
                await ask(connection)

    @pytest.mark.parametrize(
        ("server", "environ", "expected"),
        [
            ("https://hub", {}, None),
            ("https://hub", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
            ("https://hub", {"https_proxy": "p:1"}, "http://p:1"),
            ("https://hub", {"HTTP_PROXY": "http://p:1"}, None),
            ("http://hub", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
            ("https://hub", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
            ("https://a.hub", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "x, .hub"}, None),
            ("https://a.hub", {"HTTPS_PROXY": "http://p:1", "no_proxy": "hub"}, None),
            ("https://ahub", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "hub"}, "http://p:1"),
            ("https://hub:6443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "hub:6443"}, None),
            ("https://hub", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "hub:6443"}, "http://p:1"),
            ("https://10.1.2.3", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, None),
            ("https://11.1.2.3", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "http://p:1"),
            ("https://10.1.2.3", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.1.2.3"}, None),
            ("https://127.0.0.1", {"HTTPS_PROXY": "http://p:1"}, None),
            ("https://localhost", {"HTTPS_PROXY": "http://p:1"}, None),
            ("https://[::1]:6443", {"HTTPS_PROXY": "http://p:1"}, None),
        ],
    )
    def test_proxies_of_the_environment_are_used(
        self, server: str, environ: dict[str, str], expected: str | None
    ) -> None:
        proxy = proxy_of_environment(server, environ)
        assert (proxy.url if proxy else None) == expected

    def test_unsupported_proxy_of_the_environment_is_rejected(self) -> None:
        with pytest.raises(ConfigError) as caught:
            proxy_of_environment("https://hub", {"HTTPS_PROXY": "socks5h://me:secret@p"})
        assert str(caught.value) == (
            f"environment: HTTPS_PROXY: a proxy over socks5h is not supported; {connections.WRITE_PROXY}"
        )

    def test_proxy_without_address_is_rejected(self) -> None:
        with pytest.raises(ConfigError, match=connections.NO_PROXY_HOST):
            Proxy.parse("http://")


async def test_impersonation_headers_are_sent_with_every_request(hub: FakeServer) -> None:
    connection = Connection(server=hub.url, impersonation=Impersonation(user="jane", groups=("a", "b")))
    await ask(connection)
    seen = hub.requests[0].headers
    assert seen["Impersonate-User"] == "jane"
    assert seen.getall("Impersonate-Group") == ["a", "b"]


async def test_server_address_may_have_a_path(hub: FakeServer) -> None:
    assert await ask(Connection(server=f"{hub.url}/k8s/clusters/c-1")) == 200
    assert hub.requests[0].path == f"/k8s/clusters/c-1{PATH}"


async def test_refused_connection_is_reported() -> None:
    for scheme in ("http", "https"):
        with pytest.raises(TransportError, match="cannot reach") as caught:
            await ask(Connection(server=f"{scheme}://127.0.0.1:1"))
        assert not caught.value.sent
        # And not where an object of Python is in memory, which is another place each time.
        assert str(caught.value) == (
            f"cannot reach {scheme}://127.0.0.1:1: "
            f"[Errno {errno.ECONNREFUSED}] Connect call failed ('127.0.0.1', 1)"
        )


async def test_unreachable_proxy_is_reported() -> None:
    proxied = Connection(server="http://hub.example", proxy=Proxy("http://127.0.0.1:1"))
    with pytest.raises(TransportError, match=r"the proxy 127\.0\.0\.1:1 cannot be reached: \[Errno"):
        await ask(proxied)


async def test_redirect_is_not_followed(hub: FakeServer) -> None:
    hub.fault(code=302, headers={"Location": "http://elsewhere.example/"}, body=b"")
    with pytest.raises(KubeError, match="it would send the credentials along"):
        await ask(Connection(server=hub.url))


def test_connection_repr_has_no_credentials() -> None:
    connection = Connection(
        server="https://x",
        credentials=StoredCredentials(token="secret"),
        proxy=Proxy.parse("http://me:secret@p"),
        authority=Pem(data=b"secret"),
    )
    assert "secret" not in repr(connection)
    assert "secret" not in repr(Client(connection))
