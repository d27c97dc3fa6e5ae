"""`fairway apply` on an embedded hub, and the same command through kubectl."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.live_hub import act
from fairway.api.resources import PLACEMENTS
from fairway.cli.apply import FORCE, INSTALL, NOT_AN_OBJECT
from fairway.cli.main import run
from fairway.testing.hub import HubAddress, hub_in_thread
from kubewire.client import Client
from kubewire.client.errors import ApiError
from rigs.kubernetes import KUBECTL, Tools

Capture = pytest.CaptureFixture[str]

PLACEMENT = """\
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {{name: {name}, namespace: default}}
spec: {{numberOfClusters: {number}}}
"""
CLUSTER_SET = """\
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: apply-set}
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAddress]:
    with hub_in_thread(folder=tmp_path_factory.mktemp("hub")) as address:
        yield address


def apply(hub: HubAddress, tmp_path: Path, text: str, *options: str) -> int:
    path = tmp_path / "objects.yaml"
    path.write_text(text)
    return run(["apply", "-f", str(path), *options, "--kubeconfig", str(hub.kubeconfig)])


WRONG_TYPE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: wrong}
data: 7
---
apiVersion: v1
kind: ConfigMap
metadata: {name: right}
data: {a: b}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: wrong-too, labels: [a]}
"""


def number_of_clusters(hub: HubAddress, name: str) -> int | None:
    async def read(client: Client) -> int | None:
        return (await client.get(PLACEMENTS, name, namespace="default")).spec.numberOfClusters

    return act(hub.kubeconfig, read)


def test_apply_creates_configures_and_leaves_unchanged(
    hub: HubAddress, tmp_path: Path, capsys: Capture
) -> None:
    name = "placement.cluster.open-cluster-management.io/twice"
    for number, done in ((2, "created"), (2, "unchanged"), (3, "configured")):
        assert apply(hub, tmp_path, PLACEMENT.format(name="twice", number=number)) == 0
        assert capsys.readouterr() == (f"{name} {done}\n", "")
    assert number_of_clusters(hub, "twice") == 3


def test_apply_takes_lists_cluster_scoped_and_core_objects(
    hub: HubAddress, tmp_path: Path, capsys: Capture
) -> None:
    items = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "listed"}, "data": {"a": "b"}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "listed"}},
    ]
    as_list = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    assert apply(hub, tmp_path, f"{CLUSTER_SET}---\n{as_list}\n") == 0
    assert capsys.readouterr().out == (
        "managedclusterset.cluster.open-cluster-management.io/apply-set created\n"
        "configmap/listed created\n"
        "namespace/listed created\n"
    )


def test_apply_names_the_manager_of_a_conflicting_field_and_force_takes_it_over(
    hub: HubAddress, tmp_path: Path, capsys: Capture
) -> None:
    async def create(client: Client) -> None:
        body: dict[str, Any] = {"metadata": {"name": "owned"}, "spec": {"numberOfClusters": 1}}
        await client.create(PLACEMENTS, body, namespace="default", field_manager="somebody")

    act(hub.kubeconfig, create)
    text = PLACEMENT.format(name="owned", number=5)
    assert apply(hub, tmp_path, text) == 2
    refusal = capsys.readouterr().err
    place = f"{tmp_path / 'objects.yaml'}:1: placement.cluster.open-cluster-management.io/owned: "
    assert refusal.startswith(f"fairway: {place}")
    assert '"somebody"' in refusal
    assert ".spec.numberOfClusters" in refusal
    assert FORCE in refusal
    assert number_of_clusters(hub, "owned") == 1
    assert apply(hub, tmp_path, text, "--force-conflicts") == 0
    assert number_of_clusters(hub, "owned") == 5


def test_apply_reports_refused_objects_with_line_and_field_and_applies_the_others(
    hub: HubAddress, tmp_path: Path, capsys: Capture
) -> None:
    unserved = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}\n"
    homeless = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: nowhere}\n"
    wrong = "{apiVersion: v1, kind: ConfigMap, metadata: {name: Bad_Name}}\n"
    good = PLACEMENT.format(name="after-errors", number=1)
    assert apply(hub, tmp_path, "---\n".join((unserved, homeless, wrong, good))) == 2
    out, err = capsys.readouterr()
    assert out == "placement.cluster.open-cluster-management.io/after-errors created\n"
    first, second, third = err.splitlines()[-3:]
    assert ":1: thing.example.com/x: the hub does not serve kind Thing of example.com/v1" in first
    assert first.endswith(INSTALL)
    assert ':5: configmap/x: namespaces "nowhere" not found' in second
    assert ":9: configmap/Bad_Name: " in third
    assert "metadata.name" in third


@pytest.mark.parametrize("text", ["just text", "kind: Placement", "[1]", "kind: List\nitems: [{kind: X}]"])
def test_apply_rejects_documents_that_are_not_objects_before_any_request(
    tmp_path: Path, text: str, capsys: Capture
) -> None:
    good = PLACEMENT.format(name="never", number=1)
    path = tmp_path / "objects.yaml"
    path.write_text(f"{good}---\n{text}\n")
    assert run(["apply", "-f", str(path), "--kubeconfig", str(tmp_path / "none")]) == 2
    assert NOT_AN_OBJECT in capsys.readouterr().err


def test_apply_dry_run_writes_nothing(hub: HubAddress, tmp_path: Path, capsys: Capture) -> None:
    for _ in range(2):
        assert apply(hub, tmp_path, PLACEMENT.format(name="dry", number=1), "--dry-run") == 0
        assert capsys.readouterr().out.endswith("/dry created (dry run)\n")


def test_kubectl_runs_fairway_as_a_plugin(hub: HubAddress, kube_tools: Tools) -> None:
    """kubectl finds the console script that the package installs, and passes arguments, input and exit status on."""
    kubectl = kube_tools.path(KUBECTL)
    path = os.pathsep.join([str(Path(sys.executable).parent), str(kubectl.parent), os.environ["PATH"]])

    def fairway(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [kubectl, "fairway", *arguments],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": path, "KUBECONFIG": str(hub.kubeconfig)},
        )

    applied = fairway("apply", "-f", "-", given=PLACEMENT.format(name="plugged", number=1))
    assert applied.stdout == "placement.cluster.open-cluster-management.io/plugged created\n", applied.stderr
    listed = fairway("get", "placements", "-n", "default", "-o", "json")
    assert "plugged" in [load["metadata"]["name"] for load in json.loads(listed.stdout)["items"]]
    wrong = fairway("get", "placement", "missing", "-n", "default")
    assert wrong.returncode == 2
    assert "kubectl fairway" in fairway("get", "--help").stdout


def test_apply_names_file_and_line_of_every_field_of_a_wrong_type_and_applies_the_others(
    hub: HubAddress, tmp_path: Path, capsys: Capture
) -> None:
    assert apply(hub, tmp_path, WRONG_TYPE) == 2
    printed = capsys.readouterr()
    assert printed.out == "configmap/right created\n"
    first, second = printed.err.splitlines()
    assert first.startswith(f"fairway: {tmp_path}/objects.yaml:1: configmap/wrong: ")
    assert second.startswith(f"fairway: {tmp_path}/objects.yaml:11: configmap/wrong-too: ")


@pytest.mark.parametrize(
    "error", [ApiError("failed to create typed patch object", code=500, reason="InternalError")]
)
def test_apply_continues_after_an_internal_error_of_the_hub(
    hub: HubAddress, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, error: ApiError
) -> None:
    request = Client.request

    async def failing(self: Client, method: str, path: str, **given: Any) -> Any:
        if method == "PATCH" and path.endswith("/broken"):
            raise error
        return await request(self, method, path, **given)

    monkeypatch.setattr(Client, "request", failing)
    text = f"{PLACEMENT.format(name='broken', number=1)}---\n{PLACEMENT.format(name='next', number=1)}"
    assert apply(hub, tmp_path, text) == 2
    printed = capsys.readouterr()
    assert printed.out == "placement.cluster.open-cluster-management.io/next created\n"
    assert "objects.yaml:1: placement.cluster.open-cluster-management.io/broken: failed to" in printed.err
