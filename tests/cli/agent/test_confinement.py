"""An agent that a ManifestWork started reads no foreign files and runs no programs."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.cli.agent.confinement import ELSEWHERE, NO_CONFIG, NO_PROGRAM
from fairway.cli.main import run

Capture = pytest.CaptureFixture[str]


def kubeconfig(
    folder: Path, *, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None
) -> Path:
    document = {
        "current-context": "hub",
        "clusters": [{"name": "hub", "cluster": {"server": "https://127.0.0.1:9", **(cluster or {})}}],
        "users": [{"name": "agent", "user": {"token": "secret"} if user is None else user}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "agent"}}],
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return file


def agent(file: Path, folder: Path, *more: str) -> int:
    return run(
        [
            *("agent", "run", f"--hub-kubeconfig={file}", "--cluster-name=c1", *more),
            *(f"--kubeconfig={file}", f"--confined-to={folder}"),
        ]
    )


def test_confined_agent_rejects_exec_plugins(tmp_path: Path, capsys: Capture) -> None:
    marker = tmp_path / "ran"
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/sh",
        "args": ["-c", f"touch {marker}"],
        "interactiveMode": "Never",
    }
    file = kubeconfig(tmp_path / "volumes" / "hub", user={"exec": plugin})
    assert agent(file, tmp_path / "volumes") == 2
    shown = capsys.readouterr().err
    assert NO_PROGRAM in shown
    assert "users[agent].user.exec" in shown
    assert not marker.exists()


@pytest.mark.parametrize(
    "path", ["{tmp}/secret", "../../secret", "x/../../../secret", "/etc/hostname", "../../volumes2/x"]
)
@pytest.mark.parametrize("field", ["tokenFile", "client-certificate", "client-key", "certificate-authority"])
def test_confined_agent_rejects_files_outside_its_folder(
    tmp_path: Path, capsys: Capture, field: str, path: str
) -> None:
    (tmp_path / "secret").write_text("hunter2")
    folder, given = tmp_path / "volumes" / "hub", path.format(tmp=tmp_path)
    part = {field: given}
    if field == "certificate-authority":
        file = kubeconfig(folder, cluster=part)
    else:
        file = kubeconfig(folder, user={"client-certificate": "tls.crt", "client-key": "tls.key", **part})
    assert agent(file, tmp_path / "volumes") == 2
    shown = capsys.readouterr().err
    assert ELSEWHERE.partition("}")[2] in shown
    assert "hunter2" not in shown


def test_confined_agent_checks_every_user_of_the_kubeconfig(tmp_path: Path, capsys: Capture) -> None:
    file = kubeconfig(tmp_path / "hub")
    document = yaml.safe_load(file.read_text())
    document["users"].append({"name": "other", "user": {"tokenFile": "/etc/hostname"}})
    file.write_text(yaml.safe_dump(document))
    assert agent(file, tmp_path) == 2
    assert "users[other].user.tokenFile" in capsys.readouterr().err


@pytest.mark.parametrize("provider", ["{tmp}/evil.py", "evil:made", "evil.py"])
def test_confined_agent_rejects_providers_in_files(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    marker = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(marker)!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    file = kubeconfig(tmp_path / "hub")
    assert agent(file, tmp_path, "--providers", provider.format(tmp=tmp_path)) == 2
    assert "is not the name of an installed provider" in capsys.readouterr().err
    assert not marker.exists()


def test_confined_agent_rejects_a_config_file(tmp_path: Path, capsys: Capture) -> None:
    options = tmp_path / "options.yaml"
    options.write_text("forecast: {provider: evil.py}")
    file = kubeconfig(tmp_path / "hub")
    assert agent(file, tmp_path, "--providers=forecast", f"--config={options}") == 2
    assert NO_CONFIG in capsys.readouterr().err
