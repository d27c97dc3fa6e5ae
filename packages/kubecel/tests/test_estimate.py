"""Cost estimates; recorded ones are in packages/kubehub/tests/schemas/test_cel_validation.py."""

import pytest

from kubecel import rule_environment
from kubecel.estimate import Path, estimate
from kubecel.extent import MOST
from kubecel.types import INT, STRING, Type, list_of, map_of, struct

STRUCTS: dict[str, dict[str, Type]] = {
    "self": {"text": STRING, "n": INT, "list": list_of(STRING), "map": map_of(STRING, STRING)}
}
SIZES = {
    ("self", "text"): 100,
    ("self", "n"): 0,
    ("self", "list"): 10,
    ("self", "list", "@items"): 50,
    ("self", "map"): 5,
    ("self", "map", "@values"): 20,
    ("self", "map", "@keys"): 0,
}


def size_of(path: Path) -> int | None:
    return SIZES.get(path)


def cost(text: str) -> int:
    environment = rule_environment().extended(variables={"self": struct("self")}, structs=STRUCTS)
    return estimate(environment.compile_checked(text)[1], size_of)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("true", 0),
        ("self.n == 1", 2),
        ("self.text == self.text", 4 + 10),
        ("has(self.text)", 1),
        ("self.text.startsWith('abc')", 2 + 1),
        ("self.list.all(x, x != '')", 2 + 1 + 10 * (2 + 1 + 1)),
        ("self.list.all(x, self.list.all(y, x == y))", 2 + 1 + 10 * (2 + 1 + 2 + 1 + 10 * (2 + 1 + 2 + 5))),
        ("self.text.matches('abcd')", 2 + 11 * 1),
        ("'a' in self.list", 2 + 10),
        ("self.n > 1 ? self.text == 'a' : self.text.contains('b')", 3 + max(3, 2 + 10)),
        ("self.map.all(k, self.map[k] == 'x')", 2 + 1 + 5 * (2 + 1 + 3 + 1 + 1)),
        ("{'k': self.text}.all(k, k == self.text)", 40),
        ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", 10),
    ],
)
def test_estimated_cost_follows_sizes_of_inputs(text: str, most: int) -> None:
    assert cost(text) == most


def test_estimate_of_unbounded_input_is_unlimited() -> None:
    environment = rule_environment().extended(variables={"x": list_of(STRING)})
    _, checked = environment.compile_checked("x.all(a, x.all(b, a == b))")
    assert estimate(checked, lambda _: None) == MOST


def test_estimate_is_never_below_actual_cost() -> None:
    value = {"text": "a" * 100, "n": 5, "list": ["b" * 50] * 10, "map": {str(n): "c" * 20 for n in range(5)}}
    environment = rule_environment().extended(variables={"self": struct("self")}, structs=STRUCTS)
    for text in (
        "self.list.all(x, self.list.exists(y, x == y))",
        "self.list.filter(x, x.contains('bb')).size() == 10",
        "self.map.all(k, self.map[k].size() < 30)",
        "self.text.matches('a+b')",
        "self.list.map(x, x + x).all(x, x.size() == 100)",
        "self.list + self.list == self.list",
    ):
        program, checked = environment.compile_checked(text)
        assert program.evaluate({"self": value}).cost <= estimate(checked, size_of) + 10, text
