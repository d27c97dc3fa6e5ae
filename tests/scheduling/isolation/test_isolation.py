"""Plugins in processes of their own: the same decisions as inside, and faults that end only their process."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairway.engine import cycle
from fairway.engine.outcome import Outcome
from fairway.engine.status import Code
from fairway.scheduling import ConfigurationError, Scheduling, Supervisor, Watchdog, load
from fairway.scheduling.guard import FaultReport
from fairway.scheduling.isolation import shipping
from fairway.testing import builders
from fairway.workloads.pods.profile import POD_KIND
from scheduling.isolation import apart

PRICES = {"a": "3", "b": "1", "c": "2"}


class Bench:
    """A configuration with one isolated plugin, and the clock of its quarantine."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.reports: list[FaultReport] = []
        self.watchdog = Watchdog(limit=60.0)
        self.supervisor = Supervisor(clock=lambda: self.now, watch=self.watchdog, report=self.reports.append)
        self.scheduling: Scheduling = apart.loaded(apart.write(folder), self.supervisor)
        self.fleet = apart.fleet_of(PRICES)

    @property
    def plugin(self) -> Any:
        filters: Any = self.scheduling.profile.filters
        return next(calls.plugin for calls in filters if calls.plugin.name == "Moody")

    def run(self, mood: str = "") -> Outcome:
        return cycle.run(self.fleet.snapshot(), apart.workload(mood), self.scheduling.profile, now=0)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("isolated"))
    yield made
    made.plugin._worker.stop()


def details_of(outcome: Outcome) -> Any:
    scores = [(scored.plugin, scored.scores.tolist()) for scored in outcome.details.scored]
    rejected = {
        row: cycle.rejection(outcome.context, outcome.plugins, row)
        for row in outcome.snapshot.hosts.row_of.values()
    }
    return outcome.selected, outcome.status, scores, outcome.details.rows.tolist(), rejected


def test_isolated_plugin_decides_as_inside_while_the_fleet_changes(bench: Bench, tmp_path: Path) -> None:
    inside = apart.loaded(apart.write(tmp_path, isolated=False), Supervisor(clock=lambda: 0.0))
    draw, fleet, kept = random.Random(9), apart.fleet_of(PRICES), []
    for step in range(60):
        name = draw.choice("abcdefgh")
        if draw.random() < 0.2:
            fleet.delete_cluster(name)
        else:
            labels = {"price": str(draw.randrange(9)), "tier": draw.choice(("gold", "bronze"))}
            if draw.random() < 0.2:
                del labels["price"]
            fleet.upsert_cluster(builders.cluster(name, labels=labels))
        if step == 40:  # the table grows
            for number in range(300):
                fleet.upsert_cluster(builders.cluster(f"more-{number}", labels={"price": "5"}))
        kept.append(fleet.snapshot())
        snapshot = draw.choice(kept) if draw.random() < 0.2 else kept[-1]
        workload = apart.workload()
        outcomes = [
            cycle.run(snapshot, workload, scheduling.profile, now=0)
            for scheduling in (inside, bench.scheduling)
        ]
        assert details_of(outcomes[1]) == details_of(outcomes[0])
    assert not bench.reports


@pytest.mark.parametrize(
    ("mood", "reason"),
    [
        ("exits", "ended with exit status 3"),
        ("is killed", "ended by SIGKILL"),
        ("crashes", "ended by SIGSEGV"),
        ("loops in C", "did not return within 0.5 seconds; its process was killed"),
        ("hoards", f"exceeded its memoryLimit of {64 << 20} bytes"),
        ("scribbles", "sent what is no message"),
    ],
)
def test_broken_process_is_a_fault_and_is_replaced(bench: Bench, mood: str, reason: str) -> None:
    bench.reports.clear()
    bench.run()
    bench.watchdog.limit = 0.5 if mood == "loops in C" else 60.0
    outcome = bench.run(mood)
    bench.watchdog.limit = 60.0
    assert outcome.status.code is Code.ERROR
    assert reason in outcome.status.message
    (report,) = bench.reports
    assert report.fault.plugin == "Moody"
    assert report.quarantine is not None
    assert "is in quarantine" in bench.run().status.message
    bench.now += report.quarantine + 1
    assert bench.run().selected == ["b", "c", "a"]
    bench.now += 10_000  # forgiven


@pytest.mark.parametrize(
    ("mood", "reason"),
    [
        ("raises", "raised ValueError: no tiers today"),
        ("modifies", "'ReadOnlyList' object does not support item assignment"),
        ("looks around", "snapshot.decisions is not available to a plugin with isolation: process"),
    ],
)
def test_ordinary_fault_keeps_the_process(bench: Bench, mood: str, reason: str) -> None:
    bench.run()
    before = bench.plugin._worker.pid
    outcome = bench.run(mood)
    assert reason in outcome.status.message
    assert bench.plugin._worker.pid == before
    assert bench.run().selected == ["b", "c", "a"]


def test_names_with_holes_and_blocks_of_objects_are_shipped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "PIECE", 100)
    fleet = apart.fleet_of({f"c-{number:04}": str(number % 7) for number in range(1200)})
    fleet.delete_cluster("c-0700")
    workload = apart.workload()
    outcome = cycle.run(fleet.snapshot(), workload, bench.scheduling.profile, now=0)
    assert len(outcome.selected) == 1199
    fleet.upsert_cluster(builders.cluster("c-9999", labels={"price": "0", "tier": "bronze"}))
    outcome = cycle.run(fleet.snapshot(), workload, bench.scheduling.profile, now=0)
    row = fleet.snapshot().hosts.row_of["c-9999"]
    status = cycle.rejection(outcome.context, outcome.plugins, row)
    assert status is not None
    assert status.message == "c-9999 is bronze"


PARENT = """
import sys, time
from pathlib import Path
from fairway.engine import cycle
from fairway.scheduling import Supervisor
from scheduling.isolation import apart
scheduling = apart.loaded(Path(sys.argv[1]), Supervisor(clock=time.monotonic))
plugin = next(calls.plugin for calls in scheduling.profile.filters if calls.plugin.name == "Moody")
print(plugin._worker.pid, flush=True)
cycle.run(apart.fleet_of({"a": "1"}).snapshot(), apart.workload("loops in C"), scheduling.profile, now=0)
"""


def test_worker_ends_with_a_killed_scheduler_also_in_native_code(tmp_path: Path) -> None:
    path = apart.write(tmp_path)
    with subprocess.Popen(
        (sys.executable, "-c", PARENT, str(path)),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        wait_for(lambda: state_of(worker) == "R")  # in the endless loop
        os.kill(parent.pid, signal.SIGKILL)
    wait_for(lambda: state_of(worker) in ("", "Z"))


def state_of(pid: int) -> str:
    """Return the state of a process; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        os.sched_yield()


def test_scheduler_that_ends_leaves_no_worker(tmp_path: Path) -> None:
    script = PARENT.rpartition("cycle.run")[0]
    ended = subprocess.run(
        (sys.executable, "-c", script, str(apart.write(tmp_path))),
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    wait_for(lambda: state_of(int(ended.stdout)) in ("", "Z"))


# Configurations


def problems_of(folder: Path, profile: str) -> list[str]:
    (folder / "moody.py").write_text(apart.FILE)
    path = folder / "wrong.yaml"
    path.write_text(apart.HEAD + f"profiles:\n- {profile}")
    with pytest.raises(ConfigurationError) as raised:
        apart.loaded(path, Supervisor(clock=lambda: 0.0))
    return [str(problem).removeprefix(f"{folder}/wrong.yaml:") for problem in raised.value.problems]


def test_wrong_isolation_names_line_field_and_remedy(tmp_path: Path) -> None:
    profile = """pluginConfig:
  - {name: Moody, isolation: thread}
  - {name: Approval, memoryLimit: 64Mi}
  - {name: Balance, isolation: process, memoryLimit: 1Mi}
"""
    assert problems_of(tmp_path, profile) == [
        "6: profiles[0].pluginConfig[0].isolation: must be process; got 'thread'; leave it out for a plugin that runs "
        "in the scheduler's own process",
        "7: profiles[0].pluginConfig[1].memoryLimit: limits the process of a plugin, and this one has none; write "
        "isolation: process beside it, or remove it",
        "8: profiles[0].pluginConfig[2].memoryLimit: must be between 16Mi and 1Pi; got '1Mi'; write a quantity of "
        "bytes, such as 512Mi",
        "8: profiles[0].pluginConfig[2].isolation: plugin 'Balance' is built in, and isolation is for third-party "
        "plugins; remove isolation",
    ]


def test_point_without_isolation_and_wrong_arguments_are_problems(tmp_path: Path) -> None:
    profile = """plugins:
    multiPoint:
      enabled: [{name: Approval}]
  pluginConfig:
  - {name: Approval, isolation: process}
"""
    assert problems_of(tmp_path, profile) == [
        "7: profiles[0].plugins.multiPoint.enabled[0]: plugin 'Approval' runs in a process of its own, which a Permit "
        "plugin cannot; remove its isolation, or enable it only at PreFilter, Filter, PreScore, Score, Choose; divide "
        "a plugin that needs both into two",
    ]
    profile = """plugins: {filter: {enabled: [{name: Moody}]}}
  pluginConfig:
  - {name: Moody, isolation: process, args: {strength: 0}}
"""
    assert problems_of(tmp_path, profile) == [
        "7: profiles[0].pluginConfig[0].args: plugin Moody does not accept its arguments: strength must be at least 1"
    ]


def test_pods_have_no_isolation(tmp_path: Path) -> None:
    (tmp_path / "moody.py").write_text(apart.FILE)
    path = tmp_path / "pods.yaml"
    profile = "- schedulerName: mine\n  pluginConfig: [{name: Moody, isolation: process}]\n"
    path.write_text(f"{apart.HEAD}profiles:\n{profile}")
    with pytest.raises(
        ConfigurationError, match="only plugins of Placements can have a process of their own"
    ):
        load(path, kind=POD_KIND, supervisor=Supervisor(clock=lambda: 0.0))


def test_plugin_of_a_package_is_not_imported_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "moody_package.py").write_text(apart.FILE)
    info = tmp_path / "moody_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: moody-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fairway.plugins]\nMoody = moody_package:Moody\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = apart.write(tmp_path, on_fault="Skip")
    path.write_text(path.read_text().replace("pluginFiles: [moody.py]\n", ""))
    scheduling = apart.loaded(path, Supervisor(clock=lambda: 0.0))
    assert "moody_package" not in sys.modules

    def selected(mood: str) -> list[str]:
        workload = apart.workload(mood)
        return cycle.run(apart.fleet_of(PRICES).snapshot(), workload, scheduling.profile, now=0).selected

    assert selected("") == ["b", "c", "a"]
    assert selected("exits") == ["a", "b", "c"]  # without the plugin


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "import nowhere",
            "moody.py:1: running it failed: ModuleNotFoundError: No module named 'nowhere'; fix",
        ),
        ("import os; os._exit(4)", "moody.py: the process that imported it ended with exit status 4"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "by SIGSEGV"),
    ],
)
def test_file_that_cannot_be_imported_is_a_problem_of_the_configuration(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = apart.write(tmp_path)
    (tmp_path / "moody.py").write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        apart.loaded(path, Supervisor(clock=lambda: 0.0))
    assert any(
        problem in str(fault) and "isolated.yaml:4: pluginFiles[0]" in str(fault)
        for fault in raised.value.problems
    )


def test_file_whose_plugins_are_isolated_is_not_imported_here(tmp_path: Path) -> None:
    path = apart.write(tmp_path)
    text = apart.FILE.partition("class Approval")[0]
    (tmp_path / "moody.py").write_text(f"import os\nassert os.getpid() != {os.getpid()}\n{text}")
    scheduling = apart.loaded(path, Supervisor(clock=lambda: 0.0))
    assert "Moody" in {plugin.name for plugin in scheduling.plugins}
