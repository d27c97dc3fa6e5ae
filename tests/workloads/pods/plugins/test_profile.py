"""The default profile of pods has the plugins and weights of kube-scheduler."""

from fairway.engine.profile import plugins_of
from fairway.hosts.nodes import NodeFleet
from fairway.workloads.pods import POD_PLUGINS, default_profile, pod_registry

WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


def test_default_profile_has_the_weights_of_kube_scheduler() -> None:
    assert {score.plugin.name: score.weight for score in default_profile().scores} == WEIGHTS


def test_default_profile_has_every_plugin_but_coscheduling() -> None:
    names = {plugin.name for plugin in plugins_of(default_profile())}
    assert {plugin.name for plugin in POD_PLUGINS} - names == {"Coscheduling"}


def test_plugin_that_assumes_pods_needs_a_fleet() -> None:
    assert "AssumePod" not in pod_registry()
    assert "AssumePod" in pod_registry(fleet=NodeFleet())
