from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kubecel import Program, cluster_environment

MC = "managedCluster"


def compiled(text: str) -> Program:
    return cluster_environment().compile(text)


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("true", set()),
        ("managedCluster.metadata.labels.env == 'x'", {(MC, "metadata", "labels", "env")}),
        ("managedCluster['metadata']['name'] == 'x'", {(MC, "metadata", "name")}),
        ("has(managedCluster.a.b)", {(MC, "a", "b")}),
        ("managedCluster.?a[?'b'].hasValue()", {(MC, "a", "b")}),
        ("managedCluster.a[0].b == 1", {(MC, "a")}),
        ("managedCluster.a.exists(x, x == managedCluster.b)", {(MC, "a"), (MC, "b")}),
        ("managedCluster.a[managedCluster.b] == 1", {(MC, "a"), (MC, "b")}),
        (
            "(managedCluster.a ? managedCluster.b : managedCluster.c).d == 1",
            {(MC, "a"), (MC, "b"), (MC, "c")},
        ),
        ("managedCluster.scores('s').size() > 0", {(MC, "metadata", "name")}),
    ],
)
def test_reads_are_the_constant_paths_of_an_expression(text: str, paths: set[tuple[str, ...]]) -> None:
    assert compiled(text).reads == frozenset(paths)


@pytest.mark.parametrize(
    "text", ["managedCluster == {}", "managedCluster.exists(k, k == 'a')", "size(managedCluster) > 1"]
)
def test_whole_variable_as_value_has_no_read_paths(text: str) -> None:
    assert compiled(text).reads is None


def test_local_variable_of_same_name_is_not_a_read() -> None:
    assert compiled("[{'a': 1}].exists(managedCluster, managedCluster.a == 1)").reads == frozenset()


def test_reads_list_the_names_of_scores() -> None:
    assert compiled(
        "managedCluster.scores('a').size() + managedCluster.scores('b').size() > 0"
    ).score_reads == frozenset("ab")
    assert compiled("managedCluster.scores(managedCluster.metadata.name).size() > 0").score_reads is None
    assert compiled("true").score_reads == frozenset()


# --- property ----------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from(["", "a", "xyz" * 9]), st.just(1.5)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
INPUTS = st.dictionaries(NAMES, VALUES, max_size=3)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: ".".join([MC, *names]))
EXPRESSIONS = st.recursive(
    st.one_of(
        PATHS,
        PATHS.map(lambda path: f"has({path})"),
        st.sampled_from(["1", "'a'", "true", "[1, 2]", "{'a': 1}"]),
        st.tuples(PATHS, NAMES).map(lambda pair: f"{pair[0]}.?{pair[1]}.hasValue()"),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["==", "!=", "&&", "||", "in", "+", "<"]), inner).map(
            lambda t: f"(dyn({t[0]}) {t[1]} dyn({t[2]}))"
        ),
        st.tuples(inner, inner, inner).map(lambda t: f"(dyn({t[0]}) ? dyn({t[1]}) : dyn({t[2]}))"),
        st.tuples(inner, inner).map(lambda t: f"dyn({t[0]}).exists(x, dyn(x) == dyn({t[1]}))"),
        st.tuples(inner, inner).map(lambda t: f"dyn({t[0]})[{t[1]}]"),
        inner.map(lambda e: f"size(dyn({e}))"),
    ),
    max_leaves=5,
)


def seen(variables: dict[str, Any], path: tuple[str, ...]) -> tuple[int, object]:
    """Return how far the path leads, and the value there, or the type of the value that lacks the next name."""
    value: Any = variables
    for depth, name in enumerate(path):
        if not isinstance(value, dict):
            return depth, type(value) is list
        if name not in value:
            return depth, "missing"
        value = value[name]
    return len(path), repr(value)


@given(EXPRESSIONS, INPUTS, INPUTS)
def test_equal_reads_give_equal_outcomes(text: str, one: dict[str, Any], other: dict[str, Any]) -> None:
    program = compiled(text)
    assume(program.reads is not None)
    assert program.reads is not None
    first = {MC: one}
    # Copy the values at the reads, so that both inputs often agree.
    second = {MC: {**other, **{path[1]: one[path[1]] for path in program.reads if path[1] in one}}}
    for path in program.reads:
        if path[1] not in one:
            second[MC].pop(path[1], None)
    assume(all(seen(first, path) == seen(second, path) for path in program.reads))
    a, b = program.evaluate(first), program.evaluate(second)
    assert (repr(a.value), str(a.error), a.cost) == (repr(b.value), str(b.error), b.cost)


@given(INPUTS, VALUES)
def test_change_outside_the_reads_does_not_change_the_outcome(
    one: dict[str, Any], replacement: object
) -> None:
    program = compiled("managedCluster.a.b == 'xyz' || has(managedCluster.a.c)")
    before = {MC: one}
    after = {MC: {**one, "b": replacement}}
    assert program.evaluate(before).cost == program.evaluate(after).cost
    assert program.evaluate(before).value == program.evaluate(after).value
