from hypothesis import given

from fairway.api.placement import Placement
from fairway.clusters import Fleet, cells
from fairway.engine import cycle
from fairway.placement import PlacementWorkload, default_profile
from fairway.placement.dependencies import dependencies_of
from strategies import NOW_MICROS, placements


@given(placement=placements())
def test_decisions_of_other_placements_are_no_dependency(placement: Placement) -> None:
    workload = PlacementWorkload(placement)
    outcome = cycle.run(Fleet().snapshot(), workload, default_profile(), now=NOW_MICROS)
    found = dependencies_of(outcome, placement, feasible=())
    assert cells.DECISIONS not in found.columns.keys() | found.of_hosts.keys()
    assert not found.columns.keys() & found.of_hosts.keys()
