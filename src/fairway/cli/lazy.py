"""Import what carries out a command when the command runs: the only place of the command line that imports late.

The declarations in `commands` and `options` import click and little else, so that `--help`, completion and a mistyped
option need no numpy, aiohttp or msgspec, which take most of a second. All other modules import at their top.
"""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import click

from fairway.cli.interrupt import raise_on_interrupt


def load(target: str) -> Any:
    """Import `module:attribute`."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def deferred(target: str) -> Callable[..., Any]:
    """Return a function that calls `target`, which it imports then."""

    def call(*arguments: Any, **options: Any) -> Any:
        return load(target)(*arguments, **options)

    return call


def parsed_by(target: str) -> Callable[[Any], Any]:
    """Return the type of an option that the function `target` parses."""

    def parse(value: Any) -> Any:
        context = click.get_current_context(silent=True)
        # Completion parses what was typed so far, and needs no values.
        return value if context is not None and context.resilient_parsing else load(target)(value)

    return parse


def runs(target: str) -> Callable[[Callable[[], None]], Callable[..., Any]]:
    """Let the function `target` carry out a declared command: it gets the options that the decorators above collect.

    Must be the decorator next to the declaration, which has the name and the help of the command and no body.
    """

    def decorate(declaration: Callable[[], None]) -> Callable[..., Any]:
        @wraps(declaration)
        def run(*arguments: Any, **options: Any) -> Any:
            function = load(target)
            raise_on_interrupt()
            return function(*arguments, **options)

        return run

    return decorate
