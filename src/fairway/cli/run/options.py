"""Options that say which controllers run, and how: of `fairway run` and `fairway up`."""

from difflib import get_close_matches
from pathlib import Path
from typing import Final

import click

from fairway.controllers import manager

USUAL: Final = (
    manager.PLACEMENT,
    manager.CLUSTER_SETS,
    manager.AVAILABILITY,
    manager.ACCEPTANCE,
    manager.ADD_ONS,
    manager.SCORES,
)
NAMES: Final = (*USUAL, manager.BRIDGE, manager.RECOVERY)
UNKNOWN_CONTROLLER: Final = "there is no controller {name!r}{hint}; there are {known}"
NEAR: Final = ", did you mean {near!r}?"
NONE_LEFT: Final = "that leaves no controller to run"


def chosen(text: str | frozenset[str]) -> frozenset[str]:
    """Names after commas. A plus adds one and a minus takes one away, from the usual ones if no other is named."""
    if not isinstance(text, str):
        return text
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        name = word.lstrip("+-")
        if name not in NAMES:
            near = get_close_matches(name, NAMES, n=1)
            hint = NEAR.format(near=near[0]) if near else ""
            raise click.BadParameter(UNKNOWN_CONTROLLER.format(name=name, hint=hint, known=", ".join(NAMES)))
    named = {word for word in words if word[0] not in "+-"} or set(USUAL)
    named |= {word[1:] for word in words if word.startswith("+")}
    found = frozenset(named - {word[1:] for word in words if word.startswith("-")})
    if not found or not words:
        raise click.BadParameter(NONE_LEFT)
    return found


controllers_option: Final = click.option(
    "--controllers",
    type=chosen,
    default=",".join(USUAL),
    show_default=True,
    metavar="NAMES",
    help="Which controllers to run; -NAME leaves one out, +NAME adds one. "
    f"There are also {manager.BRIDGE} and {manager.RECOVERY}.",
)
config_option: Final = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Per-controller settings, as YAML: docs/how-to/operate.md.",
)
