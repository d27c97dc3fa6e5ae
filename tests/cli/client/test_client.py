"""Messages of commands for unreachable hubs and refused requests."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.live_hub import EXAMPLE, act, fill
from fairway.api import crds
from fairway.api.crd import RESOURCES
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, PLACEMENTS
from fairway.cli.client import objects, session
from fairway.cli.client.messages import NO_HUB, explain_error
from fairway.cli.client.objects import listed, read_hub
from fairway.cli.input import NO_INPUT
from fairway.cli.main import run
from fairway.cli.options.hub import HubChoice
from fairway.testing.builders import cluster, score
from fairway.testing.hub import HubAddress, hub_in_thread
from kubewire.client import Client, Connection, CredentialError, KubeError
from kubewire.client.errors import DeadlineExceeded, UnreadableError, error_of
from rigs.certificates import Authority
from rigs.kubernetes import write_kubeconfig
from rigs.processes import Port

Capture = pytest.CaptureFixture[str]
INVALID = b'{"kind":"Status","reason":"Invalid","message":"spec is wrong","code":422}'

VERBS = [
    ["get", "clusters"],
    ["clusterset", "bind", "apps"],
    ["clusterset", "unbind", "apps"],
    ["clusterset", "set", "apps", "--clusters", "c1"],
    ["accept", "c1"],
    ["explain", "placement", "ns1/web"],
    ["explain", "placement", "ns1/web", "--watch"],
    ["get", "scores", "--watch"],
    ["lint"],
    ["place"],
]


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without a kubeconfig."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)


def complaint(capsys: Capture, arguments: list[str]) -> str:
    assert run(arguments) == 2
    shown, said = capsys.readouterr()
    assert shown == ""
    assert "internal error" not in said
    assert all(line.startswith("fairway: ") for line in said.splitlines())
    return said.replace("fairway: ", "")


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_missing_default_kubeconfig_names_the_options(capsys: Capture, verb: list[str]) -> None:
    files_would_do = verb[0] in ("explain", "lint", "place") and "--watch" not in verb
    assert complaint(capsys, verb) == f"{NO_INPUT if files_would_do else NO_HUB}\n"


def test_missing_or_malformed_kubeconfig_exits_2(tmp_path: Path, capsys: Capture) -> None:
    missing = str(tmp_path / "missing")
    assert complaint(capsys, ["get", "clusters", "--kubeconfig", missing]) == (
        f"{missing}: does not exist; check the path\n"
    )
    broken = tmp_path / "broken"
    broken.write_text("a: [\n")
    assert f"{broken}: is not YAML (line 1)" in complaint(capsys, ["lint", "--kubeconfig", str(broken)])
    # A hub option with a file selects the hub, so its error is reported.
    file = ["-f", str(EXAMPLE), "--kubeconfig", missing]
    assert "does not exist" in complaint(capsys, ["place", *file])


def test_unknown_context_lists_the_known_ones(fairway_hub: HubAddress, capsys: Capture) -> None:
    arguments = ["get", "clusters", "--kubeconfig", str(fairway_hub.kubeconfig), "--context", "fairwy"]
    assert "there is no context 'fairwy'; did you mean 'fairway'?" in complaint(capsys, arguments)


def kubeconfig(
    tmp_path: Path, hub: HubAddress, *, url: str = "", token: str = "none", ca: Path | None = None
) -> Path:
    path = tmp_path / "other.kubeconfig"
    write_kubeconfig(path, url=url or hub.url, ca_file=ca or hub.authority, user="eve", token=token)
    return path


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_unreachable_hub_names_server_and_kubeconfig(
    tmp_path: Path, fairway_hub: HubAddress, capsys: Capture, verb: list[str]
) -> None:
    with Port() as port:  # reserved meanwhile
        url = f"https://127.0.0.1:{port}"
        path = kubeconfig(tmp_path, fairway_hub, url=url)
        said = complaint(capsys, [*verb, "--kubeconfig", str(path)])
    assert said.startswith(f"cannot reach {url}: ")
    assert said.endswith(f"; check that the hub of {path} is running, or select another one with --context\n")


def test_untrusted_certificate_names_the_kubeconfig(
    tmp_path: Path, fairway_hub: HubAddress, capsys: Capture
) -> None:
    folder = tmp_path / "authority"
    folder.mkdir()
    stranger = Authority.create(folder).pair.certificate
    path = kubeconfig(tmp_path, fairway_hub, ca=stranger)
    said = complaint(capsys, ["get", "clusters", "--kubeconfig", str(path)])
    assert said.startswith(f"the certificate of {fairway_hub.url} is not trusted: ")
    assert "check certificate-authority" in said
    assert str(path) in said


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_rejected_credentials_name_the_kubeconfig(
    tmp_path: Path, fairway_hub: HubAddress, capsys: Capture, verb: list[str]
) -> None:
    path = kubeconfig(tmp_path, fairway_hub, token="expired")
    assert complaint(capsys, [*verb, "--kubeconfig", str(path)]) == (
        f"credentials in {path} were rejected by hub {fairway_hub.url} (401): expired, or for another hub; "
        "log in again, or select another context with --context\n"
    )


@pytest.fixture
def poor(tmp_path: Path) -> Any:
    """A hub, and the kubeconfig of a user without rights."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("secret-of-eve,eve,eve-uid\n")
    with hub_in_thread(folder=tmp_path, tokens=tokens) as hub:
        yield hub, kubeconfig(tmp_path, hub, token="secret-of-eve")


def test_missing_right_names_the_commands_that_grant_it(
    poor: tuple[HubAddress, Path], capsys: Capture, tmp_path: Path
) -> None:
    hub, path = poor
    said = complaint(capsys, ["get", "clusters", "--kubeconfig", str(path)])
    every = ",".join(resource.name for resource in RESOURCES)
    assert said == (
        f"hub {hub.url} does not allow eve to list managedclusters.cluster.open-cluster-management.io; "
        "an administrator can grant it:\n"
        f"  kubectl create clusterrole fairway-reader --verb=get,list,watch --resource={every}\n"
        "  kubectl create clusterrolebinding fairway-reader --clusterrole=fairway-reader --user=eve\n"
    )
    said = complaint(capsys, ["get", "placements", "-n", "ns1", "--kubeconfig", str(path)])
    assert (
        "does not allow eve to list placements.cluster.open-cluster-management.io in namespace ns1; " in said
    )
    assert (
        "create role fairway-reader -n ns1 --verb=get,list,watch --resource=managedclustersetbindings."
        in said
    )
    assert "managedclusters.cluster" not in said
    # The grant that is printed, made in the way kubectl makes it.
    role = {
        "metadata": {"name": "fairway-reader"},
        "rules": [
            {
                "apiGroups": ["cluster.open-cluster-management.io"],
                "resources": [resource.plural for resource in RESOURCES],
                "verbs": ["get", "list", "watch"],
            }
        ],
    }
    binding = {
        "metadata": {"name": "fairway-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "fairway-reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}],
    }

    async def grant(client: Client) -> None:
        for kind, body in (("ClusterRole", role), ("ClusterRoleBinding", binding)):
            document = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, **body}
            await client.request("POST", f"/apis/rbac.authorization.k8s.io/v1/{kind.lower()}s", body=document)

    act(hub.kubeconfig, grant)
    fill(hub.kubeconfig, paths=[EXAMPLE])
    for verb in (["get", "clusters"], ["place"], ["lint"], ["explain", "placement", "ns1/idlest"]):
        assert run([*verb, "--kubeconfig", str(path)]) == 0
    capsys.readouterr()
    said = complaint(
        capsys, ["clusterset", "set", "apps", "--clusters", "hosting-fra", "--kubeconfig", str(path)]
    )
    assert "does not allow eve to patch managedclusters.cluster.open-cluster-management.io; " in said
    assert (
        "create clusterrole fairway-patch-managedclusters --verb=patch --resource=managedclusters.cluster"
        in said
    )
    said = complaint(capsys, ["accept", "hosting-fra", "--kubeconfig", str(path)])
    assert "does not allow eve to list certificatesigningrequests.certificates.k8s.io; " in said


def test_missing_crd_names_the_command_that_installs_it(tmp_path: Path, capsys: Capture) -> None:
    with hub_in_thread(folder=tmp_path, definitions=()) as hub:
        for verb in VERBS:
            said = complaint(capsys, [*verb, "--kubeconfig", str(hub.kubeconfig)])
            assert re.match(
                rf"hub {re.escape(hub.url)} does not serve \w+\.\w+\.cluster\.open-cluster-", said
            )
            assert said.endswith(
                "its CRD is not installed; install the CRDs with\n"
                f"  fairway crds | kubectl --kubeconfig {hub.kubeconfig} apply -f -\n"
            )


def test_server_that_is_no_kubernetes_api_is_reported(tmp_path: Path, capsys: Capture) -> None:
    """A web server that responds 404 to every request."""
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # its caller's name
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its caller's name
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        path = tmp_path / "kubeconfig"
        url = f"http://127.0.0.1:{server.server_port}"
        path.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "x", "cluster": {"server": url}}],
                    "contexts": [{"name": "x", "context": {"cluster": "x"}}],
                    "current-context": "x",
                }
            )
        )
        said = complaint(capsys, ["get", "clusters", "--kubeconfig", str(path)])
        assert "its CRD is not installed" in said
        said = complaint(capsys, ["clusterset", "bind", "x", "--kubeconfig", str(path)])
        assert "its CRD is not installed" in said
        server.shutdown()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            DeadlineExceeded("GET /x: no response within 60 s"),
            "no response from hub H: GET /x: no response within 60 s; ",
        ),
        (
            UnreadableError("the answer is not a list"),
            "the response of H is not that of a Kubernetes API: the answer is not",
        ),
        (
            CredentialError("exec plugin 'x' failed with exit code 1"),
            "exec plugin 'x' failed with exit code 1",
        ),
        (error_of(code=503, body=b"no"), "hub H refused the request: no (503)"),
        (error_of(code=422, body=INVALID), "hub H refused the request: spec is wrong (422 Invalid)"),
        (error_of(code=403, body=b"no webhook likes you"), "hub H refused the request: no webhook likes you"),
        (
            error_of(code=404, request="GET /api/v1/x"),
            "hub H does not serve /api/v1/x: not a Kubernetes API server",
        ),
        (
            error_of(code=302, request="GET /api"),
            "hub H refused the request: the server redirects",
        ),
        (
            error_of(
                code=403, body=b'{"kind":"Status","message":"User \\"; rm -rf\\" cannot list resource"}'
            ),
            'hub H refused the request: User "; rm -rf" cannot list resource',
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_other_refusals_print_code_and_reason(error: KubeError, expected: str) -> None:
    connection = Connection(server="https://h", place="the file")
    said = explain_error(error, hub=HubChoice(), connection=connection).replace("https://h", "H")
    assert said.startswith(expected)


def test_printed_kubectl_command_uses_the_same_hub() -> None:
    assert HubChoice().kubectl == "kubectl"
    chosen = HubChoice(kubeconfig="/with a blank", context="x;y")
    assert shlex.split(chosen.kubectl) == ["kubectl", "--kubeconfig", "/with a blank", "--context", "x;y"]
    assert (HubChoice().given, chosen.given) == (False, True)


def test_warnings_of_the_hub_go_to_stderr_in_one_visible_line(capsys: Capture) -> None:
    import logging

    with session.client_warnings():
        logging.getLogger("kubewire.client").warning("careful\x1b[31m")
        logging.getLogger("kubewire.client").info("nothing")
    assert capsys.readouterr() == ("", "fairway: careful\\x1b[31m\n")


def test_objects_of_a_hub_equal_their_files(fairway_hub: HubAddress) -> None:
    from fairway.cli.files.loader import load
    from fairway.whatif.fleet.changes import identity

    fill(fairway_hub.kubeconfig, paths=[EXAMPLE])
    on_hub = act(fairway_hub.kubeconfig, read_hub)
    wanted = load([str(EXAMPLE)])
    by_name = {identity(loaded.object): loaded.object for loaded in on_hub}
    assert set(by_name) == {identity(loaded.object) for loaded in wanted}
    for loaded in wanted:
        theirs = by_name[identity(loaded.object)]
        assert getattr(theirs, "status", None) == getattr(loaded.object, "status", None)
        assert theirs.metadata.labels == loaded.object.metadata.labels
    assert {(loaded.origin.file, loaded.origin.line) for loaded in on_hub} == {(fairway_hub.url, 0)}


def test_expired_continue_token_restarts_the_list(
    fairway_hub: HubAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubewire.client import Expired

    fill(fairway_hub.kubeconfig, *(score(f"c{number}", {"cpu": number}) for number in range(7)))
    monkeypatch.setattr(objects, "PAGE", 3)

    async def read(client: Client) -> list[str]:
        asked = client.request
        calls = 0

        async def forgetful(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise Expired("The provided continue parameter is too old", code=410, reason="Expired")
            return await asked(*arguments, **options)

        monkeypatch.setattr(client, "request", forgetful)
        scores = await listed(client, ADD_ON_PLACEMENT_SCORES)
        return [thing.metadata.namespace for thing in scores]

    assert act(fairway_hub.kubeconfig, read) == [f"c{number}" for number in range(7)]


def test_reading_a_large_hub_shows_progress_on_a_terminal(
    fairway_hub: HubAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(fairway_hub.kubeconfig, *(cluster(f"c{number}") for number in range(40)))
    code = (
        "import sys; from fairway.cli import main; from fairway.cli.client import objects; objects._LARGE = {least}; "
        "sys.exit(main.run(['place', '--kubeconfig', {kubeconfig!r}]))"
    )
    for least, expected in ((41, False), (40, True)):
        ours, theirs = pty.openpty()
        with os.fdopen(ours, "rb", buffering=0) as terminal:
            process = subprocess.Popen(
                [sys.executable, "-c", code.format(least=least, kubeconfig=str(fairway_hub.kubeconfig))],
                stdout=subprocess.DEVNULL,
                stderr=theirs,
                env={**os.environ, "TERM": "xterm"},
            )
            os.close(theirs)
            said = b""
            try:
                while piece := terminal.read(4096):
                    said += piece
            except OSError:
                pass  # the other end is closed
            assert process.wait() == 2
        assert (b"reading the hub" in said) is expected, said
        assert b"has no Placement" in said


def test_missing_required_kind_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    without = tuple(crd for crd in crds() if not crd["metadata"]["name"].startswith(PLACEMENTS.plural))
    with hub_in_thread(folder=tmp_path, definitions=without) as hub:
        said = complaint(capsys, ["place", "--kubeconfig", str(hub.kubeconfig)])
        assert (
            "does not serve placements.v1beta1.cluster.open-cluster-management.io: its CRD is not installed"
            in said
        )


def test_kubeconfig_is_found_as_in_kubectl(
    fairway_hub: HubAddress, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    fill(fairway_hub.kubeconfig, cluster("c1"))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}{os.pathsep}{fairway_hub.kubeconfig}")
    assert run(["get", "clusters"]) == 0
    assert "c1" in capsys.readouterr().out
    monkeypatch.delenv("KUBECONFIG")
    home = tmp_path / "home" / ".kube"
    home.mkdir(parents=True)
    config: dict[str, Any] = yaml.safe_load(fairway_hub.kubeconfig.read_text())
    (home / "config").write_text(yaml.safe_dump(config))
    assert run(["get", "clusters"]) == 0
    assert "c1" in capsys.readouterr().out
