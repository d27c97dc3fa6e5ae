"""Health and metrics, as a kubelet and a Prometheus see them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from controllers.serving.asking import LOOPBACK, ask, connect, send
from fairway.controllers.serving import Address, Ports, open_ports
from fairway.controllers.serving import http_server as connections
from fairway.controllers.serving.probes import NOT_ALIVE, NOT_READY, UNKNOWN
from fairway.observe.meters import CONTENT_TYPE, Meters
from metric_values import values
from rigs.processes import Port
from security.wire import read_to_end


class State:
    def __init__(self) -> None:
        self.unready: Sequence[str] = ()
        self.dead: Sequence[str] = ()
        self.meters = Meters()

    def broken(self) -> Sequence[str]:
        raise RuntimeError("nobody knows")


@pytest.fixture
def state() -> State:
    return State()


@asynccontextmanager
async def opened(
    state: State, *, health: Address | None = LOOPBACK, metrics: Address | None = LOOPBACK
) -> AsyncIterator[Ports]:
    async with open_ports(
        health=health,
        metrics=metrics,
        debug=None,
        ready=lambda: state.unready,
        alive=lambda: state.dead,
        expose=state.meters.expose,
    ) as ports:
        yield ports


@pytest.fixture
async def ports(state: State) -> AsyncIterator[Ports]:
    async with opened(state) as made:
        yield made


@pytest.fixture
def here(ports: Ports) -> Address:
    assert ports.health is not None
    return ports.health


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/readyz?verbose"])
async def test_healthy_process_passes_all_probes(here: Address, path: str) -> None:
    answer = await ask(here, "GET", path)
    assert (answer.code, answer.text) == (200, "ok\n")


async def test_unready_process_returns_503(here: Address, state: State) -> None:
    state.unready = ["placements not listed yet", "two\nlines"]
    answer = await ask(here, "GET", "/readyz")
    assert (answer.code, answer.text) == (503, NOT_READY)
    assert (await ask(here, "GET", "/livez")).code == 200
    assert (await ask(here, "GET", "/healthz")).code == 200


@pytest.mark.parametrize("query", ["verbose", "verbose=1", "x=y&verbose="])
async def test_verbose_probe_names_the_failing_check(here: Address, state: State, query: str) -> None:
    state.unready = ["placements not listed yet", "two\nlines"]
    answer = await ask(here, "GET", f"/readyz?{query}")
    assert answer.code == 503
    assert answer.text == f"{NOT_READY}- placements not listed yet\n- two lines\n"


async def test_failed_liveness_is_separate_from_readiness(here: Address, state: State) -> None:
    state.dead = ["stuck"]
    for path in ("/livez", "/healthz"):
        answer = await ask(here, "GET", f"{path}?verbose")
        assert (answer.code, answer.text) == (503, f"{NOT_ALIVE}- stuck\n")
    assert (await ask(here, "GET", "/readyz")).code == 200


async def test_failing_readiness_check_counts_as_unready(state: State) -> None:
    async with open_ports(
        health=LOOPBACK, metrics=None, debug=None, ready=state.broken, expose=state.meters.expose
    ) as ports:
        assert ports.health is not None
        answer = await ask(ports.health, "GET", "/readyz?verbose")
    assert (answer.code, answer.text) == (503, f"{NOT_READY}- {UNKNOWN}\n")


async def test_metrics_are_exposed(here: Address, state: State) -> None:
    state.meters.decision("created")
    answer = await ask(here, "GET", "/metrics")
    assert answer.code == 200
    assert answer.headers["content-type"] == CONTENT_TYPE
    assert values(answer.body)['fairway_decisions_changed_total{change="created"}'] == 1


async def test_failing_metrics_return_500(state: State) -> None:
    def broken() -> bytes:
        raise RuntimeError("a secret of ours")

    async with open_ports(
        health=None, metrics=LOOPBACK, debug=None, ready=lambda: (), expose=broken
    ) as ports:
        assert ports.metrics is not None
        answer = await ask(ports.metrics, "GET", "/metrics")
    assert (answer.code, answer.text) == (500, connections.BROKEN)


async def test_probe_and_metrics_ports_serve_their_own_paths(state: State) -> None:
    async with opened(state, metrics=Address(host="localhost")) as ports:
        assert ports.health is not None
        assert ports.metrics is not None
        assert ports.health.port != ports.metrics.port
        assert (await ask(ports.health, "GET", "/metrics")).code == 404
        assert (await ask(ports.metrics, "GET", "/livez")).code == 404
        assert (await ask(ports.metrics, "GET", "/metrics")).code == 200


async def test_disabled_probe_address_serves_nothing(state: State) -> None:
    async with opened(state, health=None, metrics=None) as ports:
        assert ports == Ports()


async def test_probe_head_has_no_body(here: Address) -> None:
    answer = await ask(here, "HEAD", "/livez")
    assert (answer.code, answer.body) == (200, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_probe_port_accepts_no_writes(here: Address, method: str) -> None:
    answer = await ask(here, method, "/metrics")
    assert answer.code == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/livez/",
        "//livez",
        "/readyz/../metrics",
        "/Metrics",
        "/metrics%2f",
        "/debug/placements/a/b",
        "/%6detrics",
    ],
)
async def test_probe_port_serves_no_other_path(here: Address, path: str) -> None:
    assert (await ask(here, "GET", path)).code == 404


async def test_probe_responses_forbid_caching_and_sniffing(here: Address) -> None:
    answer = await ask(here, "GET", "/livez")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["connection"] == "close"
    assert answer.headers["server"] == "fairway"


async def test_probe_ports_close_with_the_server(state: State) -> None:
    with Port() as port:  # the port stays reserved
        here = Address(host="127.0.0.1", port=port.number)
        async with opened(state, health=here, metrics=here):
            reader, writer = await connect(here)
        assert await read_to_end(reader) == b""
        writer.transport.abort()
        with pytest.raises(ConnectionRefusedError):
            await connect(here)


async def test_probe_port_in_use_is_an_error(state: State) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = Address(host="127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(OSError, match="the port is in use by another process"):
            async with opened(state, health=address):
                raise AssertionError("it was opened all the same")


# Hostile clients


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 500 + b"\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    ],
    ids=["tls", "nothing", "negative", "two lengths", "null", "long line", "many headers", "long header"],
)
async def test_malformed_probe_request_is_rejected_without_echo(here: Address, sent: bytes) -> None:
    pieces = await send(here, sent)
    assert pieces.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
    assert pieces.endswith(connections.NOT_HTTP.encode())


async def test_probe_port_rejects_other_http_versions(here: Address) -> None:
    pieces = await send(here, b"GET /livez HTTP/2.0\r\nHost: a\r\n\r\n")
    assert b" 505 " in pieces.split(b"\r\n")[0] or b" 400 " in pieces.split(b"\r\n")[0]


async def test_probe_connection_carries_one_request(here: Address) -> None:
    one = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
    assert (await send(here, one * 5)).count(b"HTTP/1.1 200") == 1


async def test_slow_probe_requests_are_cut_off(here: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTION_SECONDS", 0.2)
    for sent in (
        b"",
        b"GET /livez HTTP/1.1\r\n",
        b"POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n",
    ):
        reader, writer = await connect(here)
        writer.write(sent)
        assert await read_to_end(reader) == b""
        writer.transport.abort()


async def test_silent_connections_are_closed_for_newer_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS", 3)
    async with opened(State()) as ports:
        assert ports.health is not None
        held = [await connect(ports.health) for _ in range(9)]
        assert (await ask(ports.health, "GET", "/livez")).code == 200
        for reader, writer in held[:6]:
            assert await read_to_end(reader) == b""
            writer.transport.abort()
        for _, writer in held[6:]:
            writer.transport.abort()


async def test_unread_probe_response_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    size, patience = 64 * 2**20, 0.3
    async with open_ports(
        health=None, metrics=LOOPBACK, debug=None, ready=lambda: (), expose=lambda: b"x" * size
    ) as ports:
        assert ports.metrics is not None
        begun = False
        while not begun:
            monkeypatch.setattr(connections, "CONNECTION_SECONDS", patience)
            reader, writer = await connect(ports.metrics)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
            # A busy machine may take longer than that for the beginning of the answer.
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                await reader.readuntil(b"\r\n\r\n")
                begun = True
            if not begun:
                writer.transport.abort()
                patience *= 2
        while (
            not writer.is_closing()
        ):  # nothing is read, so only a write shows that the server closed the connection
            writer.write(b"x")
            await asyncio.sleep(0.01)


async def test_probe_address_without_host_listens_everywhere(state: State) -> None:
    with Port() as port:
        async with opened(state, health=Address(port=port.number), metrics=None) as ports:
            assert ports.health == Address(port=port.number)
            assert (await ask(ports.health, "GET", "/livez")).code == 200
