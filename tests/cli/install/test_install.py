"""`fairway install` and `fairway uninstall` on an embedded hub."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cli.live_hub import act
from fairway.cli.install.differences import LAST_APPLIED
from fairway.cli.install.process import NOT_SURE, SAME
from fairway.cli.install.removal import DATA
from fairway.cli.main import run
from fairway.install import Installation, documents
from fairway.testing.hub import HubAddress, hub_in_thread
from kubewire.client import Client, Patch

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubAddress]:
    with hub_in_thread(folder=tmp_path / "hub") as address:
        yield address


def install(hub: HubAddress, tmp_path: Path, capsys: Capture, *options: str) -> None:
    assert run(["install", *options]) == 0
    path = tmp_path / "fairway.yaml"
    path.write_text(capsys.readouterr().out)
    assert run(["apply", "-f", str(path), "--force-conflicts", "--kubeconfig", str(hub.kubeconfig)]) == 0
    capsys.readouterr()


def difference(hub: HubAddress, capsys: Capture, *options: str) -> tuple[int, list[dict[str, object]]]:
    status = run(["install", "--diff", "-o", "json", *options, "--kubeconfig", str(hub.kubeconfig)])
    return status, json.loads(capsys.readouterr().out)


def uninstall(hub: HubAddress, *options: str) -> int:
    return run(["uninstall", *options, "--kubeconfig", str(hub.kubeconfig)])


def labelled(hub: HubAddress) -> list[str]:
    """Return the cluster roles and deployments of an installation on the hub."""

    async def read(client: Client) -> list[str]:
        names = []
        for path in ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/apps/v1/deployments"):
            query = [("labelSelector", "app.kubernetes.io/part-of=fairway")]
            items = json.loads((await client.request("GET", path, query=query)).body)["items"]
            names += [item["metadata"]["name"] for item in items]
        return names

    return act(hub.kubeconfig, read)


def test_install_prints_objects_for_kubectl_apply(capsys: Capture) -> None:
    assert run(["install", "--controllers=+hosting", "--monitoring"]) == 0
    printed = list(yaml.safe_load_all(io.StringIO(capsys.readouterr().out)))
    assert {document["kind"] for document in printed} >= {"Deployment", "ServiceMonitor"}
    assert "fairway-hosting" in {document["metadata"]["name"] for document in printed}


def test_install_lists_objects_as_a_table(capsys: Capture) -> None:
    assert run(["install", "--mode=shadow", "-o", "table"]) == 0
    assert "deployment.apps/fairway" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--controllers=+hostin"], "did you mean 'hosting'?"),
        (["--mode=shadow", "--controllers=scores"], "--mode shadow runs the controller placement only"),
        (["--namespace=Places"], "'Places' is not the name of a namespace"),
        (["--replicas=-1"], "-1 is not in the range"),
    ],
)
def test_bad_option_of_install_names_the_remedy(options: list[str], message: str, capsys: Capture) -> None:
    assert run(["install", *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_diff_names_what_an_upgrade_changes(hub: HubAddress, tmp_path: Path, capsys: Capture) -> None:
    status, before = difference(hub, capsys)
    assert status == 1
    # The embedded hub serves OCM's kinds and Fairway's from the start.
    assert {row["change"] for row in before} == {"added", "changed"}
    install(hub, tmp_path, capsys)
    assert difference(hub, capsys) == (0, [])
    assert run(["install", "--diff", "--kubeconfig", str(hub.kubeconfig)]) == 0
    assert SAME in capsys.readouterr().out

    status, after = difference(hub, capsys, "--controllers=-scores", "--image=fairway:9")
    assert status == 1
    by_object = {row["object"]: row for row in after}
    fields = by_object["deployment.apps/fairway"]["fields"]
    assert isinstance(fields, list)
    assert any(field.endswith('"fairway:0.1.0" → "fairway:9"') for field in fields)
    assert by_object["clusterrole.rbac.authorization.k8s.io/fairway-scores"]["change"] == "left over"


def test_diff_changes_nothing_on_the_hub(hub: HubAddress, capsys: Capture) -> None:
    difference(hub, capsys)
    assert labelled(hub) == []


def test_diff_warns_of_versions_that_the_hub_would_lose(hub: HubAddress, capsys: Capture) -> None:
    """As after a downgrade, or where a newer OCM installed its CRDs."""

    async def add_versions(client: Client) -> None:
        path = f"{CRDS}/placements.cluster.open-cluster-management.io"
        versions = json.loads((await client.request("GET", path)).body)["spec"]["versions"]
        older = [{**version, "storage": False} for version in versions]
        newer = [{**older[0], "name": "v9", "storage": True}, {**older[0], "name": "v8", "served": True}]
        body = {"spec": {"versions": [*older, *newer]}}
        await client.request("PATCH", path, body=body, content_type=Patch.MERGE.value)

    act(hub.kubeconfig, add_versions)
    status, rows = difference(hub, capsys)
    assert status == 1
    (unsafe,) = (row for row in rows if row["change"] == "unsafe")
    assert str(unsafe["object"]).endswith("/placements.cluster.open-cluster-management.io")
    assert isinstance(unsafe["fields"], list)
    stored, served = unsafe["fields"]
    assert stored.startswith("drops version v9, in which objects are stored")
    assert served.startswith("stops serving version v8")
    assert all("--no-crds" in text for text in (stored, served))
    assert not [row for row in difference(hub, capsys, "--no-crds")[1] if row["change"] == "unsafe"]


def test_diff_names_fields_that_kubectl_apply_would_remove(
    hub: HubAddress, tmp_path: Path, capsys: Capture
) -> None:
    """They are in the annotation that kubectl apply writes, and not in the new file."""
    install(hub, tmp_path, capsys)

    async def as_earlier(client: Client) -> None:
        path = "/apis/apps/v1/namespaces/fairway-system/deployments/fairway"
        (workload,) = (document for document in documents(Installation()) if document["kind"] == "Deployment")
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        container["env"].append({"name": "OLD", "value": "1"})
        workload["spec"]["paused"] = False
        workload["metadata"]["annotations"] = {}  # as kubectl does
        applied = {"metadata": {"annotations": {LAST_APPLIED: json.dumps(workload)}}}
        await client.request("PATCH", path, body=applied, content_type=Patch.MERGE.value)

    act(hub.kubeconfig, as_earlier)
    _, (row,) = difference(hub, capsys)
    assert row["fields"] == [
        'spec.template.spec.containers[fairway].env[OLD]: {"name":"OLD","value":"1"} → none',
        "spec.paused: false → none",
    ]


def test_uninstall_deletes_what_was_installed_and_keeps_data(
    hub: HubAddress, tmp_path: Path, capsys: Capture
) -> None:
    install(hub, tmp_path, capsys, "--controllers=+hosting")
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(
        "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: c1}}"
    )
    assert run(["apply", "-f", str(cluster), "--kubeconfig", str(hub.kubeconfig)]) == 0
    assert labelled(hub)
    assert uninstall(hub, "--dry-run") == 0
    assert "deployment.apps/fairway deleted (dry run)" in capsys.readouterr().out
    assert labelled(hub)
    assert uninstall(hub) == 1
    assert NOT_SURE in capsys.readouterr().err
    assert labelled(hub)

    assert uninstall(hub, "--yes") == 0
    printed = capsys.readouterr()
    assert "deployment.apps/fairway deleted" in printed.out
    assert "Kept: 1 ManagedCluster and the CRDs" in printed.err
    assert labelled(hub) == []
    assert uninstall(hub, "--yes") == 0
    assert "Nothing of Fairway is installed" in capsys.readouterr().out


def test_uninstall_with_data_keeps_clusters_whose_kind_is_not_ours(
    hub: HubAddress, tmp_path: Path, capsys: Capture
) -> None:
    install(hub, tmp_path, capsys, "--mode=ocm")
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(
        "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: theirs}}"
    )
    assert run(["apply", "-f", str(cluster), "--kubeconfig", str(hub.kubeconfig)]) == 0
    capsys.readouterr()
    assert uninstall(hub, "--delete-data", "--dry-run") == 0
    printed = capsys.readouterr().out
    assert "deployment.apps/fairway" in printed
    assert "hostedclusterrequests.placement.fairway.dev" in printed
    assert "theirs" not in printed
    assert "managedclusters." not in printed
    assert "open-cluster-management:managedcluster" not in printed


def test_uninstall_with_data_names_the_finalizers_that_hold_it(
    hub: HubAddress, tmp_path: Path, capsys: Capture
) -> None:
    install(hub, tmp_path, capsys)
    held = tmp_path / "held.yaml"
    held.write_text(
        "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster,"
        " metadata: {name: held, finalizers: [example.com/hold]}}"
    )
    assert run(["apply", "-f", str(held), "--kubeconfig", str(hub.kubeconfig)]) == 0
    assert uninstall(hub, "--delete-data", "--yes", "--timeout=1") == 1
    message = capsys.readouterr().err
    assert "managedcluster.cluster.open-cluster-management.io/held" in message
    assert "example.com/hold" in message


def test_data_with_finalizers_is_deleted_before_the_controllers() -> None:
    kinds = {document["kind"] for document in documents(Installation(crds=False))}
    assert not {kind for _, kind in DATA} & kinds
