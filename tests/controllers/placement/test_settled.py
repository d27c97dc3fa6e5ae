"""Which settled placements are decided again after a changed score."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from msgspec import structs

from fairway.api.placement import PlacementSpec, PlacementStatus
from fairway.controllers.placement import settled
from fairway.controllers.placement.queue import Owner
from fairway.controllers.placement.record import PlacementRecord
from fairway.controllers.placement.settled import SettledCheck
from fairway.engine import cycle
from fairway.engine.outcome import Outcome
from fairway.hosts.clusters import Fleet
from fairway.hosts.instant import Micros, to_micros
from fairway.testing import builders as make
from fairway.workloads.placement import PlacementWorkload, default_profile

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class SettledHarness:
    """Placements that select the best cluster by score; those with the same memo share it."""

    def __init__(self, *memos: int | None, selected: str = "c1") -> None:
        self.fleet = Fleet()
        self.fleet.load(make.cluster(name) for name in ("c1", "c2"))
        self.fleet.upsert_set(make.cluster_set("default"))
        self.fleet.upsert_binding(make.binding("default"))
        self.fleet.upsert_score(make.score("c1", {"free": 10}))
        self.records: dict[Owner, PlacementRecord] = {}
        self.cycles: list[str] = []
        self.lowered: dict[Owner, Micros] = {}
        policy = make.policy(make.addon("free"), mode="Exact")
        spec = PlacementSpec(numberOfClusters=1, prioritizerPolicy=policy)
        for at, memo in enumerate(memos):
            placement = make.placement(f"p{at}", spec=spec)
            placement = structs.replace(placement, status=PlacementStatus(lastScoreUpdateTime=NOW))
            record = PlacementRecord(placement, PlacementWorkload(placement), memo=memo)
            record.settled = frozenset({selected})
            self.records[record.workload.owner] = record

    def unaffected(self) -> list[str]:
        check = SettledCheck(
            self.records, now=NOW, follow=self._follow, lower_deadline=self.lowered.__setitem__
        )
        return [owner[1] for owner in self.records if check(owner)]

    def _follow(self, record: PlacementRecord) -> Outcome | None:
        self.cycles.append(record.workload.name)
        return cycle.run(self.fleet.snapshot(), record.workload, default_profile(), now=to_micros(NOW))


def test_one_cycle_answers_for_all_placements_with_the_same_memo() -> None:
    harness = SettledHarness(1, 1, 2, 1)
    assert harness.unaffected() == ["p0", "p1", "p2", "p3"]
    assert harness.cycles == ["p0", "p2"]


def test_placements_whose_clusters_change_are_affected() -> None:
    harness = SettledHarness(1, 1, selected="c2")
    assert harness.unaffected() == []


def test_placement_without_a_memo_is_affected() -> None:
    harness = SettledHarness(None, 1)
    assert harness.unaffected() == ["p1"]
    assert harness.cycles == ["p1"]


@pytest.mark.parametrize(
    ("memos", "checked"), [(range(1, 200), settled.MOST_CYCLES), ([1] * 1000, settled.MOST_CHECKS)]
)
def test_work_after_one_change_is_limited(memos: Iterable[int], checked: int) -> None:
    harness = SettledHarness(*memos)
    assert len(harness.unaffected()) == checked


def test_deadline_is_lowered_once_if_the_outcome_changes_earlier() -> None:
    harness = SettledHarness(1)
    harness.unaffected()
    assert list(harness.lowered) == [("ns1", "p0")]
    harness.lowered.clear()
    harness.unaffected()
    assert harness.lowered == {}
