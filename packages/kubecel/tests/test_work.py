"""Counted work bounds actual work, for generated expressions with every function and hostile sizes.

Actual work is the number of calls of the interpreter and its maximum memory, which do not depend on the machine.
"""

from __future__ import annotations

import sys
import tracemalloc
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubecel import CompileError, CompileWorkExceeded, Dialect, Environment, Outcome, WorkLimitExceeded
from kubecel.environment import COMPILE_WORK_EXCEEDED, DEFAULT_LIBRARIES, RULE_LIBRARIES
from kubecel.libraries.json import JSON
from kubecel.libraries.scores import SCORES
from kubecel.types import BOOL, DYN, INT, STRING, list_of, map_of
from kubecel.work import PRICES

WORK_LIMIT = 20_000
CALLS_PER_UNIT = 10
"""A plain step is two or three calls, a call of a library some more."""
CALLS_BESIDE = 3_000
BYTES_PER_UNIT = 2_000
BYTES_BESIDE = 1_000_000

VARIABLES: dict[str, Any] = {
    "s": "a" * 5000,
    "t": "ab, " * 1000,
    "u": "https://a.b/" + "%41\u00e9" * 500 + "?" + "d=e&" * 500,
    "j": "[" * 300 + '{"a": 1}' + "]" * 300,
    "v": "1.2.3-" + "1." * 1000 + "1",
    "n": list(range(2000)),
    "w": [f"w{at}" for at in range(500)],
    "m": {f"k{at}": at for at in range(500)},
}
TYPES = {
    **dict.fromkeys("stujv", STRING),
    "n": list_of(INT),
    "w": list_of(STRING),
    "m": map_of(STRING, INT),
    "d": DYN,
    "b": BOOL,
}
ENVIRONMENT = Environment(
    variables=TYPES,
    libraries=(*RULE_LIBRARIES, SCORES, JSON),
    dialect=Dialect(mixed_numbers=True, two_variables=True),
)

_TEXTS = st.recursive(
    st.sampled_from(
        ["s", "t", "u", "j", "v", "'a'", "''", "'(a*)*b'", "'America/New_York'", "'2020-01-01T00:00:00Z'"]
    ),
    lambda inner: st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("{}.replace({}, {})".format, inner, inner, inner),
        st.builds("{}.{}()".format, inner, st.sampled_from(["lowerAscii", "upperAscii", "trim", "reverse"])),
        st.builds("strings.quote({})".format, inner),
        st.builds("{}.substring(1)".format, inner),
        st.builds("{}.find({})".format, inner, inner),
        st.builds("'%s %s'.format([{}, n])".format, inner),
        st.builds("'%x'.format([{}])".format, inner),
        st.builds("{}.split({}).join({})".format, inner, inner, inner),
        st.builds("string(bytes({}))".format, inner),
        st.builds("url({}).getEscapedPath()".format, inner),
    ),
    max_leaves=4,
)
_NUMBERS = st.one_of(
    st.sampled_from(["1", "-1", "n[5]", "n.sum()", "n.max()", "n.lastIndexOf(7)", "lists.range(3000).sum()"]),
    st.builds("{}.size()".format, _TEXTS),
    st.builds("{}.lastIndexOf({})".format, _TEXTS, _TEXTS),
    st.builds("{}.indexOf({})".format, _TEXTS, _TEXTS),
    st.builds("int({})".format, _TEXTS),
    st.builds("timestamp({}).getHours({})".format, _TEXTS, _TEXTS),
    st.builds("url({}).getQuery().size()".format, _TEXTS),
)
_LISTS = st.recursive(
    st.one_of(
        st.sampled_from(["n", "w", "[1, 2, 3]", "[n, n]"]),
        st.builds("{}.split({})".format, _TEXTS, _TEXTS),
        st.builds("{}.findAll({})".format, _TEXTS, _TEXTS),
    ),
    lambda inner: st.one_of(
        st.builds("(dyn({}) + dyn({}))".format, inner, inner),
        st.builds("{}.map(x, [x, x])".format, inner),
        st.builds("{}.filter(x, true)".format, inner),
        st.builds("{}.transformList(i, x, x)".format, inner),
        st.builds("dyn({}).{}()".format, inner, st.sampled_from(["sort", "distinct", "reverse", "flatten"])),
        st.builds("{}.slice(0, 2)".format, inner),
    ),
    max_leaves=4,
)
_TRUTHS = st.recursive(
    st.one_of(
        st.builds("{} == {}".format, _TEXTS, _TEXTS),
        st.builds("dyn({}) == dyn({})".format, _LISTS, _LISTS),
        st.builds("{} < {}".format, _TEXTS, _TEXTS),
        st.builds("dyn({}) in dyn({})".format, _TEXTS, _LISTS),
        st.builds("{} > {}".format, _NUMBERS, _NUMBERS),
        st.builds("{}.matches({})".format, _TEXTS, _TEXTS),
        st.builds("{}.contains({})".format, _TEXTS, _TEXTS),
        st.builds(
            "{}({})".format, st.sampled_from(["isURL", "isIP", "isCIDR", "isSemver", "isQuantity"]), _TEXTS
        ),
        st.builds("semver({}).isLessThan(semver({}))".format, _TEXTS, _TEXTS),
        st.builds("quantity({}).isGreaterThan(quantity({}))".format, _TEXTS, _TEXTS),
        st.builds("duration({}) > duration({})".format, _TEXTS, _TEXTS),
        st.builds("sets.contains(dyn({}), dyn({}))".format, _LISTS, _LISTS),
        st.builds("dyn({}).isSorted()".format, _LISTS),
        st.builds("{}.parseJSON() == {}.parseJSON()".format, _TEXTS, _TEXTS),
        st.builds("!format.dns1123Subdomain().validate({}).hasValue()".format, _TEXTS),
        st.builds("optional.of({}) != optional.of({})".format, _LISTS, _LISTS),
        st.builds("m.transformMap(k, x, {}).size() > 1".format, _TEXTS),
    ),
    lambda inner: st.one_of(
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} ? {} : true)".format, inner, inner),
        st.builds("n.{}(a, {})".format, st.sampled_from(["all", "exists", "exists_one"]), inner),
        st.builds("m.all(k, {} || true)".format, inner),
    ),
    max_leaves=3,
)


def effort(text: str) -> tuple[Outcome, int, int]:
    """Return the outcome, the number of calls, and the maximum memory in bytes."""
    program = ENVIRONMENT.compile(text)
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        outcome = program.evaluate(VARIABLES, cost_limit=None, work_limit=WORK_LIMIT)
    finally:
        sys.setprofile(None)
    tracemalloc.start()
    try:
        program.evaluate(VARIABLES, cost_limit=None, work_limit=WORK_LIMIT)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return outcome, calls, held


@settings(max_examples=25, deadline=None)
@given(text=_TRUTHS)
def test_instructions_per_unit_of_work_are_bounded(text: str) -> None:
    try:
        outcome, calls, held = effort(text)
    except CompileError:
        return
    assert calls <= CALLS_PER_UNIT * min(outcome.work, WORK_LIMIT) + CALLS_BESIDE, outcome
    assert held <= BYTES_PER_UNIT * min(outcome.work, WORK_LIMIT) + BYTES_BESIDE, outcome
    assert outcome.work <= WORK_LIMIT or isinstance(outcome.error, WorkLimitExceeded)


DOUBLED = ".map(x, [x, x])" * 40
MAPPED = ".transformMap(k, x, {'a': x, 'b': x})" * 14
HOSTILE = {
    "findAll": "(s + s).findAll('a').size() > 0",
    "findAll that looks ahead": "s.findAll('a(.*b)?').size() > 0",
    "equality of shared parts": f"[1]{DOUBLED} == [1]{DOUBLED}",
    "equality of maps with shared parts": f"{{'k': 1}}{MAPPED} == {{'k': 1}}{MAPPED}",
    "equality of long lists": "n.all(a, n == n)",
    "search that ends early": "n.all(a, 31 in n)",
    "search in shared parts": f"[[1]{DOUBLED}].indexOf([1]{DOUBLED}) == 0",
    "formatted shared parts": f"'%s'.format([[1]{DOUBLED}]) == ''",
    "loop without a cost": "n.all(a, !n.exists_one(b, false))",
    "filter without a cost": "n.all(a, n.filter(b, false).size() == 0)",
    "logic without a cost": f"n.all(a, {'&&'.join(['true'] * 1000)})",
    "conditions without a cost": f"n.all(a, {'(true ? ' * 100}true{' : false)' * 100})",
    "wide list": f"n.all(a, [{','.join(['1'] * 1000)}, a].size() > 0)",
    "keys of a map": "n.all(a, m.exists(k, true))",
    "patterns": "n.all(a, !'x'.matches('[^x]{1,100}' + string(a)))",
    "last index": f"n.all(a, s.lastIndexOf('{'a' * 50}b{'a' * 50}') == -1)",
    "nested optionals": f"[{'optional.of(' * 100}1{')' * 100}].all(o, n.all(a, o == o))",
    "unknown zones": "n.all(a, timestamp(1).getHours('No/Where' + string(a)) > 0 || true)",
    "leading zeros": "n.all(a, int(s.replace('a', '0')) == 0)",
    "added lists": f"n.all(a, [n{' + [1]' * 200}].all(l, l[0] == 0))",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_expression_ends_at_the_work_limit(text: str) -> None:
    outcome, calls, held = effort(text)
    assert isinstance(outcome.error, WorkLimitExceeded), outcome
    assert calls <= CALLS_PER_UNIT * WORK_LIMIT + CALLS_BESIDE
    assert held <= BYTES_PER_UNIT * WORK_LIMIT + BYTES_BESIDE


@pytest.mark.parametrize(
    "text", [f"dyn(['a', [1]{DOUBLED}]).join('')", f"optional.unwrap(dyn([optional.of(1), [1]{DOUBLED}]))"]
)
def test_failure_does_not_write_out_a_value_whose_parts_are_shared(text: str) -> None:
    outcome, calls, _ = effort(text)
    assert outcome.error is not None
    assert calls <= CALLS_PER_UNIT * outcome.work + CALLS_BESIDE


@pytest.mark.parametrize("call", ["replace({part}, 'b')", "split({part})"])
def test_text_search_is_charged_before_it_runs(call: str) -> None:
    program = ENVIRONMENT.compile(f"dyn(s.{call.format(part=repr('a' * 99 + 'b'))}) != dyn(s)")
    called: set[str] = set()

    def note(_frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            called.add(argument.__name__)

    sys.setprofile(note)
    try:
        outcome = program.evaluate(VARIABLES, work_limit=500)
    finally:
        sys.setprofile(None)
    assert isinstance(outcome.error, WorkLimitExceeded)
    assert "count" not in called


def test_exceeded_work_limit_is_not_absorbed() -> None:
    outcome = ENVIRONMENT.compile("n.all(a, a >= 0) || true").evaluate(VARIABLES, work_limit=100)
    assert str(outcome.error) == "operation cancelled: work limit of 100 units exceeded"


def test_work_of_an_evaluation_is_deterministic() -> None:
    program = ENVIRONMENT.compile("t.matches('b, ' + 'a') && t.findAll('a').size() > 0 && n.sum() > 0")
    assert program.evaluate(VARIABLES).work == program.evaluate(VARIABLES).work > 0


def test_charged_work_does_not_change_cost() -> None:
    program = ENVIRONMENT.compile("w.join('-').contains('w7') && m.all(k, k != '')")
    cost = program.evaluate(VARIABLES).cost
    assert program.evaluate(VARIABLES, work_limit=1 << 50).cost == cost
    assert program.evaluate(VARIABLES, cost_limit=cost).error is None


@pytest.mark.parametrize(
    "text",
    [
        "&&".join(["true"] * 10_000),
        "optional.of(1)" + ".optMap(x, x)" * 12,
        "'a'.find('\\\\pL{1,300}')",
        "@" * 50_000,
    ],
    ids=["terms", "macros", "pattern", "no tokens"],
)
def test_expression_above_compile_work_limit_is_rejected(text: str) -> None:
    with pytest.raises(CompileWorkExceeded) as caught:
        ENVIRONMENT.compile(text, work_limit=100_000)
    assert COMPILE_WORK_EXCEEDED.format(100_000) in str(caught.value)


def test_every_work_price_belongs_to_a_function() -> None:
    known = {f.name for library in (*DEFAULT_LIBRARIES, *RULE_LIBRARIES) for f in library.functions}
    assert PRICES.keys() - known == {"check"}, "of the authorizer, which the hub adds"
