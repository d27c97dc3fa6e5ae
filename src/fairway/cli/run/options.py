"""Options of `fairway run` and `fairway up` that select and configure controllers."""

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fairway.controllers import settings

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_CONTROLLERS: Final = (
    settings.PLACEMENT,
    settings.CLUSTER_SETS,
    settings.AVAILABILITY,
    settings.ACCEPTANCE,
    settings.ADD_ONS,
    settings.SCORES,
)
WITH_HUB: Final = (*DEFAULT_CONTROLLERS, settings.HOSTING)
"""Default controllers of `fairway up`."""
NAMES: Final = (*DEFAULT_CONTROLLERS, settings.BRIDGE, settings.HOSTING, settings.MACHINES, settings.RECOVERY)
UNKNOWN_CONTROLLER: Final = "unknown controller {name!r}{hint}; known: {known}"
NEAR: Final = ", did you mean {near!r}?"
NONE_LEFT: Final = "no controller selected"


def chosen(text: str | frozenset[str], *, default: tuple[str, ...] = DEFAULT_CONTROLLERS) -> frozenset[str]:
    """Parse names separated by commas. +NAME adds to, -NAME removes from, the named controllers or the default ones."""
    if not isinstance(text, str):
        return text
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        name = word.lstrip("+-")
        if name not in NAMES:
            near = get_close_matches(name, NAMES, n=1)
            hint = NEAR.format(near=near[0]) if near else ""
            raise click.BadParameter(UNKNOWN_CONTROLLER.format(name=name, hint=hint, known=", ".join(NAMES)))
    named = {word for word in words if word[0] not in "+-"} or set(default)
    named |= {word[1:] for word in words if word.startswith("+")}
    found = frozenset(named - {word[1:] for word in words if word.startswith("-")})
    if not found or not words:
        raise click.BadParameter(NONE_LEFT)
    return found


def _controllers(default: tuple[str, ...]) -> Callable[[Command], Command]:
    others = ", ".join(name for name in NAMES if name not in default)

    def controllers(text: str) -> frozenset[str]:
        return chosen(text, default=default)

    return click.option(
        "--controllers",
        type=controllers,
        default=",".join(default),
        show_default=True,
        metavar="NAMES",
        help="Controllers to run, separated by commas; -NAME removes one, +NAME adds one. "
        f"Optional controllers: {others}.",
    )


controllers_option: Final = _controllers(DEFAULT_CONTROLLERS)
controllers_with_hub_option: Final = _controllers(WITH_HUB)
config_option: Final = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="YAML file with per-controller settings; see docs/how-to/operate.md.",
)
