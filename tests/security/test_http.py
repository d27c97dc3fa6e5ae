"""The hub rejects ambiguous HTTP, so that no request can be smuggled behind another."""

import pytest

from security.wire import ADMIN, Hub, ask, received, request, send

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
BODY = b'{"spec":{"nonResourceAttributes":{"path":"/x","verb":"get"}}}'


def post(hub: Hub, *headers: str, version: str = "1.1") -> bytes:
    """The head of a request with a body; ``headers`` set its length."""
    lines = [
        f"POST {REVIEWS} HTTP/{version}",
        "Host: hub",
        f"Authorization: Bearer {hub.tokens[ADMIN]}",
        "Content-Type: application/json",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)


def behind(hub: Hub) -> bytes:
    """The smuggled request, whose response the test would see."""
    return request("GET", "/version", token=hub.tokens[ADMIN])


@pytest.mark.parametrize(
    "headers",
    [
        (f"Content-Length: {len(BODY)}", "Content-Length: 5"),
        ("Content-Length: 5", f"Content-Length: {len(BODY)}"),
        (f"Content-Length: {len(BODY)}, {len(BODY)}",),
        (f"Content-Length: +{len(BODY)}",),
        ("Content-Length: -1",),
        ("Content-Length: 0x3d",),
        (f"Content-Length : {len(BODY)}",),
        ("Content-Length: 99999999999999999999999999",),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Transfer-Encoding : chunked",),
        ("X-A: b\rContent-Length: 5",),
        ("X-A\x00: b", f"Content-Length: {len(BODY)}"),
        ("X A: b", f"Content-Length: {len(BODY)}"),
    ],
    ids=str,
)
async def test_ambiguous_length_is_rejected_and_closes_the_connection(
    hub: Hub, headers: tuple[str, ...]
) -> None:
    data = chunked(BODY) if any("chunked" in header for header in headers) else BODY
    answers = await send(hub, post(hub, *headers) + data + behind(hub))
    assert [answer.code for answer in answers] in ([400], [413], [501])


@pytest.mark.parametrize(
    "headers",
    [
        (f"Content-Length: {len(BODY)}", f"Content-Length: {len(BODY)}"),
        ("Content-Length: 4", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 4"),
        ("X-A: b", " c: d", f"Content-Length: {len(BODY)}"),
        ("X-A: b", "\tTransfer-Encoding: chunked", f"Content-Length: {len(BODY)}"),
    ],
    ids=str,
)
async def test_embedded_hub_rejects_odd_framing_that_a_real_hub_accepts(
    embedded: Hub, headers: tuple[str, ...]
) -> None:
    data = chunked(BODY) if any(header.startswith("Transfer") for header in headers) else BODY
    answers = await send(embedded, post(embedded, *headers) + data + behind(embedded))
    assert [answer.code for answer in answers] == [400]


async def test_header_lines_need_crlf(embedded: Hub) -> None:
    sent = request("GET", "/version", token=embedded.tokens[ADMIN])
    assert [answer.code for answer in await send(embedded, sent.replace(b"\r\n", b"\n"))] == [400]


@pytest.mark.parametrize("version", ["0.9", "2.0", "3.0"])
async def test_other_http_versions_are_rejected(hub: Hub, version: str) -> None:
    sent = post(hub, f"Content-Length: {len(BODY)}", version=version) + BODY + behind(hub)
    assert [answer.code for answer in await send(hub, sent)] in ([400], [505])


async def test_chunked_body_is_read(hub: Hub) -> None:
    """Shows that the tests above do not fail because of chunking itself."""
    answers = await send(hub, post(hub, "Transfer-Encoding: chunked") + chunked(BODY) + behind(hub))
    assert [answer.code for answer in answers] == [201, 200]


@pytest.mark.parametrize(
    "header",
    [
        "X-HTTP-Method-Override: DELETE",
        "X-HTTP-Method: DELETE",
        "X-Method-Override: DELETE",
        "_method: DELETE",
    ],
)
async def test_method_override_headers_are_ignored(hub: Hub, namespace: str, header: str) -> None:
    answer = await ask(hub, "GET", f"/api/v1/namespaces/{namespace}?_method=DELETE", headers=[header])
    assert answer.code == 200
    live = (await ask(hub, "GET", f"/api/v1/namespaces/{namespace}")).document
    assert "deletionTimestamp" not in live["metadata"]


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
@pytest.mark.parametrize(
    "target", ["/api/v1/namespaces/default", "/api/v1/namespaces?watch=1&timeoutSeconds=1"]
)
async def test_unknown_methods_are_rejected(hub: Hub, method: str, target: str) -> None:
    (answer,) = await send(hub, request(method, target, token=hub.tokens[ADMIN]))
    assert answer.code == 405


async def test_response_without_a_body_has_no_body(hub: Hub) -> None:
    """A client would read such a body as the next response."""
    first = request(
        "HEAD", "/api/v1/namespaces?watch=1&timeoutSeconds=1", token=hub.tokens[ADMIN], last=False
    )
    received_ = await received(hub, first + behind(hub))
    assert b'"ADDED"' not in received_
    heads = received_.split(b"HTTP/1.1 ")[1:]
    assert [head[:3] for head in heads] == [b"405", b"200"]
    assert heads[0].endswith(b"\r\n\r\n")


async def test_host_header_is_ignored(hub: Hub) -> None:
    sent = request("GET", "/api/v1/namespaces/default", token=hub.tokens[ADMIN])
    for host in (b"evil.example", b"kubernetes.default.svc", b"127.0.0.1:1"):
        (answer,) = await send(hub, sent.replace(b"Host: hub", b"Host: " + host))
        assert answer.code == 200
    for host in (b"X: y", b"Host: a\r\nHost: b"):
        (answer,) = await send(hub, sent.replace(b"Host: hub", host))
        assert answer.code == 400


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"SSH-2.0-x\r\n",
        b"\x00" * 64,
        b"\r\n" * 4 + b"\x80\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /version\r\n\r\n",
        b"GET / / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"G\xc3\x89T / HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
async def test_non_http_bytes_are_rejected(embedded: Hub, data: bytes) -> None:
    for answer in await send(embedded, data):
        assert (answer.code, answer.body in (b"Bad Request\n", b"")) == (400, True) or answer.code == 505


async def test_parser_messages_are_not_disclosed(embedded: Hub) -> None:
    """The parser's error quotes the invalid line, which may contain credentials."""
    sent = request("GET", "/version", headers=["Authorization: Bearer \x01 something-secret"])
    (answer,) = await send(embedded, sent)
    assert (answer.code, answer.body) == (400, b"Bad Request\n")


@pytest.mark.parametrize("count", [200, 5_000])
async def test_large_request_head_is_rejected(embedded: Hub, count: int) -> None:
    sent = request("GET", "/version", headers=[f"X-{number}: {'y' * 100}" for number in range(count)])
    assert [answer.code for answer in await send(embedded, sent)] in ([400], [])
    assert (await ask(embedded, "GET", "/version")).code == 200


async def test_endless_request_head_is_cut_off(embedded: Hub) -> None:
    """Each line, and the number of lines, is within its own limit."""
    line = b"X: " + b"y" * 30_000 + b"\r\n"
    answers = await send(embedded, b"GET /version HTTP/1.1\r\nHost: x\r\n" + line * 100)
    assert answers == []
    assert (await ask(embedded, "GET", "/version")).code == 200


@pytest.mark.parametrize("value", ["\xff\xfe", "a\xffb", "\xe2\x28\xa1"])
@pytest.mark.parametrize("header", ["User-Agent", "Impersonate-User", "Impersonate-Group", "Accept", "X-Any"])
async def test_binary_header_values_do_no_harm(hub: Hub, header: str, value: str) -> None:
    sent = request("GET", "/api/v1/namespaces/default", token=hub.tokens[ADMIN])
    odd = f"{header}: {value}\r\n".encode("latin-1")
    (answer,) = await send(hub, sent.replace(b"Connection:", odd + b"Connection:"))
    assert answer.code in {"Impersonate-User": (403,), "Impersonate-Group": (400,), "Accept": (406,)}.get(
        header, (200,)
    )


@pytest.mark.parametrize("kind", ["websocket", "h2c", "SPDY/3.1", "TLS/1.0"])
async def test_protocol_upgrade_is_ignored(hub: Hub, kind: str) -> None:
    first = request(
        "GET",
        "/api/v1/namespaces/default",
        token=hub.tokens[ADMIN],
        headers=["Connection: Upgrade", f"Upgrade: {kind}"],
        last=False,
    )
    answers = await send(hub, first + request("GET", "/version"))
    assert [answer.code for answer in answers] in ([200], [200, 200])
