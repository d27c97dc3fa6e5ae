"""The objects of `fairway addon install` on a real kube-apiserver with OCM's CRDs."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fairway.cli.main import run
from kube.definitions import known
from rigs.kubernetes import Ran, Tools, background, kubectl, real_hub

pytestmark = pytest.mark.kube
Capture = pytest.CaptureFixture[str]

PUBLISHED = Path(__file__).parents[4] / "shared" / "reference" / "crds"


class Hub:
    def __init__(self, tools: Tools, kubeconfig: Path) -> None:
        self._tools, self.kubeconfig = tools, kubeconfig

    def kubectl(self, *arguments: str, given: str = "") -> Ran:
        return asyncio.run(kubectl(self._tools, *arguments, kubeconfig=self.kubeconfig, given=given))

    def done(self, *arguments: str, given: str = "") -> str:
        ran = self.kubectl(*arguments, given=given)
        assert ran.status == 0, ran.errors
        return ran.output

    def addon(self, *arguments: str) -> int:
        return run(["addon", *arguments, "--kubeconfig", str(self.kubeconfig)])


@pytest.fixture(scope="module")
def hub(kube_tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    if not PUBLISHED.is_dir():
        pytest.skip("the published CRDs are not beside this checkout")
    with background(real_hub(kube_tools, folder=tmp_path_factory.mktemp("published"))) as real:
        kube_hub = Hub(kube_tools, real.kubeconfig)
        definitions = [yaml.safe_load(path.read_text()) for path in sorted(PUBLISHED.glob("0000_*.yaml"))]
        kube_hub.done("apply", "--server-side", "-f", "-", given=yaml.safe_dump_all(definitions))
        asyncio.run(known(kube_tools, definitions, kubeconfig=real.kubeconfig))
        yield kube_hub


def test_published_crds_accept_the_addon_objects(hub: Hub, capsys: Capture) -> None:
    assert (
        run(["addon", "install", "resource-usage", "--clusters", "env=prod", "--dry-run", "-o", "yaml"]) == 0
    )
    printed = capsys.readouterr().out
    hub.done("create", "namespace", "open-cluster-management-addon")
    strict = ("--dry-run=server", "--validate=strict")
    hub.done("apply", *strict, "-f", "-", given=printed)
    hub.done("apply", "--server-side", *strict, "-f", "-", given=printed)
    # And what it brings to a managed cluster, with nothing put in yet.
    template = next(item for item in yaml.safe_load(printed)["items"] if item["kind"] == "AddOnTemplate")
    manifests = template["spec"]["agentSpec"]["workload"]["manifests"]
    hub.done("create", "namespace", "open-cluster-management-agent-addon")
    hub.done("apply", *strict, "-f", "-", given=yaml.safe_dump_all(manifests))
    hub.done("delete", "namespace", "open-cluster-management-addon", "--wait=false")


def test_addon_is_installed_and_uninstalled_on_a_real_hub(hub: Hub, capsys: Capture) -> None:
    arguments = ["resource-usage", "-n", "add-ons"]
    assert hub.addon("install", *arguments, "--dry-run") == 0
    assert hub.addon("install", *arguments) == 0
    capsys.readouterr()
    assert hub.addon("install", *arguments, "-o", "json") == 0
    assert {load["done"] for load in json.loads(capsys.readouterr().out)} == {"unchanged"}
    assert "resource-usage-collect" in hub.done("get", "clustermanagementaddons", "-o", "name")
    assert hub.addon("status", "resource-usage") == 1
    assert hub.addon("uninstall", "resource-usage") == 0
    kinds = (
        "clustermanagementaddons,addontemplates,addondeploymentconfigs,placements,managedclustersetbindings"
    )
    assert hub.done("get", kinds, "-A", "-o", "name") == ""
    labels = "app.kubernetes.io/managed-by=fairway"
    assert hub.done("get", "clusterroles,clusterrolebindings", "-l", labels, "-o", "name") == ""
