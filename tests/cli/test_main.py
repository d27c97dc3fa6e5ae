import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

import forked
from fairway import __version__
from fairway.cli import main
from fairway.cli.errors import BadInputError, InputProblemsError, NegativeAnswerError, Problem


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Install a verb named `probe` with the behaviour of the test."""

    def install(action: Callable[[], object]) -> None:
        command = click.Command("probe", callback=action)
        monkeypatch.setitem(sys.modules, "fairway.cli.commands.probe", SimpleNamespace(probe=command))
        monkeypatch.setitem(main.VERBS, "probe", "A probe.")

    return install


def raiser(error: BaseException) -> Callable[[], object]:
    def action() -> object:
        raise error

    return action


Install = Callable[[Callable[[], object]], None]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (NegativeAnswerError("the answer is no"), 1, "fairway: the answer is no\n"),
        (BadInputError("not like this"), 2, "fairway: not like this\n"),
        (KeyboardInterrupt(), 130, "fairway: interrupted\n"),
        (MemoryError(), 2, "fairway: not enough memory for this input\n"),
        (OSError(28, "No space left on device"), 2, "fairway: No space left on device\n"),
    ],
)
def test_command_errors_print_a_message_and_exit_with_their_code(
    verb: Install, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, message: str
) -> None:
    verb(raiser(error))
    assert main.run(["probe"]) == code
    assert capsys.readouterr().err.lstrip("\n") == message


def test_internal_error_is_printed_without_traceback(
    verb: Install, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAIRWAY_DEBUG", raising=False)
    verb(raiser(ZeroDivisionError("oops")))
    assert main.run(["probe"]) == 2
    text = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: oops" in text
    assert "Traceback" not in text


def test_debug_variable_lets_the_traceback_through(verb: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWAY_DEBUG", "1")
    verb(raiser(ZeroDivisionError("oops")))
    with pytest.raises(ZeroDivisionError):
        main.run(["probe"])


def test_broken_pipe_prints_nothing(verb: Install, capsys: pytest.CaptureFixture[str]) -> None:
    verb(raiser(BrokenPipeError(32, "Broken pipe")))
    assert main.run(["probe"]) == 0
    assert capsys.readouterr().err == ""


def test_return_value_of_a_verb_is_the_exit_code(verb: Install) -> None:
    verb(lambda: 1)
    assert main.run(["probe"]) == 1
    verb(lambda: None)
    assert main.run(["probe"]) == 0


def test_long_list_of_problems_is_truncated(verb: Install, capsys: pytest.CaptureFixture[str]) -> None:
    problems = [Problem(file="a.yaml", line=n, message="is wrong", remedy="mend it") for n in range(1, 26)]
    verb(raiser(InputProblemsError(problems)))
    assert main.run(["probe"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "fairway: a.yaml:1: is wrong; mend it"
    assert (len(lines), lines[-1]) == (21, "fairway: and 5 more")


def test_problem_names_file_line_object_and_field() -> None:
    problem = Problem(file="f.yaml", line=3, subject="Placement ns/p", path="spec.x", message="is bad")
    assert str(problem) == "f.yaml:3: Placement ns/p: spec.x: is bad"


def fairway(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fairway.cli.main", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_help_and_version_exit_0() -> None:
    shown = fairway("--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "conformance" in shown.stdout
    assert fairway("--version").stdout == f"fairway, version {__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["--nonsense"], ["fleet", "generate"], ["fleet", "show", "-o", "xml"]]
)
def test_wrong_usage_of_fairway_exits_2(arguments: list[str]) -> None:
    done = fairway(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Usage:" in done.stderr
    assert "Traceback" not in done.stderr


def test_closed_pipe_of_the_reader_is_no_error() -> None:
    command = ["fleet", "generate", "--clusters", "500", "-o", "jsonl"]
    with forked.Process(command, stdout=forked.PIPE, stderr=forked.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        writer.stdout.readline()
        writer.stdout.close()
        assert (writer.stderr.read(), writer.wait()) == ("", 0)


def test_shell_completion_offers_the_verbs() -> None:
    words = {"COMP_WORDS": "fairway con", "COMP_CWORD": "1", "_FAIRWAY_COMPLETE": "bash_complete"}
    assert fairway(**words).stdout == "plain,conformance\n"


def test_ctrl_c_exits_130_without_a_traceback() -> None:
    command = ["fleet", "generate", "--clusters", "10000000", "-o", "jsonl"]
    with forked.Process(command, stdout=forked.PIPE, stderr=forked.PIPE) as busy:
        assert busy.stdout is not None
        assert busy.stderr is not None
        busy.stdout.readline()
        busy.send_signal(signal.SIGINT)
        assert busy.stdout.read()
        assert (busy.stderr.read(), busy.wait()) == ("fairway: interrupted\n", 130)


INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = {arguments!r}
from fairway.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("typing", ["--help"]),
        ("click", ["--help"]),
        ("fairway.cli.commands.place", ["place", "-f", "none.yaml"]),
        ("numpy", ["place", "-f", "none.yaml"]),
    ],
)
def test_ctrl_c_during_imports_exits_130_without_a_traceback(module: str, arguments: list[str]) -> None:
    code = INTERRUPTED_IMPORT.format(module=module, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "fairway: interrupted\n")


EXAMPLES = str(Path(__file__).parents[2] / "examples" / "fleet")


def test_ascii_terminal_gets_ascii_output() -> None:
    done = fairway("place", "-f", EXAMPLES, "--placement", "everywhere/roll-out", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "gpu-iad (100) ... and 3 more" in done.stdout
    done = fairway("explain", "-f", EXAMPLES, "placement", "ns1/idlest", PYTHONIOENCODING="ascii")
    assert "74 x 1 = 74" in done.stdout


def test_yaml_and_json_are_utf8_on_every_terminal(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {name: c1}\n"
        "status: {version: {kubernetes: v1.30-é…}}\n",
        encoding="utf-8",
    )
    for output in ("json", "yaml"):
        done = subprocess.run(
            [sys.executable, "-m", "fairway.cli.main", "fleet", "show", "-f", str(file), "-o", output],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert "v1.30-é…" in done.stdout.decode()


@pytest.mark.parametrize(
    ("redirection", "message"),
    [
        ("<&-", "fairway: <stdin>: is closed; pipe objects in, or name a file with -f\n"),
        (">&-", "fairway: standard output is closed\n"),
        ("</dev/null 2>&-", ""),
    ],
)
def test_closed_standard_streams_exit_2(redirection: str, message: str) -> None:
    command = f'"{sys.executable}" -m fairway.cli.main fleet show -f - {redirection}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)
