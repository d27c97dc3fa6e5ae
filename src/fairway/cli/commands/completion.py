"""Declaration of `fairway completion`: its options and its help."""

from typing import Final, Literal

import click

from fairway.cli.lazy import runs

Shell = Literal["bash", "zsh", "fish"]

COMPLETION_VARIABLE: Final = "_FAIRWAY_COMPLETE"
"""The environment variable with which the script of a shell asks for completions."""
SHELLS: Final[tuple[Shell, ...]] = ("bash", "zsh", "fish")


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
@runs("fairway.cli.completion:completion")
def completion() -> None:
    """Print the completion script of a shell."""
