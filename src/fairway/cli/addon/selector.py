"""Parse kubectl's label selectors, such as ``env in (prod,stage),!edge``, into the form of a Placement."""

import re
from collections.abc import Iterator
from typing import Any, Final

import click

from fairway.api.kinds import encode
from fairway.api.selector import LabelSelector, LabelSelectorRequirement, SelectorError, compile_selector

BAD_SELECTOR: Final = (
    "{given!r} is not a label selector: {reason}; write for example env=prod, env!=dev, 'env in (prod,stage)', gpu "
    "or !edge, separated by commas"
)
NOT_UNDERSTOOD: Final = "cannot parse {part!r}"
EMPTY: Final = "the selector is empty"

_PART: Final = re.compile(r"\s*((?:[^,()]|\([^()]*\))*)\s*(?:,|$)")
_SET: Final = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL: Final = re.compile(r"(?P<key>[^\s=!]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s=!]*)")
_EXISTS: Final = re.compile(r"(?P<not>!?)\s*(?P<key>[^\s=!()]+)")


def label_selector(text: str) -> dict[str, Any]:
    """Raises click's usage error."""
    try:
        found = LabelSelector(matchExpressions=tuple(_requirements(text)))
        compile_selector(found)
    except SelectorError as error:
        raise click.UsageError(BAD_SELECTOR.format(given=text, reason=error)) from None
    return encode(found)


def _requirements(text: str) -> Iterator[LabelSelectorRequirement]:
    if not text.strip():
        raise SelectorError(EMPTY)
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None or found.end() == at:
            raise SelectorError(NOT_UNDERSTOOD.format(part=text[at:]))
        yield _requirement(found[1].strip())
        at = found.end()
    if text.rstrip().endswith(","):
        raise SelectorError(NOT_UNDERSTOOD.format(part=","))


def _requirement(part: str) -> LabelSelectorRequirement:
    if found := _SET.fullmatch(part):
        values = tuple(each.strip() for each in found["values"].split(","))
        operator = "In" if found["operator"] == "in" else "NotIn"
        return LabelSelectorRequirement(key=found["key"], operator=operator, values=values)
    if found := _EQUAL.fullmatch(part):
        operator = "NotIn" if found["operator"] == "!=" else "In"
        return LabelSelectorRequirement(key=found["key"], operator=operator, values=(found["value"],))
    if found := _EXISTS.fullmatch(part):
        return LabelSelectorRequirement(
            key=found["key"], operator="DoesNotExist" if found["not"] else "Exists"
        )
    raise SelectorError(NOT_UNDERSTOOD.format(part=part))
