from collections.abc import Callable

import pytest

from engine.toys import Admit, Points, Policy, Refuse, Work, fleet_of
from fairway.engine import cycle
from fairway.engine.points import Context, Scores, Weighted
from fairway.engine.profile import Profile, assemble
from fairway.engine.status import misconfigured
from fairway.engine.trace import LEFT_OUT, NONE_WANTED, Contribution, HostTrace, Trace
from fairway.hosts.bitmap import Rows

NAMES = ("a", "b", "c", "d", "e", "f")
SCORES = (Weighted(Points({"a": 1, "b": 5, "c": 5}, "One"), 2), Weighted(Points({"c": -1, "d": 0}, "Two"), 1))


def traced(profile: Profile, *, wanted: int | None = 1) -> Trace:
    return Trace(cycle.run(fleet_of(*NAMES).snapshot(), Work(wanted), profile, now=0))


PROFILE = assemble(
    name="toy",
    pre_filters=(Admit(NAMES[:5]),),
    filters=(Refuse(["e"], "First"), Refuse(["e"])),
    scores=SCORES,
)


def test_trace_orders_selected_ranked_rejected_hosts() -> None:
    assert [trace.host for trace in traced(PROFILE)] == ["b", "c", "a", "d", "e", "f"]


def test_trace_of_selected_host_has_rank_total_and_scores() -> None:
    assert traced(PROFILE).host("b") == HostTrace(
        host="b",
        selected=True,
        rank=1,
        total=10,
        contributions=(Contribution("One", 5, 2), Contribution("Two", 0, 1, known=False)),
    )


def test_trace_points_are_score_times_weight() -> None:
    assert Contribution("One", -5, 3).points == -15


def test_trace_of_unselected_host_counts_better_hosts() -> None:
    trace = traced(PROFILE, wanted=2).host("a")
    assert (trace.selected, trace.rank, trace.total, trace.rejected_by) == (False, 3, 2, "")
    assert trace.reason == "passed every filter, but 2 hosts ranked higher, and 2 are wanted"


def test_trace_ranks_continue_below_selected_hosts() -> None:
    assert {trace.host: trace.rank for trace in traced(PROFILE)} == {
        "b": 1,
        "c": 2,
        "a": 3,
        "d": 4,
        "e": None,
        "f": None,
    }


@pytest.mark.parametrize(
    ("host", "rejected_by", "reason"),
    [
        pytest.param("e", "First", "e is refused", id="the first filter that refuses is named"),
        pytest.param("f", "Admit", "is not admitted", id="a PreFilter comes before the filters"),
    ],
)
def test_trace_of_rejected_host_has_plugin_and_reason(host: str, rejected_by: str, reason: str) -> None:
    assert traced(PROFILE).host(host) == HostTrace(host=host, rejected_by=rejected_by, reason=reason)


def test_trace_of_unknown_host_raises() -> None:
    with pytest.raises(KeyError):
        traced(PROFILE).host("nowhere")


def test_trace_of_ended_cycle_has_its_message_for_every_host() -> None:
    profile = assemble(
        name="toy",
        filters=(Refuse(["e"]),),
        prioritizer=Policy({}, refusal=misconfigured("no sense", plugin="P")),
    )
    trace = traced(profile)
    assert trace.host("a") == HostTrace(host="a", rejected_by="P", reason="no sense")
    assert trace.host("e") == HostTrace(host="e", rejected_by="Refuse", reason="e is refused")


class FirstOnly:
    name = "FirstOnly"

    def choose(self, context: Context, rows: Rows, totals: Scores, /) -> Rows:
        return rows[:1]


class Explained(FirstOnly):
    def explain_choice(
        self, context: Context, chosen: Rows, rows: Rows, totals: Scores, /
    ) -> Callable[[int], str | None]:
        assert (chosen.tolist(), rows.tolist()) == ([0], [0, 1, 2, 3, 4, 5])
        return lambda row: "because" if row == 1 else None


def test_trace_uses_explanation_of_choose_plugin() -> None:
    trace = traced(assemble(name="toy", choosers=(Explained(),)), wanted=2)
    assert trace.host("b").reason == "because"
    assert trace.host("c").reason == LEFT_OUT


def test_trace_of_host_skipped_without_explanation() -> None:
    trace = traced(assemble(name="toy", choosers=(FirstOnly(),)), wanted=2)
    assert trace.host("b").reason == LEFT_OUT
    unlimited = traced(assemble(name="toy", choosers=(FirstOnly(),)), wanted=None)
    assert unlimited.host("f").reason == LEFT_OUT


def test_trace_of_workload_that_wants_no_host() -> None:
    assert traced(assemble(name="toy"), wanted=0).host("a").reason == NONE_WANTED


def test_trace_calls_plugins_lazily() -> None:
    refuse = Refuse(["e"])
    profile = assemble(name="toy", filters=(refuse,))
    outcome = cycle.run(fleet_of(*NAMES).snapshot(), Work(), profile, now=0)
    refuse.asked.clear()
    trace = Trace(outcome)
    assert refuse.asked == []
    trace.host("a")
    assert refuse.asked == []
    trace.host("e")
    assert refuse.asked == ["e"]
