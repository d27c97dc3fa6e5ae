"""The programs of the tier are built whole or not at all, once, and found. Needs no Go: a script plays it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kube.tools import build
from rigs.kube_tools import Tools

# Logs its arguments. Before it builds kube-apiserver, it reports that and waits for the test.
GO = """\
#!/bin/sh
set -e
echo "$*" >> "$FAKE/calls"
case "$1" in
list) echo "$FAKE/module" ;;
build)
  case "$*" in *kube-apiserver*) echo $$ > "$FAKE/waits"; read _ < "$FAKE/goes-on" ;; esac
  [ ! -e "$FAKE/breaks" ]
  echo program > "$3" ;;
esac
"""


class Go:
    """A Go toolchain that compiles nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        script = folder / "bin" / "go"
        script.write_text(GO, encoding="utf-8")
        script.chmod(0o755)
        for extra in build.EXTRAS:
            file = folder / "module" / extra.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("stage", encoding="utf-8")
        os.mkfifo(folder / "waits")
        os.mkfifo(folder / "goes-on")
        self.cache = folder / "cache"
        self.environ = {
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            "FAKE": str(folder),
            "FAIRWAY_KUBE_CACHE": str(self.cache),
        }

        self.started: list[subprocess.Popen[str]] = []

    def start(self) -> "subprocess.Popen[str]":
        command = [sys.executable, build.__file__]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            command, env=self.environ, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )
        self.started.append(process)
        return process

    def wait(self) -> int:
        """Wait until the build of kube-apiserver begins; return the process to kill if the test fails."""
        return int((self.folder / "waits").read_text(encoding="ascii"))

    def go_on(self) -> None:
        (self.folder / "goes-on").write_text("\n", encoding="ascii")

    @property
    def calls(self) -> list[str]:
        return [line.split()[0] for line in (self.folder / "calls").read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def go(tmp_path: Path) -> Iterator[Go]:
    folder = tmp_path / "go"
    folder.mkdir()
    go = Go(folder)
    yield go
    for process in go.started:
        with suppress(ProcessLookupError):  # only where a test failed is anything left
            os.killpg(process.pid, signal.SIGKILL)


def finished(process: "subprocess.Popen[str]") -> tuple[str, str]:
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output.strip(), errors


def test_tool_build_reports_progress_and_folder(go: Go) -> None:
    building = go.start()
    go.wait()
    go.go_on()
    output, errors = finished(building)
    folder = go.cache / build.stamp() / "bin"
    assert output == str(folder)
    names = {program.name for program in build.PROGRAMS} | {Path(extra.path).name for extra in build.EXTRAS}
    assert {path.name for path in folder.iterdir()} == names
    for program in build.PROGRAMS:
        version = program.version(modules=build.HERE)
        assert re.search(rf"^==> {program.name} {re.escape(version)} \(\d+ s\)$", errors, re.MULTILINE)
    assert Tools.find(*names, environ=go.environ).folder.resolve() == folder.resolve()


def test_tools_are_not_built_twice(go: Go) -> None:
    building = go.start()
    go.wait()
    go.go_on()
    finished(building)
    calls = go.calls
    assert finished(go.start())[0] == str(go.cache / build.stamp() / "bin")
    assert go.calls == calls


def test_changed_tool_versions_use_another_folder(tmp_path: Path) -> None:
    for folder in {program.folder for program in build.PROGRAMS}:
        (tmp_path / folder).mkdir()
        for name in ("go.mod", "go.sum"):
            (tmp_path / folder / name).write_bytes((build.HERE / folder / name).read_bytes())
    assert build.stamp(modules=tmp_path) == build.stamp()
    with (tmp_path / "kwok" / "go.sum").open("a") as sums:
        sums.write("\n")
    assert build.stamp(modules=tmp_path) != build.stamp()
    assert build.stamp().startswith("v1.36.3-")


def test_every_kubernetes_staging_module_is_of_the_release() -> None:
    text = (build.HERE / "kubernetes" / "go.mod").read_text(encoding="utf-8")
    release = next(program for program in build.PROGRAMS if program.name == "kubectl").version(
        modules=build.HERE
    )
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) == 30
    assert {(old == new, version) for old, new, version in replaced} == {(True, release.replace("v1", "v0"))}


@pytest.mark.parametrize(
    ("arguments", "ci", "status"), [([], "", 1), (["--optional"], "", 0), (["--optional"], "true", 1)]
)
def test_missing_go_is_reported(
    arguments: list[str],
    ci: str,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in {
        "PATH": "",
        "CI": ci,
        "FAIRWAY_KUBE_CACHE": str(tmp_path),
        "KUBEBUILDER_ASSETS": "",
    }.items():
        monkeypatch.setenv(name, value)
    assert build.main(arguments) == status
    assert build.NO_GO in capsys.readouterr().err


@pytest.mark.parametrize(("ci", "verdict"), [("", "skipped"), ("true", "error")])
def test_missing_tools_skip_kube_tests_locally_and_fail_them_in_ci(
    ci: str, verdict: str, tmp_path: Path
) -> None:
    """The marker is not in the file: the real hub's fixture adds it."""
    environ = {**os.environ, "CI": ci, "KUBEBUILDER_ASSETS": str(tmp_path)}
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "-m", "kube", "-k", "release"]
    tests = str(Path(__file__).parent / "test_real_hub.py")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, tests],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"1 {verdict}" in run.stdout
    assert f"kube-apiserver, etcd, kubectl not found in {tmp_path}" in run.stdout
    assert run.returncode == (1 if ci else 0)
