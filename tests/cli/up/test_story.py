"""The story of `fairway up`, in virtual time: each event is printed before its effect, and undone by the next one."""

import asyncio

import pytest

from fairway.cli.up.demo import Moves
from fairway.cli.up.story import BEAT, FULL, play
from fairway.simulation.agent import Values

PERIOD, VALIDITY = 10.0, 50.0
SCORES = {
    "a": {"cpuAvailable": 42, "memAvailable": 7},
    "b": {"cpuAvailable": 36},
    "full": {"cpuAvailable": 3},
}


class Recorder:
    """Agents that record what the story does with them, with the time and the last printed event."""

    validity = VALIDITY

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.calls: list[tuple[float, str, object]] = []
        self.events: list[str] = []

    def values(self, cluster: str) -> Values | None:
        return SCORES.get(cluster)

    def publish(self, cluster: str, values: Values) -> None:
        self._record(cluster, dict(values))

    def pause(self, cluster: str) -> None:
        self._record(cluster, "paused")

    def resume(self, cluster: str) -> None:
        self._record(cluster, "resumed")

    def _record(self, cluster: str, what: object) -> None:
        self.calls.append((asyncio.get_running_loop().time(), cluster, what))
        (event,) = self._capsys.readouterr().out.splitlines()
        self.events.append(event.partition("  ")[2])


async def played(recorder: Recorder, moves: Moves, *, seconds: float) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await play(recorder, moves, period=PERIOD)


@pytest.mark.looptime
async def test_story_fills_and_stops_one_cluster_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    recorder, moves = Recorder(capsys), Moves(("default", "p"))
    moves.ranked = ["a", "b"]
    beat = BEAT * PERIOD
    stop = 3 * beat + VALIDITY + beat
    await played(recorder, moves, seconds=stop + 1.5 * beat)
    times, clusters, calls = zip(*recorder.calls, strict=True)
    assert times == pytest.approx([beat, 2 * beat, 3 * beat, stop, stop + beat])
    assert clusters == ("a", "a", "b", "b", "a")
    filled = SCORES["a"] | {"cpuAvailable": FULL}
    assert calls == (filled, SCORES["a"], "paused", "resumed", filled)
    assert recorder.events[:4] == [
        "a fills up: its free CPU falls from 42 to 5 points",
        "a has room again: its free CPU rises from 5 to 42 points",
        "the agent of b stops: its scores expire within 50 s",
        "the agent of b starts again, and publishes its scores",
    ]


@pytest.mark.looptime
@pytest.mark.parametrize("ranked", [[], ["deleted"], ["full"]])
async def test_story_fills_no_cluster_that_is_missing_or_full(
    ranked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    recorder, moves = Recorder(capsys), Moves(("default", "p"))
    moves.ranked = ranked
    await played(recorder, moves, seconds=500)
    assert {what for _, _, what in recorder.calls} <= {"paused", "resumed"}
