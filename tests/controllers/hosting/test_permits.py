"""What tenants may create on hosts, on the way to a ManifestWork."""

from base64 import b64encode
from typing import Any

import pytest

from controllers.hosting.hosting_hub import NAMESPACE, HostingHub, controlling, living
from fairway.api.hosted_request import BOUND, CONFIRMED
from fairway.api.resources import MANIFEST_WORKS
from fairway.workloads.hosting.rules.host_namespaces import derived_namespace

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]


def hub_with_host() -> HostingHub:
    hub = HostingHub()
    hub.host("h1")
    return hub


def objects(hub: HostingHub) -> set[tuple[str, str, str]]:
    """Return kind, namespace and name of all that ManifestWorks create."""
    return {
        (manifest["kind"], manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])
        for work in hub.works()
        for manifest in hub.documents[MANIFEST_WORKS.plural, *work]["spec"]["workload"]["manifests"]
    }


def node_pools(hub: HostingHub) -> list[dict[str, Any]]:
    """Return the specs of all NodePools that ManifestWorks create."""
    return [
        manifest["spec"]
        for work in hub.works()
        for manifest in hub.documents[MANIFEST_WORKS.plural, *work]["spec"]["workload"]["manifests"]
        if manifest["kind"] == "NodePool"
    ]


async def test_each_namespace_of_the_hub_has_one_of_its_own_on_the_host() -> None:
    hub = hub_with_host()
    hub.ask("shop")
    hub.ask("shop", namespace="team-b")
    async with living(hub), controlling(hub):
        await hub.until(lambda: len(hub.works()) == 2)
        own, other = derived_namespace(NAMESPACE), derived_namespace("team-b")
        assert objects(hub) == {
            ("Namespace", "", own),
            ("HostedCluster", own, "shop"),
            ("Namespace", "", other),
            ("HostedCluster", other, "shop"),
        }
        accepted = hub.request("shop").status.accepted
        assert accepted is not None
        assert accepted.namespace == own


async def test_hosted_cluster_stays_in_its_namespace_whatever_the_policy_says_later() -> None:
    hub = hub_with_host()
    hub.policy(permits={"hostNamespaces": ["clusters"]})
    hub.ask("shop", hostedCluster={"namespace": "clusters", "spec": {}})
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.phase("shop") == CONFIRMED)
        hub.policy()
        hub.edit("shop", nodePools=[{"name": "workers", "spec": {}}])
        await hub.until(lambda: ("NodePool", "clusters", "workers") in objects(hub))
        assert ("HostedCluster", "clusters", "shop") in objects(hub)


async def test_secret_of_another_type_is_never_written_to_a_host() -> None:
    hub = hub_with_host()
    hub.secret("token", "eA==", type_="bootstrap.kubernetes.io/token")
    hub.ask("shop", secrets=[{"name": "token"}])
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.reason("shop") == "NotPermitted")
        assert "Secret team-a/token, whose type is bootstrap.kubernetes.io/token" in hub.message("shop")
        assert hub.works() == []
        hub.secret("token", "eA==")
        await hub.until(lambda: hub.phase("shop") in (BOUND, CONFIRMED))


async def test_secrets_that_are_too_large_together_are_refused_without_reading_all() -> None:
    hub = hub_with_host()
    names = [f"large-{at}" for at in range(8)]
    for name in names:
        hub.secret(name, b64encode(bytes(400_000)).decode())
    hub.ask("shop", secrets=[{"name": name} for name in names])
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.reason("shop") == "SecretUnreadable")
        assert "the Secrets up to team-a/large-2 have more than 1,048,576 bytes together" in hub.message(
            "shop"
        )
        assert hub.works() == []
        hub.edit("shop", secrets=[{"name": "large-0"}, {"name": "large-1"}])
        await hub.until(lambda: hub.phase("shop") in (BOUND, CONFIRMED))


async def test_refused_namespace_is_named_in_the_condition_and_holds_no_room() -> None:
    hub = hub_with_host()
    hub.policy(permits={"hostNamespaces": ["kube-*"]})
    hub.ask("shop", hostedCluster={"namespace": "kube-system", "spec": {}})
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.reason("shop") == "Misconfigured")
        assert "namespace kube-system of a hosting cluster is protected (kube-*)" in hub.message("shop")
        assert hub.request("shop").status.reservation is None


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"policy": "wide", "secrets": [{"name": "pull-root"}]}, "whose type is example.com/root"),
        ({"secrets": [{"name": "signing"}]}, "policy default does not permit the name signing"),
        ({"secrets": [{"name": "shop-admin-kubeconfig"}]}, "HyperShift itself writes"),
    ],
    ids=["type permitted by a policy of others", "name that is not permitted", "name of HyperShift"],
)
async def test_edit_of_a_placed_request_is_checked_by_the_policy_that_reserved_its_place(
    spec: dict[str, Any], words: str
) -> None:
    hub = hub_with_host()
    hub.policy(permits={"secretNames": ["pull-*", "shop-*"]})
    hub.policy("wide", namespaces=["admins"], permits={"secretTypes": ["example.com/root"]})
    hub.secret("pull-root", "eA==", type_="example.com/root")
    for name in ("signing", "shop-admin-kubeconfig"):
        hub.secret(name, "eA==")
    hub.ask("shop")
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.phase("shop") == CONFIRMED)
        before = objects(hub)
        hub.edit("shop", **spec)
        await hub.until(lambda: words in hub.message("shop", "Bound"))
        assert objects(hub) == before
        assert hub.phase("shop") == CONFIRMED


async def test_edit_does_not_take_names_of_another_tenant_in_a_shared_namespace() -> None:
    hub = hub_with_host()
    hub.policy(permits={"hostNamespaces": ["clusters"]})
    shared: dict[str, Any] = {"namespace": "clusters", "spec": {}}
    for namespace in (NAMESPACE, "team-b"):
        hub.secret("pull", "eA==", namespace=namespace)
    hub.ask(
        "shop", hostedCluster=shared, secrets=[{"name": "pull"}], nodePools=[{"name": "pool", "spec": {}}]
    )
    hub.ask("evil", namespace="team-b", hostedCluster=shared)
    async with living(hub), controlling(hub):
        await hub.until(lambda: len(hub.works()) == 2)
        before = objects(hub)
        for field, edit in (
            ("spec.nodePools", {"nodePools": [{"name": "pool", "spec": {"replicas": 0}}], "secrets": []}),
            ("spec.secrets", {"nodePools": [], "secrets": [{"name": "pull"}]}),
        ):
            hub.edit("evil", namespace="team-b", **edit)
            await hub.until(lambda: field in hub.message("evil", "Bound", namespace="team-b"))  # noqa: B023
            assert "belongs to request team-a/shop" in hub.message("evil", "Bound", namespace="team-b")
        assert objects(hub) == before
        # The edit of the other tenant does not keep the owner of the names from its own.
        hub.edit("shop", nodePools=[{"name": "pool", "spec": {"replicas": 3}}])
        await hub.until(lambda: {"replicas": 3, "clusterName": "shop"} in node_pools(hub))
