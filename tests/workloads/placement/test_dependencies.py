from hypothesis import given

from fairway.api.placement import Placement
from fairway.engine import cycle
from fairway.hosts.clusters import Fleet, cells
from fairway.testing.builders import binding, cluster_set, placement, requirement
from fairway.workloads.placement import PlacementWorkload, default_profile
from fairway.workloads.placement.dependencies import dependencies_of
from kubewire.api.selector import LabelSelector
from strategies import NOW_MICROS, placements


@given(placement=placements())
def test_decisions_of_other_placements_are_no_dependency(placement: Placement) -> None:
    workload = PlacementWorkload(placement)
    outcome = cycle.run(Fleet().snapshot(), workload, default_profile(), now=NOW_MICROS)
    dependencies = dependencies_of(outcome, placement, feasible=())
    assert cells.DECISIONS not in dependencies.columns.keys() | dependencies.of_hosts.keys()
    assert not dependencies.columns.keys() & dependencies.of_hosts.keys()


def test_placement_that_a_broken_set_freezes_depends_on_that_set() -> None:
    fleet, frozen = Fleet(), placement("p1")
    broken = LabelSelector(matchExpressions=(requirement("k", "Near"),))
    fleet.upsert_set(cluster_set("x", selector=broken))
    fleet.upsert_binding(binding("x"))
    outcome = cycle.run(fleet.snapshot(), PlacementWorkload(frozen), default_profile(), now=NOW_MICROS)
    assert outcome.status.aborts
    dependencies = dependencies_of(outcome, frozen, feasible=())
    assert {(cells.SETS, "x"), (cells.BINDINGS, "ns1")} <= dependencies.columns.keys()
