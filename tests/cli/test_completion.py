"""Shell completion, with the typed words in the environment."""

import io
import os
import shlex
import shutil
import socket
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from cli.live_hub import act, fill
from fairway.api.resources import PODS
from fairway.cli import completion
from fairway.cli.client.names import NAMESPACES
from fairway.cli.commands.completion import SHELLS
from fairway.cli.completion import INSTALL, TIMEOUT_SECONDS
from fairway.cli.main import run
from fairway.testing.builders import cluster, cluster_set, placement, score
from fairway.testing.hub import HubAddress
from kubewire.client import Client
from rigs.kubernetes import write_kubeconfig

Capture = pytest.CaptureFixture[str]


def offered(words: str, *, patience: float = 60.0, **environment: str) -> list[str]:
    """Return bash's candidates for the last word; there must be no other output.

    More patience than people have: what is asked for is whether the right names come, not when.
    """
    typed = shlex.split(words)
    asked = {
        "_FAIRWAY_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(typed) - (0 if words.endswith(" ") else 1)),
        **environment,
    }
    with (
        mock.patch.dict(os.environ, asked),
        mock.patch.object(completion, "TIMEOUT_SECONDS", patience),
        redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) as output,
        redirect_stderr(io.StringIO()) as errors,
    ):
        status = run([])
    assert (status, errors.getvalue()) == (0, "")
    output.seek(0)
    return [line.partition(",")[2] for line in output.read().splitlines() if line]


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_script_has_installation_notes(capsys: Capture, shell: str) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert script.startswith(f"# Completion of fairway for {shell}.")
    assert INSTALL[shell] in script
    assert "_FAIRWAY_COMPLETE" in script
    program = shutil.which(shell)
    if program is not None:
        assert subprocess.run([program, "-n"], input=script.encode(), check=False).returncode == 0


def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    folder = Path(sys.executable).parent
    script = (
        "source <(fairway completion bash)\n"
        "COMP_WORDS=(fairway acc) COMP_CWORD=1\n"
        "_fairway_completion fairway acc fairway\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "accept\n"


def test_completion_rejects_unknown_shells(capsys: Capture) -> None:
    assert run(["completion", "tcsh"]) == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in capsys.readouterr().err


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from fairway.testing.hub import hub_in_thread

    with hub_in_thread(folder=tmp_path_factory.mktemp("completion")) as hub:
        fill(
            hub.kubeconfig,
            cluster("c1"),
            cluster("c2"),
            cluster("other"),
            cluster_set("apps"),
            placement("web"),
            placement("work"),
            score("c1", {"cpu": 1}, name="usage"),
            score("c2", {"cpu": 1}, name="usage"),
        )
        act(hub.kubeconfig, make_namespace)
        yield hub


async def make_namespace(client: Client) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "ns2"}})
    pod = {"metadata": {"name": "batch"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await client.create(PODS, pod, namespace="ns2")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fairway acc", ["accept"]),
        ("fairway get c", ["clusters", "clustersets"]),
        ("fairway get clusters c", ["c1", "c2"]),
        ("fairway get mcl ", ["c1", "c2", "other"]),
        ("fairway get clusters --clusterset ", ["apps"]),
        ("fairway get placements -n ns1 w", ["web", "work"]),
        ("fairway get placements w", []),
        ("fairway get placements ns1/we", ["ns1/web"]),
        ("fairway get placements -A ns1/we", ["ns1/web"]),
        ("fairway get placements -n n", ["ns1", "ns2"]),
        ("fairway get scores u", ["usage"]),
        ("fairway get scores --cluster o", ["other"]),
        ("fairway explain placement ", ["ns1/web", "ns1/work"]),
        ("fairway machines explain pod ns2/", ["ns2/batch"]),
        ("fairway machines migrations --vm ns2/", []),
        ("fairway explain placement ns1/web --cluster c", ["c1", "c2"]),
        ("fairway place --placement ns1/wo", ["ns1/work"]),
        ("fairway clusterset bind a", ["apps"]),
        ("fairway clusterset set apps --clusters c", ["c1", "c2"]),
        ("fairway accept c", ["c1", "c2"]),
        ("fairway accept --clusters other,c", ["other,c1", "other,c2"]),
        ("fairway crds man", ["managedclusters", "managedclustersets", "managedclustersetbindings"]),
    ],
)
def test_completion_offers_names_of_the_hub(hub: HubAddress, words: str, expected: list[str]) -> None:
    names = offered(words, KUBECONFIG=str(hub.kubeconfig))
    assert names[: len(expected)] == expected
    if "crds" not in words:
        assert names == expected


def test_completion_uses_the_hub_of_the_command_line(hub: HubAddress, tmp_path: Path) -> None:
    words = f"fairway get clusters --kubeconfig {hub.kubeconfig} c"
    assert offered(words, KUBECONFIG=str(tmp_path / "missing")) == ["c1", "c2"]


def test_completion_is_silent_without_a_responding_hub(hub: HubAddress, tmp_path: Path) -> None:
    words = "fairway get clusters c"
    assert offered(words, KUBECONFIG=str(tmp_path / "missing"), HOME=str(tmp_path)) == []
    broken = tmp_path / "broken"
    broken.write_text("{")
    assert offered(words, KUBECONFIG=str(broken)) == []
    path = tmp_path / "kubeconfig"
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts the connection and sends nothing
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        write_kubeconfig(path, url=url, ca_file=hub.authority, user="eve", token="none")
        assert offered(words, patience=TIMEOUT_SECONDS, KUBECONFIG=str(path)) == []
    assert offered(words, KUBECONFIG=str(path)) == []
    write_kubeconfig(path, url=hub.url, ca_file=hub.authority, user="eve", token="none")
    assert offered(words, KUBECONFIG=str(path)) == []


def test_completion_runs_no_exec_plugin(hub: HubAddress, tmp_path: Path) -> None:
    """An interactive exec plugin has no terminal, and a slow one is not awaited."""
    for mode, command in (
        ("Always", "echo asking >&2; cat"),
        ("IfAvailable", "echo asking >&2; cat; exec sleep 60"),
    ):
        path = tmp_path / f"{mode}.kubeconfig"
        path.write_text(
            f"""\
clusters: [{{name: x, cluster: {{server: {hub.url}, certificate-authority: {hub.authority}}}}}]
users:
- name: x
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: sh
      args: [-c, "{command}"]
      interactiveMode: {mode}
contexts: [{{name: x, context: {{cluster: x, user: x}}}}]
current-context: x
"""
        )
        assert offered("fairway get clusters c", patience=TIMEOUT_SECONDS, KUBECONFIG=str(path)) == []
