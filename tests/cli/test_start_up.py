"""What commands import: help and completion need none of the libraries that take long to import."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from fairway.cli import lazy, main
from fairway.cli.commands import run as run_command
from fairway.cli.options import controllers
from fairway.controllers import settings
from fairway.controllers.placement import ocm_detection
from kubewire.client import Timing
from kubewire.client.lease import LONGEST_LEASE, SHORTEST_LEASE

CLI = Path(lazy.__file__).parent
LATE = ("numpy", "aiohttp", "msgspec", "yaml", "rich", "asyncio", "kubewire.client", "kubewire.documents")
"""Modules that help and completion must not import."""


def commands(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            assert subcommand is not None
            yield from commands(subcommand, (*path, name))


ALL = dict(commands(main.fairway))


def imported_by(code: str) -> list[str]:
    """Run code in a new process, and return the late modules and packages of Fairway that it imported."""
    program = (
        "import contextlib, io, sys\n"
        f"with contextlib.redirect_stdout(io.StringIO()):\n    {code}\n"
        f"late = [name for name in {LATE} if name in sys.modules]\n"
        "own = {'.'.join(name.split('.')[:2]) for name in sys.modules if name.startswith('fairway.')}\n"
        "print(*late, *sorted(own - {'fairway.cli', 'fairway.observe'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_help_of_every_command_imports_nothing_that_takes_long() -> None:
    code = f"import fairway.cli.main as main; [main.run([*words, '--help']) for words in {list(ALL)}]"
    assert imported_by(code) == []


def test_completion_of_commands_and_options_imports_nothing_that_takes_long() -> None:
    code = (
        "import os; import fairway.cli.main as main; "
        "os.environ.update(_FAIRWAY_COMPLETE='bash_complete', COMP_WORDS='fairway run --sh', COMP_CWORD='2'); "
        "main.run([])"
    )
    assert imported_by(code) == []


@pytest.mark.parametrize(
    "words", [["get", "nonsense"], ["run", "--nonsense"], ["hub", "check", "--nonsense"]]
)
def test_wrong_usage_imports_nothing_that_takes_long(words: list[str]) -> None:
    code = f"import fairway.cli.main as main; main.run({words})"
    assert imported_by(f"with contextlib.redirect_stderr(io.StringIO()): {code}") == []


def test_only_the_loader_imports_inside_a_function() -> None:
    late = [
        f"{path.relative_to(CLI)}:{node.lineno}"
        for path in sorted(CLI.rglob("*.py"))
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Name) and node.id in ("import_module", "__import__"))
    ]
    loader = inspect.getsourcelines(lazy.load)
    assert late == [
        f"lazy.py:{loader[1] + at}" for at, line in enumerate(loader[0]) if "import_module(" in line
    ]


def test_function_of_every_command_takes_the_options_of_its_declaration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load, calls = lazy.load, []

    def record(target: str) -> Callable[..., None]:
        return lambda *arguments, **options: calls.append((target, arguments, options))

    monkeypatch.setattr(lazy, "load", record)
    for words, command in ALL.items():
        if command.callback is None or command.hidden:
            continue
        with click.Context(command, info_name=words[-1] if words else "fairway"):
            command.callback(**{option.name: None for option in command.params if option.expose_value})
    assert len({target for target, _, _ in calls}) == len(calls) > 50
    for target, arguments, options in calls:
        inspect.signature(load(target)).bind(*arguments, **options)


def test_options_of_run_name_the_controllers_and_defaults_of_its_settings() -> None:
    options = {option.name: option for option in run_command.run.params}
    defaults = settings.Settings()
    assert set(controllers.DEFAULT_CONTROLLERS) == settings.DEFAULT
    assert set(controllers.NAMES) == settings.ALL
    assert options["lease_namespace"].default == defaults.namespace
    assert (options["workers"].default, options["grace"].default) == (defaults.workers, defaults.grace)
    assert options["ocm_namespace"].default == ocm_detection.NAMESPACE
    lease = options["lease_duration"]
    assert isinstance(lease.type, click.IntRange)
    assert (lease.type.min, lease.default, lease.type.max) == (SHORTEST_LEASE, Timing().lease, LONGEST_LEASE)
