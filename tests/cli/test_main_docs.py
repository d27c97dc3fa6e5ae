"""docs/reference/cli.md shows the output of its commands on a hub with the example fleet, in the order of the page."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import forked
from cli.accept.test_accept import PendingRequest, allow, ask, subject, waiting
from cli.live_hub import EXAMPLE, ROOT, act, fill, write_status
from fairway.api.kinds import decode
from fairway.api.placement import Placement
from fairway.cli import main
from fairway.cli.main import VERBS, run
from fairway.testing.builders import cluster_set
from fairway.testing.hub import hub_in_thread
from kubewire.api.encoding import encode
from kubewire.client import Client

PAGE = ROOT / "docs" / "reference" / "cli.md"
BLOCKS = re.compile(r"```console\n\$ (.*?)\n(.*?)```", re.DOTALL)
ELSEWHERE = "# in another terminal: "
SETS = {"apps": 4, "edge": 1, "global": 9, "hosting": 3}


def shown() -> list[tuple[str, str]]:
    return BLOCKS.findall(PAGE.read_text(encoding="utf-8"))


def normal(text: str) -> str:
    """Remove values that differ between hubs."""
    text = re.sub(r"uid: [-0-9a-f]{36}", "uid: UID", text)
    text = re.sub(r"resourceVersion: '\d+'", "resourceVersion: VERSION", text)
    text = re.sub(
        r"(creationTimestamp|lastTransitionTime|lastScoreUpdateTime): '[-0-9TZ:]+'", r"\1: WHEN", text
    )
    return re.sub(r"  \d+[smh]\d*[sm]?$", "  AGE", text, flags=re.M).rstrip()


async def decide(client: Client, decided: list[dict[str, object]]) -> None:
    """Write the decisions of the controllers."""
    for document in decided:
        thing = decode(document)
        if isinstance(thing, Placement):
            await write_status(client, thing, encode(thing)["status"])
    for name, count in SETS.items():
        noun = "ManagedCluster" if count == 1 else "ManagedClusters"
        condition = {
            "type": "ClusterSetEmpty",
            "status": "False",
            "reason": "ClustersSelected",
            "message": f"{count} {noun} selected",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        await write_status(client, cluster_set(name), {"conditions": [condition]})


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder; the hub has a decided fleet and a cluster that requests to join."""
    folder = tmp_path_factory.mktemp("docs")
    out = folder / "decided.json"
    with (
        out.open("w") as stream,
        forked.Process(["place", "-f", EXAMPLE, "-o", "json"], stdout=stream) as process,
    ):
        assert process.wait() == 0
    decided = json.loads(out.read_text())["items"]
    with hub_in_thread(folder=folder) as hub:
        pages = [decode(item) for item in decided if item["kind"] == "PlacementDecision"]
        fill(hub.kubeconfig, *pages, waiting("edge-new", member_of=""), paths=[EXAMPLE])

        async def prepare(client: Client) -> None:
            await decide(client, decided)
            await allow(client)
            await ask(
                client, PendingRequest(name="edge-new-4xk2p", cluster="edge-new", subject=subject("edge-new"))
            )

        act(hub.kubeconfig, prepare)
        for name in ("examples", "tests"):
            (folder / name).symlink_to(ROOT / name)
        (new,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        (folder / "new.yaml").write_text(new)
        yield folder


def environment(folder: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "KUBECONFIG": "kubeconfig", "COLUMNS": "120", "NO_COLOR": "1"}


def output_of(folder: Path, command: str) -> str:
    done = forked.shell(command, env=environment(folder), cwd=folder)
    assert done.returncode in (0, 1, 2)
    assert "internal error" not in done.stdout
    return done.stdout


def watched(folder: Path, command: str, expected: str) -> str:
    """Return the shown number of lines of a command that does not end."""
    with forked.Popen(
        ["sh", "-c", f"exec {command}"],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in expected.splitlines():
            if line.startswith(ELSEWHERE):
                output_of(folder, line.removeprefix(ELSEWHERE))
                lines.append(f"{line}\n")
            else:
                lines.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    return "".join(lines)


def test_cli_page_shows_the_printed_output(terminal: Path) -> None:
    assert shutil.which("fairway", path=environment(terminal)["PATH"])
    for command, expected in shown():
        got = watched(terminal, command, expected) if "--watch" in command else output_of(terminal, command)
        assert normal(got) == normal(expected), command


def test_cli_page_has_every_command() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in VERBS:
        assert f"[{name}](" in page
    used = {verb for command, _ in shown() for verb in re.findall(r"fairway ([a-z]+)", command)}
    of_other_pages = {"history", "hub", "machines", "replay", "run", "up", "why"}
    assert set(VERBS) - used == of_other_pages


def unknown_words(line: str) -> set[str]:
    """Return the verb, or the options, of a command of Fairway that do not exist."""
    words = re.split(r"  +|[#;]| (?:&&|>|2>)", line)[0].replace("[", " ").replace("]", " ").split()
    context = click.Context(main.fairway)
    command: click.Command = main.fairway
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        inner = command.get_command(context, words[0])
        if inner is None:
            return {words[0]} if command is main.fairway or words[0].islower() else set()
        command = inner
        words.pop(0)
    known = {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    return given - known - {"--help"}


def commands_of(page: Path) -> list[str]:
    """Return the commands of Fairway in the blocks and in the text of a page, without the word fairway."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^ *```(?:|console|sh|bash)\n(.*?)^ *```$", text, re.M | re.S)
    prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S)
    lines = [
        line
        for block in blocks
        for line in re.findall(r"^(?:\$ |.*&& |.*\| )?fairway ([a-z][^|\n]*)", block, re.M)
    ]
    return lines + [" ".join(code.split()) for code in re.findall(r"`fairway ([a-z][^`|]*)`", prose)]


def test_commands_on_all_pages_exist_with_their_options() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    commands = [(page.name, line) for page in pages for line in commands_of(page)]
    assert len(commands) > 400
    assert [(page, line) for page, line in commands if unknown_words(line)] == []


def test_help_of_every_command_has_examples_that_are_commands() -> None:
    context = click.Context(main.fairway)
    for name in VERBS:
        command = main.fairway.get_command(context, name)
        assert command is not None
        for example in re.findall(r"^  (?:.*[(| ])?fairway ([^\n|)'`]+)", command.epilog or "", re.M):
            assert unknown_words(example) == set(), example


def test_unknown_verb_has_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explian"]) == 2
    assert "Did you mean 'explain'?" in capsys.readouterr().err
