"""The time at which an outcome expires without a change."""

from datetime import UTC, datetime, timedelta

from fairway.api.cluster import Taint
from fairway.api.placement import PlacementSpec, Toleration
from fairway.engine import cycle
from fairway.engine.memory import Memory
from fairway.engine.points import NEVER_CHANGES
from fairway.hosts.clusters import Fleet
from fairway.hosts.instant import to_micros
from fairway.testing import builders as make
from fairway.workloads.placement import PlacementWorkload, default_profile

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def fleet() -> Fleet:
    made = Fleet()
    made.load(make.cluster(f"c{at}") for at in range(3))
    made.upsert_set(make.cluster_set("default"))
    made.upsert_binding(make.binding("default"))
    return made


def by_score(number: int | None) -> PlacementWorkload:
    policy = make.policy(make.addon("free"), mode="Exact")
    return PlacementWorkload(
        make.placement(spec=PlacementSpec(prioritizerPolicy=policy, numberOfClusters=number))
    )


def test_outcome_without_expiry_has_no_until() -> None:
    workload = by_score(1)
    assert (
        cycle.run(fleet().snapshot(), workload, default_profile(), now=to_micros(NOW)).until == NEVER_CHANGES
    )


def test_outcome_until_is_first_score_expiry_of_feasible_clusters() -> None:
    made = fleet()
    made.upsert_cluster(make.cluster("elsewhere", member_of="other"))
    for name, seconds in (("c0", 30), ("c1", 20), ("c2", -5), ("elsewhere", 1)):
        made.upsert_score(make.score(name, {"free": 1}, valid_until=NOW + timedelta(seconds=seconds)))
    for number in (1, None):
        workload = by_score(number)
        outcome = cycle.run(made.snapshot(), workload, default_profile(), now=to_micros(NOW))
        assert outcome.until == to_micros(NOW + timedelta(seconds=20)) + 1


def test_followed_outcome_has_until() -> None:
    made, memory, workload = fleet(), Memory(), by_score(1)
    made.upsert_score(make.score("c0", {"free": 1}, valid_until=NOW + timedelta(seconds=30)))
    memory.run(made.snapshot(), workload, default_profile(), now=to_micros(NOW))
    made.upsert_score(make.score("c1", {"free": 2}, valid_until=NOW + timedelta(seconds=10)))
    outcome = memory.run(made.snapshot(), workload, default_profile(), now=to_micros(NOW))
    assert memory.followed == 1
    assert outcome.until == to_micros(NOW + timedelta(seconds=10)) + 1


def test_outcome_until_is_toleration_expiry() -> None:
    made = fleet()
    made.upsert_cluster(
        make.cluster("c0", taints=[Taint(key="k", effect="NoSelect", timeAdded=NOW - timedelta(seconds=5))])
    )
    spec = PlacementSpec(tolerations=(Toleration(key="k", operator="Exists", tolerationSeconds=60),))
    workload = PlacementWorkload(make.placement(spec=spec))
    outcome = cycle.run(made.snapshot(), workload, default_profile(), now=to_micros(NOW))
    assert outcome.until == to_micros(NOW + timedelta(seconds=55))


def test_memory_returns_feasible_hosts() -> None:
    made, memory, workload = fleet(), Memory(), by_score(1)
    made.upsert_cluster(make.cluster("elsewhere", member_of="other"))
    row_of = made.snapshot().hosts.row_of
    feasible = memory.feasible(workload, default_profile())
    assert row_of["elsewhere"] in feasible, "nothing is known before the first cycle"
    memory.run(made.snapshot(), workload, default_profile(), now=to_micros(NOW))
    assert row_of["c2"] in feasible
    assert row_of["elsewhere"] not in feasible
    assert 10_000 in feasible, "a row beyond what was there"
    assert feasible is memory.feasible(workload, default_profile())
