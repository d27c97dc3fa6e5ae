"""`fairway completion`, and the names that a shell offers because a hub has them.

A key pressed in a shell must never wait, ask for a password or print an error: the hub gets a moment to answer, and
whatever goes wrong means that there is nothing to offer.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Final, Literal

import click
from click.shell_completion import get_completion_class

from fairway.cli.errors import EXIT_OK
from fairway.cli.output import say

Shell = Literal["bash", "zsh", "fish"]
Kind = Literal["clusters", "clustersets", "placements", "scores", "namespaces"]

SHELLS: Final[tuple[Shell, ...]] = ("bash", "zsh", "fish")
PATIENCE_SECONDS: Final = 1.0
INSTALL: Final = {
    "bash": "echo 'source <(fairway completion bash)' >> ~/.bashrc",
    "zsh": "echo 'source <(fairway completion zsh)' >> ~/.zshrc",
    "fish": "fairway completion fish > ~/.config/fish/completions/fairway.fish",
}
HOW_TO: Final = "# Completion of fairway for {shell}. To have it in every new shell:\n#   {install}\n"


@click.command(
    short_help="Print the completion script of a shell.",
    epilog="""\b
Examples:
  source <(fairway completion bash)
  echo 'source <(fairway completion bash)' >> ~/.bashrc
  echo 'source <(fairway completion zsh)' >> ~/.zshrc
  fairway completion fish > ~/.config/fish/completions/fairway.fish

\b
Completes commands and options, and names of clusters, sets, placements and namespaces if the hub of the
kubeconfig answers within a second.
""",
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: Shell) -> int:
    """Print the script that makes a shell complete what is typed after fairway."""
    from fairway.cli.main import COMPLETION_VARIABLE, fairway

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(fairway, {}, "fairway", COMPLETION_VARIABLE)
    # Not its source(), which asks the bash of this machine for its version; the script may be for another one.
    say(HOW_TO.format(shell=shell, install=INSTALL[shell]) + script.source_template % script.source_vars())
    return EXIT_OK


Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def complete(kind: Kind) -> Complete:
    """Offers the names of a kind that the hub has."""

    def offered(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        # Neither an exception nor a warning may be printed over what is being typed, and nobody may be asked.
        before, comma, last = typed.rpartition(",")
        try:
            _hush()
            names = asyncio.run(_names(context, kind, last))
        except Exception:
            return []
        return [f"{before}{comma}{name}" for name in names if name.startswith(last)]

    return offered


async def _names(context: click.Context, kind: Kind, typed: str) -> list[str]:
    from fairway.cli.client.names import names_of

    given = context.params
    # Where no option says which namespace, the name has to.
    qualified = "/" in typed or "namespace" not in given or bool(given.get("everywhere"))
    # Scores are in the namespaces of clusters, none of which is a context's.
    qualified |= kind == "scores" and given.get("namespace") is None
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await names_of(
            kind,
            kubeconfig=given.get("kubeconfig"),
            context=given.get("context"),
            namespace=given.get("namespace"),
            qualified=qualified,
        )


def _hush() -> None:
    logging.disable(logging.CRITICAL)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
