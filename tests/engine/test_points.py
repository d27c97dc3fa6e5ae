from collections.abc import Mapping
from datetime import timedelta

import numpy as np
import pytest

from engine.toys import Admit, Points, Prepared, Refuse, Work, fleet_of
from fairway.engine import cycle
from fairway.engine.forms import points_of
from fairway.engine.points import (
    EXTENSION_POINTS,
    Amounts,
    CommitContext,
    Context,
    Extent,
    Raw,
    Reads,
    Scores,
    SortKey,
    Timeless,
    Weighted,
)
from fairway.engine.profile import assemble
from fairway.engine.status import OK, Code, Status
from fairway.engine.workload import Workload
from fairway.hosts.bitmap import Bits, Rows
from fairway.workloads.placement.plugins.addon_score import AddOnScore
from fairway.workloads.placement.plugins.allocatable import Allocatable
from fairway.workloads.placement.plugins.balance import Balance
from fairway.workloads.placement.plugins.calculator import Calculator
from fairway.workloads.placement.plugins.clustersets import ClusterSets
from fairway.workloads.placement.plugins.missing_score import MissingScore
from fairway.workloads.placement.plugins.predicate import Predicate
from fairway.workloads.placement.plugins.prioritizer_policy import PrioritizerPolicy
from fairway.workloads.placement.plugins.spread import Spread
from fairway.workloads.placement.plugins.taints import TaintToleration


def test_extension_points_are_those_of_kube_scheduler_and_of_fairway_in_order() -> None:
    assert list(EXTENSION_POINTS) == [
        "PreEnqueue",
        "QueueSort",
        "Prioritize",
        "PreFilter",
        "Filter",
        "PostFilter",
        "PreScore",
        "Score",
        "NormalizeScore",
        "Choose",
        "Reserve",
        "Permit",
        "PreBind",
        "Bind",
        "PostBind",
    ]


class Oldest:
    name = "Oldest"

    def sort_key(self, workload: Workload[object], queued: int, /) -> SortKey:
        return (workload.created,)


class MakeRoom:
    name = "MakeRoom"

    def post_filter(self, context: Context, rejections: Mapping[int, Status], /) -> Status:
        return OK


class Books:
    """Reserves and unreserves."""

    name = "Books"

    def reserve(self, context: CommitContext, /) -> Status:
        return OK

    def unreserve(self, context: CommitContext, /) -> None:
        return None


class HalfReserve:
    """Lacks unreserve, so it is not a Reserve plugin."""

    name = "HalfReserve"

    def reserve(self, context: CommitContext, /) -> Status:
        return OK


class Gate:
    name = "Gate"

    def permit(self, context: CommitContext, /) -> tuple[Status, timedelta | None]:
        return Status(Code.WAIT), timedelta(seconds=5)


class Binder:
    name = "Binder"

    async def pre_bind(self, context: CommitContext, /) -> Status:
        return OK

    async def bind(self, context: CommitContext, /) -> Status:
        return OK

    async def post_bind(self, context: CommitContext, /) -> None:
        return None


class WholeFleet(Timeless):
    """Both forms of Filter and Score, and all methods for caching."""

    name = "WholeFleet"

    def filter(self, context: Context, row: int, /) -> Status:
        return OK

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        return OK, candidates

    def score(self, context: Context, row: int, /) -> int:
        return row

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        return Raw(rows)

    def normalize(self, raw: float, extent: Extent, /) -> int:
        return int(raw)

    def normalize_fleet(self, raw: Amounts, extent: Extent, /) -> Scores:
        return raw.astype(np.int64)

    def reads(self, context: Context, /) -> Reads:
        return Reads()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Oldest, {"QueueSort"}),
        (Admit, {"PreFilter", "RowPreFilter"}),
        (Refuse, {"Filter"}),
        (MakeRoom, {"PostFilter"}),
        (Points, {"Score"}),
        (Prepared, {"PreScore", "Score"}),
        (Books, {"Reserve"}),
        (HalfReserve, set()),
        (Gate, {"Permit"}),
        (Binder, {"PreBind", "Bind", "PostBind"}),
        (WholeFleet, {"Filter", "FleetFilter", "Score", "FleetScore", "NormalizeScore", "Reader"}),
        (ClusterSets, {"PreFilter", "RowPreFilter", "Reader", "FilterRemedies"}),
        (Predicate, {"Filter", "FleetFilter", "Reader", "FilterRemedies"}),
        (TaintToleration, {"Filter", "FleetFilter", "Reader", "Waker", "FilterRemedies"}),
        (Balance, {"PreScore", "Score", "FleetScore", "Reader", "ScoreRemedies"}),
        (Allocatable, {"Score", "FleetScore", "NormalizeScore", "Reader", "ScoreRemedies"}),
        (
            AddOnScore,
            {"PreScore", "HostWarnings", "Score", "FleetScore", "Reader", "Remarks", "ScoreRemedies"},
        ),
        (
            Calculator,
            {"PreScore", "Score", "FleetScore", "NormalizeScore", "Reader", "Remarks", "ScoreRemedies"},
        ),
        (
            MissingScore,
            {
                "PreFilter",
                "RowPreFilter",
                "Filter",
                "FleetFilter",
                "FilterWarnings",
                "Reader",
                "FilterRemedies",
            },
        ),
        (
            Spread,
            {
                *("PreFilter", "RowPreFilter", "Filter", "FleetFilter"),
                *("Choose", "ChoiceExplainer", "Reader", "FilterRemedies", "ChoiceRemedies"),
            },
        ),
        (PrioritizerPolicy, {"Prioritize"}),
        (object, set()),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_plugin_has_the_points_of_its_methods(kind: type, expected: set[str]) -> None:
    assert points_of(kind) == expected


@pytest.mark.parametrize("whole_fleet", [True, False])
def test_plugin_with_per_host_methods_runs_in_a_profile(whole_fleet: bool) -> None:
    profile = assemble(
        name="toy",
        pre_filters=(Admit(["a", "b", "c"]),),
        filters=(Refuse(["b"]),),
        scores=(Weighted(Points({"a": 1, "c": 2}), 3),),
    )
    snapshot = fleet_of("a", "b", "c", "d").snapshot()
    outcome = cycle.run(snapshot, Work(), profile, now=0, whole_fleet=whole_fleet)
    assert outcome.selected == ["c", "a"]
    assert outcome.totals_by_name() == {"a": 3, "c": 6}
