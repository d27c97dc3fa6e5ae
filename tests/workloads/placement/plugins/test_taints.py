from datetime import datetime, timedelta

import numpy as np
import pytest

from fairway.api.cluster import Taint
from fairway.api.placement import PlacementSpec, Toleration
from fairway.engine.points import NEVER_CHANGES, Context
from fairway.engine.status import Code
from fairway.hosts.clusters import cells
from fairway.hosts.instant import SECOND
from fairway.testing.builders import cluster, decision
from fairway.workloads.placement.plugins.taints import (
    KEY_NEEDED,
    NAME,
    VALUE_UNWANTED,
    TaintToleration,
    matches,
    placement_tolerations,
)
from strategies import NOW, NOW_MICROS
from workloads.placement.plugins.verdicts import KEY, hub, look, refusal

NO_SELECT = "NoSelect"
PREFER = "PreferNoSelect"
IF_NEW = "NoSelectIfNew"


def taint(
    key: str = "gpu", value: str = "", effect: str = NO_SELECT, *, added: datetime | None = NOW
) -> Taint:
    return Taint(key=key, value=value, effect=effect, timeAdded=added)


def aged(seconds: int, effect: str = NO_SELECT) -> Taint:
    return taint(effect=effect, added=NOW - timedelta(seconds=seconds))


def tolerate(
    key: str = "gpu", operator: str = "", value: str = "", effect: str = "", seconds: int | None = None
) -> Toleration:
    return Toleration(key=key, operator=operator, value=value, effect=effect, tolerationSeconds=seconds)


def tolerating(*tolerations: Toleration) -> PlacementSpec:
    return PlacementSpec(tolerations=tolerations)


EXISTS = tolerate(operator="Exists")
OTHER = tolerate("other", "Exists")


@pytest.mark.parametrize(
    ("taints", "tolerations", "passes"),
    [
        pytest.param((taint(),), (), False, id="NoSelect without a toleration is out"),
        pytest.param((taint(value="v"),), (tolerate("gpu", "Equal", "v"),), True, id="Equal key and value"),
        pytest.param((taint(value="v"),), (tolerate("gpu", "", "v"),), True, id="no operator means Equal"),
        pytest.param(
            (taint(value="v"),), (tolerate(),), False, id="Equal with an empty value wants an empty value"
        ),
        pytest.param((taint(),), (tolerate(),), True, id="Equal with an empty value takes an empty value"),
        pytest.param((taint(value="v"),), (tolerate("gpu", "Equal", "w"),), False, id="another value"),
        pytest.param((taint(value="v"),), (tolerate("cpu", "Equal", "v"),), False, id="another key"),
        pytest.param((taint(value="v"),), (EXISTS,), True, id="Exists takes any value"),
        pytest.param((taint(value="v"),), (OTHER,), False, id="Exists of another key"),
        pytest.param(
            (taint(value="v"),), (tolerate("", "Exists"),), True, id="Exists without a key takes everything"
        ),
        pytest.param(
            (taint(),), (tolerate(operator="Almost"),), False, id="an unknown operator never matches"
        ),
        pytest.param((taint(effect=PREFER),), (), True, id="PreferNoSelect rejects no cluster"),
        pytest.param((taint(effect="Avoid"),), (), False, id="an unknown effect keeps out like NoSelect"),
        pytest.param((taint(effect="Avoid"),), (EXISTS,), True, id="an unknown effect can be tolerated"),
        pytest.param(
            (taint("gpu"), taint("old")),
            (EXISTS, tolerate("old", "Exists")),
            True,
            id="two taints, each with its toleration",
        ),
        pytest.param((taint("gpu"), taint("old")), (EXISTS,), False, id="two taints, one toleration"),
        pytest.param(
            (taint("gpu"), taint("old", effect=PREFER)),
            (EXISTS,),
            True,
            id="a preference beside a tolerated taint",
        ),
        pytest.param((taint(),), (tolerate(effect=NO_SELECT),), True, id="a toleration of this effect"),
        pytest.param((taint(),), (tolerate(effect=IF_NEW),), False, id="a toleration of another effect"),
        pytest.param(
            (taint(effect=IF_NEW),), (tolerate(effect=IF_NEW),), True, id="the same for NoSelectIfNew"
        ),
        pytest.param((taint(effect=IF_NEW),), (tolerate(effect=NO_SELECT),), False, id="and another for it"),
        pytest.param((aged(8),), (tolerate(seconds=10),), True, id="tolerated for 10 seconds, after 8"),
        pytest.param((aged(9),), (tolerate(seconds=10),), True, id="tolerated for 10 seconds, after 9"),
        pytest.param(
            (aged(10),), (tolerate(seconds=10),), False, id="tolerated for 10 seconds, after exactly 10"
        ),
        pytest.param(
            (aged(11),), (tolerate(seconds=10), EXISTS), True, id="one run out, the next still good"
        ),
        pytest.param((aged(0),), (tolerate(seconds=0),), False, id="tolerated for no time at all"),
        pytest.param((aged(0),), (tolerate(seconds=-5),), False, id="tolerated for less than no time"),
        pytest.param(
            (taint(added=None),), (tolerate(seconds=10**9),), False, id="a taint without a time is very old"
        ),
        pytest.param(
            (taint(added=None),), (tolerate(),), True, id="its time does not matter without seconds"
        ),
        pytest.param(
            (aged(11, IF_NEW),), (tolerate(seconds=10),), False, id="seconds also count for NoSelectIfNew"
        ),
    ],
)
def test_tolerations_select_tainted_clusters(
    taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], passes: bool
) -> None:
    verdict = look(cluster("c1", taints=taints), cluster("free"), spec=tolerating(*tolerations))
    assert verdict.status.code is Code.SUCCESS
    assert ("c1" in verdict.outcome.selected) is passes
    assert "free" in verdict.outcome.selected


@pytest.mark.parametrize("decided", [True, False], ids=["decided", "new"])
@pytest.mark.parametrize(
    ("effect", "tolerations", "decided_passes", "new_passes"),
    [
        pytest.param(IF_NEW, (), True, False, id="NoSelectIfNew without a toleration"),
        pytest.param(IF_NEW, (OTHER,), True, False, id="NoSelectIfNew with one for another key"),
        pytest.param(IF_NEW, (EXISTS,), True, True, id="NoSelectIfNew tolerated"),
        pytest.param(
            IF_NEW, (tolerate(effect=NO_SELECT),), True, False, id="NoSelectIfNew, NoSelect tolerated"
        ),
        pytest.param(NO_SELECT, (), False, False, id="NoSelect without a toleration"),
        pytest.param(NO_SELECT, (EXISTS,), True, True, id="NoSelect tolerated"),
        pytest.param(
            NO_SELECT, (tolerate(effect=IF_NEW),), False, False, id="NoSelect, NoSelectIfNew tolerated"
        ),
        pytest.param(PREFER, (), True, True, id="PreferNoSelect"),
    ],
)
def test_no_select_if_new_keeps_decided_clusters(
    effect: str, tolerations: tuple[Toleration, ...], decided_passes: bool, new_passes: bool, decided: bool
) -> None:
    """Only the label of the decision counts, not its owner."""
    objects: list[object] = [cluster("c1", taints=[taint(effect=effect)])]
    if decided:
        objects.append(decision("whatever", ["c1"], placement="p1"))
    passes = look(*objects, spec=tolerating(*tolerations)).outcome.selected == ["c1"]
    assert passes is (decided_passes if decided else new_passes)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(decision("d", ["c1"], placement="p2"), id="of another placement"),
        pytest.param(decision("d", ["c1"]), id="without a placement"),
        pytest.param(decision("d", ["c1"], placement="p1", namespace="ns2"), id="in another namespace"),
    ],
)
def test_decision_of_other_placement_does_not_exempt_from_no_select_if_new(other: object) -> None:
    assert look(cluster("c1", taints=[taint(effect=IF_NEW)]), other).outcome.selected == []


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        pytest.param(tolerate(""), KEY_NEEDED, id="no key and no operator"),
        pytest.param(tolerate("", "Equal", "v"), KEY_NEEDED, id="Equal without a key"),
        pytest.param(tolerate("gpu", "Exists", "v"), VALUE_UNWANTED, id="Exists with a value"),
        pytest.param(tolerate("", "Exists", "v"), VALUE_UNWANTED, id="Exists with a value and no key"),
        pytest.param(tolerate("", "Almost"), KEY_NEEDED, id="an unknown operator without a key"),
    ],
)
def test_invalid_toleration_is_misconfigured(mistake: Toleration, message: str) -> None:
    verdict = look(cluster("c1"), spec=tolerating(EXISTS, mistake))
    assert (verdict.status.code, verdict.status.plugin) == (Code.MISCONFIGURED, NAME)
    assert verdict.status.message == message
    assert [stage.plugin for stage in verdict.outcome.details.stages] == ["Predicate"]
    assert verdict.outcome.unscheduled == 0
    assert look(spec=tolerating(mistake)).status.code is Code.SUCCESS


def test_first_invalid_toleration_is_reported() -> None:
    both = tolerate("gpu", "Exists", "v"), tolerate("")
    assert look(cluster("c1"), spec=tolerating(*both)).status.message == VALUE_UNWANTED
    assert look(cluster("c1"), spec=tolerating(*reversed(both))).status.message == KEY_NEEDED


AGES = (cluster("c1", taints=[aged(8)]), cluster("c2", taints=[aged(9)]), cluster("c3", taints=[aged(10)]))
TEN = tolerating(tolerate(seconds=10))


@pytest.mark.parametrize(
    ("held", "spec", "seconds"),
    [
        pytest.param([], TEN, None, id="nothing decided, nothing to wake for"),
        pytest.param(["c1", "c2"], TEN, 1, id="the sooner of two"),
        pytest.param(["c1"], TEN, 2, id="only clusters in the decision count"),
        pytest.param(["c3"], TEN, None, id="one that has run out is over"),
        pytest.param(["c1", "c3", "nowhere"], TEN, 2, id="also beside one that has run out, or is gone"),
        pytest.param(["c1"], tolerating(tolerate()), None, id="a toleration without end"),
        pytest.param(
            ["c1"],
            tolerating(tolerate(seconds=10), tolerate(seconds=60)),
            2,
            id="the first that matches decides",
        ),
        pytest.param(
            ["c3"], tolerating(tolerate(seconds=10), tolerate(seconds=60)), 50, id="unless it has run out"
        ),
        pytest.param(["c1"], tolerating(tolerate(), tolerate(seconds=60)), None, id="which may have no end"),
    ],
)
def test_toleration_expiry_sets_wake_time(held: list[str], spec: PlacementSpec, seconds: int | None) -> None:
    verdict = look(*AGES, decision("p1-decision-1", held, placement="p1"), spec=spec)
    expected = None if seconds is None else NOW_MICROS + seconds * SECOND
    assert verdict.outcome.wake == expected


def test_untolerated_taint_sets_no_wake_time() -> None:
    held = decision("p1-decision-1", ["c1"], placement="p1")
    tainted = cluster("c1", taints=[aged(8), taint("other")])
    assert look(tainted, held, spec=TEN).outcome.wake is None


def test_taint_of_undecided_cluster_sets_no_wake_time() -> None:
    held = decision("p1-decision-1", ["c1"], placement="p1")
    assert look(cluster("c1", taints=[aged(8, IF_NEW)]), held, spec=TEN).outcome.wake is None


def test_taint_of_decided_cluster_outside_the_sets_sets_wake_time() -> None:
    held = decision("p1-decision-1", ["c1"], placement="p1")
    verdict = look(cluster("c1", taints=[aged(8)], member_of="other"), held, spec=TEN)
    assert verdict.outcome.wake == NOW_MICROS + 2 * SECOND


def test_until_is_the_earliest_toleration_expiry() -> None:
    plugin = TaintToleration()
    context = look(*AGES, cluster("free"), spec=TEN).outcome.context
    row_of = context.snapshot.hosts.row_of

    def until(*names: str) -> int:
        return plugin.until(context, np.array([row_of[name] for name in names], dtype=np.int64))

    assert until("c1") == NOW_MICROS + 2 * SECOND
    assert until("c1", "c2", "free") == NOW_MICROS + SECOND
    assert until("c3", "free") == NEVER_CHANGES


@pytest.mark.parametrize(
    ("tainted", "tolerations", "words"),
    [
        pytest.param(
            taint(), (), "has taint gpu:NoSelect, which the placement does not tolerate", id="without a value"
        ),
        pytest.param(
            taint(value="v", effect=IF_NEW),
            (),
            "has taint gpu=v:NoSelectIfNew, which the placement does not tolerate",
            id="with a value",
        ),
        pytest.param(
            aged(20),
            (tolerate(seconds=10),),
            "has taint gpu:NoSelect, tolerated for 10 s until 2026-03-01T11:59:50Z",
            id="run out",
        ),
        pytest.param(
            taint(added=None),
            (tolerate(seconds=10),),
            "has taint gpu:NoSelect, tolerated for 10 s until long ago (the taint has no timeAdded)",
            id="expired at an unknown time",
        ),
        pytest.param(
            aged(20),
            (tolerate(seconds=10), tolerate(seconds=15)),
            "has taint gpu:NoSelect, tolerated for 15 s until 2026-03-01T11:59:55Z",
            id="the last of several that have run out",
        ),
    ],
)
def test_message_of_taint_rejection(tainted: Taint, tolerations: tuple[Toleration, ...], words: str) -> None:
    verdict = look(cluster("c1", taints=[tainted]), spec=tolerating(*tolerations))
    assert refusal(verdict, "c1") == (NAME, words)


def test_first_untolerated_taint_is_named() -> None:
    verdict = look(cluster("c1", taints=[taint("a"), taint("b"), taint("c")]), spec=tolerating(tolerate("a")))
    assert refusal(verdict, "c1") == (NAME, "has taint b:NoSelect, which the placement does not tolerate")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        pytest.param(tolerate("k", "Equal", "v", NO_SELECT), True, id="all parts equal"),
        pytest.param(tolerate("k", "Equal", "v", PREFER), False, id="another effect"),
        pytest.param(tolerate("", "Exists"), True, id="everything"),
        pytest.param(tolerate("k", "exists"), False, id="operators are case-sensitive"),
    ],
)
def test_toleration_matches_taint(toleration: Toleration, expected: bool) -> None:
    assert matches(toleration, "k", "v", NO_SELECT) is expected


def test_distinct_taint_per_cluster_creates_no_bitmaps() -> None:
    """Tolerated for a time, not tolerated, and tolerated only by decided clusters."""
    kinds = (
        lambda at: taint("late", str(at), added=NOW - timedelta(seconds=at)),
        lambda at: taint("bad", str(at)),
        lambda at: taint("new", str(at), IF_NEW),
    )
    clusters = [cluster(f"c{at:03d}", taints=[kinds[at % 3](at)]) for at in range(120)]
    held = decision("d", ["c002", "c005"], placement="p1")
    verdict = look(*clusters, held, spec=tolerating(tolerate("late", "Exists", seconds=60)))
    assert sorted(verdict.outcome.selected) == sorted(
        [*(f"c{at:03d}" for at in range(0, 60, 3)), "c002", "c005"]
    )
    assert not verdict.outcome.snapshot.codes(cells.TAINTS)._bitmaps


def test_placements_with_equal_tolerations_share_verdicts() -> None:
    first, second = (hub(spec=tolerating(tolerate("a"))).workload(KEY) for _ in range(2))
    assert first.derive(placement_tolerations) is second.derive(placement_tolerations)


def test_shared_verdicts_are_those_of_each_fleet() -> None:
    """The same code stands for other taints in another fleet, and in the same fleet later."""
    spec = tolerating(tolerate("a"))
    tolerated = hub(cluster("c1", taints=[taint("a")]), spec=spec)
    rejected = hub(cluster("c1", taints=[taint("b")]), spec=spec)
    for world, expected in ((tolerated, ["c1"]), (rejected, []), (tolerated, ["c1"])):
        assert world.decide(KEY, now=NOW_MICROS).outcome.selected == expected
    tolerated.put(cluster("c1", taints=[taint("b")]))
    assert tolerated.decide(KEY, now=NOW_MICROS).outcome.selected == []


def test_own_decision_matters_only_with_a_taint_that_spares_decided_clusters() -> None:
    """Otherwise each written decision would cost a full cycle."""
    plugin, world = TaintToleration(), hub(cluster("c1", taints=[taint("a")]))
    workload = world.workload(KEY)

    def shared() -> frozenset[tuple[str, ...]]:
        return plugin.reads(Context(world.fleet.snapshot(), workload, NOW_MICROS)).shared

    assert not shared()
    world.put(cluster("c1", taints=[taint("a", effect=IF_NEW)]))
    assert shared() == {(cells.OWN_DECISIONS, *KEY)}
    assert plugin.basis(Context(world.fleet.snapshot(), workload, NOW_MICROS))
