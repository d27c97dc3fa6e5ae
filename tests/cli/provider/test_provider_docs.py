"""docs/how-to/providers.md: all its commands run in order on an embedded hub."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import forked
from cli.live_hub import ROOT, act
from fairway.api.kinds import decode
from fairway.api.placement import Placement
from fairway.api.resources import MANAGED_CLUSTERS, PLACEMENTS
from fairway.cli.commands.provider import provider
from fairway.providers import provider_loop, publication, rbac, reading_check, sandbox, scales
from fairway.providers.assessment import NO_VALUES
from fairway.testing.hub import hub_in_thread
from kubewire.client import Client
from kubewire.client.rbac import Rule

PAGE = (ROOT / "docs" / "how-to" / "providers.md").read_text(encoding="utf-8")
BLOCKS = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
PRICE = "example.com/cents-per-core"


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCKS.findall(PAGE) if kind == language]


def commands() -> list[tuple[str, str]]:
    """List each command with its output; a block may have several."""
    shown: list[tuple[str, str]] = []
    for block in blocks("console"):
        for part in block.removeprefix("$ ").split("\n$ "):
            command, _, output = part.partition("\n")
            shown.append((command, output))
    return shown


def normal(text: str) -> str:
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "WHEN", text)
    return re.sub(r"  \d+[smh](\d+[sm])?$", "  AGE", text, flags=re.M).rstrip()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("docs")
    with hub_in_thread(folder=made) as hub:

        async def prepare(client: Client) -> None:
            for name, cents in (("c1", "3"), ("c2", "9")):
                await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
                body = {
                    "metadata": {"name": name, "labels": {PRICE: cents}},
                    "spec": {"hubAcceptsClient": True},
                }
                await client.create(MANAGED_CLUSTERS, body)
            await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "ns1"}})

        act(hub.kubeconfig, prepare)
        for source in blocks("python"):
            name = re.match(r"# (\w+\.py)\n", source)
            if name is not None:
                (made / name[1]).write_text(source.removeprefix(name[0]))
        yield made


def output_of(folder: Path, command: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": "kubeconfig", "COLUMNS": "120", "NO_COLOR": "1"}
    done = forked.shell(command, env=environment, cwd=folder)
    assert done.returncode in (0, 1)
    return done.stdout


def test_providers_page_shows_the_printed_output(folder: Path) -> None:
    shown = commands()
    assert len(shown) >= 8
    for command, expected in shown:
        assert normal(output_of(folder, command)) == normal(expected), command


def test_providers_page_begins_with_a_tutorial() -> None:
    first = next(line for line in PAGE.splitlines() if line.startswith("## "))
    assert first == "## Write a score provider in ten minutes"


def test_first_provider_on_the_page_is_the_example_file() -> None:
    first = blocks("python")[0].removeprefix("# queue.py\n")
    assert first == (ROOT / "examples" / "providers" / "queue.py").read_text(encoding="utf-8")
    assert sum(bool(line.strip()) for line in first.splitlines()) <= 10


def test_python_on_the_providers_page_compiles() -> None:
    for source in blocks("python"):
        exec(compile(source, "docs/how-to/providers.md", "exec"), {"__name__": "page"})


def test_placement_on_the_providers_page_is_valid(folder: Path) -> None:
    (document,) = [block for block in map(yaml.safe_load, blocks("yaml")) if block["kind"] == "Placement"]
    placement = decode(document)
    assert isinstance(placement, Placement)
    policy = placement.spec.prioritizerPolicy
    assert policy is not None
    coordinate = policy.configurations[0].scoreCoordinate
    assert coordinate is not None
    assert coordinate.addOn is not None
    assert (coordinate.addOn.resourceName, coordinate.addOn.scoreName) == ("queue-score", "queueFree")
    act(folder / "kubeconfig", lambda client: client.create(PLACEMENTS, document, namespace="ns1"))


def _rules(document: dict[str, Any]) -> tuple[Rule, ...]:
    keys = {"apiGroups": "groups", "resources": "resources", "verbs": "verbs", "resourceNames": "names"}
    return tuple(
        Rule(**{keys[key]: tuple(value) for key, value in rule.items()}) for rule in document["rules"]
    )


def test_rules_on_the_providers_page_are_those_of_the_code() -> None:
    roles = {block["kind"]: block for block in map(yaml.safe_load, blocks("yaml"))}
    assert _rules(roles["Role"]) == rbac.CLUSTER_RULES
    assert _rules(roles["ClusterRole"]) == rbac.FLEET_RULES
    assert rbac.LEASE_RULES[0].verbs == ("create", "get", "patch")
    assert [rule.verbs for rule in rbac.RAW_RULES] == [("create", "delete", "get", "list"), ("patch",)]
    assert rbac.ADOPT_RULES[0].verbs == ("patch",)
    assert rbac.CLEANUP_RULES[0].verbs == ("delete", "list")


@pytest.mark.parametrize(
    "word",
    [
        *(
            reading_check.BAD_VALUE,
            reading_check.UNKNOWN_SCORE,
            reading_check.DUPLICATE_SCORE,
            reading_check.TOO_MANY_SCORES,
        ),
        *(reading_check.BAD_RESULT, sandbox.TIMED_OUT, sandbox.BUSY, NO_VALUES, publication.CONDITION),
    ],
)
def test_providers_page_lists_every_reason(word: str) -> None:
    assert f"`{word}`" in PAGE


def test_providers_page_has_the_limits_of_the_code() -> None:
    assert ("three intervals", publication.INTERVALS) == ("three intervals", 3)
    assert ("at least three minutes" in PAGE, publication.SHORTEST_SECONDS) == (True, 180)
    assert (f"more than {reading_check.MOST_SCORES} values" in PAGE, "collected for a second" in PAGE) == (
        True,
        True,
    )
    assert (provider_loop.DEBOUNCE_SECONDS, provider_loop.ELSEWHERE_SECONDS) == (1.0, 60.0)
    assert "(2 by default)" in PAGE


@pytest.mark.parametrize("scale", ["Linear", "Logarithmic", "Direct", "Inverted", "Quantile", "Spread"])
def test_providers_page_lists_every_scale(scale: str) -> None:
    assert re.search(rf"^\| `{scale}\(", PAGE, re.M)
    assert hasattr(scales, scale)


def test_options_on_the_providers_page_exist() -> None:
    known = {"--help"}
    for command in provider.commands.values():
        known |= {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    assert isinstance(provider, click.Group)
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) <= known
