"""Commands in the docs print the documented output, and code in the docs runs."""

import os
import re
import shlex
from pathlib import Path

import house
import pytest

import forked

ROOT = Path(__file__).parent.parent
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


def shown(document: str) -> list[tuple[str, str]]:
    """Return the commands of a document with their output."""
    commands: list[tuple[str, str]] = []
    for block in CONSOLE.findall((ROOT / document).read_text(encoding="utf-8")):
        command, _, output = block.partition("\n")
        if command.startswith("$ fairway ") and output.strip() and not output.startswith("$ "):
            commands.append((command.removeprefix("$ "), output))
    return commands


@pytest.mark.parametrize(
    ("command", "output"),
    [*shown("docs/start/from-files.md"), *shown("docs/how-to/hosting.md"), *shown("docs/how-to/what-if.md")],
    ids=lambda text: text[:60],
)
def test_page_shows_actual_output(command: str, output: str) -> None:
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    run = forked.run(shlex.split(command)[1:], cwd=ROOT, env=environment)
    assert run.stdout.rstrip() == output.rstrip()
    # A plan with moves ends with 2.
    assert run.returncode in ((0, 2) if " plan " in command else (0, 1))


def test_readme_has_examples() -> None:
    assert len(shown("docs/start/from-files.md")) >= 4


def test_links_between_docs_exist() -> None:
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def paths_in(text: str) -> list[str]:
    """Return the files and folders of this repository that a text names."""
    quoted = re.findall(r"`([\w./-]+/[\w./-]+|[\w-]+/[\w./-]*/)`", text)
    return [path for path in quoted if path.endswith("/") or "." in path.rpartition("/")[2]]


def test_paths_in_contributing_exist() -> None:
    paths = paths_in(CONTRIBUTING)
    assert len(paths) > 90
    roots = (ROOT, ROOT / "src" / "fairway")
    assert [path for path in paths if not any((root / path).exists() for root in roots)] == []


@pytest.mark.parametrize(
    "way", ["a score to a decision", "a request to a work", "a pod to its binding", "a permit to a migration"]
)
def test_way_through_the_house_has_a_file_for_each_of_its_few_steps(way: str) -> None:
    section = CONTRIBUTING.partition(f"## From {way}\n")[2].partition("\n## ")[0]
    steps = re.findall(r"^\d+\. .*(?:\n   .*)*", section, re.MULTILINE)
    assert 5 <= len(steps) <= 10
    assert [step for step in steps if not paths_in(step)] == []


def test_picture_of_the_house_is_that_of_the_imports() -> None:
    assert house.PICTURE.read_text(encoding="utf-8") == house.draw(*house.read_imports()), (
        "run `make reference`"
    )


def test_every_decision_has_a_number_of_its_own() -> None:
    pages = sorted((ROOT / "docs/decisions").glob("0*.md"))
    assert [page.name[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]
    assert [
        page.name for page in pages if not page.read_text("utf-8").startswith(f"# {page.name[:4]} ")
    ] == []


def test_tests_that_pages_name_exist() -> None:
    named = {
        (path, name)
        for document in ROOT.glob("docs/**/*.md")
        for path, name in re.findall(
            r"`((?:packages/\w+/)?tests/[\w/.]+)::(\w+)`", document.read_text(encoding="utf-8")
        )
    }
    assert len(named) > 60, "the threat model names a test for each bound"
    missing = [
        f"{path}::{name}"
        for path, name in sorted(named)
        if not (ROOT / path).is_file() or f"def {name}(" not in (ROOT / path).read_text(encoding="utf-8")
    ]
    assert missing == []


def test_threat_model_says_of_everyone_what_is_not_prevented() -> None:
    text = (ROOT / "docs/explanation/threat-model.md").read_text(encoding="utf-8")
    sections = text.split("\n## ")[1:]
    assert len(sections) == len(re.findall(r"^\| \[", text, re.MULTILINE))
    assert [section.partition("\n")[0] for section in sections if "**Not prevented:**" not in section] == []
    rows = [
        row
        for row in re.findall(r"^\| .* \|$", text.split("\n## ", 1)[1], re.MULTILINE)
        if "| bounded by |" not in row
    ]
    assert [row for row in rows if not re.search(r"`(packages/\w+/)?tests/", row)] == []


@pytest.mark.parametrize("page", ["explanation/framework", "explanation/machines", "reference/pod-plugins"])
def test_python_example_of_a_page_runs(page: str) -> None:
    (source,) = PYTHON.findall((ROOT / f"docs/{page}.md").read_text(encoding="utf-8"))
    exec(source, {})


def test_page_about_a_new_kind_of_work_shows_the_code_of_its_test() -> None:
    blocks = PYTHON.findall((ROOT / "docs/how-to/new-kind-of-work.md").read_text(encoding="utf-8"))
    code = (ROOT / "tests/e2e/test_new_kind_of_work.py").read_text(encoding="utf-8")
    assert len(blocks) == 8
    assert [block for block in blocks if block not in code] == []
