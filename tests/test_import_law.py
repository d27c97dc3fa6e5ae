"""The import contracts hold, and each detects a violation."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def check(checkout: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as run; run()",
        "--no-cache",
    ]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


def copy_of_the_sources(target: Path) -> Path:
    shutil.copytree(ROOT / "src", target / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", target)
    return target


def test_import_contracts_are_kept(tmp_path: Path) -> None:
    found = check(copy_of_the_sources(tmp_path))
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("api/quantity.py", "import fairway.clusters.fleet", "imports go down only"),
        ("cel/program.py", "import fairway.clusters.fleet", "imports go down only"),
        ("engine/cycle.py", "import fairway.plugins.steady", "imports go down only"),
        (
            "engine/cycle.py",
            "import fairway.clusters.snapshot",
            "the table and the engine know no kind of host",
        ),
        ("fleet/table.py", "import fairway.api.cluster", "the table and the engine know no kind of host"),
        ("plugins/steady.py", "import asyncio", "the pure layers do no I/O"),
        (
            "controllers/scores/staleness.py",
            "import fairway.controllers.recovery.policy",
            "controllers do not import each other",
        ),
        ("hub/serialization/body.py", "import fairway.hub.serving.head", "hub: imports go down only"),
        ("hub/storage/entry.py", "import fairway.hub.storage.log", "hub: no import cycles"),
    ],
)
def test_forbidden_import_breaks_its_contract(tmp_path: Path, module: str, line: str, contract: str) -> None:
    checkout = copy_of_the_sources(tmp_path)
    with (checkout / "src" / "fairway" / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    found = check(checkout)
    assert found.returncode == 1
    assert f"{contract} BROKEN" in found.stdout
