"""The `fairway` command: finds the verb, runs it, and turns whatever happens into a message and an exit code.

Verbs are imported when they are called or when their own help is asked for, so that `fairway --help` stays
quick. A verb is one module in this package with a click command in it, and one line in `VERBS`.

Exit codes: 0 ok, 1 the answer is no, 2 bad input or usage, 130 interrupted. A traceback is shown only with
FAIRWAY_DEBUG=1.
"""

import codecs
import io
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Final, NamedTuple

import click
from click.shell_completion import shell_complete

from fairway import __version__
from fairway.cli.errors import (
    DEBUG_VARIABLE,
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    CommandError,
)
from fairway.cli.output import say

INTERNAL_ERROR = (
    "fairway: internal error: {error}\n"
    f"This is a fault in Fairway, not in your input. Set {DEBUG_VARIABLE}=1 to see where it happened."
)
COMPLETION_VARIABLE = "_FAIRWAY_COMPLETE"
INTERRUPTED = "fairway: interrupted"
OUT_OF_MEMORY = "fairway: not enough memory for this input"
SYSTEM_ERROR = "fairway: {error}"
NO_STDOUT = "fairway: standard output is closed, so there is nowhere to print the answer"
UNPRINTABLE = "fairway-unprintable"


_SPELT: Final = {"…": "...", "×": "x"}


class Verb(NamedTuple):
    """Where a verb lives (`module:attribute`) and what the list of verbs says about it."""

    target: str
    help: str


VERBS: Final[dict[str, Verb]] = {
    "accept": Verb("fairway.cli.accept.command:accept", "Let clusters in that ask to join."),
    "addon": Verb("fairway.cli.addon.command:addon", "Install Fairway's add-on on managed clusters."),
    "agent": Verb("fairway.cli.agent.command:agent", "Run the agent of the add-on on a managed cluster."),
    "clusterset": Verb("fairway.cli.clusterset:clusterset", "Bind sets to namespaces, and fill them."),
    "completion": Verb("fairway.cli.completion:completion", "Print the completion script of a shell."),
    "conformance": Verb(
        "fairway.cli.conformance:conformance", "Check this version against recorded answers."
    ),
    "crds": Verb("fairway.cli.crds:crds", "Print the CRDs, ready for kubectl apply."),
    "explain": Verb("fairway.cli.explain.command:explain", "Say why, why not, and what would change it."),
    "fleet": Verb("fairway.cli.fleet.command:fleet", "Generate fleets and look at what files hold."),
    "get": Verb("fairway.cli.get.command:get", "Show clusters, sets, placements, scores and decisions."),
    "hub": Verb("fairway.cli.hub.command:hub", "Run an embedded Kubernetes API, and look after its data."),
    "join": Verb("fairway.cli.join.command:join", "Join a cluster to a hub, and look after it there."),
    "lint": Verb("fairway.cli.lint:lint", "Find mistakes before they cost a decision."),
    "place": Verb("fairway.cli.place:place", "Decide placements and print the decisions."),
    "provider": Verb(
        "fairway.cli.provider.command:provider", "Run score providers, and look after their scores."
    ),
    "run": Verb("fairway.cli.run.command:run", "Run the controllers against a hub."),
    "up": Verb("fairway.cli.up.command:up", "Start a hub with controllers, and a fleet to try things on."),
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

Every command explains itself: fairway COMMAND --help.
""",
)
@click.version_option(__version__, prog_name="fairway")
def fairway() -> None:
    """Decides where work should run across many Kubernetes clusters, and can prove why."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; messages go to stderr."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not _can_print():
        return EXIT_BAD_INPUT
    try:
        # click's own main would make exit status 1 of a broken pipe, which here means that the answer is no.
        instruction = os.environ.get(COMPLETION_VARIABLE)
        if instruction:
            return shell_complete(fairway, {}, "fairway", COMPLETION_VARIABLE, instruction)
        with fairway.make_context("fairway", words) as context:
            result = fairway.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except CommandError as error:
        _tell("\n".join(f"fairway: {line}" for line in error.lines()))
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return EXIT_BAD_INPUT
    except (KeyboardInterrupt, click.Abort):
        _tell(INTERRUPTED)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return EXIT_OK
    except MemoryError:
        _tell(OUT_OF_MEMORY)
        return EXIT_BAD_INPUT
    except OSError as error:
        if _debugging():
            raise
        _tell(SYSTEM_ERROR.format(error=error.strerror or error))
        return EXIT_BAD_INPUT
    except Exception as error:
        if _debugging():
            raise
        _tell(INTERNAL_ERROR.format(error=f"{type(error).__name__}: {error}"))
        return EXIT_BAD_INPUT
    return result if isinstance(result, int) else EXIT_OK


def main() -> None:
    sys.exit(run())


def _can_print() -> bool:
    """Makes the streams take any text. False when the command was started without standard output."""
    if sys.stderr is None:
        # Messages are for nobody, but must not stop an answer that is for somebody.
        sys.stderr = io.StringIO()
    if sys.stdout is None:
        _tell(NO_STDOUT)
        return False
    codecs.register_error(UNPRINTABLE, _spell)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=UNPRINTABLE)
    return True


def _spell(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that the terminal's encoding does not have."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    spelt = "".join(_SPELT.get(char) or char.encode("ascii", "backslashreplace").decode() for char in found)
    return spelt, error.end


def _debugging() -> bool:
    return os.environ.get(DEBUG_VARIABLE, "") == "1"


def _tell(text: str) -> None:
    try:
        say(text, stream=sys.stderr)
        sys.stderr.flush()
    except BrokenPipeError:
        _silence_stdout()


def _silence_stdout() -> None:
    # The reader went away. Python flushes stdout once more at exit and would complain on stderr.
    try:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
    except (OSError, ValueError):
        return


if __name__ == "__main__":
    main()
