"""Configurations for Placements: the default profile, and what a file changes."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fairway.api.placement import PlacementSpec
from fairway.engine.profile import plugins_of
from fairway.engine.status import Code
from fairway.scheduling import ConfigurationError, Scheduling, Supervisor, discovery, load
from fairway.testing.builders import addon, binding, builtin, cluster, cluster_set, placement, policy, score
from fairway.whatif.world import World
from fairway.workloads.placement.profile import PLACEMENT_KIND, default_profile

HEAD = "apiVersion: fairway.dev/v1alpha1\nkind: SchedulerConfiguration\n"
KEY = ("ns1", "p1")

CHEAPEST = """
class Cheapest:
    name = "Cheapest"

    def score(self, context, row):
        return {"a": 10, "b": 20}.get(context.snapshot.hosts.names[row], 0)


class Ledger:
    name = "Ledger"

    def filter(self, context, row):
        from fairway.engine.status import OK

        return OK

    def reserve(self, context):
        from fairway.engine.status import OK

        return OK

    def unreserve(self, context):
        pass
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plugins.py").write_text(CHEAPEST)


def loaded(text: str | None) -> Scheduling:
    supervisor = Supervisor(clock=lambda: 0.0)
    if text is None:
        return load(None, kind=PLACEMENT_KIND, supervisor=supervisor)
    Path("scheduler.yaml").write_text(HEAD + text)
    return load(Path("scheduler.yaml"), kind=PLACEMENT_KIND, supervisor=supervisor)


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        loaded(text)
    return [str(problem) for problem in caught.value.problems]


def totals(scheduling: Scheduling, spec: PlacementSpec | None = None) -> dict[str, int]:
    objects = [cluster_set("default"), binding("default"), cluster("a"), cluster("b"), placement(spec=spec)]
    return World(objects, profile=scheduling.profile).decide(KEY, now=0).outcome.totals_by_name()


@pytest.mark.parametrize("text", [None, "", "profiles: [{schedulerName: placement}]\n"])
def test_profile_without_plugins_is_the_default_one(text: str | None) -> None:
    expected = [plugin.name for plugin in plugins_of(default_profile())]
    assert [plugin.name for plugin in plugins_of(loaded(text).profile)] == expected


def test_additive_mode_adds_the_scores_that_the_profile_enables() -> None:
    scheduling = loaded(
        "pluginFiles: [plugins.py]\nprofiles: [{plugins: {score: {enabled: [{name: Cheapest, weight: 3}]}}}]\n"
    )
    assert totals(scheduling) == {"a": 130, "b": 160}
    exact = PlacementSpec(prioritizerPolicy=policy(builtin("Cheapest"), mode="Exact"))
    assert totals(scheduling, exact) == {"a": 10, "b": 20}
    reweighted = PlacementSpec(prioritizerPolicy=policy(builtin("Cheapest", 0)))
    assert totals(scheduling, reweighted) == {"a": 100, "b": 100}


def test_placement_can_name_a_registered_prioritizer_that_no_profile_enables() -> None:
    scheduling = loaded("pluginFiles: [plugins.py]\n")
    assert totals(scheduling) == {"a": 100, "b": 100}
    assert totals(scheduling, PlacementSpec(prioritizerPolicy=policy(builtin("Cheapest", 2)))) == {
        "a": 120,
        "b": 140,
    }


def test_disabled_default_prioritizer_does_not_score() -> None:
    scheduling = loaded("profiles: [{plugins: {score: {disabled: [{name: Balance}]}}}]\n")
    assert [scorer.plugin.name for scorer in scheduling.profile.scorers.defaults] == ["Steady"]
    assert totals(scheduling) == {"a": 0, "b": 0}


def test_profile_without_cluster_sets_selects_among_all_clusters() -> None:
    scheduling = loaded("profiles: [{plugins: {multiPoint: {disabled: [{name: ClusterSets}]}}}]\n")
    verdict = World([cluster("a"), placement()], profile=scheduling.profile).decide(KEY, now=0)
    assert verdict.outcome.selected == ["a"]
    assert verdict.conditions[1].reason == "AllDecisionsScheduled"


def test_error_of_a_plugin_before_cluster_sets_is_reported() -> None:
    Path("first.py").write_text(
        "from fairway.engine.status import failed\n\n\nclass First:\n    name = 'First'\n\n"
        "    def pre_filter(self, context):\n        return failed('not ready', plugin=self.name), None\n"
    )
    scheduling = loaded(
        "pluginFiles: [first.py]\nprofiles:\n- plugins:\n    preFilter:\n"
        "      enabled: [{name: First}, {name: ClusterSets}]\n      disabled: [{name: '*'}]\n"
    )
    objects = [cluster_set("default"), binding("default"), cluster("a"), placement()]
    verdict = World(objects, profile=scheduling.profile).decide(KEY, now=0)
    message = "plugin First at PreFilter returned Error: not ready"
    assert (verdict.status.message, verdict.frozen, verdict.outcome.selected) == (message, True, [])


def test_placements_with_the_same_score_share_its_plugin() -> None:
    spec = PlacementSpec(prioritizerPolicy=policy(addon("free"), mode="Exact"))
    objects = [cluster_set("default"), binding("default"), cluster("a"), score("a", {"free": 1})]
    world = World([*objects, placement("p1", spec=spec), placement("p2", spec=spec)])
    first, second = (world.decide(("ns1", name), now=0).outcome.plugins.scores[0] for name in ("p1", "p2"))
    assert first.plugin is second.plugin


def test_profile_that_no_workload_uses_is_refused() -> None:
    assert problems("profiles: [{schedulerName: placements}]\n") == [
        "scheduler.yaml:3: profiles[0].schedulerName: no workload uses profile 'placements'; did you mean 'placement'?"
    ]


def test_plugin_is_enabled_at_all_of_its_points_from_reserve_on() -> None:
    text = "pluginFiles: [plugins.py]\nprofiles:\n- plugins:\n    multiPoint: {enabled: [{name: Ledger}]}\n"
    assert [plugin.name for plugin in loaded(text).profile.reserves] == ["Ledger"]
    assert not loaded(text + "    reserve: {disabled: [{name: Ledger}]}\n").profile.reserves


def test_two_queue_sort_plugins_are_refused() -> None:
    Path("sorts.py").write_text(
        "class A:\n    name = 'A'\n    def sort_key(self, workload, queued):\n        return ()\n\n\n"
        "class B(A):\n    name = 'B'\n"
    )
    text = (
        "pluginFiles: [sorts.py]\nprofiles:\n- plugins:\n    queueSort: {enabled: [{name: A}, {name: B}]}\n"
    )
    assert problems(text) == [
        "scheduler.yaml:6: profiles[0].plugins.queueSort: only one QueueSort plugin may be enabled; got 'A' and 'B'; "
        "list the others under queueSort.disabled"
    ]


def test_two_prioritize_plugins_are_refused() -> None:
    Path("other.py").write_text(
        "class Other:\n    name = 'Other'\n    def prioritize(self, context, scorers):\n        return None\n"
    )
    text = "pluginFiles: [other.py]\nprofiles:\n- plugins:\n    prioritize: {enabled: [{name: Other}]}\n"
    assert problems(text) == [
        "scheduler.yaml:6: profiles[0].plugins.prioritize: only one Prioritize plugin may be enabled; "
        "got 'PrioritizerPolicy' and 'Other'; list the others under prioritize.disabled"
    ]


PRIORITIZES = """
from fairway.engine.points import Prioritization


class Other:
    name = "Other"

    def __init__(self, *, useful):
        self.useful = useful

    def prioritize(self, context, scorers):
        return Prioritization(scores=scorers.defaults[:1]) if self.useful else ["Balance"]
"""


@pytest.mark.parametrize(
    ("useful", "message"),
    [
        ("true", ""),
        ("false", "plugin Other at Prioritize returned ['Balance'], not a Prioritization (other.py:11)"),
    ],
)
def test_prioritize_plugin_can_be_replaced(useful: str, message: str) -> None:
    Path("other.py").write_text(PRIORITIZES)
    scheduling = loaded(
        "pluginFiles: [other.py]\nprofiles:\n- plugins:\n    prioritize:\n      enabled: [{name: Other}]\n"
        "      disabled: [{name: '*'}]\n"
        f"  pluginConfig: [{{name: Other, args: {{useful: {useful}}}}}]\n"
    )
    objects = [cluster_set("default"), binding("default"), cluster("a"), placement()]
    outcome = World(objects, profile=scheduling.profile).decide(KEY, now=0).outcome
    assert outcome.status.message == message
    assert [scorer.plugin.name for scorer in outcome.plugins.scores] == ([] if message else ["Balance"])


def test_placement_that_names_a_plugin_which_cannot_be_loaded_is_misconfigured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    point = EntryPoint(name="Gone", value="no_such_module:Gone", group=discovery.GROUP)
    monkeypatch.setattr(discovery, "entry_points", lambda **_group: [point])
    scheduling = loaded(None)
    spec = PlacementSpec(prioritizerPolicy=policy(builtin("Gone")))
    objects = [cluster_set("default"), binding("default"), cluster("a"), placement(spec=spec)]
    status = World(objects, profile=scheduling.profile).decide(KEY, now=0).status
    assert status.code is Code.MISCONFIGURED
    assert status.message == (
        "plugin 'Gone' of no_such_module:Gone cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"
    )
