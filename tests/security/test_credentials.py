"""Authentication rejects missing, malformed and forged credentials."""

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest

from security.credentials import (
    HOUR,
    SERVER,
    Certificates,
    claims_of,
    decoded,
    encoded,
    new_key,
    read_key,
    signed,
)
from security.wire import ADMIN, Answer, Hub, ask, request, send

UNAUTHORIZED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "Unauthorized",
    "reason": "Unauthorized",
    "code": 401,
}
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def get_with(hub: Hub, *headers: str, target: str = "/api/v1/namespaces") -> Answer:
    """Send a request with these headers."""
    (answer,) = await send(hub, request("GET", target, headers=headers))
    return answer


# Anonymous users


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/api",
        "/apis",
        "/api/v1",
        "/api/v1/pods",
        "/api/v1/namespaces/default/secrets/x",
        "/api/v1/pods?watch=1",
        "/api/v1/watch/pods",
        "/apis/no.such.group/v1/things",
        "/metrics",
        "/healthz/ping",
        "/healthz/../metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openid/v1/jwks",
        "/.well-known/openid-configuration",
        "/logs",
        "/no/such/path",
        "/api/v1/namespaces/a/../b",
        "/api/v1//pods",
        "//metrics",
        "/%6detrics",
        "/HEALTHZ",
    ],
)
async def test_anonymous_reads_are_rejected(hub: Hub, target: str) -> None:
    answer = await get_with(hub, target=target)
    assert (answer.code, answer.document) == (401, UNAUTHORIZED)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_anonymous_writes_are_rejected(hub: Hub, method: str) -> None:
    answer = await ask(hub, method, f"{REVIEWS}", user="", body={"spec": {}})
    assert (answer.code, answer.document) == (401, UNAUTHORIZED)


@pytest.mark.parametrize("target", ["/healthz", "/livez", "/readyz", "/version"])
async def test_anonymous_users_can_read_health_endpoints(hub: Hub, target: str) -> None:
    assert (await get_with(hub, target=target)).code == 200


async def test_anonymous_users_cannot_write_to_health_endpoints(hub: Hub) -> None:
    assert (await ask(hub, "POST", "/version", user="", body={})).code in (401, 403)


# Malformed credentials


@pytest.mark.parametrize(
    "header",
    [
        "Authorization: Bearer no-such-token",
        "Authorization: Bearer",
        "Authorization: Bearer ",
        "Authorization: Bearer no, Bearer {token}",
        "Authorization: Bearer\t{token}",
        "Authorization: Token {token}",
        "Authorization: {token}",
        "Authorization: Basic {basic}",
        "Authorization: Digest username=admin",
        "Authorization: Negotiate {basic}",
        "Cookie: token={token}; Authorization=Bearer {token}",
        "Proxy-Authorization: Bearer {token}",
        "X-Authorization: Bearer {token}",
        "X-Auth-Token: {token}",
        "X-Remote-User: admin\r\nX-Remote-Group: system:masters",
        "X-Forwarded-User: admin",
        "X-Forwarded-Client-Cert: Subject=CN=admin,O=system:masters",
        "X-Forwarded-For: 127.0.0.1",
        "Forwarded: for=127.0.0.1",
        "Impersonate-User: system:admin\r\nImpersonate-Group: system:masters",
    ],
)
async def test_malformed_authorization_header_is_rejected(hub: Hub, header: str) -> None:
    token = hub.tokens[ADMIN]
    basic = base64.b64encode(f"{ADMIN}:{token}".encode()).decode()
    answer = await get_with(hub, header.format(token=token, basic=basic))
    assert answer.code == 401


@pytest.mark.parametrize("name", ["token", "access_token", "bearer", "authorization", "id_token"])
async def test_token_in_the_query_is_ignored(hub: Hub, name: str) -> None:
    answer = await get_with(hub, target=f"/api/v1/namespaces?{name}={hub.tokens[ADMIN]}")
    assert answer.code == 401


@pytest.mark.parametrize("target", ["/healthz", "/version"])
async def test_wrong_token_is_rejected_on_anonymous_paths(hub: Hub, target: str) -> None:
    assert (await get_with(hub, "Authorization: Bearer nope", target=target)).code == 401


async def test_first_of_two_tokens_is_used(hub: Hub) -> None:
    good, bad = f"Authorization: Bearer {hub.tokens[ADMIN]}", "Authorization: Bearer nope"
    assert (await get_with(hub, good, bad)).code == 200
    assert (await get_with(hub, bad, good)).code == 401


async def test_token_authenticates_one_request_of_a_connection_only(hub: Hub) -> None:
    first = request("GET", "/api/v1/namespaces", token=hub.tokens[ADMIN], last=False)
    answers = await send(hub, first + request("GET", "/api/v1/namespaces"))
    assert [answer.code for answer in answers] == [200, 401]


# Tokens of service accounts


async def account(hub: Hub, namespace: str) -> dict[str, Any]:
    answer = await ask(
        hub, "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", body={"metadata": {"name": "robot"}}
    )
    assert answer.code == 201, answer
    return answer.document


async def own_token(hub: Hub, namespace: str) -> str:
    answer = await ask(
        hub, "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/robot/token", body={"spec": {}}
    )
    assert answer.code == 201, answer
    return str(answer.document["status"]["token"])


async def accepts(hub: Hub, token: str) -> bool:
    """Return whether the hub accepts the token."""
    (answer,) = await send(hub, request("POST", WHO, token=token, body={}))
    assert answer.code in (201, 401), answer
    return answer.code == 201


async def wait_until_rejected(hub: Hub, token: str) -> None:
    """Wait until the hub rejects the token; a real hub caches reviews for seconds."""
    while hub.kind == "real" and await accepts(hub, token):
        pass


async def test_valid_service_account_token_is_accepted(hub: Hub, namespace: str) -> None:
    robot = await account(hub, namespace)
    assert await accepts(hub, await own_token(hub, namespace))
    assert await accepts(hub, signed(claims_of(namespace, robot), read_key(hub.account_key)))


async def test_token_signed_with_another_key_is_rejected(hub: Hub, namespace: str) -> None:
    robot, key = await account(hub, namespace), new_key()
    known = decoded((await own_token(hub, namespace)).partition(".")[0])
    numbers = key.public_key().public_numbers()
    own = {"kty": "EC", "crv": "P-256"} | {
        part: encoded(number.to_bytes(32, "big")) for part, number in (("x", numbers.x), ("y", numbers.y))
    }
    for header in (known, {"alg": "ES256"}, {"alg": "ES256", "jwk": own}, {**known, "jku": "https://x/jwks"}):
        assert not await accepts(hub, signed(claims_of(namespace, robot), key, header)), header


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": 1},
        {"nbf": 1 << 40},
        {"iss": "https://elsewhere.example"},
        {"iss": "kubernetes/serviceaccount"},
        {"aud": ["https://elsewhere.example"]},
        {"kubernetes.io": {}},
        {"kubernetes.io": {"namespace": "kube-system", "serviceaccount": {"name": "robot", "uid": "x"}}},
    ],
    ids=str,
)
async def test_token_with_invalid_claims_is_rejected(
    hub: Hub, namespace: str, changes: dict[str, Any]
) -> None:
    robot = await account(hub, namespace)
    token = signed(claims_of(namespace, robot, **changes), read_key(hub.account_key))
    assert not await accepts(hub, token)


@pytest.mark.parametrize("token", ["a.b.c", "..", "e30.e30.e30", "x" * 20_000, "a" * 15_000 + ".b.c", "{}"])
async def test_malformed_token_is_rejected(hub: Hub, token: str) -> None:
    assert not await accepts(hub, token)


async def test_token_of_a_deleted_account_is_rejected(hub: Hub, namespace: str) -> None:
    await account(hub, namespace)
    token = await own_token(hub, namespace)
    assert await accepts(hub, token)
    deleted = await ask(hub, "DELETE", f"/api/v1/namespaces/{namespace}/serviceaccounts/robot")
    assert deleted.code == 200
    await wait_until_rejected(hub, token)
    assert not await accepts(hub, token)
    await account(hub, namespace)
    assert not await accepts(hub, token), "a new account of the same name is another one"
    assert await accepts(hub, await own_token(hub, namespace))


# Certificates


async def is_accepted(hub: Hub, certificate: Path) -> bool:
    """Return whether the hub accepts the certificate. The embedded hub rejects most flawed ones in the handshake."""
    try:
        answers = await send(hub, request("POST", WHO, body={}), certificate=certificate)
    except (ssl.SSLError, ConnectionError):
        return False
    return [answer.code for answer in answers] == [201]


async def test_client_certificate_of_the_hub_authority_is_accepted(hub: Hub, tmp_path: Path) -> None:
    assert await is_accepted(hub, Certificates.of(hub, tmp_path).client())


@pytest.mark.parametrize(
    "flaw",
    [{"start": -2 * HOUR, "end": -HOUR}, {"start": HOUR, "end": 2 * HOUR}, {"purpose": SERVER}],
    ids=["expired", "not yet", "for servers"],
)
async def test_flawed_client_certificate_is_rejected(hub: Hub, tmp_path: Path, flaw: dict[str, Any]) -> None:
    assert not await is_accepted(hub, Certificates.of(hub, tmp_path).client(**flaw))


async def test_expired_client_certificate_gets_its_own_message(hub: Hub, tmp_path: Path) -> None:
    certificate = Certificates.of(hub, tmp_path).client(end=-HOUR)
    (answer,) = await send(hub, request("GET", "/api"), certificate=certificate)
    assert (answer.code, answer.document) == (401, UNAUTHORIZED)


async def test_client_certificate_of_another_authority_is_rejected(hub: Hub, tmp_path: Path) -> None:
    ours = Certificates.of(hub, tmp_path)
    assert not await is_accepted(hub, Certificates.stranger(tmp_path, like=ours.certificate).client())


async def test_client_certificate_cannot_sign_certificates(hub: Hub, tmp_path: Path) -> None:
    ours = Certificates.of(hub, tmp_path)
    assert not await is_accepted(hub, ours.below(ours.client("alice", group="")).client("root"))


async def test_valid_certificate_beats_an_invalid_token(hub: Hub, tmp_path: Path) -> None:
    certificate = Certificates.of(hub, tmp_path).client()
    (answer,) = await send(hub, request("GET", "/api", token="nope"), certificate=certificate)
    assert answer.code == 200
