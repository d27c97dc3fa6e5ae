import pytest

from kubecel import rule_environment


def value(text: str) -> object:
    outcome = rule_environment().compile(text).evaluate({})
    assert outcome.error is None, outcome.error
    return outcome.value


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("sets.contains([1, 2, 3], [3, 1])", True),
        ("sets.contains([1, 2], [3])", False),
        ("sets.contains([1], [])", True),
        ("sets.contains([], [1])", False),
        ("sets.contains([[1], [2]], [[2]])", True),
        ("sets.equivalent([1, 2, 2], [2, 1])", True),
        ("sets.equivalent([1], [1, 2])", False),
        ("sets.intersects(['a'], ['b', 'a'])", True),
        ("sets.intersects(['a'], [])", False),
    ],
)
def test_set_functions_on_lists(text: str, answer: bool) -> None:
    assert value(text) is answer


def test_set_functions_charge_every_pair_before_comparing() -> None:
    program = rule_environment().compile("sets.contains(lists.range(3000), lists.range(3000))")
    outcome = program.evaluate({}, cost_limit=1_000_000)
    assert str(outcome.error) == "operation cancelled: actual cost limit exceeded"
