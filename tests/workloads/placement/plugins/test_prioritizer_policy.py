"""Placements with equal policies share plugins."""

from fairway.api.placement import Placement, PlacementSpec
from fairway.engine.points import Context, Prioritization
from fairway.testing.builders import addon, placement, policy
from fairway.workloads.placement import PlacementWorkload, default_profile
from fairway.workloads.placement.plugins.prioritizer_policy import (
    SHARED_ENTRIES,
    SHARED_POLICIES,
    PrioritizerPolicy,
)
from fairway.workloads.placement.plugins.trust import MISSING_SCORE
from strategies import NOW_MICROS
from workloads.placement.plugins.verdicts import hub


def asking(*weights: int, name: str = "p1", missing: str = "") -> Placement:
    entries = [addon("cpu", resource="usage", weight=weight) for weight in weights]
    annotations = {MISSING_SCORE: missing} if missing else {}
    return placement(name, annotations=annotations, spec=PlacementSpec(prioritizerPolicy=policy(*entries)))


def resolve(plugin: PrioritizerPolicy, source: Placement) -> Prioritization:
    context = Context(hub().fleet.snapshot(), PlacementWorkload(source), NOW_MICROS)
    return plugin.prioritize(context, default_profile().scorers)


def test_placements_with_equal_policies_share_plugins() -> None:
    plugin = PrioritizerPolicy()
    assert resolve(plugin, asking(2)) is resolve(plugin, asking(2, name="p2"))


def test_policies_of_other_weights_or_annotations_are_not_shared() -> None:
    plugin = PrioritizerPolicy()
    prioritizations = [
        resolve(plugin, source) for source in (asking(2), asking(3), asking(2, missing="worst"))
    ]
    assert [prioritization.scores[-1].weight for prioritization in prioritizations] == [2, 3, 2]
    assert [prioritization.scores[-1].missing for prioritization in prioritizations] == [0, 0, -100]


def test_long_policies_are_not_kept() -> None:
    plugin = PrioritizerPolicy()
    long = asking(*range(1, SHARED_ENTRIES + 2))
    assert resolve(plugin, long) is not resolve(plugin, long)


def test_number_of_kept_policies_is_limited() -> None:
    plugin = PrioritizerPolicy()
    first = resolve(plugin, asking(1))
    for weight in range(2, SHARED_POLICIES + 1):
        resolve(plugin, asking(weight))
    assert resolve(plugin, asking(1)) is first
    resolve(plugin, asking(SHARED_POLICIES + 1))
    assert resolve(plugin, asking(1)) is not first
