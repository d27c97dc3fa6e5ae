"""Simulate the writes of the agents of a fleet with noisy values, by publication policy.

    python -m benchmarks.scores.writes                     10,000 clusters, half an hour of virtual time
    python -m benchmarks.scores.writes --clusters 1000 --minutes 10

Time is virtual, so the results are the same on every machine. The free cores of every cluster change by a few with
every reading, and sometimes by many. The last column is the mean error of the published scores, in points, caused by
writes that were skipped. With the default validity of three minutes every reading is written, because half of it
would pass before the next one; a longer validity saves most of these writes.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from benchmarks.measure import Note, table
from fairway.providers.provider import Reading, Score
from fairway.providers.publication import horizon
from fairway.providers.publisher import Publisher
from fairway.providers.scales import Linear

INTERVAL = 60.0
CORES = 100.0
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    name: str
    deadband: int
    half_life: float = 0.0
    valid_for: float | None = None


NO_WAY = "every reading, as without any policy"
WAYS = (
    Way(name="every change", deadband=1),
    Way(name="deadband 2 (default)", deadband=2),
    Way(name="deadband 5", deadband=5),
    Way(name="deadband 5, smoothed over 5 min", deadband=5, half_life=300),
    Way(name="deadband 5, valid for 15 min", deadband=5, valid_for=900),
    Way(name="deadband 5, smoothed, valid for 15 min", deadband=5, half_life=300, valid_for=900),
)
NOISE = {"calm (±0.2 cores)": 0.2, "usual (±1 core)": 1.0, "noisy (±4 cores)": 4.0}


@dataclass(slots=True)
class Found:
    writes: int = 0
    errors: float = 0.0
    looks: int = 0


def wandering(
    clusters: int, rounds: int, *, noise: float, seed: int = 7
) -> Iterator["np.ndarray[tuple[int], np.dtype[np.float64]]"]:
    """Yield the free cores of every cluster per round: noise around a level that jumps about once an hour."""
    random = np.random.default_rng(seed)
    level = random.uniform(0.1 * CORES, 0.9 * CORES, clusters)
    for _ in range(rounds):
        jumps = random.random(clusters) < INTERVAL / 3600
        level = np.where(jumps, level + random.normal(0, 10, clusters), level)
        level = np.clip(level, 0, CORES)
        yield np.clip(level + random.normal(0, noise, clusters), 0, CORES)


def simulate(way: Way, *, clusters: int, rounds: int, noise: float) -> Found:
    score = Score(name="cpuAvailable", scale=Linear(0, CORES), deadband=way.deadband, half_life=way.half_life)
    publisher = Publisher(
        (score,), horizon=horizon(interval=INTERVAL, valid_for=way.valid_for), interval=INTERVAL
    )
    names = [f"c{number}" for number in range(clusters)]
    tally = Found()
    for number, free in enumerate(wandering(clusters, rounds, noise=noise)):
        now = BEGAN + timedelta(seconds=INTERVAL * number)
        values = free.tolist()
        readings = {
            name: Reading(values={"cpuAvailable": value}) for name, value in zip(names, values, strict=True)
        }
        looks = publisher.read(readings, at=now, now=now).next_checks
        for name, value in zip(names, values, strict=True):
            publishing = publisher.state_of(name)
            at = looks[name]
            if at is not None and at <= now and publishing.take_due(now=now) is not None:
                publishing.record_write(version=0, now=now)
                # The first writes are not the steady state.
                tally.writes += number > 0
            if number > 0:
                published = publishing.published
                assert published is not None
                tally.errors += abs(published.scores[0][1] - score.scale.score(value))
                tally.looks += 1
    return tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The writes of a fleet with one policy."""

    way: str
    noise: str
    writes: float
    """Writes per second."""
    share: float
    """Share of the readings that are written."""
    error: float
    """Mean difference between published and read scores, in points."""


def rates(*, clusters: int, minutes: int, note: Note) -> Iterator[Rate]:
    rounds = int(minutes * 60 / INTERVAL) + 1
    seconds = (rounds - 1) * INTERVAL
    for label, noise in NOISE.items():
        yield Rate(way=NO_WAY, noise=label, writes=clusters / INTERVAL, share=1.0, error=0.0)
        for way in WAYS:
            note(f"{label}: {way.name}")
            tally = simulate(way, clusters=clusters, rounds=rounds, noise=noise)
            yield Rate(
                way=way.name,
                noise=label,
                writes=tally.writes / seconds,
                share=tally.writes / tally.looks,
                error=tally.errors / tally.looks,
            )


def run(*, clusters: int, minutes: int) -> list[list[str]]:
    def note(text: str) -> None:
        print(f"  {text}", file=sys.stderr, flush=True)

    return [
        ["what is worth a write", "noise", "writes/s", "of every reading", "mean error"],
        *(
            [rate.way, rate.noise, f"{rate.writes:.1f}", f"{100 * rate.share:.0f} %", f"{rate.error:.1f}"]
            for rate in rates(clusters=clusters, minutes=minutes, note=note)
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clusters", type=int, default=10_000)
    parser.add_argument("--minutes", type=int, default=30)
    chosen = parser.parse_args()
    print(f"{chosen.clusters:,} clusters, read every {INTERVAL:g} s, {chosen.minutes} minutes")
    print(table(run(clusters=chosen.clusters, minutes=chosen.minutes)))


if __name__ == "__main__":
    main()
