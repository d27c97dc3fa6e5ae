"""Remedies for hosts that a selector does not match: values of the first label or claim that differs."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairway.engine.remedies import SetCell
from fairway.hosts.column import Key
from fairway.hosts.snapshot import Snapshot
from kubewire.api.selector import DOES_NOT_EXIST, EXISTS, IN, Requirement, Selector

MOST_VALUES: Final = 8
COMMON_VALUES: Final = 6
PLAIN_VALUE: Final = "true"
"""The value of a label or claim if any value is sufficient and no host has one."""


def meet_selector(
    snapshot: Snapshot[Any], selector: Selector, held: Mapping[str, str], *, kind: str
) -> Iterator[SetCell]:
    """Yield values for the first unmet requirement. ``kind`` is that of the columns, ``held`` what the host has."""
    unmet = next(
        (requirement for requirement in selector.requirements if not requirement.matches(held)), None
    )
    if unmet is not None:
        column: Key = (kind, unmet.key)
        yield from (SetCell(column, value) for value in _values(snapshot, unmet, column))


def _values(snapshot: Snapshot[Any], unmet: Requirement, column: Key) -> Iterator[str | None]:
    if unmet.operator == IN:
        yield from sorted(unmet.values)[:MOST_VALUES]
    elif unmet.operator == EXISTS:
        yield from common_values(snapshot, column) or [PLAIN_VALUE]
    else:
        yield None
        if unmet.operator != DOES_NOT_EXIST:
            common = common_values(snapshot, column, MOST_VALUES + len(unmet.values))
            yield from [value for value in common if value not in unmet.values][:MOST_VALUES]


def common_values(snapshot: Snapshot[Any], column: Key, most: int = COMMON_VALUES) -> list[str]:
    """Return the most common values of a label or claim."""
    codes = snapshot.codes(column)
    values = sorted((-codes.uses(code), str(value)) for value, code in codes.items())
    return [value for _, value in values[:most]]
