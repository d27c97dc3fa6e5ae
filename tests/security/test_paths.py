"""Authorization and request handling interpret a path in the same way, however it is spelled."""

from typing import Any

import pytest

from security.grants import grant, rule
from security.wire import ALICE, MALLORY, Hub, ask, request, send

WORD = "a-secret-of-others"


async def others(hub: Hub) -> str:
    """The namespace of a Secret that Alice may not read."""
    name = "theirs"
    await ask(hub, "POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    secret = {"metadata": {"name": "s"}, "stringData": {"word": WORD}}
    await ask(hub, "POST", f"/api/v1/namespaces/{name}/secrets", body=secret)
    return name


TARGETS = (
    "/api/v1/namespaces/{mine}/../{theirs}/secrets",
    "/api/v1/namespaces/{mine}/../{theirs}/secrets/s",
    "/api/v1/namespaces/{mine}/%2e%2e/{theirs}/secrets/s",
    "/api/v1/namespaces/{mine}%2f..%2f{theirs}/secrets/s",
    "/api/v1/namespaces/{mine}%2F%2E%2E%2F{theirs}/secrets",
    "/api/v1/namespaces/{mine}/secrets/../../{theirs}/secrets/s",
    "/api/v1/namespaces/{mine}/secrets/..%2f..%2f{theirs}%2fsecrets%2fs",
    "/api/v1/namespaces/{mine}/secrets/..\\..\\{theirs}\\secrets\\s",
    "/api/v1/namespaces/{mine}/./../{theirs}/secrets",
    "/api/v1/namespaces/{mine};/../{theirs}/secrets",
    "/api/v1/namespaces//secrets",
    "/api/v1/namespaces/%20/secrets",
    "/api/v1//namespaces/{theirs}/secrets",
    "//api/v1/namespaces/{theirs}/secrets/s",
    "/api/v1/namespaces/{theirs}/secrets/s/",
    "/api/v1/namespaces/{theirs}/secrets/s%00",
    "/api/v1/namespaces/{theirs}%00/secrets/s",
    "/api/v1/namespaces/{theirs}/Secrets/s",
    "/API/v1/namespaces/{theirs}/secrets/s",
    "/api/V1/namespaces/{theirs}/secrets/s",
    "/api/v1/namespaces/{theirs}/secrets./s",
    "/api/v1/namespaces/{theirs}/secrets%20/s",
    "/api/v1/secrets",
    "/api/v1/secrets/s",
    "/api/v1/secrets?fieldSelector=metadata.namespace%3D{mine}",
    "/api/v1/namespaces/{mine}/secrets/s?namespace={theirs}",
    "/api/v1/watch/namespaces/{theirs}/secrets",
    "/api/v1/watch/namespaces/{mine}/../{theirs}/secrets",
    "/api/v1/proxy/namespaces/{theirs}/secrets/s",
    "https://127.0.0.1/api/v1/namespaces/{theirs}/secrets/s",
    "http://{mine}/api/v1/namespaces/{theirs}/secrets/s",
    "/apis//v1/namespaces/{theirs}/secrets/s",
    "/apis/v1/namespaces/{theirs}/secrets/s",
    "/api/v1/namespaces/{mine}/secrets/s/../../../{theirs}/secrets/s",
)


async def test_no_spelling_of_a_path_bypasses_authorization(hub: Hub, namespace: str) -> None:
    theirs = await others(hub)
    await grant(hub, namespace, rule("*", "*"), rule("*", "*", group="*"))
    bypasses = []
    for target in TARGETS:
        path = target.format(mine=namespace, theirs=theirs)
        answers = await send(hub, request("GET", path, token=hub.tokens[ALICE]))
        leaks = any(WORD.encode() in answer.body for answer in answers)
        if leaks or answers[0].code not in (400, 403, 404):
            bypasses.append((target, answers[0].code))
    assert bypasses == []


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("/api/v1/namespaces/default/../default", 404),
        ("/api/v1//pods", 404),
        ("//api/v1/pods", 404),
        ("/API/v1/pods", 404),
        ("/api/v1/Pods", 404),
        ("/api/v1/pods.", 404),
        ("/api/v1/namespaces/default/pods/x%00y", 404),
        ("/api/v1/namespaces/default/pods/%ff", 404),
        ("/api/v1/namespaces/default/pods/x;y", 404),
        ("/api/v1/namespaces/default/pods/" + "a" * 15_000, 404),
        ("/api/v1/namespaces/default/pods/%F0%9F%9A%A2", 404),
        ("/healthz/../metrics", 404),
        ("//metrics", 404),
        ("/metrics/", 404),
        ("/healthz/", 404),
        ("https://elsewhere.example/api/v1/namespaces/default", 200),
        ("/api/v1/namespaces/default/", 200),
        ("/apis/", 200),
        ("/version/", 200),
    ],
)
async def test_odd_paths_get_the_same_answer_from_both_hubs(hub: Hub, target: str, code: int) -> None:
    assert (await ask(hub, "GET", target)).code == code


async def test_too_long_path_is_rejected(embedded: Hub) -> None:
    answer = await ask(embedded, "GET", "/api/v1/namespaces/default/pods/" + "a" * 100_000)
    assert (answer.code, answer.body) == (400, b"Bad Request\n")


# Body and path that disagree


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_body_with_another_namespace_is_rejected(hub: Hub, namespace: str, method: str) -> None:
    theirs = await others(hub)
    await grant(hub, namespace, rule("*", "configmaps"))
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": theirs},
    }
    type_ = "application/apply-patch+yaml" if method == "PATCH" else "application/json"
    target = maps if method == "POST" else f"{maps}/c?fieldManager=x"
    answer = await ask(hub, method, target, user=ALICE, body=body, type_=type_)
    assert answer.code == 400
    assert "namespace of the" in answer.message
    assert (await ask(hub, "GET", f"/api/v1/namespaces/{theirs}/configmaps/c")).code == 404


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_body_with_another_name_is_rejected(hub: Hub, namespace: str, method: str) -> None:
    await grant(hub, namespace, rule("create update patch get", "configmaps", "mine"))
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in ("mine", "theirs"):
        made = await ask(hub, "POST", maps, body={"metadata": {"name": name}, "data": {"a": "1"}})
        assert made.code == 201
    body = {"metadata": {"name": "theirs"}, "data": {"a": "2"}}
    answer = await ask(
        hub,
        method,
        f"{maps}/mine",
        user=ALICE,
        body=body,
        type_="application/merge-patch+json" if method == "PATCH" else "application/json",
    )
    assert answer.code == 400
    live = (await ask(hub, "GET", f"{maps}/theirs")).document
    assert live["data"] == {"a": "1"}


async def test_create_right_with_a_resource_name_allows_no_create(hub: Hub, namespace: str) -> None:
    """Authorization runs before the body is read, so the name is not known."""
    await grant(hub, namespace, rule("create", "configmaps", "mine"))
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    for metadata in ({"name": "mine"}, {"generateName": "mine"}, {"name": "theirs"}, {}):
        answer = await ask(hub, "POST", maps, user=ALICE, body={"metadata": metadata})
        assert answer.code == 403, metadata


async def test_body_of_another_kind_is_rejected(hub: Hub, namespace: str) -> None:
    await grant(hub, namespace, rule("create", "configmaps"))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}
    answer = await ask(hub, "POST", f"/api/v1/namespaces/{namespace}/configmaps", user=ALICE, body=secret)
    assert answer.code == 400
    assert (await ask(hub, "GET", f"/api/v1/namespaces/{namespace}/secrets/s")).code == 404


async def test_continue_token_is_bound_to_its_list(hub: Hub, namespace: str) -> None:
    """A continue token of one list gives no access to another."""
    theirs = await others(hub)
    await grant(hub, namespace, rule("list", "configmaps secrets"))
    for name in ("a", "b"):
        body = {"metadata": {"name": name}}
        assert (await ask(hub, "POST", f"/api/v1/namespaces/{theirs}/configmaps", body=body)).code in (
            201,
            409,
        )
    page = await ask(hub, "GET", f"/api/v1/namespaces/{theirs}/configmaps?limit=1")
    token = page.document["metadata"]["continue"]
    for part in ("configmaps", "secrets"):
        answer = await ask(
            hub, "GET", f"/api/v1/namespaces/{namespace}/{part}?limit=500&continue={token}", user=ALICE
        )
        items = answer.document.get("items") or []
        assert {item["metadata"]["namespace"] for item in items} <= {namespace}
        assert WORD.encode() not in answer.body
    assert (await ask(hub, "GET", f"/api/v1/configmaps?continue={token}", user=MALLORY)).code == 403
