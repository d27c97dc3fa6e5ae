"""Explanations of third-party plugins: reasons, contributions, and remedies as verified counterfactuals."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from fairway.api.placement import Placement, PlacementSpec
from fairway.engine.points import Context, Scores
from fairway.engine.remedies import AddToList, MoveNumber, RaiseField, Remedy, SetCell, SetField, SetNumber
from fairway.engine.status import OK, Status, misconfigured, unschedulable
from fairway.hosts.bitmap import Rows
from fairway.hosts.clusters import cells
from fairway.hosts.instant import to_micros
from fairway.scheduling.guard import FaultReport
from fairway.scheduling.methods import MOST_REMEDIES
from fairway.testing import builders
from fairway.whatif.advice import MEND_PLUGIN, SEE_PLUGIN
from fairway.whatif.barriers import DEPENDS_ON, NO_REMEDY
from fairway.whatif.counterfactual import UNSTABLE, State, counterfactual
from fairway.whatif.explain import ClusterAnswer, Rejection, explain
from fairway.whatif.field_edits import AddToField, FieldError, display_path, field_of, with_field
from fairway.whatif.field_edits import RaiseField as RaiseFieldEdit
from fairway.whatif.number_edits import MoveLabel
from fairway.whatif.proposals import NO_SUCH_EDIT
from fairway.whatif.world import World
from toy_plugins import PRICE, TIER, Cheapest, HelpfulCheapest, HelpfulTier, Tier, profile_with

MICROS = to_micros(datetime(2026, 3, 1, 12, tzinfo=UTC))
KEY = ("ns1", "p1")
BOUND = (builders.cluster_set("default"), builders.binding("default"))
WANTS_ONE = PlacementSpec(
    numberOfClusters=1, prioritizerPolicy=builders.policy(builders.builtin("Cheapest"), mode="Exact")
)


def world(
    *kinds: type[Any], placement: Placement | None = None, reports: list[FaultReport] | None = None
) -> World:
    clusters = [
        builders.cluster("a", labels={TIER: "gold", PRICE: "10"}),
        builders.cluster("b", labels={TIER: "gold", PRICE: "30"}),
        builders.cluster("c", labels={TIER: "tin"}),
        builders.cluster("d"),
    ]
    objects = [*BOUND, *clusters, placement or builders.placement("p1")]
    return World(objects, profile=profile_with(*kinds, reports=reports))


def about(where: World, cluster: str) -> ClusterAnswer:
    answer = explain(where, KEY, now=MICROS, cluster=cluster).cluster
    assert answer is not None
    return answer


def words(answer: ClusterAnswer) -> list[list[str]]:
    counterfactual = answer.counterfactual
    return [
        [edit.describe() for edit in edits] for edits in (counterfactual.edits, *counterfactual.alternatives)
    ]


def rejecting(**methods: Any) -> type[Any]:
    """Return a plugin class that rejects cluster d."""

    def filter_d(_self: object, context: Context, row: int, /) -> Status:
        bad = context.snapshot.hosts.names[row] == "d"
        return unschedulable("is d", plugin="Foreign") if bad else OK

    return type("Foreign", (), {"name": "Foreign", "filter": filter_d, **methods})


def test_rejections_of_a_plugin_are_grouped_by_its_reasons() -> None:
    explanation = explain(world(Tier), KEY, now=MICROS)
    assert explanation.rejected == (
        Rejection("Tier", "is of tier None, and the placement wants tier gold", ("d",)),
        Rejection("Tier", "is of tier tin, and the placement wants tier gold", ("c",)),
    )


def test_contribution_of_a_plugin_has_its_remark() -> None:
    explanation = explain(world(Cheapest), KEY, now=MICROS)
    notes = {host.host: host.contributions[-1] for host in explanation.chosen}
    assert [(name, part.plugin, part.score, part.note) for name, part in sorted(notes.items())] == [
        ("a", "Cheapest", 90, ""),
        ("b", "Cheapest", 70, ""),
        ("c", "Cheapest", 0, "has no price"),
        ("d", "Cheapest", 0, "has no price"),
    ]


def test_remedies_of_a_filter_become_verified_counterfactuals() -> None:
    answer = about(world(HelpfulTier), "c")
    assert answer.trace.rejected_by == "Tier"
    assert words(answer) == [
        ["set metadata.annotations[example.com/tier] of placement ns1/p1 to tin"],
        ["change the label example.com/tier of cluster c from tin to gold"],
    ]
    assert answer.counterfactual.notes == ()


def test_annotation_that_a_remedy_changes_is_shown_with_its_value() -> None:
    placement = builders.placement("p1", annotations={TIER: "silver"})
    assert words(about(world(HelpfulTier, placement=placement), "a"))[0] == [
        "change metadata.annotations[example.com/tier] of placement ns1/p1 from silver to gold"
    ]


def test_remedy_of_a_score_is_the_smallest_sufficient_number() -> None:
    answer = about(world(HelpfulCheapest, placement=builders.placement("p1", spec=WANTS_ONE)), "b")
    assert answer.counterfactual.edits == (MoveLabel(cluster="b", key=PRICE, base=30, value=9),)
    assert words(answer) == [
        ["change the label example.com/cents-per-core of cluster b from 30 to 9"],
        ["raise spec.numberOfClusters of placement ns1/p1 from 1 to 2"],
    ]


def test_score_without_a_number_gets_the_best_of_the_others() -> None:
    cheaper = builders.placement(
        "p1", spec=PlacementSpec(numberOfClusters=2, prioritizerPolicy=WANTS_ONE.prioritizerPolicy)
    )
    assert words(about(world(HelpfulCheapest, placement=cheaper), "d"))[0] == [
        "give cluster d the label example.com/cents-per-core=10"
    ]


@pytest.mark.parametrize(
    ("bound", "expected"),
    [(None, "from 30 to 9"), (5, "from 30 to 9"), (10, None)],
    ids=["none", "far", "near"],
)
def test_number_is_tried_up_to_the_bound_of_the_remedy(bound: int | None, expected: str | None) -> None:
    def propose(_self: object, _context: Context, _row: int, _weight: int, /) -> list[Remedy]:
        return [MoveNumber(Cheapest.column, up=False, bound=bound)]

    kind = type("Bounded", (Cheapest,), {"score_remedies": propose})
    answers = words(about(world(kind, placement=builders.placement("p1", spec=WANTS_ONE)), "b"))
    label = [f"change the label {PRICE} of cluster b {expected}"]
    assert (label in answers) == (expected is not None)


def test_published_score_is_tried_up_to_the_bound_of_the_remedy() -> None:
    def propose(_self: object, _context: Context, _row: int, /) -> list[Remedy]:
        score, calculated = (cells.SCORE, "default", "cpu"), (cells.CALCULATOR, "x")
        return [MoveNumber(score, up=True, bound=7), MoveNumber(calculated, up=False, bound=-3, title="X")]

    tried = about(world(rejecting(filter_remedies=propose)), "d").counterfactual.tried
    assert "publish score default/cpu for cluster d, which has none, as 7" in tried
    assert "publish a ManagedClusterScore X for cluster d, which has none, as -3" in tried


def test_remedies_of_several_plugins_combine_to_one_answer() -> None:
    placement = builders.placement("p1", spec=WANTS_ONE)
    assert words(about(world(HelpfulTier, HelpfulCheapest, placement=placement), "d"))[0] == [
        "give cluster d the label example.com/tier=gold",
        "raise spec.numberOfClusters of placement ns1/p1 from 1 to 3",
    ]


@pytest.mark.parametrize("kind", [Tier, Cheapest])
def test_plugin_without_remedies_is_noted_with_what_it_reads(kind: type[Any]) -> None:
    placement = builders.placement("p1", spec=WANTS_ONE)
    column = f"label {PRICE if kind is Cheapest else TIER}"
    kinds = (Cheapest,) if kind is Cheapest else (Cheapest, kind)
    answer = about(world(*kinds, placement=placement), "d").counterfactual
    assert DEPENDS_ON.format(plugin=kind.name, columns=column) in answer.notes
    assert (answer.state is State.FOUND) == (kind is Cheapest)  # by more clusters


def test_plugin_without_remedies_and_reads_is_noted() -> None:
    answer = about(world(rejecting()), "d").counterfactual
    assert (answer.state, answer.obstacle, answer.tried) == (State.NOT_FOUND, "is d", ())
    assert answer.notes == (NO_REMEDY.format(plugin="Foreign"),)


def test_rejection_without_a_name_is_attributed_to_its_plugin() -> None:
    def filter_d(_self: object, context: Context, row: int, /) -> Status:
        status = unschedulable("is d", plugin="")
        return status if context.snapshot.hosts.names[row] == "d" else OK

    assert about(world(rejecting(filter=filter_d)), "d").trace.rejected_by == "Foreign"


def test_choice_without_remedies_proposes_more_hosts() -> None:
    def choose(_self: object, _context: Context, rows: Rows, totals: Scores, /) -> Rows:
        return rows[np.argsort(-totals, kind="stable")][: _context.workload.wanted]

    kind = type("Picky", (), {"name": "Picky", "choose": choose})
    answer = about(world(kind, HelpfulCheapest, placement=builders.placement("p1", spec=WANTS_ONE)), "b")
    assert answer.counterfactual.notes == (NO_REMEDY.format(plugin="Picky"),)
    assert words(answer)[-1] == ["raise spec.numberOfClusters of placement ns1/p1 from 1 to 2"]


@pytest.mark.parametrize(
    ("remedy", "why"),
    [
        (SetCell(("weather",), "fine"), NO_SUCH_EDIT),
        (MoveNumber(("weather", "degrees"), up=True), NO_SUCH_EDIT),
        (SetField(("spec", "colour"), "red"), "there is no field spec.colour"),
        (SetField(("spec", "numberOfClusters"), "many"), "spec.numberOfClusters: Expected"),
        (AddToList(("spec", "numberOfClusters"), 1), "spec.numberOfClusters is not a list"),
        (RaiseField(("spec", "clusterSets"), 1), "spec.clusterSets is not a whole number"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_remedy_that_no_object_can_have_is_noted(remedy: Remedy, why: str) -> None:
    answer = about(world(rejecting(filter_remedies=lambda *_args: (remedy,))), "d").counterfactual
    assert answer.state is State.NOT_FOUND
    (note,) = answer.notes
    assert f"cannot be tried: {why}" in note


def test_remedy_that_does_not_help_is_tried_and_not_proposed() -> None:
    useless = (SetCell(cells.label("a"), "b"), SetNumber((cells.CALCULATOR, "x"), 3))
    answer = about(world(rejecting(filter_remedies=lambda *_args: useless)), "d").counterfactual
    assert answer.state is State.NOT_FOUND
    assert "give cluster d the label a=b" in answer.tried
    assert "publish a ManagedClusterScore x for cluster d, which has none, as 3" in answer.tried


def _raises(_self: object, _context: Context, _row: int, /) -> Iterator[Remedy]:
    yield SetCell(cells.label("a"), "b")
    raise RuntimeError("out of ideas")


def test_fault_in_remedies_is_charged_and_ends_neither_search_nor_explanation() -> None:
    reports: list[FaultReport] = []
    answer = about(world(rejecting(filter_remedies=_raises), reports=reports), "d").counterfactual
    (note,) = answer.notes
    assert note.startswith("plugin Foreign at Filter raised RuntimeError: out of ideas")
    assert [str(report.fault) for report in reports] == list(answer.notes)


@pytest.mark.parametrize("result", [7, "text", [SetField(["spec"], 1)], [object()]])  # type: ignore[arg-type]
def test_remedies_that_are_nonsense_are_charged(result: object) -> None:
    reports: list[FaultReport] = []
    kind = rejecting(filter_remedies=lambda *_args: result)
    answer = about(world(kind, reports=reports), "d").counterfactual
    assert answer.state is State.NOT_FOUND
    assert len(reports) == 1
    assert "remedies" in reports[0].fault.reason


def test_endless_remedies_are_cut() -> None:
    drawn = 0

    def endless(_self: object, _context: Context, _row: int, /) -> Iterator[Remedy]:
        nonlocal drawn
        while True:
            drawn += 1
            yield SetCell(cells.label("a"), "b")

    assert about(world(rejecting(filter_remedies=endless)), "d").counterfactual.state is State.NOT_FOUND
    assert drawn <= MOST_REMEDIES * 2  # once for each barrier


def test_field_edits_change_placements() -> None:
    placement = builders.placement("p1", spec=PlacementSpec(clusterSets=("x",), numberOfClusters=2))
    sets = ("spec", "clusterSets")
    assert AddToField(KEY, sets, "y").change(placement).spec.clusterSets == ("x", "y")
    raised = RaiseFieldEdit(KEY, ("spec", "numberOfClusters"), old=2, value=5)
    assert raised.with_steps(1).change(placement).spec.numberOfClusters == 3
    assert raised.describe() == "raise spec.numberOfClusters of placement ns1/p1 from 2 to 5"
    assert display_path(("spec", "tolerations", 0, "key")) == "spec.tolerations[0].key"
    marked = with_field(placement, ("metadata", "annotations", "a/b"), "c")
    assert with_field(marked, ("metadata", "annotations", "a/b"), None) == placement
    assert field_of(marked, (*sets, 0)) == "x"
    with pytest.raises(FieldError, match=r"no field spec\.clusterSets\[1\]"):
        field_of(marked, (*sets, 1))


def test_plugin_with_changing_results_gives_no_remedy() -> None:
    calls = 0

    def filter_d(_self: object, context: Context, row: int, /) -> Status:
        nonlocal calls
        if context.snapshot.hosts.names[row] != "d":
            return OK
        calls += 1
        return OK if calls % 2 == 0 else unschedulable("not now", plugin="Foreign")

    answer = counterfactual(world(rejecting(filter=filter_d)), KEY, "d", now=MICROS)
    assert (answer.state, answer.obstacle, answer.edits) == (State.NOT_FOUND, UNSTABLE, ())


def test_misconfigured_placement_is_advised_to_correct_the_field_that_the_plugin_names() -> None:
    for field, remedy in (
        ("metadata.annotations[example.com/tier]", "correct metadata.annotations[example.com/tier]"),
        ("", SEE_PLUGIN.format(plugin="Foreign")),
    ):
        status = misconfigured("unknown tier", plugin="Foreign", field=field)
        (advice,) = explain(world(rejecting(filter=lambda *_args, s=status: s)), KEY, now=MICROS).advice
        assert (advice.message, advice.remedy) == ("unknown tier", remedy)


def test_fault_of_a_filter_is_explained_with_the_plugin_to_correct() -> None:
    def fail(_self: object, _context: Context, _row: int, /) -> Status:
        raise RuntimeError("no data")

    explanation = explain(world(rejecting(filter=fail)), KEY, now=MICROS, cluster="d")
    assert explanation.cluster is not None
    assert explanation.cluster.counterfactual.state is State.BLOCKED
    (advice,) = explanation.advice
    assert advice.message.startswith("plugin Foreign at Filter raised RuntimeError: no data")
    assert advice.remedy == MEND_PLUGIN.format(plugin="Foreign")
