"""Reserved cluster names, and names that are not valid for namespaces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.controllers.acceptance.grants import COMMON, bindings, role
from fairway.controllers.cluster_names import (
    FAIRWAY_OWN,
    GROUP_OF_ALL,
    KUBERNETES_OWN,
    NOT_A_NAMESPACE,
    OCM_OWN,
    RESERVED,
    ROLE_OF_ALL,
    refusal,
)
from fairway.testing.builders import cluster
from kubewire.api import naming


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a.b", "a/b", "../kube-system", "A", "-a", "a-", "a" * 64, "a\n"]
)
def test_names_invalid_as_namespaces_are_refused(name: str) -> None:
    assert refusal(name) == NOT_A_NAMESPACE.format(name=name)


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        ("default", KUBERNETES_OWN),
        ("kube-system", KUBERNETES_OWN),
        ("kube-public", KUBERNETES_OWN),
        ("kube-anything", KUBERNETES_OWN),
        ("open-cluster-management", OCM_OWN),
        ("open-cluster-management-hub", OCM_OWN),
        ("fairway-system", FAIRWAY_OWN),
        ("registration", ROLE_OF_ALL),
        ("work", ROLE_OF_ALL),
        ("managed-clusters", GROUP_OF_ALL),
    ],
)
def test_reserved_names_are_refused(name: str, whose: str) -> None:
    assert refusal(name) == RESERVED.format(name=name, whose=whose)


@pytest.mark.parametrize(
    "name", ["local-cluster", "c1", "kubernetes", "default-1", "a" * 63, "1", "fairway-1"]
)
def test_valid_cluster_names_are_accepted(name: str) -> None:
    assert refusal(name) is None


@given(name=st.text(alphabet="aZ0-.:/ \n", max_size=70))
def test_every_accepted_name_is_a_valid_namespace(name: str) -> None:
    assert refusal(name) is not None or naming.label(name) == []


NAMES = st.text(alphabet="ab-1.:", max_size=12) | st.sampled_from(["work", "registration", "kube-system"])


@given(one=NAMES, other=NAMES)
def test_objects_of_clusters_have_distinct_names(one: str, other: str) -> None:
    if refusal(one) is not None or refusal(other) is not None or one == other:
        return

    def objects(name: str) -> set[tuple[str, str, str]]:
        made = (role(cluster(name)), *bindings(cluster(name)))
        metas = [(grant.resource.kind, grant.wanted.metadata) for grant in made]
        return {(kind, meta.namespace, meta.name) for kind, meta in metas}

    assert objects(one).isdisjoint(objects(other))
    assert objects(one).isdisjoint({("ClusterRole", "", name) for name in COMMON})
