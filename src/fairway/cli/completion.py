"""`fairway completion`, and completion of names from a hub.

Completion must never block the shell, prompt for a password or print an error: the hub has one second to respond, and
every failure means no suggestions.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from typing import Final, Literal

import click
from click.shell_completion import get_completion_class

from fairway.cli.errors import EXIT_OK
from fairway.cli.output import say

Shell = Literal["bash", "zsh", "fish"]
Kind = Literal["clusters", "clustersets", "placements", "scores", "namespaces", "pods", "machines"]

SHELLS: Final[tuple[Shell, ...]] = ("bash", "zsh", "fish")
TIMEOUT_SECONDS: Final = 1.0
INSTALL: Final = {
    "bash": "echo 'source <(fairway completion bash)' >> ~/.bashrc",
    "zsh": "echo 'source <(fairway completion zsh)' >> ~/.zshrc",
    "fish": "fairway completion fish > ~/.config/fish/completions/fairway.fish",
}
HOW_TO: Final = "# Completion of fairway for {shell}. To install it for every new shell:\n#   {install}\n"


@click.command(
    short_help="Print the completion script of a shell.",
    epilog="""\b
Examples:
  source <(fairway completion bash)
  echo 'source <(fairway completion bash)' >> ~/.bashrc
  echo 'source <(fairway completion zsh)' >> ~/.zshrc
  fairway completion fish > ~/.config/fish/completions/fairway.fish

\b
Completes commands and options, and the names of clusters, sets, placements, pods and namespaces if the hub of the
kubeconfig responds within one second.
""",
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: Shell) -> int:
    """Print the completion script of a shell."""
    from fairway.cli.main import COMPLETION_VARIABLE, fairway

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(fairway, {}, "fairway", COMPLETION_VARIABLE)
    # Not source(), which checks the version of the local bash; the script may be for another machine.
    say(HOW_TO.format(shell=shell, install=INSTALL[shell]) + script.source_template % script.source_vars())
    return EXIT_OK


Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def complete(kind: Kind) -> Complete:
    """Return a completer for the names of a kind."""

    def offered(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        # No exception, warning or prompt may appear in the command line being typed.
        before, comma, last = typed.rpartition(",")
        try:
            with _silence():
                names = asyncio.run(_names(context, kind, last))
        except Exception:
            return []
        return [f"{before}{comma}{name}" for name in names if name.startswith(last)]

    return offered


async def _names(context: click.Context, kind: Kind, typed: str) -> list[str]:
    from fairway.cli.client.names import names_of

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
