"""Commands in the docs print the documented output, and code in the docs runs."""

import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import forked
from fairway.engine import cycle
from fairway.engine.points import Weighted
from fairway.engine.profile import assemble
from fairway.placement import PlacementWorkload
from fairway.testing.builders import cluster, placement
from fairway.whatif.world import World

ROOT = Path(__file__).parent.parent
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


def shown(document: str) -> list[tuple[str, str]]:
    """Return the commands of a document with their output."""
    found: list[tuple[str, str]] = []
    for block in CONSOLE.findall((ROOT / document).read_text(encoding="utf-8")):
        command, _, output = block.partition("\n")
        if command.startswith("$ fairway ") and output.strip() and not output.startswith("$ "):
            found.append((command.removeprefix("$ "), output))
    return found


@pytest.mark.parametrize(
    ("command", "output"),
    [*shown("docs/start/from-files.md"), *shown("docs/how-to/hosting.md")],
    ids=lambda text: text[:60],
)
def test_page_shows_actual_output(command: str, output: str) -> None:
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    run = forked.run(shlex.split(command)[1:], cwd=ROOT, env=environment)
    assert run.stdout.rstrip() == output.rstrip()
    assert run.returncode in (0, 1)


def test_readme_has_examples() -> None:
    assert len(shown("docs/start/from-files.md")) >= 4


def test_links_between_docs_exist() -> None:
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_paths_in_contributing_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:src|tests|docs|tools|deploy)/[\w./-]+)`", text))
    assert len(paths) > 40
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", ["explanation/framework", "explanation/machines", "reference/pod-plugins"])
def test_python_example_of_a_page_runs(page: str) -> None:
    (source,) = PYTHON.findall((ROOT / f"docs/{page}.md").read_text(encoding="utf-8"))
    exec(source, {})


def test_example_plugin_of_contributing_works() -> None:
    (source,) = PYTHON.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    module: dict[str, Any] = {}
    exec(source, module)
    world = World(
        [
            cluster("dear", labels={"example.com/cents-per-core": "9"}),
            cluster("cheap", labels={"example.com/cents-per-core": "3"}),
            cluster("unknown"),
        ]
    )
    profile = assemble(name="by price", scores=(Weighted(module["Cheapest"](), 1),))
    outcome = cycle.run(world.fleet.snapshot(), PlacementWorkload(placement()), profile, now=0)
    assert outcome.totals_by_name() == {"cheap": -3, "dear": -9, "unknown": 0}
