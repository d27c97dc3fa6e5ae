"""Hostile expressions end with an error, without a stall or crash."""

from __future__ import annotations

import sys

import pytest

from kubecel import (
    CompileError,
    CostLimitExceeded,
    InstantiationError,
    WorkLimitExceeded,
    cluster_environment,
)
from kubecel.checker import TYPE_TOO_LARGE
from kubecel.parser import EXPANDED_TOO_FAR, RULE_DEPTH_EXCEEDED, TREE_DEPTH_EXCEEDED

N = 10_000


def refusal(text: str) -> CompileError:
    with pytest.raises(CompileError) as caught:
        cluster_environment().compile(text)
    return caught.value


@pytest.mark.parametrize(
    "text",
    [
        "(" * N + "1" + ")" * N,
        "(" * N,
        "[" * N + "]" * N,
        "{1:" * N + "1" + "}" * N,
        "dyn(" * N + "1" + ")" * N,
        "true ? 1 : " * (N // 2) + "1",
        "".join(f"[1].all(x{i}, " for i in range(400)) + "true" + ")" * 400,
    ],
    ids=["parentheses", "open parentheses", "lists", "maps", "calls", "conditionals", "comprehensions"],
)
def test_expression_nesting_is_limited(text: str) -> None:
    error = refusal(text)
    assert error.message == RULE_DEPTH_EXCEEDED
    assert (error.line, error.column) == (-1, 0)


@pytest.mark.parametrize(
    "text",
    ["managedCluster" + ".a" * N, "managedCluster" + "[0]" * N, "+".join(["1"] * N), "==".join(["1"] * N)],
    ids=["fields", "indices", "sums", "equalities"],
)
def test_operator_chains_are_limited(text: str) -> None:
    assert refusal(text).message == TREE_DEPTH_EXCEEDED


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("(" * 249 + "1" + ")" * 249, True),
        ("(" * 250 + "1" + ")" * 250, False),
        ("[" * 250 + "]" * 250, True),
        ("[" * 251 + "]" * 251, False),
        ("managedCluster" + ".a" * 250, True),
        ("managedCluster" + ".a" * 251, False),
        ("1" + "+1" * 250, True),
        ("1" + "+1" * 251, False),
        ("!" * N + "true", True),
        ("-" * N + "1", True),
        ("&&".join(["true"] * N), True),
    ],
)
def test_nesting_limits_equal_the_reference(text: str, accepted: bool) -> None:
    if accepted:
        cluster_environment().compile(text)
    else:
        refusal(text)


def test_deepest_expression_leaves_recursion_limit_unchanged() -> None:
    before = sys.getrecursionlimit()
    nest = 240
    program = cluster_environment().compile(
        "".join(f"[1].all(x{i}, true && " for i in range(nest)) + "true" + ")" * nest
    )
    assert program.evaluate({}).value is True
    assert sys.getrecursionlimit() == before


def test_expression_size_is_limited() -> None:
    assert "size exceeds limit" in refusal("1" * 100_001).message
    cluster_environment().compile('"' + "a" * 99_998 + '"')


def test_macro_expansion_size_is_limited() -> None:
    assert refusal("optional.of(1)" + ".optMap(x, x)" * 60).message == EXPANDED_TOO_FAR


def test_type_size_is_limited() -> None:
    assert refusal("[1]" + ".map(x, {x: x})" * 60).message == TYPE_TOO_LARGE


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"[1,2,3,4,5,6,7,8,9,10].exists(x{i}, " for i in range(50)) + "false" + ")" * 50,
        "".join(f"[1,2,3,4,5,6,7,8,9,10].map(x{i}, " for i in range(50)) + "1" + ")" * 50,
        "[[1]]" + ".map(x, x + x)" * 100 + "[0].exists(x, x == 2)",
        "[[1]]" + ".map(x, x + x)" * 100 + "[0].sum() > 0",
        "dyn(2) in dyn([[1]]" + ".map(x, x + x)" * 100 + "[0])",
        "[1]" + ".map(x, [x, x])" * 60 + " == [1]" + ".map(x, [x, x])" * 60,
        "'%s'.format([1]" + ".map(x, [x, x])" * 60 + ")",
        "['ab']" + ".map(x, x + x)" * 200 + "[0].size()",
        "['ab']" + ".map(x, x + x)" * 14 + ".map(x, x.replace('a', x))[0].size()",
        "['ab']" + ".map(x, x + x)" * 18 + ".map(x, x.split('').join(x))[0].size()",
        "['" + "a" * 1000 + "']" + ".map(x, x + x)" * 12 + ".map(x, x.findAll('a(.*b)?'))[0].size()",
    ],
)
def test_evaluation_of_exponential_expression_ends_at_limit(text: str) -> None:
    outcome = cluster_environment().compile(text).evaluate({})
    assert isinstance(outcome.error, CostLimitExceeded | WorkLimitExceeded)


def test_cost_limit_is_exact() -> None:
    program = cluster_environment().compile("[1, 2, 3].all(x, x > 0)")
    cost = program.evaluate({}).cost
    assert program.evaluate({}, cost_limit=cost).error is None
    over = program.evaluate({}, cost_limit=cost - 1)
    assert isinstance(over.error, CostLimitExceeded)
    assert over.cost == cost
    assert program.evaluate({}, cost_limit=None).value is True


def test_logical_operators_do_not_absorb_cost_limit() -> None:
    program = cluster_environment().compile("[1, 2, 3].all(x, x > 0) || true")
    assert isinstance(program.evaluate({}, cost_limit=12).error, CostLimitExceeded)


@pytest.mark.parametrize(
    "pattern", ["(", "a{1001}", "(a{1000}){1000}", "\\\\C", "(?=a)", "(" * 2000 + ")" * 2000]
)
def test_invalid_regular_expression_fails(pattern: str, capfd: pytest.CaptureFixture[str]) -> None:
    outcome = cluster_environment().compile(f"'a'.matches('{pattern}')").evaluate({})
    assert outcome.error is not None
    assert capfd.readouterr().err == ""


def test_invalid_constant_pattern_of_find_is_a_compile_error() -> None:
    with pytest.raises(InstantiationError, match="regexp"):
        cluster_environment().compile("'a'.find('(')")


def test_backtracking_pattern_matches_in_linear_time() -> None:
    text = "'" + "a" * 3000 + "b'.matches('^(a+)+$')"
    assert cluster_environment().compile(text).evaluate({}).value is False


@pytest.mark.parametrize(("depth", "works"), [(900, True), (9_999, True), (10_001, False), (40_000, False)])
def test_nesting_of_parsed_json_is_limited(depth: int, works: bool) -> None:
    text = "[" * depth + "]" * depth
    outcome = (
        cluster_environment()
        .compile("managedCluster.x.parseJSON().size()")
        .evaluate({"managedCluster": {"x": text}})
    )
    assert (outcome.error is None) == works
