"""What the history costs for each decision: time on the event loop, CPU of its thread, bytes on disk.

    python -m benchmarks.history
    python -m benchmarks.history --sizes 1000,10000 --decisions 300

One hundred placements, each for ten clusters of four sets by Balance, Steady, one add-on score and allocatable memory,
follow scores that change. Each decision that changes is recorded.

- noise: between two rounds, the score of one cluster changes by up to 3 points, as a usual fleet's do
- one score: the same by up to 40 points, so that most rounds change decisions
- 100 scores: of 100 clusters
- all scores: the whole fleet publishes again, with new expiries, before each round: the worst input

decide is the time of the cycle and of what is derived from it, without any write to a hub; record is what the history
adds on the event loop, and thread what its thread takes meanwhile; share is that of both in the CPU of the process,
which also observes the scores and decides the placements that keep their clusters, but writes nothing to a hub. First
is the first record, which has all inputs.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from msgspec import structs

from benchmarks.measure import machine, table
from benchmarks.placement import NOW, SETS, batches, placement
from fairway.api.score import AddOnPlacementScore, AddOnPlacementScoreItem
from fairway.engine.memory import Memory
from fairway.engine.status import Status
from fairway.history.archive import Archive
from fairway.history.files import FileReader, files_in, size_of
from fairway.history.recorder import Recorder
from fairway.history.replay import Replayer
from fairway.hosts.clusters import Fleet
from fairway.hosts.clusters.decisions import Holding
from fairway.hosts.instant import SECOND, from_micros
from fairway.testing import builders
from fairway.workloads.placement import PlacementWorkload, default_profile
from fairway.workloads.placement.alike import AlikePlacements
from fairway.workloads.placement.verdict import conclude

PLACEMENTS = 100
EXPIRY = timedelta(minutes=3)
NARROW, WIDE = 3, 40
"""Points by which scores move."""
MOST_ROUNDS = 4000


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Measure the history of decisions.")
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--decisions", type=int, default=400)
    options = parser.parse_args(arguments)
    print(machine())
    rows: list[tuple[str, ...]] = [
        (
            "clusters",
            "between",
            "records",
            "decide µs",
            "record µs",
            "thread µs",
            "share",
            "bytes",
            "first ms",
            "first KiB",
        )
    ]
    for size in map(int, options.sizes.split(",")):
        fleet, scores = _fleet(size)
        for name, changed in (("noise", 0), ("one score", 1), ("100 scores", 100), ("all scores", size)):
            width = WIDE if changed else NARROW
            figures = _measure(fleet, scores, max(1, changed), width, options.decisions)
            rows.append((f"{size:,}", name, *figures))
            print(table([rows[0], rows[-1]]).splitlines()[-1], file=sys.stderr)
    print(table(rows))


def _fleet(size: int) -> tuple[Fleet, list[AddOnPlacementScore]]:
    fleet, scores = Fleet(), []
    clusters = []
    for batch, published in batches(size):
        clusters += batch
        scores += published
    fleet.load(clusters)
    fleet.load_scores(scores)
    for name in SETS:
        fleet.upsert_set(builders.cluster_set(name))
        fleet.upsert_binding(builders.binding(name, namespace="bench"))
    return fleet, scores


def _measure(
    fleet: Fleet, scores: list[AddOnPlacementScore], changed: int, width: int, wanted: int
) -> Iterator[str]:
    profile, dice = default_profile(), random.Random(7)
    memory = Memory(alike=AlikePlacements(profile))
    workloads = [PlacementWorkload(placement(number, dice)) for number in range(PLACEMENTS)]
    last: dict[str, list[str]] = {}
    decide = record = 0.0
    records, first, now = 0, 0.0, NOW
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recorder = Recorder(folder)
        began, main_thread = time.process_time(), time.thread_time()
        first_size = 0
        for _ in range(MOST_ROUNDS):
            if records >= wanted:
                break
            now += SECOND
            for index in dice.sample(range(len(scores)), min(changed, len(scores))):
                scores[index] = _moved(scores[index], dice, width, now)
                fleet.upsert_score(scores[index])
            for workload in workloads:
                start = time.thread_time()
                outcome = memory.run(fleet.snapshot(), workload, profile, now=now)
                if outcome.selected == last.get(workload.name):
                    continue
                verdict = conclude(outcome, workload)
                # As in the plan of the controller, which formats the messages for Events.
                status = Status(verdict.status.code, verdict.status.reasons, verdict.status.plugin)
                middle = time.thread_time()
                decided = recorder.placement(outcome, pages=verdict.pages, status=status, cause="benchmark")
                assert decided is not None
                decided.written()
                end = time.thread_time()
                last[workload.name] = outcome.selected
                holding = Holding(owner=workload.owner, clusters=tuple(outcome.selected))
                del outcome, verdict
                fleet.hold(namespace="bench", name=workload.name, holding=holding)
                if not first:
                    first = end - middle
                    recorder.flush(60)
                    first_size = _first_change(folder)
                    began, main_thread = time.process_time(), time.thread_time()
                    continue
                decide, record, records = decide + middle - start, record + end - middle, records + 1
        assert recorder.flush(60)
        total = time.process_time() - began
        thread = (time.process_time() - began) - (time.thread_time() - main_thread)
        recorder.close()
        taken = sum(size_of(file.path) for file in files_in(folder)) - first_size
        _check(folder, records)
    yield f"{records:,}"
    yield from (f"{1e6 * seconds / records:,.0f}" for seconds in (decide, record, thread))
    yield f"{(record + thread) / total:.1%}"
    yield f"{taken / records:,.0f}"
    yield f"{1e3 * first:,.1f}"
    yield f"{first_size / 1024:,.0f}"


def _moved(score: AddOnPlacementScore, dice: random.Random, width: int, now: int) -> AddOnPlacementScore:
    items = tuple(
        AddOnPlacementScoreItem(
            name=item.name, value=max(-100, min(100, item.value + dice.randint(-width, width)))
        )
        for item in score.status.scores
    )
    until = from_micros(now).replace(microsecond=0) + EXPIRY
    return structs.replace(score, status=structs.replace(score.status, scores=items, validUntil=until))


def _first_change(folder: Path) -> int:
    """Return the bytes of all inputs. Files are no measure yet: their logs are not checkpointed."""
    (file,) = files_in(folder)
    reader = FileReader(file.path)
    size = sum(len(data) for _, data in reader.changes(after=0, up_to=1))
    reader.close()
    return size


def _check(folder: Path, records: int) -> None:
    """Replay the last record, so that figures are those of a history that works."""
    with Archive.open(folder) as archive:
        stored = list(archive.records())
        assert len(stored) == records + 1
        assert Replayer().replay(stored[-1], profile=default_profile()).same


if __name__ == "__main__":
    main(sys.argv[1:])
