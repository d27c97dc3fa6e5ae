"""KubeSchedulerConfigurations that users have: accepted as far as their plugins exist, and what does not is named."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from fairway.cli.main import run
from fairway.controllers import manager
from fairway.engine.kind import WorkKind
from fairway.engine.profile import Enabled
from fairway.engine.registry import Registry
from fairway.hosts.nodes import NodeFleet
from fairway.scheduling import (
    KINDS,
    ConfigurationError,
    Scheduling,
    Supervisor,
    load,
)
from fairway.scheduling.kinds import WITH_ONE_PROFILE
from fairway.workloads.placement.profile import PLACEMENT_KIND
from fairway.workloads.pods import pod_registry
from fairway.workloads.pods.profile import POD_KIND

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
QUIET = "multiPoint: {disabled: [{name: NodeVolumeLimits}, {name: DynamicResources}]}"

PACKING = (
    HEAD
    + """\
leaderElection:
  leaderElect: true
  resourceName: packing-scheduler
clientConnection:
  kubeconfig: /etc/kubernetes/scheduler.conf
  qps: 100
parallelism: 32
percentageOfNodesToScore: 50
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 30
profiles:
- schedulerName: packing
  percentageOfNodesToScore: 100
  plugins:
    multiPoint:
      enabled:
      - name: NodeResourcesFit
        weight: 5
      - name: NodeName
        weight: 2
    preFilter:
      enabled:
      - name: NodeResourcesFit
      - name: NodeAffinity
    score:
      disabled:
      - name: ImageLocality
      - name: NodeResourcesBalancedAllocation
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      ignoredResources: [example.com/foo]
      scoringStrategy:
        type: MostAllocated
        resources:
        - name: cpu
          weight: 1
        - name: nvidia.com/gpu
          weight: 3
  - name: VolumeBinding
    args:
      bindTimeoutSeconds: 30
  - name: DynamicResources
    args:
      filterTimeout: 5s
"""
)

EVERY_ARGUMENT = (
    HEAD
    + """\
profiles:
- schedulerName: tuned
  plugins:
    multiPoint:
      enabled: [{name: Coscheduling}]
  pluginConfig:
  - name: NodeResourcesFit
    args:
      ignoredResourceGroups: [example.com]
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: intel.com/foo, weight: 3}]
        requestedToCapacityRatio:
          shape:
          - {utilization: 0, score: 0}
          - {utilization: 100, score: 10}
  - name: NodeResourcesBalancedAllocation
    args:
      resources: [{name: cpu, weight: 1}, {name: memory}]
  - name: PodTopologySpread
    args:
      defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
      defaultingType: List
  - name: InterPodAffinity
    args:
      hardPodAffinityWeight: 100
      ignorePreferredTermsOfExistingPods: true
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchExpressions: [{key: pool, operator: In, values: [tuned]}]
  - name: DefaultPreemption
    args:
      minCandidateNodesPercentage: 5
      minCandidateNodesAbsolute: 50
  - name: Coscheduling
    args:
      permitWaitingTimeSeconds: 10
"""
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def loaded(text: str, kind: WorkKind = POD_KIND, beside: Iterable[WorkKind] = WITH_ONE_PROFILE) -> Scheduling:
    Path("scheduler.yaml").write_text(text)
    return load(Path("scheduler.yaml"), kind=kind, beside=beside, supervisor=Supervisor(clock=lambda: 0.0))


def problems(text: str, kind: WorkKind = POD_KIND) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        loaded(text, kind)
    return [str(problem) for problem in caught.value.problems]


def notes(text: str) -> list[str]:
    return [str(note) for note in loaded(text).notes]


def profile(body: str) -> str:
    return f"{HEAD}profiles:\n- schedulerName: mine\n  {body}\n"


def with_args(plugin: str, args: str) -> str:
    return profile(f"plugins: {{{QUIET}}}\n  pluginConfig:\n  - {{name: {plugin}, args: {args}}}")


def test_check_command_prints_plugins_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("kube.yaml").write_text(PACKING)
    assert run(["scheduler", "check", "kube.yaml"]) == 0
    shown = capsys.readouterr()
    assert re.search(r"^packing +Score +NodeResourcesFit +5$", shown.out, re.MULTILINE)
    assert "note: kube.yaml:10: percentageOfNodesToScore: has no effect" in shown.err


def test_controllers_log_what_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    manager._log_configuration([loaded(PACKING)])
    assert (
        "scheduler.yaml:10: percentageOfNodesToScore: has no effect: Fairway scores every node"
        in caplog.messages
    )


def test_check_command_reports_each_problem_of_both_kinds_of_profiles_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    head = (
        "apiVersion: fairway.dev/v1alpha1\nkind: SchedulerConfiguration\npodMaxBackoffSeconds: 0\nprofiles:\n"
    )
    names = "- {schedulerName: placement, plugins: {score: {enabled: [{name: A}]}}}\n"
    Path("both.yaml").write_text(head + names + names.replace("placement", "gpu"))
    assert run(["scheduler", "check", "both.yaml"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1:3] for line in lines] == [
        ["both.yaml:3", "podMaxBackoffSeconds"],
        ["both.yaml:5", "profiles[0].plugins.score.enabled[0].name"],
        ["both.yaml:6", "profiles[1].plugins.score.enabled[0].name"],
    ]


def at(scheduling: Scheduling, point: str, name: str) -> list[str]:
    return [plugin.plugin for plugin in scheduling.specs[name].points[point]]


def test_default_profile_without_a_file_is_that_of_the_plugins() -> None:
    scheduling = load(None, kind=POD_KIND, supervisor=Supervisor(clock=lambda: 0.0))
    spec, expected = scheduling.specs["fairway"], POD_KIND.spec()
    assert at(scheduling, "Bind", "fairway") == ["DefaultBinder"]
    for point, plugins in spec.points.items():
        if point != "Bind":
            assert [plugin.plugin for plugin in plugins] == [
                plugin.plugin for plugin in expected.points.get(point, ())
            ]
    assert spec.points["Score"] == expected.points["Score"]


def test_empty_kube_scheduler_configuration_has_the_default_profile() -> None:
    scheduling = loaded(HEAD)
    assert list(scheduling.profiles) == ["default-scheduler"]
    assert scheduling.specs["default-scheduler"].points["Score"] == POD_KIND.spec().points["Score"]
    assert any(
        "kube-scheduler must not run with this profile as well" in note.message for note in scheduling.notes
    )


def test_weights_points_and_arguments_of_a_packing_profile_are_applied() -> None:
    scheduling = loaded(PACKING)
    spec = scheduling.specs["packing"]
    assert spec.points["Score"] == (
        Enabled("TaintToleration", 3),
        Enabled("NodeAffinity", 2),
        Enabled("NodeResourcesFit", 5),
        Enabled("PodTopologySpread", 2),
        Enabled("InterPodAffinity", 2),
    )
    assert at(scheduling, "PreFilter", "packing")[0] == "NodeAffinity"
    assert spec.args["NodeResourcesFit"] == {
        "ignored_resources": ["example.com/foo"],
        "scoring_strategy": {
            "type": "MostAllocated",
            "resources": [{"name": "cpu", "weight": 1}, {"name": "nvidia.com/gpu", "weight": 3}],
        },
    }
    assert spec.args["VolumeBinding"] == {"bind_timeout_seconds": 30}
    configuration = scheduling.configuration
    assert (configuration.initial_backoff_seconds, configuration.max_backoff_seconds) == (2, 30)


def test_everything_without_effect_is_noted_with_its_line() -> None:
    assert notes(PACKING) == [
        "scheduler.yaml:3: leaderElection: has no effect: use the options --leader-elect and --lease-namespace of "
        "fairway run",
        "scheduler.yaml:6: clientConnection: has no effect: use --kubeconfig and --context",
        "scheduler.yaml:9: parallelism: has no effect: Fairway evaluates all nodes with array operations",
        "scheduler.yaml:10: percentageOfNodesToScore: has no effect: Fairway scores every node",
        "scheduler.yaml:14: profiles[0]: plugin 'DynamicResources' only rejects pods with resourceClaims here: they "
        "are not allocated; list it under multiPoint.disabled to ignore resourceClaims",
        "scheduler.yaml:22: profiles[0].plugins.multiPoint.enabled[1].weight: the weight of plugin 'NodeName' has no "
        "effect: it does not score",
        "scheduler.yaml:49: profiles[0].pluginConfig[2].args.filterTimeout: has no effect: pods with resourceClaims "
        "are rejected",
    ]


def test_every_argument_of_kube_scheduler_plugins_is_passed_on() -> None:
    scheduling = loaded(EVERY_ARGUMENT)
    args = scheduling.specs["tuned"].args
    assert args["NodeResourcesBalancedAllocation"] == {
        "resources": [{"name": "cpu", "weight": 1}, {"name": "memory"}]
    }
    assert args["InterPodAffinity"] == {
        "hard_pod_affinity_weight": 100,
        "ignore_preferred_terms_of_existing_pods": True,
    }
    assert args["DefaultPreemption"] == {
        "min_candidate_nodes_percentage": 5,
        "min_candidate_nodes_absolute": 50,
    }
    assert args["Coscheduling"] == {"permit_waiting_time_seconds": 10}
    assert list(args["NodeAffinity"]) == ["added_affinity"]
    assert args["NodeResourcesFit"]["scoring_strategy"]["type"] == "RequestedToCapacityRatio"
    assert args["PodTopologySpread"] == {
        "default_constraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        "defaulting_type": "List",
    }


def test_disabling_all_plugins_leaves_those_that_are_enabled() -> None:
    scheduling = loaded(
        profile(
            "plugins:\n    multiPoint:\n      disabled: [{name: '*'}]\n      enabled: [{name: PrioritySort}, "
            "{name: NodeResourcesFit}, {name: DefaultBinder}]"
        )
    )
    assert scheduling.resolved[0].plugins() == ("PrioritySort", "NodeResourcesFit", "DefaultBinder")
    assert scheduling.notes == ()


def test_weight_of_0_is_the_default_weight() -> None:
    scheduling = loaded(profile("plugins: {score: {enabled: [{name: ImageLocality, weight: 0}]}}"))
    assert Enabled("ImageLocality", 1) in scheduling.specs["mine"].points["Score"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "plugins: {filter: {enabled: [{name: NodeDeclaredFeatures}]}}",
            "scheduler.yaml:5: profiles[0].plugins.filter.enabled[0].name: plugin 'NodeDeclaredFeatures' does not "
            "exist here: features that nodes declare are not compared with those that pods need; remove it; list it "
            "under multiPoint.disabled to state that pods do not need it",
        ),
        (
            "pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: -1}}]",
            "scheduler.yaml:5: profiles[0].pluginConfig[0].args.bindTimeoutSeconds: must not be negative; got -1",
        ),
        (
            "plugins: {score: {enabled: [{name: SelectorSpread}]}}",
            "scheduler.yaml:5: profiles[0].plugins.score.enabled[0].name: plugin 'SelectorSpread' does not exist in "
            "Kubernetes 1.36 either: PodTopologySpread replaced it; remove it",
        ),
        (
            "plugins: {score: {enabled: [{name: NodeResourceFit}]}}",
            "scheduler.yaml:5: profiles[0].plugins.score.enabled[0].name: unknown plugin 'NodeResourceFit'; did you "
            "mean 'NodeResourcesFit'?",
        ),
        (
            "plugins: {bind: {disabled: [{name: '*'}]}}",
            "scheduler.yaml:5: profiles[0].plugins.bind: no Bind plugin is enabled; enable one under bind.enabled",
        ),
        (
            "plugins: {placementScore: {enabled: [{name: NodeResourcesFit}]}}",
            "scheduler.yaml:5: profiles[0].plugins.placementScore: unknown field; remove it: Fairway has no such "
            "extension point",
        ),
        (
            "percentageOfNodesToScore: 101",
            "scheduler.yaml:5: profiles[0].percentageOfNodesToScore: must be between 0 and 100; got 101",
        ),
        ("onPluginFault: Skip", "scheduler.yaml:5: profiles[0].onPluginFault: unknown field; known fields are "
         "schedulerName, plugins, pluginConfig, percentageOfNodesToScore"),
    ],
)  # fmt: skip
def test_plugin_or_field_that_would_change_decisions_is_refused(body: str, expected: str) -> None:
    assert problems(profile(body)) == [expected]


def test_extenders_are_refused() -> None:
    assert problems(f"{HEAD}extenders:\n- urlPrefix: https://extender\n") == [
        "scheduler.yaml:3: extenders: extenders are not called, so that nodes they reject would be used; write a "
        "plugin instead, and remove the extenders"
    ]
    loaded(f"{HEAD}extenders: []\n")


def test_weight_of_a_disabled_plugin_is_ignored() -> None:
    given = "profiles:\n- plugins:\n    score: {disabled: [{name: ImageLocality, weight: %s}]}\n"
    spec = loaded(HEAD + given % 0).specs["default-scheduler"]
    assert "ImageLocality" not in {enabled.plugin for enabled in spec.points["Score"]}
    assert problems(HEAD + given % "high") == [
        "scheduler.yaml:5: profiles[0].plugins.score.disabled[0].weight: expected a whole number; got 'high'"
    ]


def test_old_version_of_the_configuration_is_refused() -> None:
    assert problems(
        "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n"
    ) == [
        "scheduler.yaml:1: apiVersion: must be kubescheduler.config.k8s.io/v1; got "
        "'kubescheduler.config.k8s.io/v1beta3'; write apiVersion: kubescheduler.config.k8s.io/v1"
    ]


@pytest.mark.parametrize(
    ("plugin", "args", "field", "expected"),
    [
        ("NodeResourcesFit", "{scoringStrategie: {}}", ".scoringStrategie", "unknown field; did you mean "
         "'scoringStrategy'?"),
        ("NodeResourcesFit", "{scoringStrategy: {resources: [{name: cpu, weight: high}]}}",
         ".scoringStrategy.resources[0].weight", "expected int, got str"),
        ("NodeResourcesFit", "{scoringStrategy: {type: Fullest}}", "", "plugin NodeResourcesFit does not accept its "
         "arguments: scoringStrategy.type must be one of LeastAllocated, MostAllocated, RequestedToCapacityRatio; got "
         "'Fullest'"),
        ("NodeResourcesFit", "{kind: FitArgs}", ".kind", "must be NodeResourcesFitArgs; got 'FitArgs'; write kind: "
         "NodeResourcesFitArgs"),
        ("NodeResourcesBalancedAllocation", "{resources: [{name: cpu, weight: 2}]}", ".resources[0].weight",
         "must be 1; got 2"),
        ("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, "
         "whenUnsatisfiable: ScheduleAnyway}, {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}",
         ".defaultConstraints[1]", "duplicate constraint on zone with ScheduleAnyway"),
        ("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: zone, "
         "whenUnsatisfiable: ScheduleAnyway}]}", ".defaultConstraints[0].maxSkew", "must be greater than 0; got 0"),
        ("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, "
         "whenUnsatisfiable: ScheduleAnyway}]}", ".defaultConstraints[0].topologyKey", "must name a label of nodes"),
        ("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone}]}",
         ".defaultConstraints[0].whenUnsatisfiable", "must be DoNotSchedule or ScheduleAnyway; got ''"),
        ("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, "
         "whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]}", ".defaultConstraints[0].labelSelector",
         "must be absent: the constraint counts the pods of the pod's Services and controller"),
        ("PodTopologySpread", "{defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: "
         "ScheduleAnyway}]}", ".defaultConstraints", "must be empty because defaultingType is System; write "
         "defaultingType: List"),
        ("PodTopologySpread", "{defaultingType: Auto}", ".defaultingType", "must be System or List; got 'Auto'"),
        ("InterPodAffinity", "{hardPodAffinityWeight: 101}", "", "plugin InterPodAffinity does not accept its "
         "arguments: hardPodAffinityWeight must be from 0 to 100; got 101"),
        ("Coscheduling", "{permitWaitingTimeSeconds: 0}", None, ""),
    ],
)  # fmt: skip
def test_wrong_argument_of_a_plugin_is_refused(
    plugin: str, args: str, field: str | None, expected: str
) -> None:
    if field is None:  # the profile does not enable the plugin
        loaded(with_args(plugin, args))
        return
    where = f"scheduler.yaml:7: profiles[0].pluginConfig[0].args{field}"
    assert problems(with_args(plugin, args)) == [f"{where}: {expected}"]


def test_null_argument_counts_as_absent() -> None:
    scheduling = loaded(with_args("NodeResourcesFit", "{scoringStrategy: null, ignoredResources: null}"))
    assert scheduling.specs["mine"].args["NodeResourcesFit"] == {}


def test_file_for_placements_and_pods_is_split_by_profile() -> None:
    text = (
        "apiVersion: fairway.dev/v1alpha1\nkind: SchedulerConfiguration\nprofiles:\n- schedulerName: placement\n"
        "- schedulerName: gpu\n  plugins: {score: {disabled: [{name: ImageLocality}]}}\n"
    )
    assert list(loaded(text).profiles) == ["gpu"]
    assert list(loaded(text, PLACEMENT_KIND, KINDS).profiles) == ["placement"]
    assert problems(text, PLACEMENT_KIND)[0].startswith(
        "scheduler.yaml:5: profiles[1].schedulerName: no workload uses profile 'gpu'; write one of placement, hosting; "
        "the controller machines uses others, for pods"
    )


def test_misspelt_profile_of_placements_is_not_one_of_pods() -> None:
    text = "apiVersion: fairway.dev/v1alpha1\nkind: SchedulerConfiguration\nprofiles: [{schedulerName: placements}]\n"
    assert problems(text) == [
        "scheduler.yaml:3: profiles[0].schedulerName: no workload uses profile 'placements'; did you mean 'placement'?"
    ]


def test_kube_scheduler_configuration_is_refused_where_no_pods_are_scheduled() -> None:
    assert problems(PACKING, PLACEMENT_KIND) == [
        "scheduler.yaml:2: kind: a KubeSchedulerConfiguration configures pods, and no pods are scheduled; run the "
        "controller machines, or write kind: SchedulerConfiguration for Placements"
    ]
    assert list(loaded(PACKING, PLACEMENT_KIND, KINDS).profiles) == ["placement"]


def test_third_party_plugins_are_added_to_the_registry_of_the_caller() -> None:
    Path("quiet.py").write_text(
        "class Quiet:\n    name = 'Quiet'\n    def __init__(self, *, level=1):\n        self.level = level\n"
        "    def score(self, context, row):\n        return self.level\n"
    )
    scheduling = loaded(
        "apiVersion: fairway.dev/v1alpha1\nkind: SchedulerConfiguration\npluginFiles: [quiet.py]\n"
        "profiles: [{schedulerName: mine, plugins: {score: {enabled: [{name: Quiet}]}}}]\n"
    )
    registry: Registry = pod_registry(fleet=NodeFleet())
    scheduling.add_third_party(registry)
    assert registry.build("Quiet", {"level": 7}).name == "Quiet"


def test_plugin_of_placements_may_have_the_name_of_a_built_in_one_of_pods() -> None:
    Path("ports.py").write_text(
        "class Ports:\n    name = 'NodePorts'\n    def score(self, context, row):\n        return 1\n"
    )
    text = (
        "apiVersion: fairway.dev/v1alpha1\nkind: SchedulerConfiguration\npluginFiles: [ports.py]\nprofiles:\n"
    )
    text += "- {schedulerName: placement, plugins: {score: {enabled: [{name: NodePorts}]}}}\n"
    assert "NodePorts" in {plugin.name for plugin in loaded(text, PLACEMENT_KIND, KINDS).plugins}
    assert list(loaded(text).profiles) == ["fairway"]
    assert problems(text + "- {schedulerName: mine}\n")[0].startswith(
        "scheduler.yaml:3: pluginFiles[0]: Ports has the name of plugin 'NodePorts'"
    )
