"""docs/how-to/plugins.md as written: its files, its commands with their output, and the package of examples/plugin."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairway.cli.main import run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "plugins.md"
BLOCK = re.compile(r"(?:Write `(?P<name>[\w.-]+)`[^`]*?)?```(?P<kind>\w*)\n(?P<text>.*?)```", re.DOTALL)
PIP = "pip install ./examples/plugin\n"
OFFLINE = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--no-compile")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    yield tmp_path
    for name in ("approval", "cheapest"):
        sys.modules.pop(name, None)


def test_page_of_plugins_shows_what_happens(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = 0
    for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        if block["name"]:
            Path(block["name"]).write_text(block["text"], encoding="utf-8")
        elif block["text"] == PIP:
            command = [
                sys.executable,
                "-m",
                "pip",
                "install",
                *OFFLINE,
                "--target",
                "site",
                "examples/plugin",
            ]
            subprocess.run(command, check=True, cwd=folder)
            monkeypatch.syspath_prepend(str(folder / "site"))
        elif block["kind"] == "console":
            command_line, _, output = block["text"].partition("\n")
            assert run(shlex.split(command_line.removeprefix("$ "))[1:]) == 0
            assert capsys.readouterr().out.rstrip() == output.rstrip()
            commands += 1
    assert commands == 6


def test_template_and_page_register_the_same_entry_point() -> None:
    (shown,) = (block["text"] for block in BLOCK.finditer(PAGE.read_text()) if block["kind"] == "toml")
    assert shown in (ROOT / "examples" / "plugin" / "pyproject.toml").read_text()


def test_template_and_page_have_the_same_plugins_that_commit() -> None:
    (shown,) = (block["text"] for block in BLOCK.finditer(PAGE.read_text()) if block["name"] == "approval.py")
    assert shown == (ROOT / "examples" / "plugin" / "approval.py").read_text()
