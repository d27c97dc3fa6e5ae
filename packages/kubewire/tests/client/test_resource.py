"""Paths lead to the named resource, or to none."""

import pytest

from fairway.api.placement import Placement
from fairway.api.resources import MANAGED_CLUSTERS, PLACEMENTS
from kubewire.api.meta import ObjectMeta
from kubewire.api.resource import Resource, key_of

NAMESPACES: Resource[Placement] = Resource(
    group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False, type=Placement
)


def test_path_of_a_resource() -> None:
    group = "/apis/cluster.open-cluster-management.io"
    assert MANAGED_CLUSTERS.path() == f"{group}/v1/managedclusters"
    assert MANAGED_CLUSTERS.path(name="c1", subresource="status") == f"{group}/v1/managedclusters/c1/status"
    assert PLACEMENTS.path() == f"{group}/v1beta1/placements"
    assert PLACEMENTS.path(namespace="n", name="p") == f"{group}/v1beta1/namespaces/n/placements/p"
    assert NAMESPACES.path(name="n") == "/api/v1/namespaces/n"


def test_names_are_quoted() -> None:
    assert NAMESPACES.path(name="system:node a?b#c") == "/api/v1/namespaces/system:node%20a%3Fb%23c"
    assert NAMESPACES.path(name="ü") == "/api/v1/namespaces/%C3%BC"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a%2fb"])
@pytest.mark.parametrize("where", ["namespace", "name", "subresource"])
def test_names_that_lead_elsewhere_are_refused(where: str, name: str) -> None:
    parts = {"namespace": "n", "name": "p", "subresource": "status"}
    with pytest.raises(ValueError, match="cannot be part of a path"):
        PLACEMENTS.path(**{**parts, where: name})


def test_scopes_are_checked() -> None:
    with pytest.raises(ValueError, match="is not namespaced"):
        MANAGED_CLUSTERS.path(namespace="n")
    with pytest.raises(ValueError, match="give the namespace of 'p'"):
        PLACEMENTS.path(name="p")
    with pytest.raises(ValueError, match="give its name"):
        PLACEMENTS.path(namespace="n", subresource="status")


def test_resource_is_named_as_kubectl_names_it() -> None:
    assert str(MANAGED_CLUSTERS) == "managedclusters.v1.cluster.open-cluster-management.io"
    assert str(NAMESPACES) == "namespaces.v1"
    assert PLACEMENTS.api_version == "cluster.open-cluster-management.io/v1beta1"
    assert NAMESPACES.api_version == "v1"
    assert key_of(Placement(metadata=ObjectMeta(namespace="n", name="p"))) == ("n", "p")
