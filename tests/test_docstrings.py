"""The docstring check finds first verbs that contradict the return annotation."""

import docstrings
import pytest

RETURN = '"""Return it."""'
YIELD = '"""Yield each."""'


def functions(text: str) -> list[str]:
    return [violation.function for violation in docstrings.check("a.py", text)]


def test_violation_names_file_line_and_function() -> None:
    (violation,) = docstrings.check("a.py", f"X = 1\nasync def f() -> None:\n    {RETURN}\n")
    assert str(violation) == 'a.py:2: f: "Return" on a function that returns None'


def test_return_needs_something_that_is_returned() -> None:
    methods = f"""class C:
    def nothing(self) -> None:
        {RETURN}
    def never(self) -> "NoReturn":
        {RETURN}
    def optional(self) -> int | None:
        {RETURN}
    def unannotated(self):
        {RETURN}
    def undocumented(self) -> None: ...
"""
    assert functions(methods) == ["nothing", "never"]


@pytest.mark.parametrize(
    "annotation",
    ["Iterator[int]", "Generator[int, None, None]", "AsyncIterator[int]", "abc.Iterator[int]", "Steps[None]"],
)
def test_yield_is_accepted_for_iterators(annotation: str) -> None:
    assert not functions(f"def f() -> {annotation}:\n    {YIELD}\n")


@pytest.mark.parametrize("annotation", ["list[int]", "None", "tuple[Iterator[int], int]", "Iterable[int]"])
def test_yield_is_reported_for_anything_else(annotation: str) -> None:
    assert functions(f"def f() -> {annotation}:\n    {YIELD}\n") == ["f"]


def test_longer_verbs_are_not_confused_with_it() -> None:
    assert not functions('def f() -> None:\n    """Returned paths are removed."""\n')
