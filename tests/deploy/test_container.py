"""The container file and its locks, without building it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

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
    assert set(re.findall(r"^FROM (\S+)", FILE, re.MULTILINE)) == {"${PYTHON}"}


def test_container_runs_as_an_unprivileged_user() -> None:
    last = FILE.rpartition("\nFROM ")[2]
    (user,) = re.findall(r"^USER (\d+):(\d+)$", last, re.MULTILINE)
    assert all(int(part) > 0 for part in user)
    assert f"runAsUser: {user[0]}\n" in (DEPLOY / "workload/deployment.yaml").read_text(encoding="utf-8")


def test_dockerignore_keeps_the_copied_files() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {
        word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", FILE, re.MULTILINE) for word in line.split()
    }
    assert copied == let_in
    assert all((ROOT / path).exists() for path in copied)
