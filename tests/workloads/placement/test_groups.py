import pytest

from fairway.api.placement import (
    ClusterClaimSelector,
    DecisionGroup,
    DecisionStrategy,
    GroupClusterSelector,
    GroupStrategy,
    PlacementSpec,
)
from fairway.engine.status import Code
from fairway.testing.builders import addon, cluster, decision, policy, requirement, score, selector
from fairway.workloads.placement.groups import NOT_A_PERCENTAGE, Group, divide, group_length
from fairway.workloads.placement.verdict import Verdict
from kubewire.api.selector import LabelSelector, LabelSelectorRequirement
from strategies import NOW_MICROS
from workloads.placement.plugins.verdicts import KEY, hub, look


@pytest.mark.parametrize(
    ("given", "count", "expected"),
    [
        pytest.param(None, 7, 7, id="nothing given is all"),
        pytest.param(0, 7, 7, id="0 is all"),
        pytest.param(-3, 7, 7, id="a negative number is all"),
        pytest.param(3, 7, 3, id="a number is itself"),
        pytest.param(8, 7, 7, id="more than there are is all"),
        pytest.param("100%", 7, 7, id="100% is all"),
        pytest.param("25%", 4, 1, id="25% of 4"),
        pytest.param("25%", 3, 1, id="25% of 3 is rounded up"),
        pytest.param("50%", 5, 3, id="50% of 5 is rounded up"),
        pytest.param("1%", 5, 1, id="at least one"),
        pytest.param("7%", 100, 8, id="7% of 100 is 8 in doubles"),
        pytest.param("14%", 50, 8, id="14% of 50 is 8 in doubles"),
        pytest.param("28%", 100, 29, id="28% of 100 is 29 in doubles"),
        pytest.param("55%", 100, 56, id="55% of 100 is 56 in doubles"),
        pytest.param("56%", 100, 57, id="56% of 100 is 57 in doubles"),
        pytest.param("0%", 5, 5, id="0% is all"),
        pytest.param("-20%", 5, 5, id="a negative share is all"),
        pytest.param("200%", 5, 5, id="more than all is all"),
        pytest.param("12.5%", 80, 10, id="a fraction of a percent"),
        pytest.param("NaN%", 5, 5, id="not a number is all"),
        pytest.param("+Inf%", 5, 5, id="infinity is all"),
        pytest.param("0x1p4%", 100, 16, id="hexadecimal, as other readers take it"),
        pytest.param("3", 0, None, id="a number in a string is refused"),
        pytest.param("", 5, None, id="an empty string is refused"),
        pytest.param("%", 5, None, id="a sign alone is refused"),
        pytest.param("many%", 5, None, id="words are refused"),
        pytest.param(" 5%", 5, None, id="spaces are refused"),
        pytest.param("1_0%", 5, None, id="underscores are refused"),
        pytest.param("1e999%", 5, None, id="a number beyond all is refused"),
    ],
)
def test_decision_group_length_from_number_or_percentage(
    given: int | str | None, count: int, expected: int | None
) -> None:
    if expected is not None:
        assert group_length(given, count) == expected
        return
    with pytest.raises(ValueError, match="invalid type: string is not a percentage") as caught:
        group_length(given, count)
    assert str(caught.value) == NOT_A_PERCENTAGE.format(value=given)


def named(
    name: str, labels: LabelSelector | None = None, claims: tuple[LabelSelectorRequirement, ...] = ()
) -> DecisionGroup:
    return DecisionGroup(
        groupName=name,
        groupClusterSelector=GroupClusterSelector(
            labelSelector=labels or LabelSelector(),
            claimSelector=ClusterClaimSelector(matchExpressions=claims),
        ),
    )


AMAZON, AZURE = selector(labels={"cloud": "Amazon"}), selector(labels={"cloud": "Azure"})
FOUR = (
    cluster("c1", labels={"cloud": "Amazon"}),
    cluster("c2", labels={"cloud": "Amazon"}, claims={"region": "eu"}),
    cluster("c3", labels={"cloud": "Azure"}, claims={"region": "eu"}),
    cluster("c4", labels={"cloud": "Azure"}),
)


def seen(*groups: DecisionGroup, length: int | str | None = None, sort_by: str = "") -> Verdict:
    strategy = GroupStrategy(decisionGroups=groups, clustersPerDecisionGroup=length)
    spec = PlacementSpec(decisionStrategy=DecisionStrategy(groupStrategy=strategy), sortBy=sort_by)
    return look(*FOUR, spec=spec)


def division(verdict: Verdict) -> list[tuple[int, str, list[str]]]:
    pages = {page.name: page for page in verdict.pages}
    return [
        (
            group.decisionGroupIndex,
            group.decisionGroupName,
            [name for page in group.decisions for name in pages[page].clusters],
        )
        for group in verdict.groups
    ]


@pytest.mark.parametrize(
    ("groups", "length", "expected"),
    [
        pytest.param((), None, [(0, "", ["c1", "c2", "c3", "c4"])], id="no strategy, one group"),
        pytest.param((), 3, [(0, "", ["c1", "c2", "c3"]), (1, "", ["c4"])], id="chunks of three, by name"),
        pytest.param(
            (named("canary", AZURE),),
            1,
            [(0, "canary", ["c3"]), (1, "canary", ["c4"]), (2, "", ["c1"]), (3, "", ["c2"])],
            id="a named group is cut into chunks too",
        ),
        pytest.param(
            (named("canary", AZURE),),
            "25%",
            [(0, "canary", ["c3"]), (1, "canary", ["c4"]), (2, "", ["c1"]), (3, "", ["c2"])],
            id="a share is of all chosen clusters",
        ),
        pytest.param(
            (named("b", AZURE), named("a", AMAZON)),
            None,
            [(0, "b", ["c3", "c4"]), (1, "a", ["c1", "c2"])],
            id="groups come in the order written, and nothing is left over",
        ),
        pytest.param(
            (named("none", selector(labels={"cloud": "none"})), named("canary", AZURE)),
            None,
            [(0, "canary", ["c3", "c4"]), (1, "", ["c1", "c2"])],
            id="a group nobody is in takes no index",
        ),
        pytest.param(
            (named("first", AZURE), named("again", AZURE)),
            None,
            [(0, "first", ["c3", "c4"]), (1, "", ["c1", "c2"])],
            id="a cluster is in the first group that wants it",
        ),
        pytest.param(
            (named("claimed", claims=(requirement("region", "In", "eu"),)),),
            None,
            [(0, "claimed", ["c2", "c3"]), (1, "", ["c1", "c4"])],
            id="by claims",
        ),
        pytest.param(
            (named("both", AZURE, (requirement("region", "In", "eu"),)),),
            None,
            [(0, "both", ["c3"]), (1, "", ["c1", "c2", "c4"])],
            id="labels and claims must both match",
        ),
        pytest.param(
            (named("all"),), None, [(0, "all", ["c1", "c2", "c3", "c4"])], id="no selector takes all"
        ),
    ],
)
def test_clusters_are_divided_into_decision_groups(
    groups: tuple[DecisionGroup, ...], length: int | str | None, expected: list[tuple[int, str, list[str]]]
) -> None:
    assert division(seen(*groups, length=length)) == expected


def test_empty_selection_is_one_empty_group() -> None:
    verdict = look()
    assert division(verdict) == [(0, "", [])]
    assert [(group.decisions, group.clusterCount) for group in verdict.groups] == [(("p1-decision-1",), 0)]


def test_invalid_group_length_deletes_all_pages() -> None:
    strategy = GroupStrategy(clustersPerDecisionGroup="5")
    world = hub(
        *FOUR,
        decision("p1-decision-1", ["c1"], placement="p1"),
        spec=PlacementSpec(decisionStrategy=DecisionStrategy(groupStrategy=strategy)),
    )
    verdict = world.place(KEY, now=NOW_MICROS)
    assert (verdict.status.code, verdict.status.plugin) == (Code.MISCONFIGURED, "")
    assert verdict.status.message == "5 invalid type: string is not a percentage"
    assert verdict.groups == ()
    assert verdict.pages == ()
    assert world.decisions("ns1") == {}
    assert verdict.selected == 4
    assert [(condition.type, condition.status) for condition in verdict.conditions] == [
        ("PlacementMisconfigured", "True"),
        ("PlacementSatisfied", "True"),
    ]


def test_invalid_group_selector_keeps_earlier_groups() -> None:
    wrong = selector(requirement("cloud", "Like", "A"))
    verdict = seen(named("azure", AZURE), named("wrong", wrong), named("amazon", AMAZON))
    assert division(verdict) == [(0, "azure", ["c3", "c4"])]
    assert verdict.status.message == '"Like" is not a valid label selector operator'
    assert verdict.conditions[0].message == ':"Like" is not a valid label selector operator'


def scored(*, sort_by: str) -> list[list[str]]:
    scores = [score(name, {"free": value}) for name, value in (("c1", 1), ("c2", 4), ("c3", 2), ("c4", 3))]
    strategy = GroupStrategy(decisionGroups=(named("azure", AZURE),), clustersPerDecisionGroup=1)
    verdict = look(
        *FOUR,
        *scores,
        spec=PlacementSpec(
            prioritizerPolicy=policy(addon("free"), mode="Exact"),
            decisionStrategy=DecisionStrategy(groupStrategy=strategy),
            sortBy=sort_by,
        ),
    )
    return [clusters for _, _, clusters in division(verdict)]


@pytest.mark.parametrize(
    ("sort_by", "expected"),
    [
        ("", [["c3"], ["c4"], ["c1"], ["c2"]]),
        ("ClusterName", [["c3"], ["c4"], ["c1"], ["c2"]]),
        ("Score", [["c4"], ["c3"], ["c2"], ["c1"]]),
    ],
)
def test_sort_by_score_orders_each_group_by_score(sort_by: str, expected: list[list[str]]) -> None:
    assert scored(sort_by=sort_by) == expected


def test_sort_by_score_orders_ties_by_name() -> None:
    assert division(seen(sort_by="Score")) == [(0, "", ["c1", "c2", "c3", "c4"])]


def test_decision_groups_do_not_depend_on_input_order() -> None:
    snapshot = hub(*FOUR).fleet.snapshot()
    division = divide(snapshot, ["c4", "c2", "c3", "c1"], GroupStrategy(clustersPerDecisionGroup=2))
    assert division.groups == (Group("", ("c1", "c2")), Group("", ("c3", "c4")))
