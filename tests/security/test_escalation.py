"""Users cannot escalate their rights by roles, bindings, accounts, certificates or impersonation."""

import asyncio
import base64
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from security.credentials import decoded
from security.grants import GROUP, RBAC, grant, rule
from security.wire import ADMIN, MALLORY, Answer, Hub, ask, request, send

ANYTHING = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
NOT_HELD = "is attempting to grant RBAC permissions not currently held"


@pytest.fixture
async def own(hub: Hub) -> AsyncIterator[str]:
    """A unique name for cluster-scoped objects, which are deleted after the test."""
    name = f"x-{uuid.uuid4().hex[:8]}"
    yield name
    for part in ("clusterrolebindings", "clusterroles"):
        await ask(hub, "DELETE", f"{RBAC}/{part}/{name}")


def binding(name: str, role: str, kind: str = "ClusterRole") -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"kind": "User", "name": MALLORY, "apiGroup": GROUP}],
    }


async def may(hub: Hub, verb: str, resource: str, namespace: str) -> bool:
    attributes = {"verb": verb, "resource": resource, "namespace": namespace}
    answer = await ask(
        hub,
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        body={"spec": {"user": MALLORY, "resourceAttributes": attributes}},
    )
    return bool(answer.document["status"]["allowed"])


# Roles and bindings


@pytest.mark.parametrize("rules", [[ANYTHING], [rule("get", "secrets")], [rule("list", "configmaps")]])
async def test_role_with_more_rights_than_its_author_is_rejected(
    hub: Hub, namespace: str, rules: list[dict[str, Any]]
) -> None:
    await grant(
        hub,
        namespace,
        rule("create update patch get", "roles rolebindings", group=GROUP),
        rule("get", "configmaps"),
    )
    roles = f"{RBAC}/namespaces/{namespace}/roles"
    role = {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": {"name": "more"}, "rules": rules}
    own = f"{roles}/granted"
    add = [{"op": "add", "path": "/rules/-", "value": rules[0]}]
    replaced = {**role, "metadata": {"name": "granted"}}
    attempts = [
        await ask(hub, "POST", roles, user=MALLORY, body=role),
        await ask(hub, "PUT", f"{roles}/more", user=MALLORY, body=role),
        await ask(hub, "PATCH", f"{roles}/more?fieldManager=a", user=MALLORY, body=role, type_=APPLY),
        await ask(hub, "PUT", own, user=MALLORY, body=replaced),
        await ask(hub, "PATCH", own, user=MALLORY, body={"rules": rules}, type_=MERGE),
        await ask(hub, "PATCH", own, user=MALLORY, body=add, type_=JSON_PATCH),
        await ask(hub, "PATCH", f"{own}?fieldManager=a&force=true", user=MALLORY, body=replaced, type_=APPLY),
    ]
    assert [answer.code for answer in attempts] == [403] * len(attempts)
    assert all(NOT_HELD in answer.message for answer in attempts), attempts
    held = await ask(hub, "POST", roles, user=MALLORY, body={**role, "rules": [rule("get", "configmaps")]})
    assert held.code == 201


async def test_binding_to_more_rights_than_its_author_has_is_rejected(hub: Hub, namespace: str) -> None:
    await grant(hub, namespace, rule("create update patch", "rolebindings", group=GROUP))
    bindings = f"{RBAC}/namespaces/{namespace}/rolebindings"
    made = [
        await ask(hub, "POST", bindings, user=MALLORY, body=binding("more", "cluster-admin")),
        await ask(hub, "PUT", f"{bindings}/more", user=MALLORY, body=binding("more", "system:node")),
        await ask(hub, "POST", bindings, user=MALLORY, body=binding("more", "granted", "Role")),
    ]
    assert [answer.code for answer in made] == [403, 403, 201]
    everywhere = await ask(
        hub, "POST", f"{RBAC}/clusterrolebindings", user=MALLORY, body=binding("more", "granted")
    )
    assert everywhere.code == 403
    # roleRef is immutable, and further subjects get rights that the author lacks.
    elsewhere = {"roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"}}
    moved = await ask(hub, "PATCH", f"{bindings}/more", user=MALLORY, body=elsewhere, type_=MERGE)
    assert moved.code in (403, 422)


async def test_rights_end_when_the_binding_is_deleted(hub: Hub, namespace: str) -> None:
    await grant(hub, namespace, rule("get", "configmaps"))
    target = f"/api/v1/namespaces/{namespace}/configmaps/x"
    assert (await ask(hub, "GET", target, user=MALLORY)).code == 404
    assert (await ask(hub, "DELETE", f"{RBAC}/namespaces/{namespace}/rolebindings/granted")).code == 200
    while hub.kind == "real" and await may(hub, "get", "configmaps", namespace):
        await asyncio.sleep(0)
    assert (await ask(hub, "GET", target, user=MALLORY)).code == 403


# Impersonation


async def acting(hub: Hub, *headers: str, user: str = MALLORY) -> Answer:
    sent = request("GET", "/api/v1/namespaces", token=hub.tokens[user], headers=headers)
    (answer,) = await send(hub, sent)
    return answer


@pytest.mark.parametrize(
    "headers",
    [
        ("Impersonate-User: admin", "Impersonate-Group: system:masters"),
        ("Impersonate-User: mallory", "Impersonate-Group: system:masters"),
        ("Impersonate-User: bob", "Impersonate-Group: friends", "Impersonate-Group: system:masters"),
        ("Impersonate-User: bob", "impersonate-group: system:masters"),
        ("Impersonate-User: bob", "Impersonate-Uid: 1"),
        ("Impersonate-User: bob", "Impersonate-Extra-Scopes: all"),
        ("Impersonate-User: carol",),
        ("Impersonate-User: carol", "Impersonate-User: bob"),
        ("Impersonate-User: system:serviceaccount:kube-system:default",),
    ],
)
async def test_impersonation_without_the_right_is_rejected(
    hub: Hub, own: str, headers: tuple[str, ...]
) -> None:
    await grant(
        hub,
        "",
        rule("impersonate", "users", "bob"),
        rule("impersonate", "groups", "friends"),
        rule("list", "namespaces"),
        name=own,
    )
    answer = await acting(hub, *headers)
    assert answer.code == 403
    assert 'User "mallory" cannot impersonate' in answer.message


async def test_impersonated_request_has_only_the_impersonated_rights(hub: Hub, own: str) -> None:
    await grant(hub, "", rule("impersonate", "users", "bob"), rule("list", "namespaces"), name=own)
    answer = await acting(hub, "Impersonate-User: bob")
    assert (answer.code, 'User "bob" cannot list' in answer.message) == (403, True)


async def test_impersonation_of_groups_without_a_user_is_rejected(hub: Hub) -> None:
    answer = await acting(hub, "Impersonate-Group: system:masters", user=ADMIN)
    assert answer.code == 400
    assert "without impersonating a user name" in answer.message


# Service accounts


async def test_token_request_needs_its_own_right(hub: Hub, namespace: str) -> None:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await grant(hub, namespace, rule("get list create update patch", "serviceaccounts"))
    assert (await ask(hub, "POST", accounts, body={"metadata": {"name": "mighty"}})).code == 201
    answer = await ask(hub, "POST", f"{accounts}/mighty/token", user=MALLORY, body={"spec": {}})
    assert answer.code == 403


async def test_token_right_is_limited_to_the_named_account(hub: Hub, namespace: str) -> None:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await grant(hub, namespace, rule("create", "serviceaccounts/token", "mine"))
    for name in ("mine", "mighty"):
        assert (await ask(hub, "POST", accounts, body={"metadata": {"name": name}})).code == 201
    mine = await ask(hub, "POST", f"{accounts}/mine/token", user=MALLORY, body={"spec": {}})
    assert mine.code == 201
    for body in ({"metadata": {"name": "mighty"}}, {"metadata": {"namespace": "kube-system"}}):
        other = await ask(hub, "POST", f"{accounts}/mine/token", user=MALLORY, body={**body, "spec": {}})
        assert other.code in (400, 422), body
    assert (await ask(hub, "POST", f"{accounts}/mighty/token", user=MALLORY, body={})).code == 403


async def test_token_secret_is_always_for_an_account_of_its_own_namespace(hub: Hub, namespace: str) -> None:
    """A right to create Secrets gives access to tokens of accounts in that namespace only."""
    await grant(hub, namespace, rule("create get", "secrets"))
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    assert (await ask(hub, "POST", accounts, body={"metadata": {"name": "robot"}})).code == 201
    note = {"kubernetes.io/service-account.name": "robot", "kubernetes.io/service-account.namespace": "x"}
    secret = {
        "metadata": {"name": "mine", "namespace": namespace, "annotations": note},
        "type": "kubernetes.io/service-account-token",
    }
    assert (await ask(hub, "POST", secrets, user=MALLORY, body=secret)).code == 201
    while not (data := (await ask(hub, "GET", f"{secrets}/mine", user=MALLORY)).document.get("data")):
        await asyncio.sleep(0.02)
    claims = decoded(base64.b64decode(data["token"]).decode().split(".")[1])
    assert claims["sub"] == f"system:serviceaccount:{namespace}:robot"
