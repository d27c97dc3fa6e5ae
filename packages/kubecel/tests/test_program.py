from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubecel import CompileError, Environment, EvaluationError, cluster_environment
from kubecel.source import Issue, Source
from kubecel.types import DYN, INT, STRING, list_of, map_of


def evaluate(text: str, **variables: object) -> object:
    outcome = cluster_environment().compile(text).evaluate({"managedCluster": variables})
    assert outcome.error is None, outcome.error
    return outcome.value


def failure(text: str, **variables: object) -> str:
    outcome = cluster_environment().compile(text).evaluate({"managedCluster": variables})
    assert outcome.error is not None
    assert outcome.value is None
    return str(outcome.error)


def test_environment_with_typed_variables_checks_types() -> None:
    environment = Environment(variables={"n": INT, "names": list_of(STRING), "any": map_of(STRING, DYN)})
    program = environment.compile("n + size(names) > 2 && any.x == n")
    assert program.result_type == "bool"
    assert program.evaluate({"n": 2, "names": ["a"], "any": {"x": 2}}).value is True
    with pytest.raises(CompileError, match="undeclared reference to 'managedCluster'"):
        environment.compile("managedCluster")


def test_missing_variable_is_an_evaluation_error() -> None:
    outcome = cluster_environment().compile("managedCluster.a == 1").evaluate({})
    assert isinstance(outcome.error, EvaluationError)


def test_compile_error_lists_every_problem_with_its_position() -> None:
    with pytest.raises(CompileError) as caught:
        cluster_environment().compile("nope == 1 &&\n  'é' + 1 == 2")
    assert str(caught.value).splitlines() == [
        "ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')",
        " | nope == 1 &&",
        " | ^",
        "ERROR: <input>:2:7: found no matching overload for '_+_' applied to '(string, int)'",
        " |   'é' + 1 == 2",
        " | ...．..^",
    ]
    assert (caught.value.line, caught.value.column) == (1, 1)


def test_compile_errors_at_the_same_position_keep_their_order() -> None:
    error = Source("a").error([Issue(0, "second by name"), Issue(0, "first by name")])
    assert (error.message, error.line, error.column) == ("second by name", 1, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("managedCluster.a && managedCluster.missing", False),
        ("managedCluster.missing || true", True),
        ("true || managedCluster.missing", True),
    ],
)
def test_logical_operators_absorb_failures(text: str, expected: bool) -> None:
    assert evaluate(text, a=False) is expected


def test_bool_never_equals_a_number() -> None:
    assert evaluate("dyn(true) == dyn(1)") is False
    assert evaluate("managedCluster.t in [1, 0]", t=True) is False
    assert evaluate("{true: 'b', 1: 'i'}[dyn(1)]") == "i"


def test_python_tuple_is_a_cel_list() -> None:
    assert evaluate("managedCluster.xs.map(x, x * 2) == [2, 4]", xs=(1, 2)) is True


def test_possible_costs_cover_every_map_order() -> None:
    program = cluster_environment().compile("managedCluster.exists(k, k == 'a')")
    variables = {"managedCluster": {"a": 1, "b": 1, "c": 1}}
    assert program.possible_costs(variables) == {11, 17, 20}
    assert program.evaluate(variables).cost in program.possible_costs(variables)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_integer_overflow_is_an_error(a: int, b: int) -> None:
    for symbol, exact in (("+", a + b), ("-", a - b), ("*", a * b)):
        outcome = (
            cluster_environment()
            .compile(f"managedCluster.a {symbol} managedCluster.b")
            .evaluate({"managedCluster": {"a": a, "b": b}})
        )
        if -(2**63) <= exact < 2**63:
            assert outcome.value == exact
        else:
            assert str(outcome.error) == "integer overflow"


@settings(max_examples=50)
@given(st.text(max_size=60))
def test_random_text_compiles_or_raises_compile_error(text: str) -> None:
    try:
        cluster_environment().compile(text)
    except CompileError as error:
        assert str(error).startswith("ERROR: <input>:")  # noqa: PT017 - either outcome is fine


@given(st.text(alphabet="()[]{}.,?:!-+*/%&|=<>'\"\\ab1 \n", max_size=40))
def test_random_punctuation_compiles_or_raises_compile_error(text: str) -> None:
    try:
        cluster_environment().compile(text)
    except CompileError as error:
        assert error.line == -1 or error.column >= (1 if text else 0)  # noqa: PT017 - either outcome is fine
