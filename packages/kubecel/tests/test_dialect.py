"""The dialect of validation rules: typed objects, stricter literals, comparisons of mixed numbers."""

import pytest

from kubecel import CompileError, Dialect, Environment, Program, cluster_environment, rule_environment
from kubecel.containers import Keyed
from kubecel.frame import Meter
from kubecel.types import INT, STRING, Type, list_of, optional_of, struct
from kubecel.values import equal, type_of_value

BOAT = struct("boat")
STRUCTS: dict[str, dict[str, Type]] = {
    "boat": {"name": STRING, "mast": struct("mast"), "crew": list_of(struct("mate"))},
    "mast": {"height": INT},
    "mate": {"name": STRING},
}


def compiled(text: str, type_: Type = BOAT) -> Program:
    return rule_environment().extended(variables={"self": type_}, structs=STRUCTS).compile(text)


def refusal(text: str, type_: Type = BOAT) -> str:
    with pytest.raises(CompileError) as error:
        compiled(text, type_)
    return error.value.message


def test_rule_fields_have_declared_types() -> None:
    value = {"name": "a", "mast": {"height": 3}, "crew": [{"name": "x"}]}
    for text in (
        "self.name == 'a'",
        "self.mast.height + 1 == 4",
        "self.crew.all(mate, mate.name.startsWith('x'))",
        "has(self.mast) && has(self.mast.height)",
        "!has(self.crew[0].name) || self.crew[0].name == 'x'",
        "self == self",
        "self.mast == self.mast",
    ):
        outcome = compiled(text).evaluate({"self": value})
        assert outcome.error is None
        assert outcome.value is True, text
    assert compiled("self.mast").result_type == "mast"
    assert compiled("self.crew.map(m, m.name)").result_type == "list(string)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("self.color == ''", "undefined field 'color'"),
        ("self.mast.color == ''", "undefined field 'color'"),
        ("has(self.color)", "undefined field 'color'"),
        ("self.mast == self.name", "found no matching overload for '_==_' applied to '(mast, string)'"),
        ("self.all(x, true)", "expression of type 'boat' cannot be range of a comprehension"),
        ("self.mast.height == 'x'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self['name'] == ''", "found no matching overload for '_[_]' applied to '(boat, string)'"),
    ],
)
def test_undeclared_field_is_a_compile_error(text: str, message: str) -> None:
    assert message in refusal(text)


def test_optional_field_of_declared_object() -> None:
    program = compiled("self.mast.height.orValue(0) == 3", optional_of(BOAT))
    assert program.result_type == "bool"
    assert "undefined field" in refusal("self.color.hasValue()", optional_of(BOAT))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 'a'].size() == 2", "expected type 'int' but found 'string'"),
        ("{'a': 1, 'b': 'c'}.size() == 2", "expected type 'int' but found 'string'"),
        ("{'a': 1, 2: 3}.size() == 2", "expected type 'string' but found 'int'"),
        ("duration('soon') > duration('1s')", "invalid duration argument"),
        ("timestamp('today') > timestamp('2026-01-01T00:00:00Z')", "invalid timestamp argument"),
        ("self.name.matches('[')", "invalid matches argument"),
    ],
)
def test_rule_literals_must_be_valid_and_of_one_type(text: str, message: str) -> None:
    assert refusal(text) == message


def test_format_arguments_may_have_different_types() -> None:
    outcome = compiled("'%s %d'.format([self.name, 1]) == 'a 1'").evaluate({"self": {"name": "a"}})
    assert outcome.value is True


def test_rules_compare_numbers_of_different_types() -> None:
    assert compiled("1 < 1.5 && 2u > 1").evaluate({}).value is True
    with pytest.raises(CompileError):
        cluster_environment().compile("1 < 1.5")


def test_constant_lists_and_maps_are_free_in_rules() -> None:
    text = "'b' in ['a', 'b', 'c'] && {'a': 1}['a'] == 1"
    here = compiled(text).evaluate({})
    there = cluster_environment().compile(text).evaluate({})
    assert (here.value, there.value) == (True, True)
    assert there.cost - here.cost == 40


@pytest.mark.parametrize(
    "text",
    [
        "['a', 'b'].all(i, v, i < 2 && v != '')",
        "['a', 'b'].exists(i, v, i == 1 && v == 'b')",
        "['a', 'b'].existsOne(i, v, v == 'b') && !['a', 'a'].exists_one(i, v, v == 'a')",
        "{'k': 1}.all(k, v, k == 'k' && v == 1)",
        "['a', 'b'].transformList(i, v, v + string(i)) == ['a0', 'b1']",
        "['a', 'b'].transformList(i, v, i > 0, v) == ['b']",
        "{'k': 1, 'l': 2}.transformList(k, v, v).sum() == 3",
        "{'k': 1, 'l': 2}.transformMap(k, v, v > 1, v * 2) == {'l': 4}",
        "['x'].transformMap(i, v, v) == {0: 'x'}",
        "{'k': 'v'}.transformMapEntry(k, v, {v: k}) == {'v': 'k'}",
        "[1, 2].all(i, v, [1, 2].exists(j, w, i == j && v == w))",
    ],
)
def test_macros_with_index_or_key_and_value(text: str) -> None:
    outcome = compiled(text).evaluate({})
    assert outcome.error is None
    assert outcome.value is True
    with pytest.raises(CompileError):
        cluster_environment().compile(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1].all(i, i, true)", "duplicate variable name: i"),
        ("[1].all(i, 1, true)", "argument must be a simple name"),
        ("[1].transformMap(i, v, w)", "undeclared reference to 'w' (in container '')"),
        ("1.all(i, v, true)", "expression of type 'int' cannot be range of a comprehension"),
    ],
)
def test_macro_with_two_variables_requires_two_names(text: str, message: str) -> None:
    assert message in refusal(text)


def test_transform_map_rejects_repeated_key() -> None:
    outcome = compiled("['a', 'a'].transformMapEntry(i, v, {v: i}).size() == 1").evaluate({})
    assert str(outcome.error) == "insert failed: key a already exists"


def test_environment_determines_the_dialect() -> None:
    strict = Environment(variables={}, dialect=Dialect(uniform=True))
    with pytest.raises(CompileError):
        strict.compile("[1, 'a']")
    assert Environment(variables={}).compile("[1, 'a']").result_type == "list(dyn)"


def test_keyed_lists_compare_without_order() -> None:
    letters = Keyed(["a", "b"])
    assert equal(letters, ["b", "a"], Meter())
    assert not equal(letters, ["b", "c"], Meter())
    assert not equal(letters, ["a"], Meter())
    assert letters.merged(["c", "a"]) == ["a", "b", "c"]
    ports = Keyed([{"port": 1, "name": "x"}, {"port": 2}], ("port",))
    assert equal(ports, [{"port": 2}, {"port": 1, "name": "x"}], Meter())
    assert not equal(ports, [{"port": 2}, {"port": 1, "name": "y"}], Meter())
    assert ports.merged([{"port": 2, "name": "y"}, {"port": 3}]) == [
        {"port": 1, "name": "x"},
        {"port": 2, "name": "y"},
        {"port": 3},
    ]
    assert type_of_value(letters).name == "list"
    program = (
        rule_environment()
        .extended(variables={"s": list_of(STRING)})
        .compile("s + ['a', 'z'] == ['z', 'b', 'a']")
    )
    assert program.evaluate({"s": letters}).value is True
