"""Every recorded expression: compile result and position, type, value or error, and cost.

tests/golden/cel.jsonl and data/oracle.jsonl have results of the reference environment (cel-go 0.29, the Kubernetes CEL
libraries 0.35 and OCM's functions). They were recorded by running it. The reference iterates maps in random order; if
that affects a cost, the cost of any order is accepted.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from every import every
from kubecel import CompileError, Environment, InstantiationError, Program, ScoreSource

_HERE = Path(__file__).parent
_POSITION = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): ")


def _rows(path: Path) -> list[dict[str, Any]]:
    with path.open() as lines:
        rows = [json.loads(line) for line in lines]
    return [row for row in rows if "expr" in row]


ROWS = _rows(_HERE.parents[2] / "tests" / "golden" / "cel.jsonl") + _rows(_HERE / "data" / "oracle.jsonl")


@every("row", [r for r in ROWS if r["compile"] == "error"], ids=lambda row: row["expr"][:60])
def test_compile_errors_have_recorded_positions(environment: Environment, row: dict[str, Any]) -> None:
    with pytest.raises(CompileError) as caught:
        environment.compile(row["expr"])
    position = _POSITION.match(row["message"])
    assert position is not None
    assert str(caught.value).startswith(position.group())
    assert (caught.value.line, caught.value.column) == tuple(map(int, position.groups()))
    assert not isinstance(caught.value, InstantiationError)


@every("row", [r for r in ROWS if r["compile"] == "ok"], ids=lambda row: row["expr"][:60])
def test_evaluation_matches_recorded_result_and_cost(
    environment: Environment, inputs: list[dict[str, Any]], scores: ScoreSource, row: dict[str, Any]
) -> None:
    program = environment.compile(row["expr"])
    assert program.result_type == row["type"]
    for variables, expected in zip(inputs, row["results"], strict=True):
        outcome = program.evaluate(variables, context=scores)
        assert (outcome.error is not None) == ("error" in expected), outcome
        if "value" in expected:
            # JSON does not distinguish a large double from an integer.
            value = expected["value"]
            assert outcome.value == (float(value) if isinstance(outcome.value, float) else value)
            assert isinstance(outcome.value, bool) == isinstance(expected["value"], bool)
        if outcome.cost != expected["cost"]:
            assert expected["cost"] in _possible(program, variables, scores)


def _possible(program: Program, variables: dict[str, Any], scores: ScoreSource) -> set[int]:
    return program.possible_costs(variables, context=scores)


def test_recorded_cel_files_are_complete() -> None:
    assert len(ROWS) > 900
