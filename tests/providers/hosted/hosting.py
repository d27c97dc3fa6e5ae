"""A hosting cluster, in which a test makes nodes, pods and HostedClusters."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fairway.api.resources import CLUSTER_CLAIMS
from fairway.providers.hosted import HostedClusters
from fairway.providers.hosted.options import HostedOptions
from fairway.providers.hosted.provider import HOSTED_CLUSTERS
from fairway.providers.provider import Reading
from fairway.testing.hub import embedded_hub
from kubewire.client import Client

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOSTED_CLUSTER: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "hostedclusters.hypershift.openshift.io"},
    "spec": {
        "group": "hypershift.openshift.io",
        "names": {"kind": "HostedCluster", "plural": "hostedclusters", "singular": "hostedcluster"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


class Cluster:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def node(
        self,
        name: str,
        *,
        cpu: str = "16",
        memory: str = "64Gi",
        pods: str = "250",
        labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        body = {
            "metadata": {"name": name, "labels": dict(labels or {})},
            "spec": spec,
            "status": {
                "allocatable": {"cpu": cpu, "memory": memory, "pods": pods},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        await self.client.request("POST", "/api/v1/nodes", body=body)

    async def pod(self, name: str, *, node: str, cpu: str) -> None:
        body = {
            "metadata": {"name": name},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
            },
        }
        await self.client.request("POST", "/api/v1/namespaces/default/pods", body=body)

    async def hosted(self, *names: str, labels: Mapping[str, str] | None = None) -> None:
        for name in names:
            body = {"metadata": {"name": name, "labels": dict(labels or {})}}
            await self.client.create(HOSTED_CLUSTERS, body, namespace="default")

    async def claims(self) -> dict[str, str]:
        return {
            claim.metadata.name: claim.spec.value for claim in (await self.client.list(CLUSTER_CLAIMS)).items
        }


@asynccontextmanager
async def hosting(*definitions: dict[str, Any]) -> AsyncIterator[Cluster]:
    with TemporaryDirectory() as folder:
        async with embedded_hub(definitions=definitions) as hub:
            kubeconfig = Path(folder, "kubeconfig")
            hub.certificates.write_kubeconfig(kubeconfig, server=hub.url)
            async with Client.from_kubeconfig(kubeconfig) as client:
                yield Cluster(client)


async def reading(cluster: Cluster, **options: Any) -> Reading:
    provider = HostedClusters(cluster.client, HostedOptions.read(options, environment={}))
    async with provider.running(lambda: None):
        return await provider.read()
