"""Authorization denies requests without a right, and a denial does not reveal whether the object exists."""

from typing import Any

import pytest

from security.grants import grant, rule
from security.wire import ALICE, Hub, ask

PODS = "/api/v1/namespaces/default/pods"
APPS = "/apis/apps/v1/namespaces/default"


def forbidden_message(
    verb: str, resource: str, *, name: str = "", group: str = "", namespace: str = ""
) -> str:
    """The message of a forbidden request."""
    plural = resource.partition("/")[0]
    what = (f"{plural}.{group}" if group else plural) + (f' "{name}"' if name else "")
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    return f'{what} is forbidden: User "alice" cannot {verb} resource "{resource}" in API group "{group}" {where}'


@pytest.mark.parametrize(
    ("method", "target", "words"),
    [
        ("GET", PODS, forbidden_message("list", "pods", namespace="default")),
        ("GET", "/api/v1/pods", forbidden_message("list", "pods")),
        ("GET", f"{PODS}?watch=1", forbidden_message("watch", "pods", namespace="default")),
        ("GET", "/api/v1/watch/pods", forbidden_message("watch", "pods")),
        ("GET", f"{PODS}/x", forbidden_message("get", "pods", name="x", namespace="default")),
        ("GET", f"{PODS}/x?watch=1", forbidden_message("get", "pods", name="x", namespace="default")),
        ("POST", PODS, forbidden_message("create", "pods", namespace="default")),
        ("PUT", f"{PODS}/x", forbidden_message("update", "pods", name="x", namespace="default")),
        ("PATCH", f"{PODS}/x", forbidden_message("patch", "pods", name="x", namespace="default")),
        ("DELETE", f"{PODS}/x", forbidden_message("delete", "pods", name="x", namespace="default")),
        ("DELETE", PODS, forbidden_message("deletecollection", "pods", namespace="default")),
        (
            "PUT",
            f"{PODS}/x/status",
            forbidden_message("update", "pods/status", name="x", namespace="default"),
        ),
        ("GET", f"{PODS}/x/log", forbidden_message("get", "pods/log", name="x", namespace="default")),
        ("POST", f"{PODS}/x/exec", forbidden_message("create", "pods/exec", name="x", namespace="default")),
        (
            "POST",
            f"{PODS}/x/binding",
            forbidden_message("create", "pods/binding", name="x", namespace="default"),
        ),
        (
            "POST",
            f"{PODS}/x/eviction",
            forbidden_message("create", "pods/eviction", name="x", namespace="default"),
        ),
        (
            "PATCH",
            f"{APPS}/deployments/d/scale",
            forbidden_message("patch", "deployments/scale", name="d", group="apps", namespace="default"),
        ),
        (
            "PUT",
            "/api/v1/namespaces/n/finalize",
            forbidden_message("update", "namespaces/finalize", name="n", namespace="n"),
        ),
        (
            "DELETE",
            "/api/v1/namespaces/n",
            forbidden_message("delete", "namespaces", name="n", namespace="n"),
        ),
        ("GET", "/api/v1/namespaces", forbidden_message("list", "namespaces")),
        ("GET", "/api/v1/nodes/n", forbidden_message("get", "nodes", name="n")),
        (
            "POST",
            "/api/v1/namespaces/n/serviceaccounts/s/token",
            forbidden_message("create", "serviceaccounts/token", name="s", namespace="n"),
        ),
        (
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            forbidden_message("create", "tokenreviews", group="authentication.k8s.io"),
        ),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            forbidden_message("create", "subjectaccessreviews", group="authorization.k8s.io"),
        ),
        (
            "PUT",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval",
            forbidden_message(
                "update", "certificatesigningrequests/approval", name="c", group="certificates.k8s.io"
            ),
        ),
    ],
)
async def test_every_verb_on_a_resource_needs_its_right(
    hub: Hub, method: str, target: str, words: str
) -> None:
    answer = await ask(hub, method, target, user=ALICE, body={})
    assert (answer.code, answer.document["reason"]) == (403, "Forbidden")
    assert answer.message == words


@pytest.mark.parametrize(
    ("method", "target", "words"),
    [
        ("GET", "/metrics", 'forbidden: User "alice" cannot get path "/metrics"'),
        ("GET", "/%6detrics", 'forbidden: User "alice" cannot get path "/metrics"'),
        ("GET", "/metrics/", 'forbidden: User "alice" cannot get path "/metrics/"'),
        ("GET", "/no/such/path", 'forbidden: User "alice" cannot get path "/no/such/path"'),
        ("POST", "/metrics", 'forbidden: User "alice" cannot post path "/metrics"'),
        ("DELETE", "/version", 'forbidden: User "alice" cannot delete path "/version"'),
        ("GET", "/healthz/../metrics", 'forbidden: User "alice" cannot get path "/healthz/../metrics"'),
    ],
)
async def test_every_verb_on_a_nonresource_path_needs_its_right(
    hub: Hub, method: str, target: str, words: str
) -> None:
    answer = await ask(hub, method, target, user=ALICE, body={})
    assert (answer.code, answer.message) == (403, words)


@pytest.mark.parametrize(
    ("there", "not_there"),
    [
        ("/api/v1/namespaces/default", "/api/v1/namespaces/missing"),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/admin",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/missing",
        ),
        ("/api/v1/namespaces/default/pods", "/api/v1/namespaces/missing/pods"),
        ("/api/v1/pods", "/api/v1/missing"),
        ("/apis/apps/v1/deployments", "/apis/missing.example/v1/deployments"),
        ("/apis/apps/v1/deployments", "/apis/apps/v9/deployments"),
        (f"{PODS}/x/status", f"{PODS}/x/missing"),
        ("/metrics", "/missing"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_forbidden_response_does_not_reveal_existence(
    hub: Hub, method: str, there: str, not_there: str
) -> None:
    answers = [
        await ask(hub, method, target, user=ALICE, body={"kind": "x"}) for target in (there, not_there)
    ]
    assert [answer.code for answer in answers] == [403, 403]
    ((known, unknown),) = {
        pair for pair in zip(there.split("/"), not_there.split("/"), strict=True) if len({*pair}) > 1
    }
    messages = [f"{answer.message} {answer.document['details']}" for answer in answers]
    # Messages about an existing and a missing resource differ only in the name.
    assert messages[0].replace(known, unknown) == messages[1]


# Names


async def test_right_to_one_name_allows_listing_that_name(hub: Hub, namespace: str) -> None:
    await grant(hub, namespace, rule("list watch get", "secrets", "mine"))
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    for name in ("mine", "theirs"):
        body = {"metadata": {"name": name}, "stringData": {"word": name}}
        assert (await ask(hub, "POST", secrets, body=body)).code == 201
    answer = await ask(hub, "GET", f"{secrets}?fieldSelector=metadata.name%3Dmine", user=ALICE)
    assert [item["metadata"]["name"] for item in answer.document["items"]] == ["mine"]
    for query in (
        "",
        "?fieldSelector=metadata.name%3Dtheirs",
        "?fieldSelector=metadata.name!%3Dmine",
        f"?fieldSelector=metadata.namespace%3D{namespace}",
        "?fieldSelector=metadata.name",
        "?labelSelector=metadata.name%3Dmine",
        "?limit=1",
    ):
        assert (await ask(hub, "GET", secrets + query, user=ALICE)).code == 403, query
    # A selector with two names matches no object.
    both = f"{secrets}?fieldSelector=metadata.name%3Dmine,metadata.name%3Dtheirs"
    answer = await ask(hub, "GET", both, user=ALICE)
    assert answer.code == 200
    assert answer.document["items"] == []


async def test_get_right_does_not_allow_list_watch_or_delete(hub: Hub, namespace: str) -> None:
    await grant(hub, namespace, rule("get", "secrets", "mine"))
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    named = "fieldSelector=metadata.name%3Dmine"
    assert (await ask(hub, "GET", f"{secrets}/mine", user=ALICE)).code == 404
    assert (await ask(hub, "GET", f"{secrets}?{named}", user=ALICE)).code == 403
    assert (await ask(hub, "GET", f"{secrets}?watch=1&{named}", user=ALICE)).code == 403
    assert (
        await ask(hub, "GET", f"/api/v1/watch/namespaces/{namespace}/secrets/mine", user=ALICE)
    ).code == 403
    assert (await ask(hub, "DELETE", f"{secrets}?{named}", user=ALICE)).code == 403


async def test_list_right_does_not_allow_deletecollection_by_name(hub: Hub, namespace: str) -> None:
    await grant(hub, namespace, rule("list deletecollection", "secrets", "mine"))
    answer = await ask(
        hub,
        "DELETE",
        f"/api/v1/namespaces/{namespace}/secrets?fieldSelector=metadata.name%3Dmine",
        user=ALICE,
    )
    assert answer.code == 403


# Create by update


APPLY = "application/apply-patch+yaml"
LEASES = "/apis/coordination.k8s.io/v1"


@pytest.mark.parametrize(
    ("method", "base", "part", "kind", "type_", "query"),
    [
        ("PATCH", "/api/v1", "configmaps", "ConfigMap", APPLY, "?fieldManager=x"),
        ("PUT", LEASES, "leases", "Lease", "application/json", ""),
        ("PATCH", LEASES, "leases", "Lease", APPLY, "?fieldManager=x&force=true"),
        ("PUT", LEASES, "leases", "Lease", "application/json", "?dryRun=All"),
    ],
)
async def test_update_right_does_not_allow_create(
    hub: Hub, namespace: str, method: str, base: str, part: str, kind: str, type_: str, query: str
) -> None:
    group = "" if base == "/api/v1" else base.split("/")[2]
    await grant(hub, namespace, rule("update patch get", part, group=group))
    target = f"{base}/namespaces/{namespace}/{part}/new"
    version = f"{group}/v1" if group else "v1"
    body: dict[str, Any] = {"apiVersion": version, "kind": kind, "metadata": {"name": "new"}}
    answer = await ask(hub, method, target + query, user=ALICE, body=body, type_=type_)
    assert (answer.code, answer.message) == (
        403,
        forbidden_message("create", part, name="new", group=group, namespace=namespace),
    )
    assert (await ask(hub, "GET", target, user=ALICE)).code == 404
    assert (await ask(hub, method, target + query, body=body, type_=type_)).code == 201


async def test_subresource_needs_its_own_right(hub: Hub, namespace: str) -> None:
    await grant(
        hub,
        namespace,
        rule("get list create update patch delete", "pods namespaces"),
        rule("get update patch", "deployments", group="apps"),
    )
    here = f"/api/v1/namespaces/{namespace}"
    for method, target in (
        ("PUT", f"{here}/pods/p/status"),
        ("PATCH", f"{here}/pods/p/status"),
        ("GET", f"{here}/pods/p/status"),
        ("POST", f"{here}/pods/p/binding"),
        ("POST", f"{here}/bindings"),
        ("POST", f"{here}/pods/p/eviction"),
        ("PUT", f"{here}/finalize"),
        ("PUT", f"/apis/apps/v1/namespaces/{namespace}/deployments/d/scale"),
        ("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/d/scale"),
        ("PUT", f"/apis/apps/v1/namespaces/{namespace}/deployments/d/status"),
    ):
        assert (await ask(hub, method, target, user=ALICE, body={})).code == 403, target


async def test_subresource_write_changes_only_its_part(hub: Hub, namespace: str) -> None:
    await grant(hub, namespace, rule("update patch", "pods/status"))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "a"}]}}
    assert (await ask(hub, "POST", pods, body=pod)).code == 201
    patch = {
        "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}]},
        "spec": {"nodeName": "mine", "containers": [{"name": "c", "image": "b"}]},
        "status": {"message": "told"},
    }
    answer = await ask(
        hub, "PATCH", f"{pods}/p/status", user=ALICE, body=patch, type_="application/merge-patch+json"
    )
    assert answer.code == 200
    live = (await ask(hub, "GET", f"{pods}/p")).document
    assert live["status"]["message"] == "told"
    assert live["spec"]["containers"][0]["image"] == "a"
    assert "nodeName" not in live["spec"]
    assert "ownerReferences" not in live["metadata"]
