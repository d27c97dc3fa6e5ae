"""Default objects that programs look for."""

from pathlib import Path
from urllib.parse import urlsplit

from clients.talk import Talk, context

from fairway.api import crds
from fairway.testing.hub import embedded_hub
from kubehub.authn import bootstrap_account
from kubehub.hub import Hub
from kubehub.resource import Document

DEFAULT = "namespaces/default"


def _talk(hub: Hub, folder: Path) -> Talk:
    hub.certificates.write_kubeconfig(folder / "kubeconfig", server=hub.url)
    url, tls, token = context(folder / "kubeconfig")
    return Talk(url=url, context=tls, token=token)


async def _read(hub: Hub, folder: Path, path: str) -> Document:
    async with _talk(hub, folder) as talk:
        code, document = await talk.call("GET", path)
    assert code == 200, document
    made: Document = document
    return made


async def test_kubernetes_service_points_where_the_hub_listens_after_every_start(tmp_path: Path) -> None:
    for _ in range(2):
        async with embedded_hub(folder=tmp_path / "data", definitions=()) as hub:
            address = urlsplit(hub.url)
            service = await _read(hub, tmp_path, f"/api/v1/{DEFAULT}/services/kubernetes")
            assert service["spec"]["ports"] == [
                {"name": "https", "protocol": "TCP", "port": 443, "targetPort": address.port}
            ]
            endpoints = await _read(hub, tmp_path, f"/api/v1/{DEFAULT}/endpoints/kubernetes")
            (subset,) = endpoints["subsets"]
            assert (subset["addresses"], subset["ports"][0]["port"]) == (
                [{"ip": address.hostname}],
                address.port,
            )
            path = f"/apis/discovery.k8s.io/v1/{DEFAULT}/endpointslices"
            (slice_,) = (await _read(hub, tmp_path, path))["items"]
            assert slice_["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
            assert (slice_["endpoints"][0]["addresses"], slice_["ports"][0]["port"]) == (
                [address.hostname],
                address.port,
            )


async def test_bootstrap_account_can_introduce_clusters_from_the_start(tmp_path: Path) -> None:
    """As ``clusteradm get token`` requests it."""
    account = f"/api/v1/namespaces/{bootstrap_account.NAMESPACE}/serviceaccounts/{bootstrap_account.ACCOUNT}"
    cluster = {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": "c1"},
    }
    async with embedded_hub(definitions=crds()) as hub, _talk(hub, tmp_path) as talk:
        code, made = await talk.call("POST", f"{account}/token", body={"spec": {"expirationSeconds": 3600}})
        assert code == 201, made
        trust = context(tmp_path / "kubeconfig")[1]
        clusters = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
        async with Talk(url=hub.url, context=trust, token=made["status"]["token"]) as agent:
            assert (await agent.call("POST", clusters, body=cluster))[0] == 201


async def test_hub_starts_although_the_bootstrap_namespace_is_being_deleted(tmp_path: Path) -> None:
    path = f"/api/v1/namespaces/{bootstrap_account.NAMESPACE}"
    held = {"metadata": {"name": "held", "finalizers": ["fairway.dev/hold"]}}
    async with embedded_hub(folder=tmp_path / "data") as hub, _talk(hub, tmp_path) as talk:
        assert (await talk.call("POST", f"{path}/configmaps", body=held))[0] == 201
        assert (await talk.call("DELETE", f"{path}/serviceaccounts/{bootstrap_account.ACCOUNT}"))[0] == 200
        assert (await talk.call("DELETE", path))[0] == 200
    async with embedded_hub(folder=tmp_path / "data") as hub:
        assert (await _read(hub, tmp_path, path))["status"]["phase"] == "Terminating"
