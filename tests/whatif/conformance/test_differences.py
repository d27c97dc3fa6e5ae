import pytest

from fairway.whatif.conformance.differences import Difference, differences


@pytest.mark.parametrize(
    ("expected", "got", "expected_differences"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": None}, {"a": [1, 2]}, []),
        ({"a": None}, {}, []),
        (None, {"whatever": 1}, []),
        ({"a": 1.0}, {"a": 1}, []),
        ({"a": True}, {"a": 1}, [Difference("a", "true", "1")]),
        ({"a": 0}, {"a": False}, [Difference("a", "0", "false")]),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, [Difference("a[0].b", "1", "2")]),
        ({"a": [1, None]}, {"a": [1, 5]}, []),
        ({"a": [1]}, {"a": [1, 2]}, [Difference("a[1]", "(absent)", "2")]),
        ({"a": [1, 2]}, {"a": [1]}, [Difference("a[1]", "2", "(absent)")]),
        ({"a": 1}, {"b": 2}, [Difference("a", "1", "(absent)"), Difference("b", "(absent)", "2")]),
        ({}, {"b": None}, []),
        ({"a": {"x": 1}}, {"a": 3}, [Difference("a", '{"x":1}', "3")]),
        ("x", "y", [Difference("", '"x"', '"y"')]),
    ],
)
def test_differences_list_every_differing_field(
    expected: object, got: object, expected_differences: list[Difference]
) -> None:
    assert list(differences(expected, got)) == expected_differences


def test_long_values_of_differences_are_truncated() -> None:
    (difference,) = differences("x" * 1000, "")
    assert len(difference.expected) == 300
    (difference,) = differences(1, object())
    assert "object" in difference.got
