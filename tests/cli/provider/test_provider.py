"""`fairway provider`: output, errors, and its life as a process."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.live_hub import act
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES, MANAGED_CLUSTERS
from fairway.api.score import AddOnPlacementScore
from fairway.cli.main import run
from fairway.providers.rbac import CLUSTER_RULES
from fairway.testing.hub import HubAddress, hub_in_thread
from kubewire.client import Client, NotFound
from providers.hub_fleet import HubFleet
from rigs.cleanup import delete_all
from rigs.processes import POLL
from rigs.restricted import write_kubeconfig

SECONDS = 120.0

WORKER = """
from pathlib import Path
from fairway.providers import Linear, Score, provider

@provider(scores={"free": Score(name="free", scale=Linear(0, 100), unit="slots")}, interval=0.2)
def worker():
    return float(Path("value").read_text())
"""
FLEET = """
from fairway.providers import Quantile, fleet_provider

@fleet_provider(scores={"cheap": Quantile()})
def rank(clusters):
    return {name: len(name) for name in clusters if name.startswith("c")}
"""
CONFIGURED = """
from fairway.providers import Direct, OptionsError, provider

def make(options, context):
    if "value" not in options:
        raise OptionsError("must be set", field="value")
    assert (context.folder / "data.txt").is_file()

    @provider(scores={"free": Direct()}, name="made")
    def read():
        return options["value"]

    return read

def broken(options, context):
    raise KeyError("odd")
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAddress]:
    with hub_in_thread(folder=tmp_path_factory.mktemp("hub")) as made:

        async def prepare(client: Client) -> None:
            for name in ("c1", "c22", "other"):
                await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
                await client.create(MANAGED_CLUSTERS, {"metadata": {"name": name}})

        act(made.kubeconfig, prepare)
        yield made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    for name, source in (("worker.py", WORKER), ("fleet.py", FLEET), ("configured.py", CONFIGURED)):
        (tmp_path / name).write_text(source)
    (tmp_path / "value").write_text("75")
    return tmp_path


@pytest.fixture
def at_hub(folder: Path, hub: HubAddress, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("KUBECONFIG", str(hub.kubeconfig))
    yield hub.kubeconfig
    act(hub.kubeconfig, _clear)


async def _clear(client: Client) -> None:
    for cluster in ("c1", "c22", "other"):
        await delete_all(client, ADD_ON_PLACEMENT_SCORES, namespace=cluster)


def scores(kubeconfig: Path) -> dict[str, dict[str, int]]:
    listing = act(kubeconfig, lambda client: client.list(ADD_ON_PLACEMENT_SCORES))
    return {
        f"{item.metadata.namespace}/{item.metadata.name}": {
            score.name: score.value for score in item.status.scores
        }
        for item in listing.items
    }


def read(kubeconfig: Path, name: str, *, cluster: str = "c1") -> AddOnPlacementScore | None:
    async def get(client: Client) -> AddOnPlacementScore | None:
        try:
            return await client.get(ADD_ON_PLACEMENT_SCORES, name, namespace=cluster)
        except NotFound:
            return None

    return act(kubeconfig, get)


def await_(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(POLL)


# What it prints


def test_provider_dry_run_needs_no_hub(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["provider", "run", "worker.py", "--dry-run"]) == 0
    table, errors = capsys.readouterr()
    assert errors == ""
    assert re.sub(r"\S+Z", "WHEN", table).splitlines() == [
        "CLUSTER  RESOURCE      SCORE  VALUE  RAW       VALID UNTIL           PROBLEM",
        "local    worker-score  free      75  75 slots  WHEN  -",
    ]


@pytest.mark.parametrize(("output", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_provider_dry_run_prints_json(
    folder: Path, capsys: pytest.CaptureFixture[str], output: str, parse: Callable[[str], Any]
) -> None:
    assert run(["provider", "run", "worker.py", "--dry-run", "--cluster-name", "c9", "-o", output]) == 0
    (item,) = parse(capsys.readouterr().out)["items"]
    assert (item["kind"], item["metadata"]["namespace"]) == ("AddOnPlacementScore", "c9")
    assert item["metadata"]["labels"]["fairway.dev/provider"] == "worker"
    assert item["status"]["scores"] == [{"name": "free", "value": 75}]
    assert item["status"]["conditions"][0]["message"] == "free 75 slots"


def test_provider_dry_run_leaves_no_file(
    at_hub: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = {"provider": "static", "options": {"scores": [{"name": "cost"}], "defaults": {"cost": 3}}}
    (folder / "forecast.yaml").write_text(json.dumps({"of": inner, "state": "seen.npz"}))
    command = ["provider", "run", "forecast", "--config", "forecast.yaml"]
    assert run([*command, "--dry-run"]) == 1
    assert "NotEnoughHistory" in capsys.readouterr().out
    assert not (folder / "seen.npz").exists()
    assert run([*command, "--once"]) == 1
    assert (folder / "seen.npz").exists()


def test_output_of_a_provider_is_not_in_the_result(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talking = WORKER.replace("    return", '    print("reading")\n    return')
    (folder / "talking.py").write_text(f'print("loading"){talking}')
    assert run(["provider", "run", "talking.py", "--dry-run", "-o", "json"]) == 0
    answer, notes = capsys.readouterr()
    assert len(json.loads(answer)["items"]) == 1
    assert notes == "loading\nreading\n"


def test_provider_dry_run_of_a_failing_provider_exits_1(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "value").write_text("much")
    assert run(["provider", "run", "worker.py", "--dry-run"]) == 1
    table, errors = capsys.readouterr()
    assert "CollectionFailed" in table
    assert "worker could not read local: ValueError: could not convert string to float: 'much'" in errors
    assert "some scores could not be read" in errors


def test_provider_dry_run_of_a_fleet_writes_nothing(at_hub: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["provider", "run", "fleet.py", "--dry-run"]) == 0
    table = capsys.readouterr().out
    assert [line.split()[:4] for line in table.splitlines()[1:]] == [
        ["c1", "rank-score", "cheap", "0"],
        ["c22", "rank-score", "cheap", "100"],
    ]
    assert scores(at_hub) == {}


@pytest.mark.parametrize("how", ["--dry-run", "--once"])
def test_unreadable_cluster_does_not_stop_the_other_clusters(
    at_hub: Path, folder: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    (folder / "partly.py").write_text(
        FLEET.replace("import Quantile", "import ProviderError, Quantile").replace(
            "len(name) for", 'ProviderError("away", reason="Away") if name == "c1" else 5 for'
        )
    )
    assert run(["provider", "run", "partly.py", how]) == 1
    table, errors = capsys.readouterr()
    assert [line.split()[-1] for line in table.splitlines()[1:]] == ["Away", "-"]
    assert "rank could not read c1: away" in errors
    assert "some scores could not be read or published" in errors


def test_provider_once_publishes_for_a_fleet_and_cleanup_deletes(
    at_hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["provider", "run", "fleet.py", "--once"]) == 0
    assert scores(at_hub) == {"c1/rank-score": {"cheap": 0}, "c22/rank-score": {"cheap": 100}}
    capsys.readouterr()
    assert run(["provider", "cleanup", "rank", "--dry-run"]) == 0
    assert capsys.readouterr().out.count("(dry run)") == 2
    assert len(scores(at_hub)) == 2
    assert run(["provider", "cleanup", "rank", "--cluster-name", "c1"]) == 0
    assert capsys.readouterr().out == "scores c1/rank-score of provider rank deleted\n"
    assert list(scores(at_hub)) == ["c22/rank-score"]
    for output, parse in (("json", json.loads), ("yaml", yaml.safe_load)):
        assert run(["provider", "cleanup", "rank", "--dry-run", "-o", output]) == 0
        assert parse(capsys.readouterr().out) == {
            "removed": [{"cluster": "c22", "resource": "rank-score"}],
            "others": [],
            "dryRun": True,
        }
    assert run(["provider", "cleanup", "rnk"]) == 0
    assert capsys.readouterr().out == ("the hub has no scores of provider rnk; it has scores of rank\n")
    assert run(["provider", "cleanup", "rank"]) == 0
    assert scores(at_hub) == {}
    capsys.readouterr()
    assert run(["provider", "cleanup", "rank"]) == 0
    assert capsys.readouterr().out == "the hub has no scores of provider rank\n"


def test_provider_cleanup_rejects_an_invalid_cluster_name(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["provider", "cleanup", "rank", "--cluster-name", "../kube-system"]) == 2
    assert "is not a valid cluster name" in " ".join(capsys.readouterr().err.split())


def test_provider_cleanup_keeps_scores_of_other_publishers(at_hub: Path) -> None:
    body = {"metadata": {"name": "theirs", "labels": {"fairway.dev/provider": "rank"}}}
    act(at_hub, lambda client: client.create(ADD_ON_PLACEMENT_SCORES, body, namespace="other"))
    assert run(["provider", "cleanup", "rank"]) == 0
    assert list(scores(at_hub)) == ["other/theirs"]


def test_provider_publishes_managed_cluster_scores_on_request(
    at_hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["provider", "run", "worker.py", "--cluster-name", "c1", "--once", "--managed-cluster-scores"]
    assert run(command) == 0
    raw = act(at_hub, lambda client: client.get(MANAGED_CLUSTER_SCORES, "c1-free", namespace="c1"))
    assert raw.status.score == 75
    assert scores(at_hub) == {"c1/worker-score": {"free": 75}}
    assert run(["provider", "cleanup", "worker"]) == 0
    assert act(at_hub, lambda client: client.list(MANAGED_CLUSTER_SCORES)).items == ()


def test_provider_once_reports_refusals_of_the_hub(at_hub: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["provider", "run", "worker.py", "--once", "--cluster-name", "nowhere"]) == 1
    errors = capsys.readouterr().err
    assert "worker could not publish the scores of nowhere: the hub has no namespace nowhere" in errors


def test_provider_takes_over_scores_only_with_adopt(at_hub: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = {"metadata": {"name": "worker-score"}}
    act(at_hub, lambda client: client.create(ADD_ON_PLACEMENT_SCORES, body, namespace="c1"))
    command = ["provider", "run", "worker.py", "--once", "--cluster-name", "c1"]
    assert run(command) == 1
    assert "c1/worker-score was not created by Fairway" in capsys.readouterr().err
    assert run([*command, "--adopt"]) == 0
    assert scores(at_hub) == {"c1/worker-score": {"free": 75}}


def test_provider_valid_for_sets_the_expiry(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["provider", "run", "worker.py", "--dry-run", "-o", "json", "--interval", "1h"]
    assert run([*command, "--valid-for", "2h"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    written = datetime.fromisoformat(item["status"]["conditions"][0]["lastTransitionTime"])
    lasts = datetime.fromisoformat(item["status"]["validUntil"]) - written
    assert timedelta(minutes=119) < lasts <= timedelta(hours=2)


def test_provider_factory_gets_the_options_of_config(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "conf").mkdir()
    (folder / "conf" / "made.yaml").write_text("value: 33\n")
    (folder / "conf" / "data.txt").write_text("")
    command = ["provider", "run", "configured.py:make", "--config", "conf/made.yaml", "--dry-run"]
    assert run(command) == 0
    assert "made-score" in capsys.readouterr().out
    (folder / "conf" / "made.yaml").write_text("\nother: 33\n")
    assert run(command) == 2
    assert "conf/made.yaml:2: value: must be set" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "text", "words"),
    [
        ("static", "scores:\n- name: a\n- name: b c\ndefaults: {a: 1}\n", "3: scores[1].name: 'b c' is no"),
        ("static", "scores:\n- name: a\ndefaults:\n  a: much\n", "4: defaults.a: expected a finite number"),
        ("static", "scores:\n- name: a\n", "1: is empty: write clusters"),
        ("prometheus", "url: http://p\nscores:\n- name: a\n  query: ' '\n", "3: scores[0]: misses the field"),
        (
            "prometheus",
            "url: http://p\nscores: []\ntiemout: 5s\n",
            "3: tiemout: is an unknown field; did you mean",
        ),
    ],
)
def test_error_in_provider_options_names_the_line(
    folder: Path, capsys: pytest.CaptureFixture[str], target: str, text: str, words: str
) -> None:
    (folder / "options.yaml").write_text(text)
    assert run(["provider", "run", target, "--config", "options.yaml", "--dry-run"]) == 2
    assert f"options.yaml:{words}" in " ".join(capsys.readouterr().err.split())


def test_provider_list_prints_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["provider", "list", "-o", "json"]) == 0
    by_name = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert {"prometheus", "static", "resource-usage"} <= set(by_name)
    assert {row["from"] for row in by_name.values()} == {"fairway"}


# What it refuses


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nosuch.py", "--dry-run"], "there is no file nosuch.py"),
        (["worker.py:wrker", "--dry-run"], "did you mean 'worker'?"),
        (["configured.py:broken", "--dry-run"], "configured.py:broken: cannot create it: KeyError: 'odd'"),
        (["worker.py"], "no kubeconfig found"),
        (["worker.py", "--cluster-name", "../x"], "is not a valid cluster name"),
        (["worker.py", "--dry-run", "--cluster-name", ""], "is not a valid cluster name"),
        (["fleet.py", "--dry-run"], "no kubeconfig found"),
        (["fleet.py", "--dry-run", "--cluster-name", "c1"], "omit --cluster-name"),
        (["worker.py", "--dry-run", "--interval", "soon"], "expected a duration"),
        (
            ["worker.py", "--dry-run", "--interval", "0"],
            "interval must be a number of seconds greater than 0",
        ),
        (["worker.py", "--dry-run", "--valid-for", "10ms"], "would expire between two readings"),
        (["worker.py", "fleet.py", "--config", "value"], "--config allows one provider"),
        (["worker.py", "--config", "nosuch.yaml"], "does not exist"),
        (["worker.py", "--dry-run", "--config", "value"], "the options of a provider must be a mapping"),
        (["worker.py", "-o", "json"], "-o requires --dry-run or --once"),
        (["worker.py", "--cluster-name", "c1", "--leader-elect"], "a cluster has one agent"),
        (["resource-usage", "--dry-run", "--cluster-name", "c1"], "--managed-kubeconfig"),
        (["worker.py", "fleet.py", "--dry-run"], "run them in separate processes"),
        (["fleet.py", "worker.py", "--dry-run", "--cluster-name", "c1"], "run them in separate processes"),
        *(
            ([name, "--dry-run"], f"{name} requires options: set --config")
            for name in ("prometheus", "http-scorer", "static", "forecast")
        ),
        ([], "Missing argument"),
    ],
)
def test_impossible_provider_options_exit_2(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(["provider", "run", *arguments]) == 2
    errors = capsys.readouterr().err
    assert words in " ".join(errors.split())
    assert "internal error" not in errors


def test_provider_without_cluster_name_cannot_publish(
    at_hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["provider", "run", "worker.py", "--once"]) == 2
    assert "set its name on the hub with --cluster-name" in capsys.readouterr().err


def test_provider_run_without_a_reachable_hub_exits_2(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "kubeconfig").write_text(
        json.dumps(
            {
                "clusters": [{"name": "hub", "cluster": {"server": "http://127.0.0.1:9"}}],
                "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": ""}}],
                "current-context": "hub",
            }
        )
    )
    assert run(["provider", "run", "fleet.py", "--dry-run", "--kubeconfig", "kubeconfig"]) == 2
    assert "127.0.0.1:9" in capsys.readouterr().err


def test_provider_sdk_does_not_import_click() -> None:
    code = "import sys, fairway.providers; sys.exit(any(name in sys.modules for name in ('click', 'rich')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# As a process


@contextmanager
def process(folder: Path, *arguments: str, kubeconfig: Path) -> Iterator["subprocess.Popen[bytes]"]:
    log = (folder / "log").open("ab")
    command = [sys.executable, "-P", "-m", "fairway", "provider", "run", *arguments]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    with log, subprocess.Popen(command, cwd=folder, env=environment, stderr=log, stdout=log) as running:
        try:
            yield running
        finally:
            running.kill()


def asked(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def port_of(folder: Path) -> int:
    ports: list[int] = []

    def announced() -> bool:
        match = re.search(r"health at \S*?:(\d+)", (folder / "log").read_text())
        if match is not None:
            ports.append(int(match[1]))
        return match is not None

    await_(announced)
    return ports[0]


def test_provider_runs_until_sigterm(at_hub: Path, folder: Path) -> None:
    arguments = ("worker.py", "--cluster-name", "c1")
    addresses = ("--health-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0")
    with process(folder, *arguments, *addresses, kubeconfig=at_hub) as running:
        port = port_of(folder)
        await_(lambda: scores(at_hub) == {"c1/worker-score": {"free": 75}})
        await_(lambda: asked(port, "/readyz")[0] == 200)
        assert asked(port, "/livez")[0] == 200
        written = 'fairway_provider_writes_total{provider="worker"} 1.0'
        await_(lambda: written in asked(port, "/metrics")[1])
        (folder / "value").write_text("100")
        await_(lambda: scores(at_hub) == {"c1/worker-score": {"free": 100}})
        (folder / "value").write_text("nan")
        await_(lambda: scores(at_hub) == {"c1/worker-score": {}})
        await_(lambda: "free is nan" in asked(port, "/readyz?verbose")[1])
        running.send_signal(signal.SIGTERM)
        assert running.wait(SECONDS) == 0
    assert "Traceback" not in (folder / "log").read_text()


def test_killed_provider_resumes_after_a_restart(at_hub: Path, folder: Path, tmp_path: Path) -> None:
    """Killed between creating the object and writing its status."""

    async def account(client: Client) -> Path:
        half = HubFleet(client, suffix="half")
        connection = await half.account("other", CLUSTER_RULES[:1])
        return await write_kubeconfig(connection, tmp_path / "restricted")

    kubeconfig = act(at_hub, account)
    arguments = ("worker.py", "--cluster-name", "other")
    with process(folder, *arguments, kubeconfig=kubeconfig) as running:
        await_(lambda: "the hub refuses" in (folder / "log").read_text())
        running.send_signal(signal.SIGKILL)
        assert running.wait(SECONDS) == -signal.SIGKILL
    left = read(at_hub, "worker-score", cluster="other")
    assert left is not None
    assert left.status.validUntil is None
    with process(folder, *arguments, kubeconfig=at_hub) as running:
        await_(lambda: scores(at_hub) == {"other/worker-score": {"free": 75}})
    repaired = read(at_hub, "worker-score", cluster="other")
    assert repaired is not None
    assert repaired.metadata.uid == left.metadata.uid


def test_blocking_provider_does_not_prevent_the_exit(at_hub: Path, folder: Path) -> None:
    sleep = "import asyncio, time; await asyncio.to_thread(time.sleep, 3600)"
    for name, start, body in (
        ("stuck", "def", "import time; time.sleep(3600)"),
        ("handing", "async def", sleep),
    ):
        source = WORKER.replace("def worker", f"{start} {name}")
        (folder / f"{name}.py").write_text(source.replace('return float(Path("value").read_text())', body))
    files = ("worker.py", "stuck.py", "handing.py")
    with process(folder, *files, "--cluster-name", "c1", "--deadline", "200ms", kubeconfig=at_hub) as running:
        await_(lambda: scores(at_hub).get("c1/worker-score") == {"free": 75})
        await_(lambda: scores(at_hub).get("c1/stuck-score") == {})
        await_(lambda: scores(at_hub).get("c1/handing-score") == {})
        running.send_signal(signal.SIGTERM)
        assert running.wait(SECONDS) == 0


def test_provider_run_on_a_port_in_use_exits_2(at_hub: Path, folder: Path) -> None:
    async def taken() -> tuple[int, str]:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        command = [
            "provider",
            "run",
            "worker.py",
            "--cluster-name",
            "c1",
            "--health-address",
            f"127.0.0.1:{port}",
        ]
        async with server:
            running = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "fairway", *command),
                cwd=folder,
                env={**os.environ, "KUBECONFIG": str(at_hub)},
                stderr=asyncio.subprocess.PIPE,
            )
            _, errors = await running.communicate()
            return running.returncode or 0, errors.decode()

    status, errors = asyncio.run(taken())
    assert status == 2
    assert "the port is in use by another process; set another address with --health-address" in errors
