"""The provider with a real Prometheus behind a faulty proxy."""

import gzip
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fairway.providers import endpoint
from fairway.providers.prometheus import api
from kubewire.client.credentials import basic
from providers.tools.monitoring import Monitoring, Proxy, answering
from providers.tools.readings import failure, fleet, open_provider, values
from rigs.certificates import Authority

METRIC = "trouble_free"


def options(proxy: Proxy, **more: Any) -> dict[str, Any]:
    score = {"name": "free", "query": METRIC, "scale": {"kind": "direct"}}
    return {"url": proxy.url, "scores": [score], "timeout": "2m", **more}


@pytest.fixture(autouse=True)
async def known(monitoring: Monitoring) -> None:
    monitoring.exporter.set(METRIC, 40, cluster="c1")
    await monitoring.server.until(METRIC, lambda series: "c1" in series)


GOOD = {"c1": {"free": 40.0}}


@pytest.mark.parametrize(
    ("status", "text", "reason", "words"),
    [
        (500, "boom", endpoint.UNAVAILABLE, "returned 500: boom"),
        (502, "<html>Bad gateway</html>", endpoint.UNAVAILABLE, "returned 502"),
        (429, "slow down", endpoint.UNAVAILABLE, "returned 429: slow down"),
        (404, "404 page not found", endpoint.REFUSED, "returned 404: 404 page not found"),
        (403, "no", endpoint.FORBIDDEN, "does not allow /api/v1/query (403: no)"),
        (200, "<html>Sign in</html>", endpoint.NOT_JSON, "is there a login page in front of it?"),
        (200, '{"status":"success"', endpoint.NOT_JSON, "instead of JSON"),
        (200, '{"status":"odd"}', endpoint.REFUSED, "Prometheus returned an error: status 200"),
        (200, '["what"]', api.UNREADABLE, "not from the Prometheus API"),
    ],
)
async def test_endpoint_errors_have_reasons(
    proxy: Proxy, status: int, text: str, reason: str, words: str
) -> None:
    async with open_provider("prometheus", options(proxy)) as provider:
        proxy.behaviour = answering(status, text)
        reported, message = await failure(provider, fleet("c1"))
        assert reported == reason
        assert words in message
        proxy.behaviour = None
        assert await values(provider, fleet("c1")) == GOOD


async def test_slow_response_times_out(proxy: Proxy) -> None:
    async with open_provider("prometheus", options(proxy, timeout="100ms")) as provider:
        proxy.behaviour = proxy.hang
        reason, message = await failure(provider, fleet("c1"))
    assert reason == endpoint.TIMEOUT
    assert message.endswith("did not respond within 0.1 s")


async def test_missing_server_is_unreachable(proxy: Proxy) -> None:
    async with open_provider("prometheus", {**options(proxy), "url": "http://127.0.0.1:9"}) as provider:
        reason, message = await failure(provider, fleet("c1"))
    assert reason == endpoint.UNREACHABLE
    assert "cannot reach http://127.0.0.1:9" in message
    url = proxy.url.replace("http://", "https://")  # which speaks no TLS
    async with open_provider("prometheus", {**options(proxy), "url": url}) as provider:
        reason, message = await failure(provider, fleet("c1"))
    assert reason == endpoint.UNREACHABLE
    assert message.startswith(f"free: cannot reach {url}: [SSL: ")


async def test_redirect_is_not_followed(proxy: Proxy) -> None:
    proxy.behaviour = answering(302, Location="https://login.example.com/auth#t=secret?state=secret")
    async with open_provider("prometheus", options(proxy)) as provider:
        reason, message = await failure(provider, fleet("c1"))
    assert reason == endpoint.REDIRECTED
    assert "to https://login.example.com/auth, which is not followed" in message
    assert "secret" not in message
    assert len(proxy.requests) == 1


async def test_response_size_is_limited(proxy: Proxy) -> None:
    async with open_provider("prometheus", options(proxy, maxBytes=20)) as provider:
        reason, message = await failure(provider, fleet("c1"))
        assert reason == endpoint.TOO_LARGE
        assert "more than 20 bytes" in message

    async def empty(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b"{}" + b" " * 18, content_type="application/json")

    proxy.behaviour = empty
    async with open_provider("prometheus", options(proxy, maxBytes=20)) as provider:
        reason, _ = await failure(provider, fleet("c1"))
        assert reason != endpoint.TOO_LARGE  # exactly as much as allowed

    async def bomb(_: web.Request) -> web.StreamResponse:
        small = gzip.compress(b" " * 50_000_000)
        return web.Response(body=small, headers={"Content-Encoding": "gzip"})

    proxy.behaviour = bomb
    async with open_provider("prometheus", options(proxy, maxBytes=100_000)) as provider:
        reason, _ = await failure(provider, fleet("c1"))
    assert reason == endpoint.TOO_LARGE


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"warnings": ["store-3 did not answer"]}, "store-3 did not answer"),
        ({"isPartial": True, "warnings": None}, "the server marked it as partial"),
    ],
)
async def test_incomplete_response_is_rejected_by_default(
    proxy: Proxy, more: dict[str, Any], words: str
) -> None:
    def warn(answer: bytes) -> bytes:
        return json.dumps({**json.loads(answer), **more}).encode()

    proxy.rewrite = warn
    async with open_provider("prometheus", options(proxy)) as provider:
        reason, message = await failure(provider, fleet("c1"))
    assert reason == api.INCOMPLETE
    assert message == f"free: the result is incomplete: {words}"
    async with open_provider("prometheus", options(proxy, warnings="accept")) as provider:
        assert await values(provider, fleet("c1")) == GOOD


async def test_promql_info_is_not_a_warning(proxy: Proxy) -> None:
    advice = "PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket"

    def advise(answer: bytes) -> bytes:
        return json.dumps({**json.loads(answer), "warnings": [advice]}).encode()

    proxy.rewrite = advise
    async with open_provider("prometheus", options(proxy)) as provider:
        assert await values(provider, fleet("c1")) == GOOD


@pytest.mark.parametrize("timeout", ["2500ms", 7.25, "1m", 1_500_000])
async def test_query_timeout_is_sent_to_prometheus(proxy: Proxy, timeout: str | float) -> None:
    async with open_provider("prometheus", options(proxy, timeout=timeout)) as provider:
        assert await values(provider, fleet("c1")) == GOOD


async def test_expired_token_file_is_read_again(proxy: Proxy, tmp_path: Path) -> None:
    accepted = "Bearer first"

    async def guard(request: web.Request) -> web.StreamResponse | None:
        if request.headers.get("Authorization") == accepted:
            return None
        return web.Response(status=401, text="token expired")

    proxy.behaviour = guard
    token = tmp_path / "token"
    token.write_text("first\n")
    given = options(proxy, auth={"tokenFile": "token"})
    async with open_provider("prometheus", given, folder=tmp_path) as provider:
        assert await values(provider, fleet("c1")) == GOOD
        accepted = "Bearer second"
        reason, message = await failure(provider, fleet("c1"))
        assert reason == endpoint.UNAUTHORIZED
        assert "(401: token expired); the token file has not changed" in message
        assert "first" not in message
        token.write_text("second\n")
        assert await values(provider, fleet("c1")) == GOOD
        token.unlink()
        assert await values(provider, fleet("c1")) == GOOD  # what was read last is all there is


async def test_changed_password_file_is_read_again(proxy: Proxy, tmp_path: Path) -> None:
    accepted = basic("reader", "first")

    async def guard(request: web.Request) -> web.StreamResponse | None:
        if request.headers.get("Authorization") == accepted:
            return None
        return web.Response(status=401, text="wrong password")

    proxy.behaviour = guard
    password = tmp_path / "password"
    password.write_text("first\n")
    given = options(proxy, auth={"username": "reader", "passwordFile": "password"})
    async with open_provider("prometheus", given, folder=tmp_path) as provider:
        assert await values(provider, fleet("c1")) == GOOD
        accepted = basic("reader", "second")
        reason, message = await failure(provider, fleet("c1"))
        assert reason == endpoint.UNAUTHORIZED
        assert "(401: wrong password); the password file has not changed" in message
        assert "first" not in message
        password.write_text("second\n")
        assert await values(provider, fleet("c1")) == GOOD
        password.write_text(" \n")
        reason, message = await failure(provider, fleet("c1"))
        assert reason == endpoint.NO_CREDENTIALS
        assert "password is empty" in message


@pytest.mark.parametrize("status", [401, 403, 400, 500])
async def test_secrets_in_error_responses_are_redacted(proxy: Proxy, status: int) -> None:
    async def parrot(request: web.Request) -> web.StreamResponse:
        heard = f"{request.headers['Authorization']} and {request.headers['X-Key']} are no good"
        return web.json_response({"status": "error", "error": heard}, status=status)

    proxy.behaviour = parrot
    given = options(proxy, auth={"token": "s3cret-token"}, headers={"X-Key": "s3cret-key"})
    async with open_provider("prometheus", given) as provider:
        _, message = await failure(provider, fleet("c1"))
    assert "s3cret" not in message
    assert "*** and *** are no good" in message


@pytest.mark.parametrize(
    "auth", [{"tokenFile": "nowhere"}, {"username": "reader", "passwordFile": "nowhere"}]
)
async def test_unreadable_credentials_fail_before_the_request(
    proxy: Proxy, tmp_path: Path, auth: dict[str, str]
) -> None:
    given = options(proxy, auth=auth)
    async with open_provider("prometheus", given, folder=tmp_path) as provider:
        reason, message = await failure(provider, fleet("c1"))
    assert reason == endpoint.NO_CREDENTIALS
    assert "nowhere cannot be read" in message
    assert not proxy.requests


async def test_headers_and_parameters_are_sent(proxy: Proxy) -> None:
    given = options(
        proxy,
        auth={"username": "reader", "password": "pw"},
        headers={"X-Scope-OrgID": "fleet"},
        method="GET",
        thanos={"dedup": False, "maxSourceResolution": "5m"},
        params={"engine": "thanos"},
    )
    async with open_provider("prometheus", given) as provider:
        assert await values(provider, fleet("c1")) == GOOD
    (request, freshness) = proxy.requests
    assert request.headers["Authorization"] == basic("reader", "pw")
    assert request.headers["X-Scope-OrgID"] == "fleet"
    assert dict(request.query) == {
        "query": METRIC,
        "dedup": "false",
        "partial_response": "false",
        "max_source_resolution": "5m",
        "engine": "thanos",
        "timeout": "120",
    }
    assert freshness.query["query"] == f"timestamp({METRIC})"


async def test_tls_is_verified_and_client_certificate_is_sent(monitoring: Monitoring, tmp_path: Path) -> None:
    authority = Authority.create(tmp_path)
    server, client = authority.issue("server", hosts=["prometheus.example.com"]), authority.issue("reader")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.pair.certificate))
    context.load_cert_chain(server.certificate, server.key)
    context.verify_mode = ssl.CERT_REQUIRED
    shown = {"certFile": "reader.crt", "keyFile": "reader.key"}
    trusted = {"caFile": "ca.crt", "serverName": "prometheus.example.com"}
    assert client.certificate.name == shown["certFile"]
    async with Proxy(monitoring.server.url).serving(ssl=context) as proxy:

        async def reason_of(auth: dict[str, str], tls: dict[str, Any]) -> str:
            given = options(proxy, auth=auth, tls=tls)
            async with open_provider("prometheus", given, folder=tmp_path) as provider:
                return (await failure(provider, fleet("c1")))[0]

        async with open_provider(
            "prometheus", options(proxy, auth=shown, tls=trusted), folder=tmp_path
        ) as provider:
            assert await values(provider, fleet("c1")) == GOOD
        given = options(proxy, auth=shown, tls={"insecure": True})
        async with open_provider("prometheus", given, folder=tmp_path) as provider:
            assert await values(provider, fleet("c1")) == GOOD
        assert await reason_of(shown, {}) == endpoint.UNTRUSTED
        assert (
            await reason_of(shown, {"caFile": "ca.crt"}) == endpoint.UNTRUSTED
        )  # it is another name's certificate
        assert await reason_of({}, trusted) == endpoint.UNREACHABLE  #  without a client certificate
