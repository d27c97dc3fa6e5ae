"""`fairway completion`, and completion of names from a hub.

Completion must never block the shell, prompt for a password or print an error: the hub has one second to respond, and
every failure means no suggestions.
"""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import Final

import click
from click.shell_completion import get_completion_class

from fairway.cli.client.names import names_of
from fairway.cli.commands.completion import COMPLETION_VARIABLE, Shell
from fairway.cli.errors import EXIT_OK
from fairway.cli.options.names import Kind

TIMEOUT_SECONDS: Final = 1.0
INSTALL: Final = {
    "bash": "echo 'source <(fairway completion bash)' >> ~/.bashrc",
    "zsh": "echo 'source <(fairway completion zsh)' >> ~/.zshrc",
    "fish": "fairway completion fish > ~/.config/fish/completions/fairway.fish",
}
HOW_TO: Final = "# Completion of fairway for {shell}. To install it for every new shell:\n#   {install}\n"


def completion(shell: Shell) -> int:
    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    script = kind(root, {}, "fairway", COMPLETION_VARIABLE)
    # Not source(), which checks the version of the local bash; the script may be for another machine.
    # Not say(), which folds long lines on a terminal.
    how_to = HOW_TO.format(shell=shell, install=INSTALL[shell])
    sys.stdout.write(f"{how_to}{script.source_template % script.source_vars()}\n")
    return EXIT_OK


def offer(context: click.Context, kind: Kind, typed: str) -> list[str]:
    """List the names of a kind that begin with what was typed; none after any error.

    No exception, warning or prompt may appear in the command line being typed.
    """
    before, comma, last = typed.rpartition(",")
    try:
        with _silence():
            names = asyncio.run(_names(context, kind, last))
    except Exception:
        return []
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]


async def _names(context: click.Context, kind: Kind, typed: str) -> list[str]:
    given = context.params
    # Without a namespace option, names are NAMESPACE/NAME.
    qualified = "/" in typed or "namespace" not in given or bool(given.get("everywhere"))
    # Scores are in the namespaces of clusters, never in that of a context.
    qualified |= kind == "scores" and given.get("namespace") is None
    async with asyncio.timeout(TIMEOUT_SECONDS):
        return await names_of(
            kind,
            kubeconfig=given.get("kubeconfig"),
            context=given.get("context"),
            namespace=given.get("namespace"),
            qualified=qualified,
        )


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Log nothing, and have no terminal to read from."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    stdin = os.dup(0)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(stdin, 0)
        os.close(stdin)
        logging.disable(disabled)
