import pytest

from fairway.api.cluster import CLUSTER_SET_LABEL
from fairway.api.clusterset import ManagedClusterSetBinding, ManagedClusterSetBindingSpec
from fairway.api.placement import PlacementSpec
from fairway.engine.status import Code
from fairway.testing.builders import binding, cluster, cluster_set, decision, placement, requirement, selector
from fairway.whatif.world import World
from fairway.workloads.placement.plugins.clustersets import (
    BEING_DELETED,
    BOUND_TO_NONE,
    NAME,
    NOT_A_MEMBER,
    NOT_BOUND,
    NOT_IN_WANTED,
    BoundSets,
    find_sets,
)
from kubewire.api.meta import ObjectMeta
from kubewire.api.selector import LabelSelector
from strategies import NOW, NOW_MICROS
from workloads.placement.plugins.verdicts import KEY, hub, look, refusal

EVERYTHING = LabelSelector()

FLEET = (
    cluster("blue-1", member_of="blue"),
    cluster("blue-2", member_of="blue", labels={"vendor": "acme"}),
    cluster("green-1", member_of="green", labels={"vendor": "acme"}),
    cluster("loose", member_of=""),
)


def chosen(*objects: object, sets: tuple[str, ...] = ()) -> list[str]:
    world = World([*FLEET, *objects, placement(spec=PlacementSpec(clusterSets=sets))])
    return sorted(world.decide(KEY, now=NOW_MICROS).outcome.selected)


@pytest.mark.parametrize(
    ("objects", "sets", "expected"),
    [
        pytest.param((cluster_set("blue"),), (), [], id="a set without a binding gives nothing"),
        pytest.param((binding("blue"),), (), [], id="a binding to a set that is not there gives nothing"),
        pytest.param(
            (cluster_set("blue"), binding("blue", namespace="ns2")),
            (),
            [],
            id="a binding in another namespace does not count",
        ),
        pytest.param(
            (cluster_set("blue"), binding("blue")),
            (),
            ["blue-1", "blue-2"],
            id="a bound set gives its members",
        ),
        pytest.param(
            (cluster_set("blue"), cluster_set("green"), binding("blue"), binding("green")),
            (),
            ["blue-1", "blue-2", "green-1"],
            id="several bound sets give the union when the placement names none",
        ),
        pytest.param(
            (cluster_set("blue"), cluster_set("green"), binding("blue"), binding("green")),
            ("green", "nowhere"),
            ["green-1"],
            id="sets the placement names are intersected with the bound ones",
        ),
        pytest.param(
            (cluster_set("blue"), cluster_set("green"), binding("blue")),
            ("green",),
            [],
            id="a named set that is not bound gives nothing",
        ),
        pytest.param(
            (cluster_set("blue"), binding("blue")),
            ("blue", "blue"),
            ["blue-1", "blue-2"],
            id="naming a set twice changes nothing",
        ),
        pytest.param(
            (cluster_set("blue", kind="ExclusiveClusterSetLabel", selector=EVERYTHING), binding("blue")),
            (),
            ["blue-1", "blue-2"],
            id="the exclusive type looks at the label only, whatever selector is written",
        ),
        pytest.param(
            (cluster_set("all", kind="LabelSelector"), binding("all")),
            (),
            [],
            id="a label selector that is missing selects nothing",
        ),
        pytest.param(
            (cluster_set("all", selector=EVERYTHING), binding("all")),
            (),
            ["blue-1", "blue-2", "green-1", "loose"],
            id="an empty label selector selects everything",
        ),
        pytest.param(
            (cluster_set("acme", selector=selector(labels={"vendor": "acme"})), binding("acme")),
            (),
            ["blue-2", "green-1"],
            id="a label selector selects across exclusive sets",
        ),
        pytest.param(
            (
                cluster_set("acme", selector=selector(labels={"vendor": "acme"})),
                cluster_set("blue"),
                binding("acme"),
                binding("blue"),
            ),
            (),
            ["blue-1", "blue-2", "green-1"],
            id="a cluster in two sets is taken once",
        ),
    ],
)
def test_bound_sets_determine_eligible_clusters(
    objects: tuple[object, ...], sets: tuple[str, ...], expected: list[str]
) -> None:
    assert chosen(*objects, sets=sets) == expected


def test_binding_binds_the_set_of_its_own_name() -> None:
    misnamed = ManagedClusterSetBinding(
        metadata=ObjectMeta(name="blue", namespace="ns1"),
        spec=ManagedClusterSetBindingSpec(clusterSet="green"),
    )
    assert chosen(cluster_set("blue"), cluster_set("green"), misnamed) == ["blue-1", "blue-2"]


def test_eligible_sets_are_sorted_by_bound_and_requested() -> None:
    world = World(
        [cluster_set("b"), cluster_set("a"), cluster_set("c"), binding("b"), binding("a"), binding("gone")]
    )
    sets = find_sets(world.fleet.snapshot(), "ns1", ("c", "b"))
    assert sets == BoundSets(bound=("a", "b"), eligible=("b",))


def test_deleted_cluster_is_rejected_with_message() -> None:
    verdict = look(cluster("going", deleting=NOW), cluster("staying"))
    assert verdict.outcome.selected == ["staying"]
    assert refusal(verdict, "going") == (NAME, BEING_DELETED)


def test_message_for_cluster_outside_eligible_sets() -> None:
    verdict = hub(cluster("stranger", member_of="other")).decide(KEY, now=NOW_MICROS)
    assert refusal(verdict, "stranger") == (NAME, NOT_A_MEMBER.format(sets="default"))
    unbound = World([cluster("stranger"), placement()]).decide(KEY, now=NOW_MICROS)
    assert refusal(unbound, "stranger") == (NAME, NOT_BOUND.format(namespace="ns1"))
    absent = World([cluster("stranger"), binding("gone"), placement()]).decide(KEY, now=NOW_MICROS)
    assert refusal(absent, "stranger") == (NAME, BOUND_TO_NONE.format(namespace="ns1", sets="gone"))


def test_refusal_names_bound_sets_and_sets_the_placement_asks_for() -> None:
    sets = (cluster_set("blue"), binding("blue"), cluster_set("green"))
    asks = placement(spec=PlacementSpec(clusterSets=("green", "gone")))
    verdict = World([*FLEET, *sets, asks]).decide(KEY, now=NOW_MICROS)
    assert refusal(verdict, "green-1") == (
        NAME,
        "the placement asks for the cluster sets gone, green, and namespace ns1 is bound to blue: write a bound "
        "set in spec.clusterSets, or bind gone, green with a ManagedClusterSetBinding of that name",
    )
    verdict = World([*FLEET, *sets, binding("green"), asks]).decide(KEY, now=NOW_MICROS)
    assert refusal(verdict, "blue-1") == (NAME, NOT_IN_WANTED.format(sets="green"))


BAD_OPERATOR = selector(requirement("vendor", "Like", "acme"))


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        pytest.param(
            cluster_set("odd", kind="ByMood"),
            "selectorType is not right: ByMood",
            id="an unknown selector type",
        ),
        pytest.param(
            cluster_set("odd", selector=BAD_OPERATOR),
            '"Like" is not a valid label selector operator',
            id="a selector that does not compile",
        ),
    ],
)
def test_invalid_set_freezes_only_placements_that_use_it(broken: object, error: str) -> None:
    user = placement("user", spec=PlacementSpec(clusterSets=("odd",)))
    bystander = placement("bystander", spec=PlacementSpec(clusterSets=("blue",)))
    everyone = placement("everyone")
    old = decision("user-decision-1", ["green-1"], placement="user")
    world = World(
        [*FLEET, broken, cluster_set("blue"), binding("odd"), binding("blue"), user, bystander, everyone, old]
    )
    for name in ("user", "everyone"):
        verdict = world.place(("ns1", name), now=NOW_MICROS)
        assert verdict.frozen
        assert verdict.status.code is Code.ERROR
        assert verdict.error == f'failed to get clusters from ClusterSet "odd": {error}'
        (condition,) = world.placements["ns1", name].status.conditions
        assert (condition.type, condition.status) == ("PlacementSatisfied", "False")
        assert condition.message == verdict.error
    verdict = world.place(("ns1", "bystander"), now=NOW_MICROS)
    assert not verdict.frozen
    assert verdict.outcome.selected == ["blue-1", "blue-2"]
    assert sorted(world.decisions("ns1")) == ["bystander-decision-1", "user-decision-1"]
    assert world.decisions("ns1")["user-decision-1"] is old


def test_corrected_set_unfreezes_the_placement() -> None:
    world = World([*FLEET, cluster_set("blue", kind="ByMood"), binding("blue"), placement()])
    assert world.decide(KEY, now=NOW_MICROS).frozen
    world.put(cluster_set("blue"))
    assert world.decide(KEY, now=NOW_MICROS).outcome.selected == ["blue-1", "blue-2"]


def test_cluster_moved_to_another_set_is_not_eligible() -> None:
    world = hub(cluster("c1"))
    assert world.decide(KEY, now=NOW_MICROS).outcome.selected == ["c1"]
    world.put(cluster("c1", member_of="other"))
    assert world.decide(KEY, now=NOW_MICROS).outcome.selected == []
    world.put(cluster("c1", member_of="", labels={CLUSTER_SET_LABEL: "default"}))
    assert world.decide(KEY, now=NOW_MICROS).outcome.selected == ["c1"]
    world.fleet.delete_binding("ns1", "default")
    assert world.decide(KEY, now=NOW_MICROS).outcome.selected == []
