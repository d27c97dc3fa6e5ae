"""The benchmark of machines, at toy size."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks.machines import __main__ as benchmark
from benchmarks.machines import end_to_end
from benchmarks.machines.end_to_end import FAIRWAY, KUBE_SCHEDULER, Figures, prepare, run
from benchmarks.machines.engine import SCENARIOS

from controllers.hubs import hub_of
from fairway.controllers.manager import running
from fairway.controllers.settings import MACHINES, Settings
from kubewire.client import Client
from rigs.kubernetes import Tools

pytestmark = pytest.mark.usefixtures("no_error_logs")

ALONE = Settings(controllers=frozenset({MACHINES}), election=None)


class ThisProcess:
    pid = os.getpid()
    alive = True

    def tail(self) -> str:
        return ""


async def test_machines_benchmark_binds_one_pod_to_each_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A manager freezes the garbage collector's view, which must not happen in a process that runs tests.
    collector = SimpleNamespace(collect=lambda: 0, freeze=lambda: None)
    monkeypatch.setattr("fairway.controllers.manager.gc", collector)
    monkeypatch.setattr(end_to_end, "IDLE_SECONDS", 0.01)
    with hub_of("embedded", folder=tmp_path, tools=Tools.find, bare=True) as hub:
        async with Client(hub.administrator) as client:
            scenario = SCENARIOS["required anti-affinity by host"]
            await prepare(client, scenario, nodes=4, pods=4, scheduler=FAIRWAY)

            @asynccontextmanager
            async def start(_kubeconfig: Path, _folder: Path) -> AsyncIterator[ThisProcess]:
                async with running(hub.administrator, ALONE):
                    yield ThisProcess()

            result = await run(client, start, kubeconfig=tmp_path, folder=tmp_path, pods=4)
    assert (result.pods, result.most) == (4, 1)
    assert result.rate > 0


def test_machines_benchmark_shows_ratios_to_kube_scheduler() -> None:
    other = Figures(
        pods=1000, rate=100.0, first=1.0, cpu=4.0, hub_cpu=8.0, resident=200_000_000, most=1, events=1000
    )
    ours = Figures(
        pods=1000, rate=250.0, first=2.0, cpu=1.0, hub_cpu=6.0, resident=100_000_000, most=1, events=1000
    )
    shown = benchmark.compare(
        {"pods alike": {KUBE_SCHEDULER: [other], FAIRWAY: [ours]}}, nodes=10, hub="real"
    )
    assert [line.split() for line in shown.splitlines()[2:]] == [
        ["kube-scheduler", "100", "4.00", "8.00", "200", "1.0"],
        ["fairway", "250", "2.50x", "1.00", "0.25x", "6.00", "100", "2.0"],
    ]
