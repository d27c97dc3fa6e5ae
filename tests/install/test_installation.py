"""What is installed on a hub, for each mode and each choice of controllers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.controllers import settings
from fairway.install import Installation, Mode, documents
from fairway.install.installation import NAME, OURS, PART_OF, RIGHTS

MODES = st.sampled_from(Mode)
CONTROLLERS = st.none() | st.sets(st.sampled_from(sorted(settings.ALL)), min_size=1).map(frozenset)

SERVED = {
    "AddOnDeploymentConfig": {"v1alpha1"},
    "AddOnPlacementScore": {"v1alpha1"},
    "AddOnTemplate": {"v1alpha1"},
    "AppliedManifestWork": {"v1"},
    "ClusterClaim": {"v1alpha1"},
    "ClusterManagementAddOn": {"v1alpha1"},
    "HostedClusterRequest": {"v1alpha1"},
    "HostingPolicy": {"v1alpha1"},
    "MachineMigration": {"v1alpha1"},
    "ManagedCluster": {"v1"},
    "ManagedClusterAddOn": {"v1alpha1"},
    "ManagedClusterScore": {"v1alpha1"},
    "ManagedClusterSet": {"v1beta2"},
    "ManagedClusterSetBinding": {"v1beta2"},
    "ManifestWork": {"v1"},
    "Placement": {"v1beta1", "v1alpha1"},
    "PlacementDecision": {"v1beta1"},
}
"""Versions that releases serve. An upgrade must not take one away, so entries are only added."""


def kinds(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


def deployment(installation: Installation) -> dict[str, Any]:
    (manifest,) = kinds(documents(installation), "Deployment")
    return manifest


def container(installation: Installation) -> dict[str, Any]:
    (spec,) = deployment(installation)["spec"]["template"]["spec"]["containers"]
    assert isinstance(spec, dict)
    return spec


@given(mode=MODES, controllers=CONTROLLERS)
def test_installation_grants_the_rights_of_its_controllers_only(
    mode: Mode, controllers: frozenset[str] | None
) -> None:
    installation = Installation(mode=mode, controllers=controllers)
    expected = {"shadow"} if mode is Mode.SHADOW else installation.runs
    bound = {role["metadata"]["name"] for role in kinds(documents(installation), "ClusterRoleBinding")}
    assert bound == {f"fairway-{name}" for name in {*expected, "serving"}}
    assert RIGHTS.keys() == settings.ALL | {"serving", "shadow"}


@given(mode=MODES, controllers=CONTROLLERS, monitoring=st.booleans())
def test_every_object_is_labelled_and_defined_once(
    mode: Mode, controllers: frozenset[str] | None, *, monitoring: bool
) -> None:
    installation = Installation(mode=mode, controllers=controllers, monitoring=monitoring)
    identities = [
        (document["kind"], document["metadata"].get("namespace", ""), document["metadata"]["name"])
        for document in documents(installation)
    ]
    assert len(identities) == len(set(identities))
    assert {document["metadata"]["labels"][PART_OF] for document in documents(installation)} == {NAME}


@given(mode=MODES, controllers=CONTROLLERS)
def test_objects_come_after_what_they_need(mode: Mode, controllers: frozenset[str] | None) -> None:
    order = [document["kind"] for document in documents(Installation(mode=mode, controllers=controllers))]
    last = len(order) - 1
    assert order.index("Deployment") == last
    if "CustomResourceDefinition" in order:
        assert order.index("Namespace") == order.count("CustomResourceDefinition")
    else:
        assert order[0] == "Namespace"


@pytest.mark.parametrize("mode", Mode)
def test_other_namespace_replaces_the_usual_one_everywhere(mode: Mode) -> None:
    moved = documents(Installation(mode=mode, namespace="places", monitoring=True))
    assert settings.NAMESPACE not in str(moved)
    assert [document["metadata"]["name"] for document in kinds(moved, "Namespace")] == ["places"]
    assert "--lease-namespace=places" in container(Installation(mode=mode, namespace="places"))["args"]


def test_other_namespace_of_ocm_is_detected_and_kept_empty() -> None:
    installation = Installation(mode=Mode.OCM, ocm_namespace="hosted")
    (policy,) = kinds(documents(installation), "ValidatingAdmissionPolicy")
    selector = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchLabels"]
    assert selector == {"kubernetes.io/metadata.name": "hosted"}
    assert "--ocm-namespace=hosted" in container(installation)["args"]


def test_only_a_standalone_hub_gets_the_kinds_of_ocm() -> None:
    defined = {
        mode: {
            definition["spec"]["names"]["kind"]
            for definition in kinds(documents(Installation(mode=mode)), "CustomResourceDefinition")
        }
        for mode in Mode
    }
    assert defined[Mode.SHADOW] == set()
    assert defined[Mode.OCM] == OURS
    assert defined[Mode.STANDALONE] > OURS
    assert not kinds(documents(Installation(crds=False)), "CustomResourceDefinition")


def test_chosen_controllers_run_with_the_chosen_image_and_replicas() -> None:
    installation = Installation(
        controllers=settings.DEFAULT | {settings.HOSTING}, image="example.com/fairway:1", replicas=3
    )
    assert deployment(installation)["spec"]["replicas"] == 3
    assert container(installation)["image"] == "example.com/fairway:1"
    assert "hosting" in container(installation)["args"][0]
    assert deployment(Installation(mode=Mode.SHADOW))["spec"]["replicas"] == 1


def test_no_version_of_a_kind_is_taken_away() -> None:
    defined = {
        definition["spec"]["names"]["kind"]: {
            version["name"] for version in definition["spec"]["versions"] if version["served"]
        }
        for definition in kinds(documents(Installation()), "CustomResourceDefinition")
    }
    assert {kind: versions & SERVED.get(kind, set()) for kind, versions in defined.items()} == SERVED


@pytest.mark.parametrize(
    ("namespace", "made"), [("kube-system", 0), ("default", 0), ("kubernetes", 1), ("team", 1)]
)
def test_installation_leaves_namespaces_of_kubernetes_alone(namespace: str, made: int) -> None:
    assert len(kinds(documents(Installation(namespace=namespace)), "Namespace")) == made
