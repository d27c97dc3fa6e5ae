import pytest

from kubecel import CostLimitExceeded, Outcome, WorkLimitExceeded, rule_environment
from kubecel.libraries.sequences import NEGATIVE_DEPTH, NEGATIVE_SLICE, REVERSED_SLICE, SLICE_BEYOND


def outcome(text: str) -> Outcome:
    return rule_environment().compile(text).evaluate({})


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2, 3, 4].slice(1, 3) == [2, 3]",
        "[1].slice(1, 1) == []",
        "[[1], [2, 3]].flatten() == [1, 2, 3]",
        "[[[1]], [[2]]].flatten() == [[1], [2]]",
        "dyn([[[1]], [[2]]]).flatten(2) == [1, 2]",
        "lists.range(3) == [0, 1, 2]",
        "lists.range(-1) == []",
        "[1, 2].reverse() == [2, 1]",
        "[1, 2, 1, 3, 2].distinct() == [1, 2, 3]",
        "[[1], [1]].distinct() == [[1]]",
        "['b', 'a'].sort() == ['a', 'b']",
        "[3, 1, 2].sort() == [1, 2, 3]",
        "[duration('2s'), duration('1s')].sort() == [duration('1s'), duration('2s')]",
    ],
)
def test_list_extension_function_returns_expected_list(text: str) -> None:
    answer = outcome(text)
    assert answer.error is None, answer.error
    assert answer.value is True


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1].slice(-1, 1)", NEGATIVE_SLICE.format(-1, 1)),
        ("[1].slice(1, 0)", REVERSED_SLICE.format(1, 0)),
        ("[1].slice(0, 2)", SLICE_BEYOND.format(0, 2, 1)),
        ("dyn([[1]]).flatten(-1)", NEGATIVE_DEPTH),
        ("[{'a': 1}, {'b': 2}].map(x, dyn(x)).sort()", "no such overload"),
    ],
)
def test_list_extension_rejects_invalid_arguments(text: str, message: str) -> None:
    assert message in str(outcome(text).error)


@pytest.mark.parametrize(
    "text",
    [
        "lists.range(9223372036854775807).size() > 0",
        "lists.range(5000).map(x, lists.range(5000)).flatten().size() > 0",
        "lists.range(20000).distinct().size() > 0",
        "lists.range(600000).sort().size() > 0",
    ],
)
def test_list_extension_limits_length_of_result(text: str) -> None:
    assert isinstance(outcome(text).error, CostLimitExceeded | WorkLimitExceeded)
