"""Options of `fairway run` and `fairway up` that select and configure controllers."""

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fairway.cli.lazy import load

Command = TypeVar("Command", bound=Callable[..., Any])

# The names of `fairway.controllers.settings`, which imports the controllers; a test compares them.
DEFAULT_CONTROLLERS: Final = ("placement", "clustersets", "availability", "acceptance", "addons", "scores")
WITH_HUB: Final = (*DEFAULT_CONTROLLERS, "hosting")
"""Default controllers of `fairway up`."""
NAMES: Final = (*DEFAULT_CONTROLLERS, "bridge", "hosting", "machines", "recovery")
UNKNOWN_CONTROLLER: Final = "unknown controller {name!r}{hint}; known: {known}"
NEAR: Final = ", did you mean {near!r}?"
NONE_LEFT: Final = "no controller selected"
APPROVAL_OF_NOBODY: Final = "--auto-approve-user requires the controller 'acceptance'"


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
    selected = frozenset(named - {word[1:] for word in words if word.startswith("-")})
    if not selected or not words:
        raise click.BadParameter(NONE_LEFT)
    return selected


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


def _check_users(
    _context: click.Context, _parameter: click.Parameter, users: tuple[str, ...]
) -> frozenset[str]:
    if not users:
        return frozenset()
    check_user = load("fairway.controllers.acceptance.auto_approval:check_user")
    try:
        return frozenset(map(check_user, users))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def require_acceptance(users: frozenset[str], controllers: frozenset[str]) -> None:
    if users and "acceptance" not in controllers:
        raise click.UsageError(APPROVAL_OF_NOBODY)


auto_approve_option: Final = click.option(
    "--auto-approve-user",
    "auto_approve_users",
    multiple=True,
    callback=_check_users,
    metavar="USER",
    help="User, such as the service account of bootstrap tokens, whose clusters are accepted with their first "
    "certificate request, without an administrator; can be given several times.  [default: none]",
)
config_option: Final = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="YAML file with per-controller settings; see docs/how-to/operate.md.",
)
