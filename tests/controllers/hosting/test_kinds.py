"""HostedClusterRequest and HostingPolicy on a hub: defaults, validation rules, status and printed columns."""

import asyncio
import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.settling import DEADLINE
from fairway.api.hosted_request import RENAMED, SIZE_AND_DEMAND, TWO_SELECTIONS
from fairway.api.hosting_policy import NEGATIVE_AMOUNT, NO_TOKENS, SAME_TIMES, SEVERAL_DEFAULTS
from fairway.api.resources import HOSTED_CLUSTER_REQUESTS, HOSTING_POLICIES
from kubewire.client import ApiError, Client, Invalid, Patch
from rigs.processes import POLL

DOCS = Path(__file__).parents[3] / "docs/how-to/hosting.md"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
NAMESPACE = "default"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def unique() -> str:
    return f"hosting-{uuid.uuid4().hex[:8]}"


def request(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": HOSTED_CLUSTER_REQUESTS.api_version,
        "kind": "HostedClusterRequest",
        "metadata": {"name": name},
        "spec": {"hostedCluster": {"spec": {"platform": {"type": "None"}, "any": [{"depth": None}]}}, **spec},
    }


def policy(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": HOSTING_POLICIES.api_version,
        "kind": "HostingPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


async def test_request_is_defaulted_and_keeps_the_hosted_cluster(client: Client) -> None:
    name = unique()
    made = await client.create(HOSTED_CLUSTER_REQUESTS, request(name), namespace=NAMESPACE)
    assert (made.spec.policy, made.spec.priority) == ("default", 0)
    assert made.spec.hostedCluster.namespace == ""
    assert made.spec.hostedCluster.spec == {"platform": {"type": "None"}, "any": [{"depth": None}]}
    status = {
        "status": {
            "phase": "Reserved",
            "hostingCluster": {"name": "host-1", "uid": "u1"},
            "reservation": {"amounts": {"cpu": "5", "memory": "17Gi"}, "since": "2026-03-01T12:00:00Z"},
            "scores": [{"plugin": "Headroom", "score": 71, "weight": 1}],
        }
    }
    written = await client.patch(
        HOSTED_CLUSTER_REQUESTS, name, status, namespace=NAMESPACE, kind=Patch.MERGE, subresource="status"
    )
    assert written.status.hostingCluster is not None
    assert written.status.reservation is not None
    assert written.status.reservation.amounts == {"cpu": "5", "memory": "17Gi"}
    path = HOSTED_CLUSTER_REQUESTS.path(namespace=NAMESPACE, name=name)
    table = json.loads((await client.request("GET", path, headers={"Accept": TABLE})).body)
    assert [column["name"] for column in table["columnDefinitions"]] == [
        *("Name", "Phase", "Host", "Host Available", "Size", "Reason", "Message", "Age"),
    ]
    assert table["rows"][0]["cells"][:3] == [name, "Reserved", "host-1"]
    await client.delete(HOSTED_CLUSTER_REQUESTS, name, namespace=NAMESPACE)


BAD_REQUESTS = [
    ({"size": "small", "demand": {"cpu": 4, "memory": "16Gi"}}, SIZE_AND_DEMAND),
    ({"constraints": {"placement": "p", "selector": {}}}, TWO_SELECTIONS),
    ({"constraints": {"placement": "p", "tolerations": []}}, TWO_SELECTIONS),
    ({"demand": {"cpu": "-4", "memory": "16Gi"}}, NEGATIVE_AMOUNT),
    ({"demand": {"cpu": 4, "memory": -1}}, NEGATIVE_AMOUNT),
]


@pytest.mark.parametrize(("spec", "message"), BAD_REQUESTS)
async def test_hub_refuses_contradictory_requests_with_a_remedy(
    client: Client, spec: dict[str, Any], message: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await client.create(HOSTED_CLUSTER_REQUESTS, request(unique(), **spec), namespace=NAMESPACE)
    assert message in str(refused.value)


async def test_hub_refuses_to_rename_the_hosted_cluster(client: Client) -> None:
    name = unique()
    await client.create(HOSTED_CLUSTER_REQUESTS, request(name), namespace=NAMESPACE)
    for field in ("name", "namespace"):
        with pytest.raises(Invalid, match=RENAMED):
            await client.patch(
                HOSTED_CLUSTER_REQUESTS,
                name,
                {"spec": {"hostedCluster": {field: "other"}}},
                namespace=NAMESPACE,
                kind=Patch.MERGE,
            )
    larger = {"spec": {"size": "large"}}
    changed = await client.patch(HOSTED_CLUSTER_REQUESTS, name, larger, namespace=NAMESPACE, kind=Patch.MERGE)
    assert changed.spec.size == "large"
    await client.delete(HOSTED_CLUSTER_REQUESTS, name, namespace=NAMESPACE)


async def test_admission_policy_of_the_docs_permits_what_the_template_leaves_to_users(client: Client) -> None:
    namespace = unique()
    (documents,) = re.findall(
        r"```yaml\n(apiVersion: admissionregistration.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL
    )
    admission, binding = yaml.safe_load_all(documents)
    for document in (admission, binding):
        document["metadata"]["name"] = namespace
    binding["spec"]["policyName"] = namespace
    mine = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}  # the hub is shared with other tests
    binding["spec"]["matchResources"] = {"namespaceSelector": mine}
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
    for plural, document in (
        ("validatingadmissionpolicies", admission),
        ("validatingadmissionpolicybindings", binding),
    ):
        await client.request("POST", f"{ADMISSION}/{plural}", body=document)
    evil: list[tuple[str, dict[str, Any]]] = [
        ("annotations: remove", {"hostedCluster": {"annotations": {"a": "b"}, "spec": {}}}),
        ("release: remove", {"hostedCluster": {"spec": {"release": {"image": "evil"}}}}),
        ("release: remove", {"nodePools": [{"name": "p", "spec": {"release": {"image": "evil"}}}]}),
        ("platform: remove", {"nodePools": [{"name": "p", "spec": {"platform": {"type": "KubeVirt"}}}]}),
    ]
    async with asyncio.timeout(DEADLINE):
        for words, spec in evil:
            body, message = request(unique(), **{"hostedCluster": {"spec": {}}, **spec}), ""
            while not message:  # a real hub enforces a policy a moment after its creation
                try:
                    await client.create(HOSTED_CLUSTER_REQUESTS, body, namespace=namespace, dry_run=True)
                    await asyncio.sleep(POLL)
                except ApiError as refused:
                    message = str(refused)
            assert words in message
    name = unique()
    good = request(name, hostedCluster={"spec": {"dns": {"baseDomain": "example.com"}}}, nodePools=[])
    await client.create(HOSTED_CLUSTER_REQUESTS, good, namespace=namespace)
    for finalizers in (["placement.fairway.dev/hosting"], []):
        changed = {"metadata": {"finalizers": finalizers}}
        await client.patch(HOSTED_CLUSTER_REQUESTS, name, changed, namespace=namespace, kind=Patch.MERGE)
    await client.delete(HOSTED_CLUSTER_REQUESTS, name, namespace=namespace)
    await client.request("DELETE", f"{ADMISSION}/validatingadmissionpolicybindings/{namespace}")
    await client.request("DELETE", f"{ADMISSION}/validatingadmissionpolicies/{namespace}")


async def test_hub_checks_and_defaults_policies(client: Client) -> None:
    name = unique()
    made = await client.create(
        HOSTING_POLICIES,
        policy(name, sizes=[{"name": "tiny", "cpu": "500m", "memory": "2Gi"}], quietHours=[night()]),
    )
    assert (made.spec.strategy, made.spec.maxPerHost, made.spec.spareHosts) == ("Spread", 80, 0)
    await client.delete(HOSTING_POLICIES, name)
    for spec, message in (
        ({"quietHours": [{**night(), "end": "22:00"}]}, SAME_TIMES),
        ({"quota": {"cpu": "-4"}}, NEGATIVE_AMOUNT),
        ({"tenants": [{"name": "t", "namespaces": ["a"], "quota": {"memory": -1}}]}, NEGATIVE_AMOUNT),
        ({"priorityClasses": [defaulting("a"), defaulting("b")]}, SEVERAL_DEFAULTS),
        ({"sizes": [{"name": "tiny", "cpu": 1, "memory": "-2Gi"}]}, NEGATIVE_AMOUNT),
        ({"spareHosts": 2}, "spec.spareHosts"),
        ({"permits": {"secretTypes": ["Opaque", "bootstrap.kubernetes.io/token"]}}, NO_TOKENS),
        ({"permits": {"hostNamespaces": ["*"]}}, "spec.permits.hostNamespaces[0]"),
    ):
        with pytest.raises(Invalid) as refused:
            await client.create(HOSTING_POLICIES, policy(name, **spec))
        assert message in str(refused.value)


def defaulting(name: str) -> dict[str, Any]:
    return {"name": name, "value": 1, "default": True}


def night() -> dict[str, Any]:
    return {"days": ["Fri", "Sat"], "start": "22:00", "end": "06:00"}
