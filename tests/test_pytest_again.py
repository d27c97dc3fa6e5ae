"""CI runs a few failed tests once more: races are reported, failures remain failures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "pytest_again.py"
PASSES = "def test_passes(): pass\n"
FAILS = "def test_fails(): assert False\n"
RACES = """
from pathlib import Path

def test_races():
    seen = Path(__file__).with_name("seen")
    again = seen.exists()
    seen.touch()
    assert again
"""


def run(folder: Path, module: str) -> tuple[int, str]:
    (folder / "test_module.py").write_text(module, encoding="utf-8")
    command = [sys.executable, str(TOOL), "-q", "-c", "/dev/null", "--rootdir", str(folder), "test_module.py"]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "status", "line"),
    [
        (PASSES, 0, "1 passed"),
        (FAILS, 1, "1 failed; each once more, alone"),
        (RACES, 0, "racy, fix them"),
        ("def test_broken(: pass", 2, "SyntaxError"),
    ],
    ids=["pass", "failure", "race", "broken"],
)
def test_only_a_race_passes_the_second_time(tmp_path: Path, module: str, status: int, line: str) -> None:
    returned, output = run(tmp_path, module)
    assert returned == status
    assert line in output


def test_many_failures_are_not_taken_for_races(tmp_path: Path) -> None:
    tests = "\n".join(
        RACES.replace("test_races", f"test_races_{n}").replace('"seen"', f'"seen{n}"') for n in range(4)
    )
    returned, output = run(tmp_path, tests)
    assert returned == 1
    assert "4 failed" in output
    assert "once more" not in output
