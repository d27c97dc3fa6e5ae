from hypothesis import given

from fairway.api.placement import Placement
from fairway.api.selector import LabelSelector
from fairway.clusters import Fleet, cells
from fairway.engine import cycle
from fairway.placement import PlacementWorkload, default_profile
from fairway.placement.dependencies import dependencies_of
from fairway.testing.builders import binding, cluster_set, placement, requirement
from strategies import NOW_MICROS, placements


@given(placement=placements())
def test_decisions_of_other_placements_are_no_dependency(placement: Placement) -> None:
    workload = PlacementWorkload(placement)
    outcome = cycle.run(Fleet().snapshot(), workload, default_profile(), now=NOW_MICROS)
    found = dependencies_of(outcome, placement, feasible=())
    assert cells.DECISIONS not in found.columns.keys() | found.of_hosts.keys()
    assert not found.columns.keys() & found.of_hosts.keys()


def test_placement_that_a_broken_set_freezes_depends_on_that_set() -> None:
    fleet, frozen = Fleet(), placement("p1")
    broken = LabelSelector(matchExpressions=(requirement("k", "Near"),))
    fleet.upsert_set(cluster_set("x", selector=broken))
    fleet.upsert_binding(binding("x"))
    outcome = cycle.run(fleet.snapshot(), PlacementWorkload(frozen), default_profile(), now=NOW_MICROS)
    assert outcome.status.aborts
    found = dependencies_of(outcome, frozen, feasible=())
    assert {(cells.SETS, "x"), (cells.BINDINGS, "ns1")} <= found.columns.keys()
