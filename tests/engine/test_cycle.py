from dataclasses import dataclass, field

import numpy as np
import pytest

from engine.toys import Admit, Points, Policy, Prepared, Refuse, Work, fleet_of, name_of
from fairway.engine import cycle
from fairway.engine.outcome import Outcome
from fairway.engine.points import Amounts, Context, Extent, Raw, Scores, Weighted
from fairway.engine.profile import Profile, assemble
from fairway.engine.queue import rejections_of
from fairway.engine.status import OK, SKIPPED, Code, Status, failed, misconfigured, warning
from fairway.hosts.bitmap import Bits, Rows

NAMES = ("a", "b", "c", "d")


def run(profile: Profile, *, wanted: int | None = None, names: tuple[str, ...] = NAMES) -> Outcome:
    """Run a cycle per host and over the whole fleet, and check that both agree."""
    snapshot = fleet_of(*names).snapshot()
    slow = cycle.run(snapshot, Work(wanted), profile, now=0, whole_fleet=False)
    fast = cycle.run(snapshot, Work(wanted), profile, now=0)
    assert (slow.selected, slow.status, slow.wake) == (fast.selected, fast.status, fast.wake)
    assert slow.totals_by_name() == fast.totals_by_name()
    return fast


def stages(outcome: Outcome) -> list[tuple[str, list[str]]]:
    return [(stage.plugin, outcome.names(stage.survivors)) for stage in outcome.details.stages]


def test_empty_profile_selects_all_hosts_by_name() -> None:
    outcome = run(assemble(name="empty"), names=("c", "a", "b"))
    assert outcome.selected == ["a", "b", "c"]
    assert outcome.status is OK
    assert outcome.totals_by_name() == {"a": 0, "b": 0, "c": 0}


def test_cycle_of_empty_fleet_selects_nothing() -> None:
    outcome = run(
        assemble(name="toy", filters=(Refuse(),), scores=(Weighted(Points({}), 1),)), names=(), wanted=3
    )
    assert outcome.selected == []
    assert not outcome.eligible
    assert outcome.unscheduled == 3


@pytest.mark.parametrize(
    ("admits", "expected"),
    [
        pytest.param((Admit(None),), ["a", "b", "c", "d"], id="None admits all"),
        pytest.param((Admit(["b", "a"]),), ["a", "b"], id="a set admits its members"),
        pytest.param((Admit(["a", "b"]), Admit(["b", "c"])), ["b"], id="two admit what both admit"),
        pytest.param((Admit(["a", "b"]), Admit(None)), ["a", "b"], id="None takes nothing away"),
        pytest.param((Admit([]),), [], id="an empty set admits nobody"),
    ],
)
def test_pre_filters_restrict_considered_hosts(admits: tuple[Admit, ...], expected: list[str]) -> None:
    refuse = Refuse()
    outcome = run(assemble(name="toy", pre_filters=admits, filters=(refuse,)))
    assert outcome.names(outcome.details.eligible) == outcome.selected == expected
    assert set(refuse.asked) == set(expected)


@dataclass
class Asked(Admit):
    """Records its calls."""

    log: list[str] = field(default_factory=list)

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        self.log.append(self.name)
        return super().pre_filter(context)


@pytest.mark.parametrize(
    ("code", "called"), [(Code.UNSCHEDULABLE, ["A", "B"]), (Code.UNRESOLVABLE, ["A"]), (Code.ERROR, ["A"])]
)
def test_pre_filters_run_on_after_unschedulable_only(code: Code, called: list[str]) -> None:
    log: list[str] = []
    status = Status(code, ("no",), plugin="A")
    admits = (Asked(None, status, "A", log=log), Asked(None, name="B", log=log))
    refuse = Refuse()
    profile = assemble(name="toy", pre_filters=admits, filters=(refuse,))
    outcome = cycle.run(fleet_of(*NAMES).snapshot(), Work(1), profile, now=0)
    assert (outcome.status, log, refuse.asked, outcome.selected) == (status, called, [], [])


def test_empty_intersection_of_pre_filters_is_unresolvable_and_blames_each_of_them() -> None:
    class AdmitSet:
        """Without a reason for each row."""

        def __init__(self, name: str, *names: str) -> None:
            self.name, self._admit = name, Admit(names)

        def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
            return self._admit.pre_filter(context)

    refuse = Refuse()
    admits = (AdmitSet("Zone", "a", "b"), AdmitSet("Volume", "c"))
    outcome = run(assemble(name="toy", pre_filters=admits, filters=(refuse,)), wanted=1)
    statuses = [cycle.rejection(outcome.context, outcome.plugins, row) for row in range(len(NAMES))]
    assert [None if status is None else (status.code, status.plugin) for status in statuses] == [
        (Code.UNRESOLVABLE, plugin) for plugin in ("Volume", "Volume", "Zone", "Zone")
    ]
    assert [rejection.plugin for rejection in rejections_of(outcome)] == ["Zone", "Volume"]
    assert refuse.asked == []


def test_single_feasible_host_is_scored_because_its_explanation_shows_the_total() -> None:
    prepared = Prepared({"b": 7})
    outcome = run(assemble(name="toy", filters=(Refuse(["a", "c", "d"]),), scores=(Weighted(prepared, 2),)))
    assert (outcome.selected, outcome.totals_by_name()) == (["b"], {"b": 14})


def test_filters_run_in_order_on_remaining_hosts() -> None:
    first, second, third = Refuse(["a"], "First"), Refuse(["a", "b"], "Second"), Refuse((), "Third")
    outcome = cycle.run(
        fleet_of(*NAMES).snapshot(), Work(), assemble(name="toy", filters=(first, second, third)), now=0
    )
    assert (first.asked, second.asked, third.asked) == (list("abcd"), list("bcd"), list("cd"))
    assert stages(outcome) == [("First", list("bcd")), ("Second", list("cd")), ("Third", list("cd"))]


def test_filters_run_without_remaining_hosts() -> None:
    outcome = run(assemble(name="toy", filters=(Refuse(NAMES, "First"), Refuse((), "Second"))))
    assert stages(outcome) == [("First", []), ("Second", [])]
    assert outcome.eligible
    assert not outcome.feasible


@pytest.mark.parametrize("code", [Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING])
def test_every_rejecting_status_code_rejects(code: Code) -> None:
    refuse = Refuse(say=lambda host: Status(code, ("no",)) if host == "b" else OK)
    assert run(assemble(name="toy", filters=(refuse,))).selected == ["a", "c", "d"]


BROKEN = [misconfigured("no sense", plugin="P"), failed("broken", plugin="P")]


@pytest.mark.parametrize("status", BROKEN, ids=lambda status: status.code.value)
def test_pre_filter_error_ends_the_cycle(status: Status) -> None:
    refuse = Refuse()
    outcome = run(assemble(name="toy", pre_filters=(Admit(None, status),), filters=(refuse,)), wanted=2)
    assert outcome.status == status
    assert outcome.selected == []
    assert refuse.asked == []
    assert outcome.unscheduled == 0


@pytest.mark.parametrize("status", BROKEN, ids=lambda status: status.code.value)
def test_filter_error_ends_the_cycle_and_keeps_stages(status: Status) -> None:
    prepared = Prepared({})
    wrong = Refuse(say=lambda _: status, name="Wrong")
    outcome = run(
        assemble(
            name="toy",
            filters=(Refuse(["a"], "First"), wrong, Refuse((), "Third")),
            scores=(Weighted(prepared, 1),),
        ),
        wanted=2,
    )
    assert outcome.status == status
    assert stages(outcome) == [("First", list("bcd"))]
    assert (outcome.selected, outcome.totals_by_name(), outcome.unscheduled) == ([], {}, 0)
    assert prepared.seen == []


@pytest.mark.parametrize("status", BROKEN, ids=lambda status: status.code.value)
def test_score_error_ends_the_cycle(status: Status) -> None:
    later = Prepared({}, name="Later")
    wrong = Prepared({}, status=status)
    outcome = run(
        assemble(name="toy", filters=(Refuse(),), scores=(Weighted(wrong, 1), Weighted(later, 1))), wanted=2
    )
    assert outcome.status == status
    assert stages(outcome) == [("Refuse", list("abcd"))]
    assert outcome.details.scored == ()
    assert outcome.selected == []
    assert later.seen == []


def test_workload_that_cannot_be_scored_is_filtered() -> None:
    prepared = Prepared({})
    refusing = Policy({}, refusal=misconfigured("no"))
    profile = assemble(
        name="toy", prioritizer=refusing, filters=(Refuse(["a"]),), scores=(Weighted(prepared, 1),)
    )
    outcome = run(profile)
    assert outcome.status == misconfigured("no")
    assert stages(outcome) == [("Refuse", list("bcd"))]
    assert prepared.seen == []


def test_prioritize_selects_the_scores_of_each_workload() -> None:
    counted, two = Points({"a": 1, "b": 2}, "One"), Points({"a": 5, "b": 1}, "Two")
    profile = assemble(
        name="toy",
        prioritizer=Policy({"second": {"Two": 2}}),
        scores=(Weighted(counted, 1),),
        registered={"One": counted, "Two": two},
    )
    snapshot = fleet_of("a", "b").snapshot()
    first = cycle.run(snapshot, Work(name="first"), profile, now=0)
    second = cycle.run(snapshot, Work(name="second"), profile, now=0)
    assert first.totals_by_name() == {"a": 1, "b": 2}
    assert second.totals_by_name() == {"a": 10, "b": 2}


def test_calls_of_a_prioritization_are_prepared_once() -> None:
    profile = assemble(name="toy", prioritizer=Policy({}), scores=(Weighted(Points({}), 1),))
    snapshot = fleet_of("a").snapshot()
    first = cycle.run(snapshot, Work(), profile, now=0).plugins.scores
    assert cycle.run(snapshot, Work(), profile, now=0).plugins.scores is first


def warn(word: str) -> Status:
    return warning(lambda: word, plugin=word)


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        pytest.param(
            assemble(name="toy", pre_filters=(Admit(None, warn("pre")),)), "pre", id="of a PreFilter"
        ),
        pytest.param(
            assemble(
                name="toy",
                pre_filters=(Admit(None, warn("pre")),),
                filters=(Refuse(say=lambda host: warn("filter") if host == "b" else OK),),
            ),
            "filter",
            id="of a Filter, about one host",
        ),
        pytest.param(
            assemble(
                name="toy",
                filters=(Refuse(say=lambda _: warn("filter")),),
                scores=(
                    Weighted(Prepared({}, status=warn("first")), 1),
                    Weighted(Prepared({}, status=warn("second")), 1),
                    Weighted(Prepared({}), 1),
                ),
            ),
            "second",
            id="the last one wins",
        ),
    ],
)
def test_warning_is_recorded_and_cycle_continues(profile: Profile, expected: str) -> None:
    outcome = run(profile)
    assert outcome.status == warn(expected)
    assert outcome.selected == list("abcd")


def test_pre_score_gets_feasible_rows_ascending() -> None:
    prepared = Prepared({"b": 1})
    run(assemble(name="toy", filters=(Refuse(["a"]),), scores=(Weighted(prepared, 1),)))
    assert prepared.seen == [list("bcd")] * 2


def test_skipped_prioritizer_has_no_effect() -> None:
    skipping = Prepared({"a": 100}, name="Skipping", status=SKIPPED)
    outcome = run(assemble(name="toy", scores=(Weighted(skipping, 1), Weighted(Points({"d": 1}), 1))))
    assert outcome.selected == ["d", "a", "b", "c"]
    assert outcome.status is OK


def test_total_is_weighted_sum_and_unknown_score_counts_zero() -> None:
    plus, minus = Points({"a": 10, "b": 20}, "Plus"), Points({"a": 1, "d": 3}, "Minus")
    outcome = run(assemble(name="toy", scores=(Weighted(plus, 2), Weighted(minus, -5))))
    assert outcome.totals_by_name() == {"a": 15, "b": 40, "c": 0, "d": -15}
    assert outcome.selected == ["b", "a", "c", "d"]
    (first, _) = outcome.details.scored
    assert first.present is not None
    assert first.present.tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("wanted", "expected", "unscheduled"),
    [(None, list("abcd"), 0), (2, list("ab"), 0), (0, [], 0), (6, list("abcd"), 2)],
)
def test_cycle_selects_the_wanted_number(wanted: int | None, expected: list[str], unscheduled: int) -> None:
    outcome = run(assemble(name="toy"), wanted=wanted)
    assert (outcome.selected, outcome.unscheduled) == (expected, unscheduled)


class Share(Points):
    """Normalises to thousandths of the highest raw score, and records the extents."""

    def __init__(self, points: dict[str, int]) -> None:
        super().__init__(points, "Share")
        self.extents: list[Extent] = []

    def normalize(self, raw: float, extent: Extent, /) -> int:
        self.extents.append(extent)
        return int(1000 * raw / extent.high)

    def normalize_fleet(self, raw: Amounts, extent: Extent, /) -> Scores:
        self.extents.append(extent)
        return (1000 * raw / extent.high).astype(np.int64)


def test_normalization_ignores_unknown_scores() -> None:
    share = Share({"a": 50, "b": 200, "d": 100})
    outcome = run(assemble(name="toy", filters=(Refuse(["d"]),), scores=(Weighted(share, 2),)))
    assert outcome.totals_by_name() == {"a": 500, "b": 2000, "c": 0}
    assert set(share.extents) == {Extent(50, 200)}


def test_prioritizer_without_known_scores_is_not_normalized() -> None:
    share = Share({})
    outcome = run(assemble(name="toy", scores=(Weighted(share, 1),)))
    assert set(outcome.totals_by_name().values()) == {0}
    assert share.extents == []


class Last:
    """Chooses the last host, if the workload wants this many."""

    name = "Last"

    def __init__(self, *, wanted: int) -> None:
        self._wanted = wanted

    def choose(self, context: Context, rows: Rows, totals: Scores, /) -> Rows | None:
        assert totals.tolist() == [1, 2, 0, 0]
        return rows[::-1][:1] if context.workload.wanted == self._wanted else None


def test_first_choose_plugin_that_does_not_leave_the_choice_to_the_next_decides() -> None:
    scores = (Weighted(Points({"a": 1, "b": 2})),)
    profile = assemble(name="toy", scores=scores, choosers=(Last(wanted=1), Last(wanted=2)))
    assert run(profile, wanted=1).selected == run(profile, wanted=2).selected == ["d"]
    assert run(profile, wanted=3).selected == ["b", "a", "c"]


class Alarm(Refuse):
    def wake(self, context: Context, /) -> int | None:
        return {"First": 20, "Second": 10}.get(self.name)


def test_cycle_wakes_at_the_earliest_time() -> None:
    assert run(assemble(name="toy", filters=(Alarm(name="First"), Alarm(name="Second")))).wake == 10
    assert run(assemble(name="toy", filters=(Alarm(name="First"), Alarm(name="Third")))).wake == 20
    assert run(assemble(name="toy", filters=(Refuse(),))).wake is None


class OnlyOdd:
    """A whole-fleet filter."""

    name = "OnlyOdd"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def score(self, context: Context, row: int, /) -> int:
        self.asked.append(name_of(context, row))
        return row % 2

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        return Raw(rows % 2)


def test_fleet_method_replaces_per_host_calls() -> None:
    odd = OnlyOdd()
    outcome = cycle.run(
        fleet_of(*NAMES).snapshot(), Work(2), assemble(name="toy", scores=(Weighted(odd, 1),)), now=0
    )
    assert outcome.selected == ["b", "d"]
    assert odd.asked == []


def test_cycle_does_not_change_snapshot() -> None:
    fleet = fleet_of(*NAMES)
    snapshot = fleet.snapshot()
    live, generation = snapshot.live.copy(), fleet.generation
    profile = assemble(name="toy", pre_filters=(Admit(["a"]),), filters=(Refuse(["a"]),))
    first, second = (cycle.run(snapshot, Work(1), profile, now=0) for _ in range(2))
    assert first.selected == second.selected == []
    assert (snapshot.live == live).all()
    assert fleet.generation == generation


def test_reason_has_rank_total_and_scores() -> None:
    scores = (Weighted(Points({"a": 1}, "One"), 1), Weighted(Points({"b": -2}, "Two"), 3))
    outcome = run(assemble(name="toy", filters=(Refuse(["c"]),), scores=scores), wanted=2)
    assert list(outcome.reasons()) == [
        ("a", "Rank 1 of 3 with 1 points: One 1, Two missing, counts 0", 1),
        ("d", "Rank 2 of 3 with 0 points: One missing, counts 0, Two missing, counts 0", 0),
    ]
