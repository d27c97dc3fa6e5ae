"""Accounts on a hub, each with exactly the rights that a test is about, and their tokens."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairway.controllers.serving import RULES
from kubewire.client import Client

RBAC = "rbac.authorization.k8s.io"
HOME = "accounts"
"""The namespace of all accounts."""

TEAM, OTHERS = "team-a", "team-b"
"""Namespaces of placements. Accounts have rights in the first one."""

FAIRWAY = "fairway"
VIEWER, AUTHOR, SOVEREIGN, PATHLESS, PATHONLY = "viewer", "author", "sovereign", "pathless", "pathonly"
"""May GET in the team's namespace; may POST there; may POST everywhere; may see placements but not use the path; the
other way round."""


def on_path(*verbs: str) -> dict[str, Any]:
    return {"nonResourceURLs": ["/debug/placements/*", "/debug/queue/*"], "verbs": list(verbs)}


def on_placements(verb: str) -> dict[str, Any]:
    return {"apiGroups": ["cluster.open-cluster-management.io"], "resources": ["placements"], "verbs": [verb]}


EVERYWHERE: Mapping[str, list[dict[str, Any]]] = {
    FAIRWAY: [rule.document() for rule in RULES],
    VIEWER: [on_path("get", "delete", "put", "patch", "head")],
    AUTHOR: [on_path("post")],
    SOVEREIGN: [on_path("get", "post"), on_placements("create")],
    PATHONLY: [on_path("get", "post")],
}
IN_TEAM: Mapping[str, list[dict[str, Any]]] = {
    VIEWER: [on_placements("get")],
    AUTHOR: [on_placements("create")],
    PATHLESS: [on_placements("get"), on_placements("create")],
}
ACCOUNTS = tuple(sorted({*EVERYWHERE, *IN_TEAM}))


@dataclass(frozen=True, kw_only=True)
class Accounts:
    tokens: Mapping[str, str]

    def user(self, name: str) -> str:
        return f"system:serviceaccount:{HOME}:{name}"


async def create(client: Client) -> Accounts:
    """Create the accounts, and return when the hub enforces their rights."""
    for name in (HOME, TEAM, OTHERS):
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    tokens = {}
    base = f"/api/v1/namespaces/{HOME}/serviceaccounts"
    for name in ACCOUNTS:
        await client.request("POST", base, body={"metadata": {"name": name}})
        answer = await client.request("POST", f"{base}/{name}/token", body={"spec": {}})
        tokens[name] = _content(answer.body)["status"]["token"]
    for name, rules in EVERYWHERE.items():
        await _grant(client, f"/apis/{RBAC}/v1", "ClusterRole", name, rules)
    for name, rules in IN_TEAM.items():
        await _grant(client, f"/apis/{RBAC}/v1/namespaces/{TEAM}", "Role", name, rules)
    made = Accounts(tokens=tokens)
    for name, rules in EVERYWHERE.items():
        await _noticed(client, made.user(name), rules[-1], namespace="")
    for name, rules in IN_TEAM.items():
        await _noticed(client, made.user(name), rules[-1], namespace=TEAM)
    return made


async def _grant(client: Client, base: str, kind: str, name: str, rules: list[dict[str, Any]]) -> None:
    plural = f"{kind.lower()}s"
    await client.request("POST", f"{base}/{plural}", body={"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": HOME}
    body = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [subject],
    }
    await client.request("POST", f"{base}/{kind.lower()}bindings", body=body)


async def _noticed(client: Client, user: str, rule: dict[str, Any], *, namespace: str) -> None:
    """A real hub takes a moment."""
    asked: dict[str, Any]
    if "nonResourceURLs" in rule:
        path = rule["nonResourceURLs"][0].replace("*", "x")
        asked = {"nonResourceAttributes": {"path": path, "verb": rule["verbs"][0]}}
    else:
        group, resource = rule["apiGroups"][0], rule["resources"][0]
        attributes = {"group": group, "resource": resource, "verb": rule["verbs"][0], "namespace": namespace}
        asked = {"resourceAttributes": attributes}
    while True:
        answer = await client.request(
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            body={"spec": {"user": user, **asked}},
        )
        if _content(answer.body)["status"]["allowed"]:
            return


def _content(body: bytes) -> dict[str, Any]:
    document = json.loads(body)
    assert isinstance(document, dict)
    return document
