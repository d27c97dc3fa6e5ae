"""Configurations for HostedClusterRequests: checks and errors are those of all kinds of work."""

from pathlib import Path

import pytest

from fairway.engine.profile import plugins_of
from fairway.scheduling import ConfigurationError, Scheduling, Supervisor, load
from fairway.workloads.hosting import HOSTING_KIND, Decision, HostingState, default_profile, place
from fairway.workloads.hosting.profile import is_built_in
from workloads.hosting.hosts import NOW, host, policy, request
from workloads.hosting.hosts import load as published

HEAD = "apiVersion: fairway.dev/v1alpha1\nkind: SchedulerConfiguration\n"
ONLY_H2 = """
from fairway.engine.status import OK, unschedulable


class OnlyH2:
    name = "OnlyH2"

    def filter(self, context, row):
        if context.snapshot.hosts.names[row] == "h2":
            return OK
        return unschedulable("is not h2", plugin=self.name)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plugins.py").write_text(ONLY_H2)


def loaded(text: str | None) -> Scheduling:
    path = None
    if text is not None:
        path = Path("scheduler.yaml")
        path.write_text(HEAD + text)
    return load(path, kind=HOSTING_KIND, supervisor=Supervisor(clock=lambda: 0.0))


def problem(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        loaded(text)
    (only,) = map(str, caught.value.problems)
    return only


def decide(scheduling: Scheduling, *objects: object) -> Decision:
    state = HostingState(profile=scheduling.profile)
    state.load([policy(), *objects], now=NOW)
    (decision,) = place(state, [request("new")], now=NOW)
    return decision


@pytest.mark.parametrize(
    "text", [None, "", "profiles: [{schedulerName: placement}, {schedulerName: hosting}]\n"]
)
def test_default_profile_is_that_of_an_empty_configuration(text: str | None) -> None:
    names = [plugin.name for plugin in plugins_of(loaded(text).profile)]
    assert names == [plugin.name for plugin in plugins_of(default_profile())]
    assert {"Headroom", "TenantAntiAffinity", "SpareHosts"} <= set(names)
    assert is_built_in(loaded(text).profile)


def test_plugin_of_a_file_rejects_hosts_and_shows_its_reason() -> None:
    text = """pluginFiles: [plugins.py]
profiles:
- schedulerName: hosting
  plugins: {filter: {enabled: [{name: OnlyH2}]}}
"""
    scheduling = loaded(text)
    assert not is_built_in(scheduling.profile)
    both = (host("h1"), published("h1", count=0), host("h2"), published("h2", count=9))
    chosen = decide(scheduling, *both)
    assert chosen.host is not None
    assert chosen.host.name == "h2"
    refused = decide(scheduling, *both[:2])
    assert [(rejection.plugin, rejection.reason) for rejection in refused.rejections] == [
        ("OnlyH2", "is not h2")
    ]


def test_disabled_filter_and_weight_change_the_decision() -> None:
    text = """profiles:
- schedulerName: hosting
  plugins:
    multiPoint: {disabled: [{name: AddOnHealthy}]}
    score: {enabled: [{name: HostedClusters, weight: 30}]}
"""
    unhealthy = host("h1", labels={"feature.open-cluster-management.io/addon-hypershift-addon": "unhealthy"})
    objects = (unhealthy, published("h1", count=0))
    assert decide(loaded(None), *objects).host is None
    decision = decide(loaded(text), *objects)
    assert decision.host is not None
    assert {score.plugin: score.weight for score in decision.scores}["HostedClusters"] == 30


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        (
            "{multiPoint: {disabled: [{name: ReservePlace}]}}",
            "plugin 'ReservePlace' is disabled at Reserve, and other plugins rely on it; do not disable it",
        ),
        (
            "{filter: {enabled: [{name: Rooom}]}}",
            "unknown plugin 'Rooom'; did you mean 'Room'?",
        ),
        (
            "{score: {enabled: [{name: NotFull}]}}",
            "plugin 'NotFull' does not implement Score; it implements Filter",
        ),
    ],
)
def test_mistake_names_line_field_and_remedy(plugins: str, message: str) -> None:
    text = f"profiles:\n- schedulerName: hosting\n  plugins: {plugins}\n"
    text_of_problem = problem(text)
    assert text_of_problem.startswith("scheduler.yaml:5: profiles[0].plugins"), text_of_problem
    assert text_of_problem.endswith(message), text_of_problem
