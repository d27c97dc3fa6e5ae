"""The `fairway` command: run a verb, and turn errors into messages and exit codes.

Verbs are imported on first use, so that `fairway --help` is fast. To add a verb, write a module with a click command
and add a line to `VERBS`.

Exit codes: 0 ok, 1 the answer is no, 2 bad input or usage, 130 interrupted. Tracebacks are shown only with
FAIRWAY_DEBUG=1.
"""

import codecs
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

import click
from click.shell_completion import shell_complete

from fairway import __version__
from fairway.cli.errors import DEBUG_VARIABLE, EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_OK, CommandError
from fairway.cli.output import say

INTERNAL_ERROR = (
    "fairway: internal error: {error}\n"
    f"This is a bug in Fairway, not in your input. Set {DEBUG_VARIABLE}=1 to see the traceback."
)
COMPLETION_VARIABLE = "_FAIRWAY_COMPLETE"
PLUGIN = "kubectl-fairway"
"""Name of the console script that kubectl runs for `kubectl fairway`."""
INTERRUPTED = "fairway: interrupted"
OUT_OF_MEMORY = "fairway: not enough memory for this input"
SYSTEM_ERROR = "fairway: {error}"
NO_STDOUT = "fairway: standard output is closed"
UNPRINTABLE = "fairway-unprintable"


_REPLACEMENTS: Final = {"…": "...", "×": "x"}


class Verb(NamedTuple):
    """The click command of a verb (`module:attribute`) and its summary."""

    target: str
    help: str


VERBS: Final[dict[str, Verb]] = {
    "accept": Verb("fairway.cli.accept.command:accept", "Accept clusters that request to join."),
    "addon": Verb("fairway.cli.addon.command:addon", "Install Fairway's add-on on managed clusters."),
    "agent": Verb("fairway.cli.agent.command:agent", "Run the add-on's agent on a managed cluster."),
    "apply": Verb("fairway.cli.apply:apply", "Apply objects in files to a hub."),
    "clusterset": Verb(
        "fairway.cli.clusterset:clusterset", "Bind cluster sets to namespaces, and add clusters."
    ),
    "completion": Verb("fairway.cli.completion:completion", "Print the completion script of a shell."),
    "conformance": Verb(
        "fairway.cli.conformance:conformance", "Check this version against recorded answers."
    ),
    "crds": Verb("fairway.cli.crds:crds", "Print the CRDs, for kubectl apply."),
    "explain": Verb("fairway.cli.explain.command:explain", "Explain a decision, and what would change it."),
    "fleet": Verb("fairway.cli.fleet.command:fleet", "Generate fleets, and apply them to a hub."),
    "get": Verb("fairway.cli.get.command:get", "List clusters, sets, placements, scores and decisions."),
    "hosting": Verb(
        "fairway.cli.hosting.request:hosting", "Show room for hosted clusters, try requests, and plan moves."
    ),
    "hub": Verb("fairway.cli.hub.command:hub", "Run an embedded Kubernetes API server, and manage its data."),
    "join": Verb("fairway.cli.join.command:join", "Join a cluster to a hub, and run its klusterlet."),
    "lint": Verb("fairway.cli.lint:lint", "Find mistakes in placements."),
    "machines": Verb(
        "fairway.cli.machines.command:machines", "Show virtual machines that grow and move, and explain pods."
    ),
    "place": Verb("fairway.cli.place:place", "Decide placements and print the decisions."),
    "provider": Verb(
        "fairway.cli.provider.command:provider", "Run score providers, and manage their scores."
    ),
    "simulate": Verb("fairway.cli.simulate.command:simulate", "Compare policies on a trace, without a hub."),
    "run": Verb("fairway.cli.run.command:run", "Run the controllers against a hub."),
    "scheduler": Verb(
        "fairway.cli.scheduler.command:scheduler", "Check scheduler configurations, and list plugins."
    ),
    "up": Verb("fairway.cli.up.command:up", "Start a hub with controllers and a synthetic fleet."),
}


class VerbGroup(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*VERBS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = VERBS.get(cmd_name)
        if verb is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = verb.target.partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{verb.target} is not a click command")
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
            formatter.write_dl(
                [(name, VERBS[name].help) for name in self.list_commands(ctx) if name in VERBS]
            )


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
    program = "kubectl fairway" if Path(sys.argv[0]).name == PLUGIN else "fairway"
    if not _can_print():
        return EXIT_BAD_INPUT
    try:
        # click's main returns 1 for a broken pipe, which here means that the answer is no.
        instruction = os.environ.get(COMPLETION_VARIABLE)
        if instruction:
            return shell_complete(fairway, {}, "fairway", COMPLETION_VARIABLE, instruction)
        with fairway.make_context(program, words) as context:
            result = fairway.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except CommandError as error:
        _print_error("\n".join(f"fairway: {line}" for line in error.lines()))
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return EXIT_BAD_INPUT
    except (KeyboardInterrupt, click.Abort):
        _print_error(INTERRUPTED)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return EXIT_OK
    except MemoryError:
        _print_error(OUT_OF_MEMORY)
        return EXIT_BAD_INPUT
    except OSError as error:
        if _debugging():
            raise
        _print_error(SYSTEM_ERROR.format(error=error.strerror or error))
        return EXIT_BAD_INPUT
    except Exception as error:
        if _debugging():
            raise
        _print_error(INTERNAL_ERROR.format(error=f"{type(error).__name__}: {error}"))
        return EXIT_BAD_INPUT
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
    found = error.object[error.start : error.end]
    replaced = "".join(
        _REPLACEMENTS.get(char) or char.encode("ascii", "backslashreplace").decode() for char in found
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
