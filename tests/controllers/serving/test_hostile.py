"""Hostile requests to the debug endpoint."""

import gzip
import logging
from typing import Any

import pytest

from controllers.serving.accounts import AUTHOR, PATHONLY, TEAM, VIEWER
from controllers.serving.asking import connect, parsed, request, send, unverified
from controllers.serving.conftest import Debugged
from fairway.controllers.serving import endpoint
from fairway.controllers.serving import http_server as connections
from security.wire import read_to_end

pytestmark = pytest.mark.embedded

PREFIX = "/debug/placements/"
P1 = f"{PREFIX}{TEAM}/p1"


# Paths


@pytest.mark.parametrize(
    "key",
    [
        f"{TEAM}%2fp1",
        f"{TEAM}/..%2f{TEAM}%2fp1",
        f"x/../{TEAM}/p1",
        f"./{TEAM}/p1",
        f"{TEAM}/./p1",
        "..",
        "../..",
        "%2e%2e/%2e%2e",
        f"{TEAM}/%2e%2e",
        f"{TEAM}/p1%00",
        "a" * 4000 + "/p1/x",
    ],
)
async def test_malformed_debug_paths_return_400(debugged: Debugged, key: str) -> None:
    answer = await debugged.ask(VIEWER, "GET", f"{PREFIX}{key}")
    assert answer.code == 400
    assert debugged.fleet.seen == []


@pytest.mark.parametrize(
    "key",
    [
        f"{TEAM}/p1%20",
        f"{TEAM}/p1;x=y",
        f"{TEAM}/p1%3Fx",
        f"{TEAM}/%",
        f"{TEAM}/%zz",
        f"{TEAM}/p1%5c..",
        f"{TEAM}/%c0%ae%c0%ae",
        f"{TEAM}/%ff",
        f"{TEAM}%2520/p1",
        "%74eam-a%20/p1",
    ],
)
async def test_unknown_debug_names_return_404(debugged: Debugged, key: str) -> None:
    answer = await debugged.ask(VIEWER, "GET", f"{PREFIX}{key}")
    assert answer.code == 404
    assert answer.error.startswith("placement '")
    assert debugged.fleet.seen == []


@pytest.mark.parametrize(
    "target",
    [
        f"/debug/x/../placements/{TEAM}/p1",
        f"//debug/placements/{TEAM}/p1",
        f"/debug//placements/{TEAM}/p1",
        f"/debug%2fplacements/{TEAM}/p1",
        f"/DEBUG/placements/{TEAM}/p1",
        f"https://fairway{P1}",
        f"/%64ebug/placements/{TEAM}/p1",
        "*",
    ],
)
async def test_alternative_spellings_of_the_debug_path_are_rejected(debugged: Debugged, target: str) -> None:
    answer = await debugged.ask(VIEWER, "GET", target)
    assert answer.code in (400, 404)
    assert debugged.sent == []


async def test_access_review_uses_the_normalized_path(debugged: Debugged) -> None:
    """Quoting does not lead around a rule about paths, nor into one."""
    answer = await debugged.ask(VIEWER, "GET", f"{PREFIX}{TEAM}/%701?x=/../y")
    assert answer.code == 200
    answer = await debugged.ask(AUTHOR, "GET", f"{PREFIX}{TEAM}/%701")
    assert answer.error.endswith(f'cannot get path "{P1}"')


async def test_debug_post_has_one_path(debugged: Debugged) -> None:
    answer = await debugged.ask(AUTHOR, "POST", P1, body={"spec": {}})
    assert (answer.code, answer.error) == (400, endpoint.MALFORMED.format(key=f"{TEAM}/p1"))


async def test_hostile_names_are_encoded_as_json(debugged: Debugged) -> None:
    name = "%22%3C%5cscript%3E%0d%0aSet-Cookie:%20x"
    answer = await debugged.ask(VIEWER, "GET", f"{PREFIX}{TEAM}/{name}")
    assert answer.code == 404
    assert "set-cookie" not in answer.headers
    assert answer.error == "placement '\"<\\script>\r\nSet-Cookie: x' not found"


# Bodies


async def test_compressed_debug_body_is_rejected(debugged: Debugged) -> None:
    bomb = gzip.compress(b'{"spec": {}}' + b" " * 10_000_000)
    answer = await debugged.ask(
        AUTHOR,
        "POST",
        PREFIX,
        body=bomb,
        headers=("Content-Encoding: gzip", "Content-Type: application/json"),
    )
    assert answer.code == 400
    assert answer.error.startswith("failed to unmarshal placement JSON: ")


async def test_body_is_not_read_without_rights(debugged: Debugged) -> None:
    """The response does not wait for the body."""
    head = request(
        "POST", PREFIX, token=debugged.accounts.tokens[VIEWER], headers=[f"Content-Length: {2**40}"]
    )
    assert parsed(await send(debugged.address, head, tls=unverified())).code == 403
    head = request("POST", PREFIX, headers=[f"Content-Length: {2**40}"])
    assert parsed(await send(debugged.address, head, tls=unverified())).code == 401


async def test_excessive_content_length_is_rejected_at_once(debugged: Debugged) -> None:
    head = request(
        "POST",
        PREFIX,
        token=debugged.accounts.tokens[AUTHOR],
        headers=[f"Content-Length: {endpoint.LIMIT + 1}"],
    )
    answer = parsed(await send(debugged.address, head, tls=unverified()))
    assert (answer.code, answer.error) == (400, endpoint.TOO_LARGE)


async def test_expect_continue_is_supported(debugged: Debugged) -> None:
    body = b'{"metadata": {"namespace": "team-a"}, "spec": {}}'
    head = request(
        "POST",
        PREFIX,
        token=debugged.accounts.tokens[AUTHOR],
        headers=[f"Content-Length: {len(body)}", "Expect: 100-continue"],
    )
    reader, writer = await connect(debugged.address, tls=unverified())
    writer.write(head)
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(body)
    assert parsed(await read_to_end(reader)).code == 200
    writer.transport.abort()


@pytest.mark.parametrize(
    "spec",
    [
        {"numberOfClusters": 2**31},
        {"numberOfClusters": -(2**31) - 1},
        {"prioritizerPolicy": {"configurations": [{"weight": 2**40}]}},
        {"tolerations": [{"tolerationSeconds": 2**70}]},
    ],
)
async def test_out_of_range_numbers_are_rejected(debugged: Debugged, spec: dict[str, Any]) -> None:
    answer = await debugged.ask(AUTHOR, "POST", PREFIX, body={"metadata": {"namespace": TEAM}, "spec": spec})
    assert answer.code == 400


@pytest.mark.parametrize(
    "spec",
    [
        {"numberOfClusters": -1},
        {"predicates": [{}] * 1000},
        {"prioritizerPolicy": {"mode": "\ud800", "configurations": []}},
        {"clusterSets": ["../x", "", "\u202e"]},
        {"predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": ["(" * 5000]}}}]},
    ],
)
async def test_odd_placements_are_answered(debugged: Debugged, spec: dict[str, Any]) -> None:
    answer = await debugged.ask(AUTHOR, "POST", PREFIX, body={"metadata": {"namespace": TEAM}, "spec": spec})
    assert answer.code in (200, 400)
    assert (await debugged.ask(VIEWER, "GET", P1)).code == 200


async def test_invalid_namespace_grants_no_rights(debugged: Debugged) -> None:
    for namespace in ("..", "*", f"{TEAM}/../{TEAM}", f"{TEAM} ", "team-a\u0000", "TEAM-A"):
        body = {"metadata": {"namespace": namespace}, "spec": {}}
        answer = await debugged.ask(AUTHOR, "POST", PREFIX, body=body)
        assert answer.code == 403, namespace


# Heads


async def test_two_authorization_headers_are_rejected(debugged: Debugged) -> None:
    tokens = debugged.accounts.tokens
    both = [f"Authorization: Bearer {tokens[PATHONLY]}", f"Authorization: Bearer {tokens[VIEWER]}"]
    for headers in (both, both[::-1]):
        answer = parsed(await send(debugged.address, request("GET", P1, headers=headers), tls=unverified()))
        assert answer.code in (400, 401)


async def test_identity_headers_are_ignored(debugged: Debugged) -> None:
    claims = ("Impersonate-User: admin", "X-Remote-User: admin", "X-Remote-Group: system:masters")
    assert (await debugged.ask("", "GET", P1, headers=claims)).code == 401
    assert (await debugged.ask(PATHONLY, "GET", P1, headers=claims)).code == 403


async def test_token_of_any_length_is_handled(debugged: Debugged) -> None:
    for length in (20_000, 40_000):
        answer = parsed(
            await send(debugged.address, request("GET", P1, token="a" * length), tls=unverified())
        )
        assert answer.code in (400, 401)


async def test_smuggled_debug_requests_are_not_answered(debugged: Debugged) -> None:
    inner = request("GET", P1, token=debugged.accounts.tokens[VIEWER])
    outer = request(
        "POST",
        PREFIX,
        token=debugged.accounts.tokens[AUTHOR],
        headers=["Transfer-Encoding: chunked", f"Content-Length: {len(inner) + 5}"],
    )
    pieces = await send(debugged.address, outer + b"0\r\n\r\n" + inner, tls=unverified())
    assert pieces.count(b"HTTP/1.") == 1
    assert debugged.fleet.seen == []


async def test_debug_endpoint_rejects_plain_http(debugged: Debugged) -> None:
    assert await send(debugged.address, request("GET", P1, token="secret")) == b""


# Slowness, and too much of everything


async def test_slow_debug_bodies_are_cut_off(debugged: Debugged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTION_SECONDS", 0.5)
    head = request(
        "POST", PREFIX, token=debugged.accounts.tokens[AUTHOR], headers=["Content-Length: 1000000"]
    )
    reader, writer = await connect(debugged.address, tls=unverified())
    writer.write(head + b"{")
    assert await read_to_end(reader) == b""
    writer.transport.abort()
    assert debugged.fleet.seen == []


async def test_slow_clients_do_not_block_the_debug_endpoint(debugged: Debugged) -> None:
    head = request("POST", PREFIX, token=debugged.accounts.tokens[AUTHOR], headers=["Content-Length: 1000"])
    slow = [await connect(debugged.address, tls=unverified()) for _ in range(20)]
    for _, writer in slow:
        writer.write(head + b"{")
    assert (await debugged.ask(VIEWER, "GET", P1)).code == 200
    for _, writer in slow:
        writer.transport.abort()


# What is kept to ourselves


async def test_debug_tokens_are_never_logged(debugged: Debugged, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = debugged.accounts.tokens[VIEWER]
    debugged.fleet.fault = RuntimeError("broken")
    await debugged.ask(VIEWER, "GET", P1)
    await send(
        debugged.address, b"GET\x00 / HTTP/1.1\r\nAuthorization: Bearer " + secret.encode(), tls=unverified()
    )
    bad = request("GET", P1, token=secret, headers=["Content-Length: -1"])
    await send(debugged.address, bad, tls=unverified())
    assert secret not in caplog.text
