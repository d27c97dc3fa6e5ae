"""The `fairway` command: run a verb, and turn errors into messages and exit codes.

The declaration of a verb is imported on first use, and what carries it out when it runs (`lazy`), so that help and
completion are fast. To add a verb, declare it in `commands` and add a line to `VERBS`.

Exit codes: 0 ok, 1 the answer is no, 2 bad input or usage, 130 interrupted. `plan` ends with 0 without changes, 2 with
changes, and 1 after errors, as CI expects of plans. Tracebacks are shown only with
FAIRWAY_DEBUG=1.
"""

import codecs
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import click
from click.shell_completion import shell_complete

from fairway import __version__
from fairway.cli.commands.completion import COMPLETION_VARIABLE
from fairway.cli.errors import (
    DEBUG_VARIABLE,
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_NO,
    EXIT_OK,
    CommandError,
)
from fairway.cli.help import HelpFormatter, terminal_width
from fairway.cli.interrupt import INTERRUPTED
from fairway.cli.lazy import load
from fairway.cli.text import say
from kubewire.user_agent import identify

INTERNAL_ERROR = (
    "fairway: internal error: {error}\n"
    f"This is a bug in Fairway, not in your input. Set {DEBUG_VARIABLE}=1 to see the traceback."
)
PLUGIN = "kubectl-fairway"
"""Name of the console script that kubectl runs for `kubectl fairway`."""
OUT_OF_MEMORY = "fairway: not enough memory for this input"
SYSTEM_ERROR = "fairway: {error}"
NO_STDOUT = "fairway: standard output is closed"
UNPRINTABLE = "fairway-unprintable"

_REPLACEMENTS: Final = {"…": "...", "×": "x"}

VERBS: Final[dict[str, str]] = {
    "accept": "Accept clusters that request to join.",
    "addon": "Install Fairway's add-on on managed clusters.",
    "agent": "Run the add-on's agent on a managed cluster.",
    "apply": "Apply objects in files to a hub.",
    "clusterset": "Bind cluster sets to namespaces, and add clusters.",
    "completion": "Print the completion script of a shell.",
    "conformance": "Check this version against recorded answers.",
    "crds": "Print the CRDs, for kubectl apply.",
    "explain": "Explain a decision, and what would change it.",
    "fleet": "Generate fleets, and apply them to a hub.",
    "get": "List clusters, sets, placements, scores and decisions.",
    "history": "List recorded decisions, and what caused them.",
    "hosting": "Show room for hosted clusters, try requests, and plan moves.",
    "hub": "Run an embedded Kubernetes API server, and manage its data.",
    "install": "Print the manifests of Fairway, for kubectl apply.",
    "join": "Join a cluster to a hub, and run its klusterlet.",
    "lint": "Find mistakes in placements.",
    "machines": "Show virtual machines that grow and move, and explain pods.",
    "place": "Decide placements and print the decisions.",
    "plan": "Show which decisions move with a change.",
    "provider": "Run score providers, and manage their scores.",
    "replay": "Decide recorded decisions again, also under another policy.",
    "simulate": "Compare policies on a trace, without a hub.",
    "run": "Run the controllers against a hub.",
    "scheduler": "Check scheduler configurations, and list plugins.",
    "test": "Test placements against expected decisions.",
    "uninstall": "Delete Fairway from a hub.",
    "up": "Start a hub with controllers and a synthetic fleet.",
    "why": "Explain a recorded decision.",
}
"""Summary by name; `commands` has a module of the same name with the click command."""

PLANS: Final = frozenset({"plan"})
"""Verbs whose exit code 2 means that there are changes."""


class VerbGroup(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*VERBS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return super().get_command(ctx, cmd_name)
        command = load(f"fairway.cli.commands.{cmd_name}:{cmd_name}")
        if not isinstance(command, click.Command):
            raise TypeError(f"{cmd_name} is not a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            near = get_close_matches(args[0], VERBS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, VERBS[name]) for name in self.list_commands(ctx) if name in VERBS])


# The contexts of all commands have this class, and a command cannot be declared with another one.
click.Context.formatter_class = HelpFormatter


@click.group(
    cls=VerbGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="""\b
Examples:
  fairway up --clusters 12
  fairway get decisions -A --watch
  fairway explain placement ns1/most-free-cpu --cluster gpu-iad
  fairway lint -f new-placement.yaml --hub
  fairway place -f examples/fleet --reasons
  fairway fleet generate --clusters 1000 --seed 7 --out fleet.json

For the options of a command: fairway COMMAND --help
""",
)
@click.version_option(__version__, prog_name="fairway")
def fairway() -> None:
    """Decide where work runs across many Kubernetes clusters, and explain why."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code. Messages go to stderr."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # A mistyped option must not look like changes to a pipeline.
    bad_input = EXIT_NO if words and words[0] in PLANS else EXIT_BAD_INPUT
    program = "kubectl fairway" if Path(sys.argv[0]).name == PLUGIN else "fairway"
    if not _can_print():
        return EXIT_BAD_INPUT
    identify(program="fairway", version=__version__)
    try:
        # click's main returns 1 for a broken pipe, which here means that the answer is no.
        instruction = os.environ.get(COMPLETION_VARIABLE)
        if instruction:
            return shell_complete(fairway, {}, "fairway", COMPLETION_VARIABLE, instruction)
        with fairway.make_context(program, words, terminal_width=terminal_width()) as context:
            result = fairway.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except CommandError as error:
        _print_error("\n".join(f"fairway: {line}" for line in error.lines()))
        return bad_input if error.exit_code == EXIT_BAD_INPUT else error.exit_code
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(file=shown)
        _print_error(shown.getvalue().rstrip("\n"))
        return bad_input
    except (KeyboardInterrupt, click.Abort):
        _print_error(INTERRUPTED)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return EXIT_OK
    except MemoryError:
        _print_error(OUT_OF_MEMORY)
        return bad_input
    except OSError as error:
        if _debugging():
            raise
        _print_error(SYSTEM_ERROR.format(error=error.strerror or error))
        return bad_input
    except Exception as error:
        if _debugging():
            raise
        _print_error(INTERNAL_ERROR.format(error=f"{type(error).__name__}: {error}"))
        return bad_input
    return result if isinstance(result, int) else EXIT_OK


def main() -> None:
    sys.exit(run())


def _can_print() -> bool:
    """Make the streams accept any text. False if standard output is closed."""
    if sys.stderr is None:
        # stderr is closed: discard messages.
        sys.stderr = io.StringIO()
    if sys.stdout is None:
        _print_error(NO_STDOUT)
        return False
    codecs.register_error(UNPRINTABLE, _replace_unencodable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=UNPRINTABLE)
    return True


def _replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that the terminal's encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unprintable = error.object[error.start : error.end]
    replaced = "".join(
        _REPLACEMENTS.get(char) or char.encode("ascii", "backslashreplace").decode() for char in unprintable
    )
    return replaced, error.end


def _debugging() -> bool:
    return os.environ.get(DEBUG_VARIABLE, "") == "1"


def _print_error(text: str) -> None:
    if sys.stdout is not None:
        # Otherwise a file that both streams are written to has the error before the output.
        with suppress(OSError):
            sys.stdout.flush()
    try:
        say(text, stream=sys.stderr)
        sys.stderr.flush()
    except BrokenPipeError:
        _silence_stdout()


def _silence_stdout() -> None:
    # The reader closed the pipe. Python flushes stdout at exit and would print an error.
    try:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
    except (OSError, ValueError):
        return


if __name__ == "__main__":
    main()
