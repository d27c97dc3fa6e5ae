"""Kinds of add-ons: defaults, validation of files, and round trips."""

from typing import Any

import pytest

from fairway.api import check, decode
from fairway.api.addon import ADD_ON_GROUP, INSTALL_NAMESPACE, ClusterManagementAddOn, ManagedClusterAddOn
from fairway.api.addon_config import AddOnDeploymentConfig
from fairway.api.addon_template import AddOnTemplate
from fairway.api.resources import (
    ADD_ON_DEPLOYMENT_CONFIGS,
    ADD_ON_TEMPLATES,
    CLUSTER_MANAGEMENT_ADD_ONS,
    MANAGED_CLUSTER_ADD_ONS,
)
from kubewire.api.defaults import apply_defaults
from kubewire.api.encoding import encode

MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "{{B}}"}}


def document(kind: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "c1"}
    return {"apiVersion": f"{ADD_ON_GROUP}/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


TEMPLATE = document(
    "AddOnTemplate",
    addonName="a",
    agentSpec={"workload": {"manifests": [MANIFEST]}},
    registration=[
        {
            "type": "KubeClient",
            "kubeClient": {
                "hubPermissions": [{"type": "CurrentCluster", "currentCluster": {"clusterRoleName": "r"}}]
            },
        }
    ],
)
OFFER = document(
    "ClusterManagementAddOn",
    supportedConfigs=[{"group": ADD_ON_GROUP, "resource": "addontemplates", "defaultConfig": {"name": "a"}}],
    installStrategy={
        "type": "Placements",
        "placements": [
            {
                "name": "p",
                "namespace": "ns",
                "configs": [{"resource": "configmaps", "name": "x"}],
                "rolloutStrategy": {
                    "type": "Progressive",
                    "progressive": {"maxConcurrency": "25%", "maxFailures": 2, "minSuccessTime": "5m"},
                },
            }
        ],
    },
)


@pytest.mark.parametrize("given", [TEMPLATE, OFFER], ids=["template", "offer"])
def test_add_on_objects_survive_a_round_trip(given: dict[str, Any]) -> None:
    assert encode(decode(given)) == given


def test_add_on_defaults_are_applied() -> None:
    add_on = apply_defaults(document("ManagedClusterAddOn"), ManagedClusterAddOn)
    assert add_on["spec"]["installNamespace"] == INSTALL_NAMESPACE
    config = apply_defaults(document("AddOnDeploymentConfig"), AddOnDeploymentConfig)
    assert config["spec"]["agentInstallNamespace"] == INSTALL_NAMESPACE
    offer = apply_defaults(document("ClusterManagementAddOn"), ClusterManagementAddOn)
    assert offer["spec"]["installStrategy"] == {"type": "Manual"}


def test_empty_install_namespace_is_not_defaulted() -> None:
    """An empty namespace means the one in the template."""
    given = document("AddOnDeploymentConfig", agentInstallNamespace="")
    config = decode(apply_defaults(given, AddOnDeploymentConfig))
    assert isinstance(config, AddOnDeploymentConfig)
    assert config.spec.agentInstallNamespace == ""
    unfilled = decode(document("AddOnDeploymentConfig"))
    assert isinstance(unfilled, AddOnDeploymentConfig)
    assert unfilled.spec.agentInstallNamespace is None


@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        (AddOnTemplate, {"agentSpec": {}}, "spec.addonName"),
        (AddOnTemplate, {"addonName": "a"}, "spec.agentSpec"),
        (
            AddOnTemplate,
            {"addonName": "a", "agentSpec": {}, "registration": [{"type": "X"}]},
            "spec.registration[0].type",
        ),
        (ClusterManagementAddOn, {"installStrategy": {"type": "Automatic"}}, "spec.installStrategy.type"),
        (
            ClusterManagementAddOn,
            {"installStrategy": {"placements": [{"name": "p"}]}},
            "spec.installStrategy.placements[0].namespace",
        ),
        (ManagedClusterAddOn, {"installNamespace": "A"}, "spec.installNamespace"),
        (ManagedClusterAddOn, {"configs": [{"resource": "x"}]}, "spec.configs[0].name"),
        (
            AddOnDeploymentConfig,
            {"customizedVariables": [{"name": "a-b"}]},
            "spec.customizedVariables[0].name",
        ),
        (
            AddOnDeploymentConfig,
            {"resourceRequirements": [{"containerID": "pods:a", "resources": {}}]},
            "spec.resourceRequirements[0].containerID",
        ),
    ],
)
def test_add_on_mistakes_are_reported(kind: type[Any], spec: dict[str, Any], path: str) -> None:
    assert path in [problem.path for problem in check(document(kind.__name__, **spec), kind=kind)]


def test_add_on_resources_have_their_paths() -> None:
    paths = [
        resource.path(namespace="c1" if resource.namespaced else None)
        for resource in (
            CLUSTER_MANAGEMENT_ADD_ONS,
            MANAGED_CLUSTER_ADD_ONS,
            ADD_ON_DEPLOYMENT_CONFIGS,
            ADD_ON_TEMPLATES,
        )
    ]
    root = f"/apis/{ADD_ON_GROUP}/v1alpha1"
    assert paths == [
        f"{root}/clustermanagementaddons",
        f"{root}/namespaces/c1/managedclusteraddons",
        f"{root}/namespaces/c1/addondeploymentconfigs",
        f"{root}/addontemplates",
    ]
