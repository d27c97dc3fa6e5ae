"""The stability contract, in virtual time."""

import math
import random
from collections.abc import Mapping
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from fairway.api.cluster import Taint
from fairway.api.placement import PlacementSpec
from fairway.engine.profile import Profile, build_profile
from fairway.engine.trace import Trace
from fairway.hosts.instant import SECOND, Micros, from_micros
from fairway.testing.builders import addon, binding, builtin, cluster, cluster_set, placement, policy, score
from fairway.whatif.world import World
from fairway.workloads.placement.conditions import MISCONFIGURED
from fairway.workloads.placement.plugins.contract import (
    DWELL,
    HOUR,
    MIN_GAIN,
    MOVES_PER_HOUR,
    QUIET_HOURS,
    STABILITY,
    parse_hours,
)
from fairway.workloads.placement.plugins.stability import NAME, Stability
from fairway.workloads.placement.profile import PLACEMENT_KIND, placement_registry
from kubewire.api.meta import find_condition, format_time
from strategies import NOW_MICROS

MINUTE = 60 * SECOND
NOON = NOW_MICROS // (24 * HOUR) * 24 * HOUR + 12 * HOUR
TAINT = Taint(key="failed", effect="NoSelect")
DEFAULTS = {STABILITY: "default"}


def spec(
    wanted: int = 1, *, mode: str = "Exact", weight: int = 1, steady: int | None = None
) -> PlacementSpec:
    configurations = [addon("cpu", weight)]
    if steady is not None:
        configurations.append(builtin("Steady", steady))
    return PlacementSpec(numberOfClusters=wanted, prioritizerPolicy=policy(*configurations, mode=mode))


def profile(**arguments: Any) -> Profile:
    return build_profile(PLACEMENT_KIND.spec(args={NAME: arguments}), placement_registry())


class Hub:
    def __init__(
        self, *placements: object, clusters: Mapping[str, int], profile: Profile | None = None
    ) -> None:
        self.profile = profile
        self.objects: list[object] = [
            cluster_set("default"),
            binding("default"),
            binding("default", namespace="ns2"),
        ]
        self.world = World([*self.objects, *placements], profile=profile)
        self.now = NOON
        for name, points in clusters.items():
            self.world.put(cluster(name))
            self.publish(name, points)

    def publish(self, name: str, points: int) -> None:
        self.world.put(score(name, {"cpu": points}))

    def place(self, name: str = "p1", *, after: Micros = 0, namespace: str = "ns1") -> list[str]:
        self.now += after
        return self.world.place((namespace, name), now=self.now).outcome.selected

    def why_not(self, cluster_name: str) -> str:
        return Trace(self.world.decide(("ns1", "p1"), now=self.now).outcome).host(cluster_name).reason


@pytest.mark.parametrize(
    "given_spec",
    [
        pytest.param(spec(), id="exact"),
        pytest.param(spec(weight=10), id="weight"),
        pytest.param(spec(weight=3, steady=5), id="steady"),
        pytest.param(spec(mode="Additive"), id="additive"),
    ],
)
def test_least_gain_moves_at_once_and_less_never(given_spec: PlacementSpec) -> None:
    hub = Hub(placement(spec=given_spec, annotations={MIN_GAIN: "15"}), clusters={"a": 60, "b": 50})
    assert hub.place() == ["a"]
    hub.publish("b", 74)
    assert hub.place() == ["a"]
    assert hub.why_not("b") == f"gains 14 points over a selected cluster, and {MIN_GAIN} requires 15"
    hub.publish("b", 75)
    assert hub.place() == ["b"]


def test_noise_rarely_moves_a_placement_and_a_real_change_does_at_once() -> None:
    draw, hours, sigma, kept = random.Random(1), 6, 8.0, 0.9
    load = {f"c{number:02}": draw.gauss(0, sigma) for number in range(50)}
    hub = Hub(placement(spec=spec(), annotations=DEFAULTS), clusters=dict.fromkeys(load, 60))
    chosen, moves = hub.place(), 0
    for _ in range(hours * 60):
        for name in load:
            load[name] = kept * load[name] + draw.gauss(0, sigma * math.sqrt(1 - kept * kept))
            hub.publish(name, round(60 + load[name]))
        before, chosen = chosen, hub.place(after=MINUTE)
        moves += chosen != before
    assert moves < hours
    quiet = Hub(placement(spec=spec(), annotations=DEFAULTS), clusters=dict.fromkeys(load, 60))
    assert quiet.place() == ["c00"]
    quiet.publish("c07", 80)
    assert quiet.place(after=MINUTE) == ["c07"]


def test_dwell_ends_and_an_unfit_cluster_is_left_at_once() -> None:
    hub = Hub(placement(spec=spec(), annotations={DWELL: "10m"}), clusters={"a": 60, "b": 50, "c": 40})
    assert hub.place() == ["a"]
    hub.publish("b", 90)
    assert hub.place(after=9 * MINUTE) == ["a"]
    until = format_time(from_micros(NOON + 10 * MINUTE))
    assert hub.why_not("b") == f"is better than a selected cluster, which stays until {until} by {DWELL}"
    assert hub.world.decide(("ns1", "p1"), now=hub.now).outcome.until == NOON + 10 * MINUTE
    hub.world.put(cluster("a", taints=[TAINT]))
    assert hub.place() == ["b"]
    hub.publish("c", 100)
    assert hub.place(after=9 * MINUTE) == ["b"]
    assert hub.place(after=MINUTE) == ["c"]


def test_quiet_hours_hold_moves_until_they_end() -> None:
    hub = Hub(
        placement(spec=spec(), annotations={QUIET_HOURS: "11:00-13:00,13:00-14:30"}),
        clusters={"a": 60, "b": 50},
    )
    assert hub.place() == ["a"]
    hub.publish("b", 90)
    assert hub.place(after=149 * MINUTE) == ["a"]
    assert hub.world.decide(("ns1", "p1"), now=hub.now).outcome.until == NOON + 150 * MINUTE
    assert hub.place(after=MINUTE) == ["b"]


@pytest.mark.parametrize("skew", [-400 * 24 * HOUR, 400 * 24 * HOUR])
def test_clock_that_jumps_blocks_no_move_for_longer_than_the_contract(skew: Micros) -> None:
    annotations = {DWELL: "1h", MOVES_PER_HOUR: "1"}
    hub = Hub(placement(spec=spec(), annotations=annotations), clusters={"a": 60, "b": 50})
    assert hub.place() == ["a"]
    hub.publish("b", 90)
    assert hub.place(after=HOUR) == ["b"]
    hub.now += skew
    hub.publish("a", 100)
    assert hub.place() == ["a"]


def test_limits_of_namespace_and_fleet_count_all_placements() -> None:
    names = [("ns1", "p1"), ("ns1", "p2"), ("ns2", "p3"), ("ns2", "p4")]
    placements = [placement(name, namespace=namespace, spec=spec()) for namespace, name in names]
    limited = profile(namespaceMovesPerHour=1, fleetMovesPerHour=2, default=False)
    hub = Hub(*placements, clusters={"a": 60, "b": 50}, profile=limited)
    for namespace, name in names:
        assert hub.place(name, namespace=namespace) == ["a"]
    hub.publish("b", 90)
    moved = [hub.place(name, namespace=namespace) for namespace, name in names]
    assert moved == [["b"], ["a"], ["b"], ["a"]]
    hub.now += HOUR
    moved = [hub.place(name, namespace=namespace) for namespace, name in names]
    assert moved == [["b"], ["b"], ["b"], ["b"]]


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (STABILITY, "yes"),
        (MIN_GAIN, "-1"),
        (MIN_GAIN, "1e3"),
        (DWELL, "10"),
        (DWELL, "721h"),
        (MOVES_PER_HOUR, "0"),
        (MOVES_PER_HOUR, "0.009"),
        (QUIET_HOURS, "24:00-01:00"),
        (QUIET_HOURS, "00:00-12:00,12:00-00:00"),
        (QUIET_HOURS, "01:00-01:00"),
        (QUIET_HOURS, ",".join(["01:00-02:00"] * 60)),
    ],
)
def test_invalid_annotation_is_reported_and_has_no_effect(annotation: str, text: str) -> None:
    hub = Hub(placement(spec=spec(), annotations={annotation: text}), clusters={"a": 60, "b": 50})
    verdict = hub.world.place(("ns1", "p1"), now=hub.now)
    condition = find_condition(verdict.conditions, MISCONFIGURED)
    assert condition is not None
    assert f"annotation {annotation}" in condition.message
    hub.publish("b", 61)
    assert hub.place() == ["b"]


def test_arguments_of_the_profile_are_checked() -> None:
    wrong: tuple[tuple[str, Any], ...] = (
        ("minGain", True),
        ("dwell", "1d"),
        ("movesPerHour", 0),
        ("quietHours", "x"),
        ("default", 1),
    )
    for name, value in wrong:
        with pytest.raises(ValueError, match=name):
            Stability(**{name: value})


steps = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 7, 20, 31, 61]),
        st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 40), max_size=4),
        st.one_of(st.none(), st.none(), st.sets(st.sampled_from("abcdef"), max_size=6)),
        st.sampled_from([None, None, None, 1, 2, 3]),
    ),
    min_size=2,
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(
    gain=st.sampled_from([0, 5, 12]),
    dwell=st.sampled_from([0, 10, 45]),
    limit=st.sampled_from([None, 0.5, 1, 2]),
    quiet=st.sampled_from([None, "12:20-13:10", "23:00-00:30,12:00-12:15"]),
    weight=st.sampled_from([1, 10, -3]),
    steps=steps,
)
def test_no_placement_moves_more_than_its_contract_and_a_real_gain_moves_at_once(
    gain: int, dwell: int, limit: float | None, quiet: str | None, weight: int, steps: list[Any]
) -> None:
    annotations = {MIN_GAIN: str(gain), DWELL: f"{dwell}m"}
    annotations |= {MOVES_PER_HOUR: str(limit)} if limit else {}
    annotations |= {QUIET_HOURS: quiet} if quiet else {}
    points = dict.fromkeys("abcdef", 20)
    hub = Hub(placement(spec=spec(2, weight=weight), annotations=annotations), clusters=points)
    now, unfit, wanted = NOON, set[str](), 2
    before, since, moves = list[str](), dict[str, Micros](), list[Micros]()
    most, window = (None, HOUR) if limit is None else (max(1, int(limit)), round(HOUR / min(1, limit)))
    emptied, decided = -window, False
    for minutes, published, failed, count in steps:
        now += minutes * MINUTE
        points |= published
        unfit, wanted = unfit if failed is None else failed, wanted if count is None else count
        given_placement = placement(spec=spec(wanted, weight=weight), annotations=annotations)
        # Another leader each time: it has the objects of the hub, and no memory.
        world = World([*hub.objects, given_placement, *hub.world.decisions("ns1").values()])
        for name, value in points.items():
            world.put(cluster(name, taints=[TAINT] if name in unfit else []))
            world.put(score(name, {"cpu": value}))
        hub.world = world
        verdict = world.place(("ns1", "p1"), now=now)
        after = verdict.outcome.selected
        fit = [name for name in before if name not in unfit]
        left = [name for name in fit if name not in after]
        forced = max(0, len(fit) - len(after))
        moved = max(0, len(left) - forced)
        assert len(after) == min(wanted, 6 - len(unfit))
        is_quiet = any(
            (now // MINUTE % 1440 - first) % 1440 < (last - first) % 1440
            for first, last in (parse_hours(quiet) if quiet else ())
        )
        dwelling = [name for name in left if now - since[name] < dwell * MINUTE]
        assert len(dwelling) <= forced
        assert not (is_quiet and moved)
        recent = [moment for moment in moves if moment > now - window]
        assert most is None or not moved or len(recent) + moved <= most
        total = {name: weight * value for name, value in points.items() if name not in unfit}
        margin = gain * abs(weight)
        if moved and gain:
            coming = sorted((total[name] for name in after if name not in before), reverse=True)
            assert coming[0] - min(total[name] for name in left) >= margin
        free = not is_quiet and (
            most is None or (len(recent) + moved < most and emptied <= now - window - MINUTE)
        )
        if free and gain:
            held = [name for name in fit if name in after and now - since[name] >= dwell * MINUTE + SECOND]
            for name in held:
                assert all(total[other] < total[name] + margin for other in total if other not in after)
        moves += [now] * moved
        since = {name: since[name] if name in before else now for name in after}
        emptied = emptied if before or not decided else now
        decided = True
        before = after
        if moved == 0 and verdict.outcome.until < now + HOUR:
            assert verdict.outcome.until > now, "a timer that is due already would loop"
