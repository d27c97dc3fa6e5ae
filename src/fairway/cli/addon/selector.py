"""Convert kubectl's label selectors, such as ``env in (prod,stage),!edge``, into the form of a Placement."""

from typing import Any, Final

import click

from kubewire.api.encoding import encode
from kubewire.api.selector import LabelSelector, SelectorError, compile_selector
from kubewire.api.selector_parser import parse_selector

BAD_SELECTOR: Final = (
    "{given!r} is not a label selector: {reason}; write for example env=prod, env!=dev, 'env in (prod,stage)', gpu "
    "or !edge, separated by commas"
)
EMPTY: Final = "the selector is empty"


def label_selector(text: str) -> dict[str, Any]:
    """Raises click's usage error."""
    try:
        selector = LabelSelector(matchExpressions=parse_selector(text))
        if not selector.matchExpressions:
            raise SelectorError(EMPTY)
        compile_selector(selector)
    except SelectorError as error:
        raise click.UsageError(BAD_SELECTOR.format(given=text, reason=error)) from None
    return encode(selector)
