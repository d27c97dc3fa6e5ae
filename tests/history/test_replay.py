"""A recorded decision is reproduced exactly from the recorded inputs, whatever changed before and after it."""

import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given, settings

from fairway.api.placement import Placement
from fairway.engine.memory import Memory
from fairway.history.archive import Archive
from fairway.history.record import Record
from fairway.history.recorder import Recorder
from fairway.history.replay import Replayer
from fairway.hosts.clusters import Fleet, objects
from fairway.hosts.instant import SECOND
from fairway.whatif.world import World
from fairway.workloads.placement import default_profile
from fairway.workloads.placement.alike import AlikePlacements
from fairway.workloads.placement.verdict import conclude
from strategies import NOW_MICROS, cluster_scores, cluster_sets, clusters, placements, scores, worlds

PROFILE = default_profile()

changes = st.one_of(
    clusters(),
    scores(),
    scores(),
    cluster_scores(),
    cluster_sets(),
    st.just("delete"),
    placements(),
    placements(),
)


def _delete_first(fleet: Fleet) -> None:
    for name in sorted(fleet.snapshot().hosts.row_of)[:1]:
        fleet.delete_cluster(name)


@settings(max_examples=40, deadline=None)
@given(
    things=worlds(),
    first=placements(),
    later=st.lists(st.lists(changes, max_size=4), min_size=1, max_size=6),
)
def test_replay_equals_the_record(things: list[object], first: Placement, later: list[list[object]]) -> None:
    world, memory = World([*things, first], profile=PROFILE), Memory(alike=AlikePlacements(PROFILE))
    expected: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder))
        for step, changed in enumerate([[], *later]):
            for thing in changed:
                if thing == "delete":
                    _delete_first(world.fleet)
                elif isinstance(thing, Placement):
                    world.put(thing)
                    memory.forget(thing.metadata.namespace, thing.metadata.name)
                else:
                    objects.upsert(world.fleet, thing)
            now = NOW_MICROS + step * 300 * SECOND
            for key in sorted(world.placements):
                workload = world.workload(key)
                outcome = memory.run(world.fleet.snapshot(), workload, PROFILE, now=now)
                verdict = conclude(outcome, workload)
                decided = recorder.placement(
                    outcome, pages=verdict.pages, status=verdict.status, cause=f"step {step}"
                )
                assert decided is not None
                expected[decided.id] = outcome.selected
                plan = world.plan(key, verdict, now=now)
                decided.written()
                world.write(plan, plan.steps)
        recorder.close()
        with Archive.open(Path(folder)) as archive:
            stored = list(archive.records())
            assert [record.record.id for record in stored] == list(expected)
            replayer = Replayer()
            for one in stored:
                replay = replayer.replay(one, profile=PROFILE)
                record: Record = one.record
                assert list(replay.selected) == expected[record.id] == list(record.after)
                assert replay.same, record
                assert replay.trace == record.trace
            assert not archive.warnings
