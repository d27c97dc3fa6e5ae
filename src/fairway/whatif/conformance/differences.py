"""Compare a result with the recorded one, field by field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

ABSENT: Final = "(absent)"
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that differs. `expected` and `got` are formatted."""

    path: str
    expected: str
    got: str


def differences(expected: Any, got: Any, *, path: str = "") -> Iterator[Difference]:
    """Yield every field in which `got` differs from `expected`.

    None in `expected` accepts any value, also a missing one. A field of `got` that `expected` does not
    mention differs, unless it is None. Whole numbers and floats of the same value are equal; true and 1 are
    not.
    """
    if expected is None:
        return
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        for key in sorted({*expected, *got}, key=str):
            inner = f"{path}.{key}" if path else str(key)
            if key not in expected:
                if got[key] is not None:
                    yield Difference(inner, ABSENT, show(got[key]))
            elif key not in got:
                if expected[key] is not None:
                    yield Difference(inner, show(expected[key]), ABSENT)
            else:
                yield from differences(expected[key], got[key], path=inner)
    elif isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        for index in range(max(len(expected), len(got))):
            inner = f"{path}[{index}]"
            if index >= len(expected):
                yield Difference(inner, ABSENT, show(got[index]))
            elif index >= len(got):
                yield Difference(inner, show(expected[index]), ABSENT)
            else:
                yield from differences(expected[index], got[index], path=inner)
    elif not same(expected, got):
        yield Difference(path, show(expected), show(got))


def same(expected: object, got: object) -> bool:
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    return expected == got


def show(value: object) -> str:
    """Format a value as short JSON-like text."""
    import msgspec

    try:
        text = msgspec.json.encode(value, order="sorted").decode()
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
