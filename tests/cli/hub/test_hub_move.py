"""Move from the embedded hub to a real one with kubectl."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cli.hub_process import Served, served
from fairway.api import crds
from fairway.cli.main import run
from fairway.simulation.synthetic import generate
from kube.definitions import known
from kubehub.authn import bootstrap_account
from rigs.kubernetes import RealHub, Tools, background, kubectl, real_hub

KINDS = (
    "managedclusters,managedclustersets,managedclustersetbindings,placements,addonplacementscores,"
    "managedclusterscores,configmaps,secrets,serviceaccounts,clusterroles"
)
HUBS_OWN = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


@pytest.fixture
def target(kube_tools: Tools, tmp_path: Path) -> Iterator[RealHub]:
    """A separate real hub, because it gets cluster-scoped objects."""
    with background(real_hub(kube_tools, folder=tmp_path / "real")) as hub:
        yield hub


async def done(tools: Tools, kubeconfig: Path, *arguments: str, given: Sequence[object] = ()) -> str:
    ran = await kubectl(
        tools,
        *arguments,
        kubeconfig=kubeconfig,
        given="\n---\n".join(json.dumps(document) for document in given),
    )
    assert ran.status == 0, ran.errors
    return ran.output


async def fill(tools: Tools, hub: Served) -> None:
    fleet = [dict(document) for document in generate(clusters=12, seed=5, placements=6)]
    for document in fleet:
        # As a user writes them: uids of another hub would be rejected.
        document["metadata"] = {k: v for k, v in document["metadata"].items() if k not in HUBS_OWN}
    namespaces = sorted(
        {document["metadata"]["namespace"] for document in fleet if "namespace" in document["metadata"]}
    )
    others: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in namespaces
    ]
    inside = {"namespace": namespaces[0]}
    others += [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "notes", **inside},
            "data": {"a": "1"},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "key", **inside},
            "stringData": {"a": "1"},
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", **inside}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "clusters-viewer"},
            "rules": [
                {
                    "apiGroups": ["cluster.open-cluster-management.io"],
                    "resources": ["managedclusters"],
                    "verbs": ["get", "list", "watch"],
                }
            ],
        },
    ]
    await done(tools, hub.kubeconfig, "create", "-f", "-", given=[*others, *fleet])
    status = ("apply", "--server-side", "--subresource=status", "-f", "-")
    await done(tools, hub.kubeconfig, *status, given=[document for document in fleet if "status" in document])


async def objects(tools: Tools, kubeconfig: Path) -> list[dict[str, Any]]:
    """Return the objects of all namespaces without fields that each hub sets itself."""
    items = json.loads(await done(tools, kubeconfig, "get", KINDS, "--all-namespaces", "-o", "json"))["items"]
    kept = []
    for document in items:
        metadata = document["metadata"]
        own = metadata["name"] in ("default", "kube-root-ca.crt") and document["apiVersion"] == "v1"
        system = "kubernetes.io/bootstrapping" in metadata.get("labels", {}) or bootstrap_account.is_default(
            document
        )
        own |= bootstrap_account.NAMESPACE in (metadata["name"], metadata.get("namespace"))
        # Objects that the real hub creates itself.
        if not own and not system and metadata.get("namespace") != "kube-system":
            for field in HUBS_OWN:
                metadata.pop(field, None)
            kept.append(document)
    return sorted(
        kept, key=lambda document: json.dumps([document["kind"], document["metadata"]], sort_keys=True)
    )


async def test_embedded_hub_moves_to_a_real_hub(kube_tools: Tools, target: RealHub, tmp_path: Path) -> None:
    data, moved = tmp_path / "hub", tmp_path / "moved"
    with served(tmp_path, "--data", data) as hub:
        await fill(kube_tools, hub)
        command = ["hub", "backup", "--data", str(data), "--out", f"{moved}/", "--format", "manifests"]
        assert run([*command, "--status"]) == 0
        definitions, contents, status = (
            str(moved / name) for name in ("definitions.yaml", "objects.yaml", "status.yaml")
        )
        apply = ("apply", "--server-side")
        await done(kube_tools, target.kubeconfig, *apply, "-f", definitions)
        await known(kube_tools, crds(), kubeconfig=target.kubeconfig)
        await done(kube_tools, target.kubeconfig, *apply, "-f", contents)
        statuses = ("--subresource=status", "--force-conflicts", "-f", status)
        await done(kube_tools, target.kubeconfig, *apply, *statuses)

        before = await objects(kube_tools, hub.kubeconfig)
        assert len({document["kind"] for document in before}) == 10
        assert await objects(kube_tools, target.kubeconfig) == before
        # kubectl reports that nothing is left to do.
        await done(kube_tools, target.kubeconfig, "diff", "--server-side", "-f", contents)


async def test_backup_manifests_can_be_applied_twice(
    kube_tools: Tools, target: RealHub, tmp_path: Path
) -> None:
    """The first time kubectl reports unknown kinds, because the CRDs are not served yet."""
    data, file = tmp_path / "hub", tmp_path / "hub.json"
    with served(tmp_path, "--data", data) as hub:
        await fill(kube_tools, hub)
        assert run(["hub", "backup", "--data", str(data), "--out", str(file)]) == 0
        first = await kubectl(kube_tools, "apply", "-f", str(file), kubeconfig=target.kubeconfig)
        assert 'no matches for kind "Placement"' in first.errors
        await known(kube_tools, crds(), kubeconfig=target.kubeconfig)
        await done(kube_tools, target.kubeconfig, "apply", "-f", str(file))
        for hubs in (hub.kubeconfig, target.kubeconfig):
            listed = await done(kube_tools, hubs, "get", "placements", "-A", "-o", "name")
            assert len(listed.split()) == 6
