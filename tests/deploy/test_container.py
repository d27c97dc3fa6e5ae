"""What a release has beside the wheels: the image, without building it, and the krew plugin."""

import hashlib
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
FILE = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
PIN = re.compile(r"^([a-z0-9-]+)==(\S+)(?: ; (.*?))? \\$", re.MULTILINE)


def pins(lock: Path) -> dict[tuple[str, str], tuple[str, frozenset[str]]]:
    """Return hashes and markers by package and version."""
    text = lock.read_text(encoding="utf-8")
    starts = [*PIN.finditer(text)]
    ends = [start.start() for start in starts[1:]] + [len(text)]
    return {
        (match[1], match[2]): (match[3] or "", frozenset(re.findall(r"sha256:\w+", text[match.end() : end])))
        for match, end in zip(starts, ends, strict=True)
    }


@pytest.mark.parametrize("name", ["requirements.lock", "build.lock"])
def test_container_uses_the_tested_versions(name: str) -> None:
    tested, shipped = pins(ROOT / "requirements-dev.lock"), pins(DEPLOY / name)
    assert shipped
    for package, (_, hashes) in shipped.items():
        assert hashes == tested[package][1]
        assert hashes


def test_locks_contain_the_required_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    command = [sys.executable, "tools/runtime_requirements.py"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    asked = {re.split(r"[<>=]", requirement)[0] for requirement in printed.splitlines() if requirement}
    assert {"numpy", "aiohttp", "google-re2"} <= asked
    assert asked <= {name for name, _ in pins(DEPLOY / "requirements.lock")}
    backend = {re.split(r"[<>=]", requirement)[0] for requirement in project["build-system"]["requires"]}
    assert backend <= {name for name, _ in pins(DEPLOY / "build.lock")}


def test_container_base_images_have_no_registry() -> None:
    """The builder chooses the registry."""
    (base,) = re.findall(r"^ARG PYTHON=(\S+)$", FILE, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+-slim", base)
    assert set(re.findall(r"^FROM (\S+)", FILE, re.MULTILINE)) == {"${PYTHON}", "scratch"}


def test_container_runs_as_an_unprivileged_user() -> None:
    last = FILE.rpartition("\nFROM ")[2]
    (user,) = re.findall(r"^USER (\d+):(\d+)$", last, re.MULTILINE)
    assert all(int(part) > 0 for part in user)
    assert f"runAsUser: {user[0]}\n" in (DEPLOY / "workload/deployment.yaml").read_text(encoding="utf-8")


def test_container_has_no_shell(tmp_path: Path) -> None:
    """The last stage is a copy of one without it. Its programs are those that run in exec form."""
    *_, runtime, last = FILE.split("\nFROM ")
    assert last.startswith("scratch\nCOPY --from=runtime / /\n")
    assert all(line.startswith('["python", ') for line in re.findall(r"^RUN (.*)$", runtime, re.MULTILINE))
    assert not re.findall(r"^RUN", last, re.MULTILINE)
    assert 'ENTRYPOINT ["fairway"]' in last
    keep = ("usr/bin/env", "usr/local/bin/python3.13", "usr/sbin/ldconfig", "var/lib/dpkg/status")
    delete = ("usr/bin/bash", "usr/bin/dash", "usr/bin/perl5.40", "usr/bin/apt-get", "usr/local/bin/pip3.13")
    for name in (*keep, *delete):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "usr/bin/sh").symlink_to("dash")
    (tmp_path / "bin").symlink_to("usr/bin")
    subprocess.run([sys.executable, str(DEPLOY / "strip.py"), str(tmp_path)], check=True)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == set(keep)
    assert not (tmp_path / "usr/bin/sh").is_symlink()


def test_dockerignore_keeps_the_copied_files() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {
        word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", FILE, re.MULTILINE) for word in line.split()
    }
    assert copied == let_in
    assert all((ROOT / path).exists() for path in copied)


def test_krew_plugin_is_installable(tmp_path: Path) -> None:
    url = "https://example.test/fairway-krew.tar.gz"
    command = [sys.executable, str(DEPLOY / "krew.py"), "--url", url, "--out", str(tmp_path)]
    subprocess.run(command, check=True)
    plugin = yaml.safe_load((tmp_path / "fairway.yaml").read_text(encoding="utf-8"))
    spec = plugin["spec"]
    # The rules of `validate-krew-manifest`.
    assert plugin["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert 0 < len(spec["shortDescription"]) <= 50
    (platform,) = spec["platforms"]
    packed = tmp_path / "fairway-krew.tar.gz"
    assert (platform["uri"], platform["sha256"]) == (url, hashlib.sha256(packed.read_bytes()).hexdigest())
    with tarfile.open(packed) as archive:
        assert sorted(archive.getnames()) == sorted(entry["from"] for entry in platform["files"])
        archive.extractall(tmp_path, filter="data")
    launcher = tmp_path / platform["bin"]
    for path, status in ((str(Path(sys.executable).parent), 0), ("/nowhere", 127)):
        shell = ["/bin/sh", str(launcher), "--version"]
        ran = subprocess.run(shell, env={"PATH": path}, capture_output=True, text=True, check=False)
        assert ran.returncode == status
        assert spec["version"].removeprefix("v") in ran.stdout + ran.stderr
