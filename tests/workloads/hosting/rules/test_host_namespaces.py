"""Namespaces on hosts: no two namespaces of a hub, and none of what HyperShift makes from them, share one."""

import pytest

from fairway.workloads.hosting.rules.host_namespaces import (
    HASH_LENGTH,
    PREFIX,
    control_plane_namespace,
    derived_namespace,
    is_derived,
    matches,
    overlapping,
)

NEIGHBOURS = ("a", "a-b", "team-a", "team-a-b", "team", "x" * 63, "x" * 62 + "y", "x" * 12, "a" * 11 + "-b")


def test_derived_namespaces_and_their_control_planes_never_coincide() -> None:
    heads = {derived_namespace(namespace)[: len(PREFIX) + HASH_LENGTH + 1] for namespace in NEIGHBOURS}
    assert len(heads) == len(NEIGHBOURS), "each begins in its own way, and so does all that is made from it"
    assert all(head.endswith("-") for head in heads)


@pytest.mark.parametrize("namespace", NEIGHBOURS)
def test_derived_namespace_is_a_short_label_and_leaves_room_for_a_name(namespace: str) -> None:
    derived = derived_namespace(namespace)
    assert is_derived(derived)
    assert derived == derived.strip("-").lower()
    assert len(control_plane_namespace(derived, "n" * 33)) <= 63


def test_control_plane_namespace_has_no_dots() -> None:
    assert control_plane_namespace("clusters", "shop.eu") == "clusters-shop-eu"


def test_pattern_matches_a_name_or_its_beginning() -> None:
    assert matches("team-a", "team-a")
    assert not matches("team-a", "team-ab")
    assert matches("team-*", "team-")


@pytest.mark.parametrize(
    ("pattern", "protected"),
    [
        ("kube-system", "kube-*"),
        ("kube-*", "kube-*"),
        ("k*", "kube-*"),
        ("kube-sys*", "kube-*"),
        ("default", "default"),
        ("openshift", "openshift"),
        ("open-cluster-management-agent", "open-cluster-management*"),
        ("kubernetes", ""),
        ("clusters", ""),
        ("team-*", ""),
    ],
)
def test_pattern_that_reaches_a_protected_namespace_is_found(pattern: str, protected: str) -> None:
    assert overlapping(pattern) == protected
