"""The expansion rules of KubeSchedulerConfiguration: MultiPoint, order, defaults, weights."""

from typing import Any

import pytest

from fairway.scheduling.configuration import Decoder, Enabled, PluginSet
from fairway.scheduling.resolution import ResolvedProfile, resolve

POINTS = {
    "Sort": frozenset({"QueueSort"}),
    "OtherSort": frozenset({"QueueSort"}),
    "A": frozenset({"Filter", "Score"}),
    "B": frozenset({"Filter", "Score"}),
    "C": frozenset({"Filter", "Score"}),
    "OnlyFilter": frozenset({"Filter"}),
    "Nothing": frozenset[str](),
}
DEFAULTS = {
    "multiPoint": PluginSet(enabled=(Enabled(name="Sort"), Enabled(name="A", weight=3), Enabled(name="B")))
}


def resolved(plugins: dict[str, Any]) -> tuple[ResolvedProfile, list[str]]:
    profile = {"plugins": plugins}
    decoder = Decoder()
    configuration = decoder.configuration(
        {"apiVersion": "fairway.dev/v1alpha1", "kind": "SchedulerConfiguration", "profiles": [profile]}
    )
    assert not decoder.problems
    result, wrong = resolve(configuration.profiles[0], defaults=DEFAULTS, points=POINTS)
    return result, [problem.message for problem in wrong]


def at(point: str, plugins: dict[str, Any]) -> list[tuple[str, int]]:
    result, wrong = resolved(plugins)
    assert not wrong
    return [(plugin.name, plugin.weight) for plugin in result.points[point]]


def enabled(*names: str) -> dict[str, Any]:
    return {"enabled": [{"name": name} for name in names]}


def test_default_plugins_answer_all_their_points() -> None:
    assert at("QueueSort", {}) == [("Sort", 1)]
    assert at("Filter", {}) == [("A", 3), ("B", 1)]
    assert at("Score", {}) == [("A", 3), ("B", 1)]


def test_order_is_point_and_multi_point_then_multi_point_then_point_only() -> None:
    plugins = {"multiPoint": enabled("C"), "filter": enabled("OnlyFilter", "C", "B")}
    assert [name for name, _ in at("Filter", plugins)] == ["C", "B", "A", "OnlyFilter"]


def test_multi_point_entry_replaces_the_default_in_its_position() -> None:
    plugins = {"multiPoint": {"enabled": [{"name": "C"}, {"name": "A", "weight": 7}]}}
    assert at("Score", plugins) == [("A", 7), ("B", 1), ("C", 1)]


def test_disabled_default_that_is_enabled_again_moves_to_the_end() -> None:
    plugins = {"multiPoint": {"disabled": [{"name": "A"}], **enabled("A")}}
    assert at("Score", plugins) == [("B", 1), ("A", 1)]


def test_point_disables_a_plugin_of_multi_point_only_there() -> None:
    plugins = {"filter": {"disabled": [{"name": "A"}]}}
    assert [name for name, _ in at("Filter", plugins)] == ["B"]
    assert [name for name, _ in at("Score", plugins)] == ["A", "B"]


@pytest.mark.parametrize("star", [{"name": "*"}, "*"])
def test_star_disables_everything_that_a_point_inherits(star: object) -> None:
    assert at("Filter", {"filter": {"disabled": [star], **enabled("C", "A")}}) == [("C", 1), ("A", 1)]
    assert at("Score", {"multiPoint": {"disabled": [star], **enabled("B")}}) == [("B", 1)]


def test_enabled_beats_disabled_at_the_same_point() -> None:
    plugins = {"filter": {"disabled": [{"name": "A"}], **enabled("A")}}
    assert [name for name, _ in at("Filter", plugins)] == ["B", "A"]


def test_point_weight_beats_multi_point_weight_which_beats_the_default() -> None:
    multi = {"enabled": [{"name": "B", "weight": 5}]}
    assert at("Score", {"multiPoint": multi}) == [("A", 3), ("B", 5)]
    point = {"enabled": [{"name": "B", "weight": 2}]}
    assert at("Score", {"multiPoint": multi, "score": point}) == [("B", 2), ("A", 3)]


def test_point_without_a_weight_counts_1_as_in_kube_scheduler() -> None:
    assert at("Score", {"score": enabled("A")}) == [("A", 1), ("B", 1)]


def test_plugins_that_do_not_fit_are_all_reported() -> None:
    _, wrong = resolved(
        {
            "queueSort": enabled("OtherSort"),
            "filter": {"enabled": [{"name": "a"}], "disabled": [{"name": "Bee"}]},
            "score": enabled("OnlyFilter"),
            "multiPoint": {"enabled": [{"name": "OnlyFilter", "weight": 2}, {"name": "Nothing"}]},
        }
    )
    assert wrong == [
        "unknown plugin 'a'",
        "unknown plugin 'Bee'",
        "plugin 'OnlyFilter' does not implement Score",
        "plugin 'OnlyFilter' has a weight, but does not implement Score",
        "plugin 'Nothing' implements no extension point",
        "only one QueueSort plugin may be enabled; got 'Sort' and 'OtherSort'",
    ]


def test_weights_whose_totals_exceed_64_bits_are_refused() -> None:
    _, wrong = resolved({"score": {"enabled": [{"name": "A", "weight": (1 << 63) // 100}]}})
    assert wrong == ["the weights add up to 92233720368547759, so that totals exceed 64 bits"]
