"""Commands on both hubs, with objects that the real kubectl creates."""

import asyncio
import json
import re
import shlex
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from cli.accept.test_accept import BOOTSTRAP, BOOTSTRAP_GROUP, request_for, subject
from cli.get.test_get import CLUSTERS
from cli.live_hub import EXAMPLE, ROOT, watch
from fairway.api import crds
from fairway.cli.main import run
from fairway.controllers.acceptance.requests import CLUSTER_LABEL, SIGNERS
from fairway.testing.hub import hub_in_thread
from kube.definitions import known
from rigs.kubernetes import ALICE, CONTROLLERS, Ran, Tools, background, kubectl, real_hub, write_kubeconfig

pytestmark = pytest.mark.kube
Capture = pytest.CaptureFixture[str]
SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Hub:
    tools: Tools
    url: str
    kubeconfig: Path
    alice: Path
    """The kubeconfig of a user without rights."""
    restart: Callable[[], object] | None

    def kubectl(self, *arguments: str, given: str = "") -> Ran:
        return asyncio.run(kubectl(self.tools, *arguments, kubeconfig=self.kubeconfig, given=given))

    def done(self, *arguments: str, given: str = "") -> str:
        ran = self.kubectl(*arguments, given=given)
        assert ran.status == 0, ran.errors
        return ran.output

    def until_may(self, *asked: str) -> None:
        """Wait until the API server applies granted rights, which it does not announce."""
        end = time.monotonic() + SECONDS
        while self.kubectl("auth", "can-i", *asked).output != "yes\n":
            assert time.monotonic() < end, asked

    def fairway(self, *arguments: str) -> int:
        return run([*arguments, "--kubeconfig", str(self.kubeconfig)])


@pytest.fixture(scope="module", params=["embedded", "real"])
def empty(
    request: pytest.FixtureRequest, kube_tools: Tools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hub]:
    """A hub without the CRDs."""
    folder = tmp_path_factory.mktemp(f"live-{request.param}")
    if request.param == "embedded":
        tokens = folder / "tokens.csv"
        tokens.write_text("secret-of-alice,alice,alice-uid\n")
        with hub_in_thread(folder=folder, definitions=(), tokens=tokens) as hub:
            alice = folder / "alice.kubeconfig"
            write_kubeconfig(alice, url=hub.url, ca_file=hub.authority, user=ALICE, token="secret-of-alice")
            yield Hub(tools=kube_tools, url=hub.url, kubeconfig=hub.kubeconfig, alice=alice, restart=None)
        return
    manager = real_hub(kube_tools, folder=folder, controllers=CONTROLLERS)
    with background(manager) as real:
        yield Hub(
            tools=kube_tools,
            url=real.url,
            kubeconfig=real.kubeconfig,
            alice=real.kubeconfig_for(ALICE),
            restart=lambda: asyncio.run(real.restart()),
        )


@pytest.fixture(scope="module")
def hub(empty: Hub, tmp_path_factory: pytest.TempPathFactory) -> Hub:
    """A hub with the CRDs of `fairway crds` and the example fleet, applied by kubectl."""
    assert empty.kubectl("get", "managedclusters").status != 0
    file = tmp_path_factory.mktemp("crds") / "crds.yaml"
    assert run(["crds", "--out", str(file)]) == 0
    empty.done("apply", "--server-side", "-f", str(file))
    asyncio.run(known(empty.tools, crds(), kubeconfig=empty.kubeconfig))
    fleet = [
        document
        for path in sorted(EXAMPLE.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]
    for space in sorted({document["metadata"].get("namespace", "") for document in fleet} - {""}):
        empty.done("create", "namespace", space)
    text = yaml.safe_dump_all(fleet)
    empty.done("apply", "-f", "-", given=text)
    stated = yaml.safe_dump_all(document for document in fleet if "status" in document)
    empty.done("apply", "--server-side", "--subresource=status", "-f", "-", given=stated)
    return empty


def test_get_shows_objects_that_kubectl_created(hub: Hub, capsys: Capture) -> None:
    assert hub.fairway("get", "clusters") == 0
    assert capsys.readouterr() == (CLUSTERS, "")
    assert hub.fairway("get", "placements", "-A", "-o", "json") == 0
    ours = json.loads(capsys.readouterr().out)
    theirs = json.loads(hub.done("get", "placements", "-A", "-o", "json"))
    assert ours["items"] == theirs["items"]


def test_objects_of_a_real_hub_equal_their_files(hub: Hub, capsys: Capture) -> None:
    for verb in (["place", "-o", "json"], ["lint", "--severity", "info", "-o", "json"]):
        assert hub.fairway(*verb) == 0
        live = json.loads(capsys.readouterr().out)
        assert run([*verb, "-f", str(EXAMPLE)]) == 0
        files = json.loads(capsys.readouterr().out)
        if verb[0] == "lint":
            assert live["counts"] == files["counts"]
            continue

        def chosen(document: dict[str, list[dict[str, object]]]) -> list[object]:
            return [item["status"] for item in document["items"] if item["kind"] == "PlacementDecision"]

        assert chosen(live) == chosen(files)


def test_explain_works_on_a_real_hub(hub: Hub, capsys: Capture) -> None:
    assert hub.fairway("explain", "placement", "ns1/most-free-cpu", "--cluster", "gpu-iad") == 0
    assert "let placement ns1/most-free-cpu tolerate the taint gpu=true:NoSelect" in capsys.readouterr().out


def test_forbidden_error_has_commands_that_grant_the_right(hub: Hub, capsys: Capture) -> None:
    """The printed commands work unchanged with kubectl as the administrator."""
    asked = ["place", "--kubeconfig", str(hub.alice)]
    assert run(asked) == 2
    said = capsys.readouterr().err
    assert re.search(
        rf"hub {hub.url} does not allow alice to list \w+\.cluster\.open-cluster-management\.io;", said
    )
    grants = [shlex.split(line.removeprefix("fairway: ")) for line in said.splitlines()[1:]]
    assert [words[0] for words in grants] == ["kubectl", "kubectl"]
    for words in grants:
        hub.done(*words[1:])
    hub.until_may("list", "placements.cluster.open-cluster-management.io", "--as", ALICE)
    assert run(asked) == 0
    assert "ns1/most-free-cpu" in capsys.readouterr().out
    assert run(["clusterset", "bind", "hosting", "-n", "ns1", "--kubeconfig", str(hub.alice)]) == 2
    assert "does not allow alice to list namespaces; " in capsys.readouterr().err


def test_clusterset_changes_are_seen_by_kubectl(hub: Hub, capsys: Capture) -> None:
    assert hub.fairway("clusterset", "bind", "hosting", "-n", "ns1") == 0
    bound = json.loads(hub.done("get", "managedclustersetbinding", "hosting", "-n", "ns1", "-o", "json"))
    assert bound["spec"] == {"clusterSet": "hosting"}
    assert hub.fairway("clusterset", "unbind", "hosting", "-n", "ns1") == 0
    assert hub.kubectl("get", "managedclustersetbinding", "hosting", "-n", "ns1").status != 0
    label = r"jsonpath={.metadata.labels.cluster\.open-cluster-management\.io/clusterset}"
    for name, before in (("edge", "apps"), ("apps", "edge")):
        assert hub.fairway("clusterset", "set", name, "--clusters", "apps-sin", "--dry-run") == 0
        assert hub.done("get", "mcl", "apps-sin", "-o", label) == before
        assert hub.fairway("clusterset", "set", name, "--clusters", "apps-sin") == 0
        assert hub.done("get", "mcl", "apps-sin", "-o", label) == name
    assert capsys.readouterr().out.count("moved from set") == 4


def test_accepted_agent_gets_its_certificate_on_a_real_hub(hub: Hub, capsys: Capture) -> None:
    cluster = {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": "joining"},
        "spec": {"hubAcceptsClient": False},
    }
    request = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "joining-x", "labels": {CLUSTER_LABEL: "joining"}},
        "spec": {
            "request": b64encode(request_for(*subject("joining"))).decode(),
            "signerName": SIGNERS[0],
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    }
    hub.done("create", "-f", "-", given=json.dumps(cluster))
    hub.done("create", "clusterrole", "joins", "--verb=create", "--resource=certificatesigningrequests")
    hub.done("create", "clusterrolebinding", "joins", "--clusterrole=joins", f"--group={BOOTSTRAP_GROUP}")
    agent = ("--as", BOOTSTRAP, "--as-group", BOOTSTRAP_GROUP)
    hub.until_may("create", "certificatesigningrequests", *agent)
    hub.done("create", "-f", "-", "--validate=false", *agent, given=json.dumps(request))
    assert hub.fairway("accept", "joining", "--dry-run") == 0
    assert hub.done("get", "csr", "joining-x", "-o", "jsonpath={.status}") in ("", "{}")
    assert hub.fairway("accept", "joining") == 0
    hub.done("wait", "csr/joining-x", "--for=jsonpath={.status.certificate}", f"--timeout={SECONDS}s")
    assert hub.done("get", "mcl", "joining", "-o", "jsonpath={.spec.hubAcceptsClient}") == "true"
    capsys.readouterr()
    assert hub.fairway("accept", "joining") == 0
    assert capsys.readouterr().out == (
        "certificate request joining-x of cluster joining already approved\n"
        "cluster joining already accepted\n"
    )
    hub.done("delete", "mcl", "joining")


def test_get_watch_outlives_a_real_hub(hub: Hub, tmp_path: Path) -> None:
    with watch(tmp_path, hub.kubeconfig, "get", "clusters", "apps-fra", "-w") as watched:
        assert [line.split()[0] for line in watched.lines(2)] == ["NAME", "apps-fra"]
        if hub.restart is not None:
            hub.restart()
        patch = '{"spec":{"hubAcceptsClient":false}}'
        hub.done("patch", "mcl", "apps-fra", "--type=merge", "-p", patch)
        assert watched.line().split()[:2] == ["apps-fra", "false"]
        hub.done("patch", "mcl", "apps-fra", "--type=merge", "-p", patch.replace("false", "true"))
        assert watched.line().split()[:2] == ["apps-fra", "true"]
        assert watched.interrupt()[0] == 130


def test_place_checks_a_placement_against_a_real_hub(hub: Hub, capsys: Capture) -> None:
    """The result of `place --hub` for a file equals the decision after the file is applied."""
    file = str(ROOT / "examples" / "most-free-cpu.yaml")
    assert hub.fairway("place", "-f", file, "--hub", "-o", "json") == 0
    before = json.loads(capsys.readouterr().out)
    hub.done("apply", "-f", file)
    try:
        assert hub.fairway("place", "--placement", "default/most-free-cpu", "-o", "json") == 0
        after = json.loads(capsys.readouterr().out)
    finally:
        hub.done("delete", "-f", file)

    def conditions(document: dict[str, list[dict[str, dict[str, list[dict[str, str]]]]]]) -> list[str]:
        return [condition["reason"] for condition in document["items"][0]["status"]["conditions"]]

    assert conditions(before) == conditions(after)


def test_generated_fleet_is_applied_twice_and_deleted(hub: Hub, tmp_path: Path, capsys: Capture) -> None:
    file = str(tmp_path / "fleet.json")
    assert run(["fleet", "generate", "--clusters", "5", "--placements", "3", "--out", file]) == 0
    assert hub.fairway("fleet", "apply", "-f", file, "--dry-run") == 0
    assert hub.fairway("fleet", "apply", "-f", file) == 0
    labelled = ["managedclusters", "-l", "fairway.dev/fleet=applied", "-o", "json"]
    items = json.loads(hub.done("get", *labelled))["items"]
    assert len(items) == 5
    assert all(item["status"]["version"]["kubernetes"] for item in items)
    capsys.readouterr()
    assert hub.fairway("fleet", "apply", "-f", file, "-o", "json") == 0
    assert not any(row["created"] or row["changed"] for row in json.loads(capsys.readouterr().out))
    assert hub.fairway("fleet", "delete", "-f", file) == 0
    assert json.loads(hub.done("get", *labelled))["items"] == []
