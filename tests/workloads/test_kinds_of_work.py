"""Each kind of work has the same inner names, and describes itself under the same headings."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import fairway.workloads

SCHEDULED = ["hosting", "placement", "pods"]
"""Kinds that are workloads of the engine. Machines run in pods, which the profiles of pods place."""
KINDS = [*SCHEDULED, "machines"]
HEADINGS = ["Work", "Data flow", "Modules", "Words", "Laws"]
FOLDER = Path(fairway.workloads.__file__).parent


def description(kind: str) -> str:
    return import_module(f"fairway.workloads.{kind}").__doc__ or ""


@pytest.mark.parametrize("kind", KINDS)
def test_kind_of_work_describes_itself_under_the_shared_headings(kind: str) -> None:
    assert re.findall(rf"^({'|'.join(HEADINGS)})[:,]", description(kind), re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("kind", SCHEDULED)
def test_kind_of_work_has_the_shared_modules(kind: str) -> None:
    assert {"workload.py", "profile.py"} <= {path.name for path in (FOLDER / kind).glob("*.py")}
    assert list((FOLDER / kind / "plugins").glob("*.py")), "one file for each plugin"


@pytest.mark.parametrize("kind", KINDS)
def test_every_module_of_a_kind_of_work_is_described(kind: str) -> None:
    modules = {path.stem for path in (FOLDER / kind).glob("*.py")} - {"__init__"}
    assert modules - set(re.findall(r"``(\w+)``", description(kind))) == set()
