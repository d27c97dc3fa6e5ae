"""Agents on a hub: a ServiceAccount, pods on nodes, and tokens that are bound to them."""

import json
from typing import Any

from fairway.controllers.machines.permit_server import DEFAULT_AUDIENCE
from kubewire.client import Client

RBAC = "rbac.authorization.k8s.io"
NAMESPACE = "agents"
AGENT, OUTSIDER, CLUSTER_WIDE = "agent", "outsider", "everywhere"
"""May request permits; may not; may, and for the pods on every node."""


def user(name: str) -> str:
    return f"system:serviceaccount:{NAMESPACE}:{name}"


async def create_agents(client: Client, nodes: tuple[str, ...]) -> None:
    """Create the accounts, and a pod of each of them on each node."""
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})
    for name in (AGENT, OUTSIDER, CLUSTER_WIDE):
        await client.request(
            "POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", body={"metadata": {"name": name}}
        )
    rule = {"nonResourceURLs": ["/permit"], "verbs": ["post"]}
    subjects = [
        {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE} for name in (AGENT, CLUSTER_WIDE)
    ]
    base = f"/apis/{RBAC}/v1"
    await client.request(
        "POST", f"{base}/clusterroles", body={"metadata": {"name": "agents"}, "rules": [rule]}
    )
    binding = {
        "metadata": {"name": "agents"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "agents"},
        "subjects": subjects,
    }
    await client.request("POST", f"{base}/clusterrolebindings", body=binding)
    for node in nodes:
        for name in (AGENT, OUTSIDER):
            spec = {
                "nodeName": node,
                "serviceAccountName": name,
                "containers": [{"name": "agent", "image": "agent"}],
            }
            await client.request(
                "POST",
                f"/api/v1/namespaces/{NAMESPACE}/pods",
                body={"metadata": {"name": f"{name}-{node}"}, "spec": spec},
            )


async def token(
    client: Client, name: str = AGENT, *, node: str = "", audience: str = DEFAULT_AUDIENCE
) -> str:
    """Return a token of an account, bound to its pod on a node."""
    spec: dict[str, Any] = {"audiences": [audience]}
    if node:
        pod = f"{name}-{node}"
        body = json.loads((await client.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}")).body)
        spec["boundObjectRef"] = {
            "kind": "Pod",
            "apiVersion": "v1",
            "name": pod,
            "uid": body["metadata"]["uid"],
        }
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}/token"
    answer = json.loads((await client.request("POST", path, body={"spec": spec})).body)
    return str(answer["status"]["token"])


def permit_request(
    pod: str, cpu: object, *, namespace: str = "vms", unit: object = 1, version: int = 7, **more: Any
) -> dict[str, Any]:
    """A request for so many CPUs, with a gibibyte of memory for each."""
    return {
        "protoVersion": version,
        "pod": {"namespace": namespace, "name": pod},
        "computeUnit": {"vCPUs": unit, "mem": _memory(unit)},
        "resources": {"vCPUs": cpu, "mem": _memory(cpu)},
        "lastPermit": None,
        "metrics": None,
        **more,
    }


def _memory(units: object) -> object:
    return units << 30 if isinstance(units, int) and abs(units) < 1 << 20 else units
