"""HostedClusterRequest and HostingPolicy on a hub: defaults, validation rules, status and printed columns."""

import json
import uuid
from typing import Any

import pytest

from fairway.api.hosted_request import RENAMED, SIZE_AND_DEMAND, TWO_SELECTIONS
from fairway.api.hosting_policy import NEGATIVE_AMOUNT, SAME_TIMES
from fairway.kube import HOSTED_CLUSTER_REQUESTS, HOSTING_POLICIES, Client, Invalid, Patch

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
    assert made.spec.hostedCluster.namespace == "clusters"
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
    assert [each["name"] for each in table["columnDefinitions"]] == [
        *("Name", "Phase", "Host", "Size", "Reason", "Message", "Age"),
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
        ({"sizes": [{"name": "tiny", "cpu": 1, "memory": "-2Gi"}]}, NEGATIVE_AMOUNT),
        ({"spareHosts": 2}, "spec.spareHosts"),
    ):
        with pytest.raises(Invalid) as refused:
            await client.create(HOSTING_POLICIES, policy(name, **spec))
        assert message in str(refused.value)


def night() -> dict[str, Any]:
    return {"days": ["Fri", "Sat"], "start": "22:00", "end": "06:00"}
