"""The Makefile, CI and docs name files and targets that exist, and `make soak` runs all tests that can be longer."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
INTERLEAVED = re.search(r"^INTERLEAVED := (.*)$", MAKEFILE, re.MULTILINE)
SOAKED = re.search(r"^SOAKED := (.*)$", MAKEFILE, re.MULTILINE)
LONGER = re.compile(r"mark\.soak|FAIRWAY_CHAOS\"|import .*\bplay_all\b")
OTHER_PROJECTS = {"images", "deploy"}
"""Targets of the project that docs/tutorials/resource-usage.md compares with."""
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("packages/*/*.md"),
    *ROOT.glob(".github/**/*.*"),
]


def soaked() -> list[Path]:
    assert INTERLEAVED
    assert SOAKED
    paths = f"{SOAKED[1].replace('$(INTERLEAVED)', '')} {INTERLEAVED[1]}".split()
    return [ROOT / path for path in paths]


def test_soaked_paths_exist() -> None:
    assert [path for path in soaked() if not path.exists()] == []


def test_soak_runs_every_test_that_can_be_longer() -> None:
    modules = [
        path for path in ROOT.glob("tests/**/test_*.py") if LONGER.search(path.read_text(encoding="utf-8"))
    ]
    assert len(modules) > 8
    missed = [module for module in modules if not any(module.is_relative_to(path) for path in soaked())]
    assert [str(module.relative_to(ROOT)) for module in missed if module != Path(__file__)] == []


def test_targets_that_pages_and_ci_name_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    commands = re.findall(r"^make (.*)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    for page in PAGES:
        commands += re.findall(
            r"(?:`|^\$ )make ([a-z][a-z -]*)", page.read_text(encoding="utf-8"), re.MULTILINE
        )
    named = {target for command in commands for target in command.split()}
    assert len(named) > 10
    assert named - targets == OTHER_PROJECTS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_of_the_repository_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(
        r"`((?:src|tests|packages|benchmarks|tools|docs|deploy|examples)/[\w./-]+)(?:`| |::)", text
    )
    assert [path for path in named if not (ROOT / path).exists()] == []
