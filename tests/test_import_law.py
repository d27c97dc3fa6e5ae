"""The import contracts hold, and each detects a violation."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def check(checkout: Path) -> subprocess.CompletedProcess[str]:
    sources = [checkout / "src", *sorted(checkout.glob("packages/*/src"))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sources))}
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as run; run()",
        "--no-cache",
    ]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


def copy_of_the_sources(target: Path) -> Path:
    for source in (ROOT / "src", *ROOT.glob("packages/*/src")):
        shutil.copytree(
            source, target / source.relative_to(ROOT), ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", target)
    return target


def test_import_contracts_are_kept(tmp_path: Path) -> None:
    result = check(copy_of_the_sources(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("api/cluster.py", "import fairway.hosts.clusters.fleet", "imports go down only"),
        ("kubewire/api/quantity.py", "import fairway.api.cluster", "packages import nothing of Fairway"),
        ("kubewire/api/quantity.py", "import kubewire.client.rest", "kubewire: imports go down only"),
        ("kubecel/program.py", "import kubewire.client.rest", "the pure layers do no I/O"),
        ("engine/cycle.py", "import fairway.workloads.placement.plugins.steady", "imports go down only"),
        (
            "engine/cycle.py",
            "import fairway.hosts.clusters.snapshot",
            "the table and the engine know no kind",
        ),
        ("hosts/table.py", "import fairway.api.cluster", "the table and the engine know no kind"),
        ("workloads/placement/plugins/steady.py", "import asyncio", "the pure layers do no I/O"),
        ("hosts/journal.py", "import fairway.hosts.nodes.fleet", "the table knows no kind of host"),
        (
            "workloads/pods/workload.py",
            "import fairway.workloads.machines.machine",
            "kinds of work are siblings",
        ),
        (
            "workloads/placement/pages.py",
            "import fairway.workloads.hosting.requests.demand",
            "placement knows no hosting",
        ),
        (
            "workloads/machines/machine.py",
            "import fairway.workloads.placement.pages",
            "only hosting uses filters of placement",
        ),
        (
            "controllers/scores/staleness.py",
            "import fairway.controllers.recovery.policy",
            "controllers do not import each other",
        ),
        ("kubehub/serialization/body.py", "import kubehub.serving.head", "kubehub: imports go down only"),
        ("kubehub/storage/entry.py", "import kubehub.storage.log", "kubehub: no import cycles"),
    ],
)
def test_forbidden_import_breaks_its_contract(tmp_path: Path, module: str, line: str, contract: str) -> None:
    checkout = copy_of_the_sources(tmp_path)
    package = module.partition("/")[0]
    folder = f"packages/{package}/src" if package.startswith("kube") else "src/fairway"
    with (checkout / folder / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    result = check(checkout)
    assert result.returncode == 1
    assert f"{contract} BROKEN" in result.stdout
