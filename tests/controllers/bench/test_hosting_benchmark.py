"""The benchmark of hosting, at toy size."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks.hosting import Burst, prepare, replay, run_burst, shown

from controllers.hubs import hub_of
from fairway.controllers.manager import running
from fairway.controllers.settings import HOSTING, Settings
from kubewire.client import Client
from rigs.kubernetes import Tools

pytestmark = pytest.mark.usefixtures("no_error_logs")

BURST = Burst(requests=12, hosts=3, most=8, seconds=0.0)
ALONE = Settings(controllers=frozenset({HOSTING}), election=None)


async def test_hosting_benchmark_reaches_the_optimum_and_plain_placements_exceed_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A manager freezes the garbage collector's view, which must not happen in a process that runs tests.
    collector = SimpleNamespace(collect=lambda: 0, freeze=lambda: None)
    monkeypatch.setattr("fairway.controllers.manager.gc", collector)
    with hub_of("embedded", folder=tmp_path, tools=Tools.find, bare=True) as hub:
        async with Client(hub.administrator) as client:
            await prepare(client, BURST)
            async with running(hub.administrator, ALONE) as manager:
                await manager.synced()
                result = await run_burst(client, BURST, name="embedded hub")
    assert BURST.optimum() == (0 + 1 + 2 + 12) // 3
    assert (result.placed, result.highest, result.overcommitted) == (12, BURST.optimum(), 0)
    assert result.p50 is not None
    assert result.p99 is not None
    assert result.bound is not None
    assert 0 < result.p50 <= result.p99 <= result.bound
    plain = replay(BURST)
    assert (plain.placed, plain.highest, plain.overcommitted) == (12, 12, 1)
    assert [line.split()[-4:] for line in shown(BURST, [result, plain]).splitlines()[1:]] == [
        ["5", "5", "0%", "0"],
        ["12", "5", "140%", "1"],
    ]
