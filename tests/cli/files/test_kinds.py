import pytest

from fairway.cli.files.kinds import Finding, classify, distance

GROUP = "cluster.open-cluster-management.io"
KNOWN = {
    "Placement": (f"{GROUP}/v1beta1", f"{GROUP}/v1alpha1"),
    "ManagedCluster": (f"{GROUP}/v1",),
    "Pod": ("v1",),
}


def finding(document: object) -> Finding:
    result = classify(document, KNOWN)
    assert isinstance(result, Finding)
    return result


@pytest.mark.parametrize("version", KNOWN["Placement"])
def test_own_kinds_are_classified_as_own(version: str) -> None:
    assert classify({"apiVersion": version, "kind": "Placement"}, KNOWN) is True


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("v1", "Namespace"),
        ("v1", "ConfigMap"),
        ("apps/v1", "Deployment"),
        ("policy.open-cluster-management.io/v1", "PlacementBinding"),
        ("apps.open-cluster-management.io/v1", "PlacementRule"),
        ("view.open-cluster-management.io/v1beta1", "ManagedClusterView"),
        ("placement.example.com/v1", "Placement"),
    ],
)
def test_foreign_kinds_are_classified_as_foreign(version: str, kind: str) -> None:
    assert classify({"apiVersion": version, "kind": kind}, KNOWN) is False


@pytest.mark.parametrize(
    ("kind", "meant"),
    [("Placment", "Placement"), ("placement", "Placement"), ("Plcaement", "Placement"), ("Pods", "Pod")],
)
def test_misspelt_kind_is_an_error(kind: str, meant: str) -> None:
    verdict = finding({"apiVersion": f"{GROUP}/v1beta1", "kind": kind})
    assert verdict.path == "kind"
    assert f"did you mean {meant}?" in verdict.remedy
    assert "ManagedCluster, Placement, Pod" in verdict.remedy


@pytest.mark.parametrize(
    "version", ["v1beta1", f"{GROUP}/v1beta9", "cluster.open-cluster-managment.io/v1beta1"]
)
def test_wrong_version_of_an_own_kind_is_an_error(version: str) -> None:
    verdict = finding({"apiVersion": version, "kind": "Placement"})
    assert (verdict.path, f"{GROUP}/v1beta1 or {GROUP}/v1alpha1" in verdict.remedy) == ("apiVersion", True)


@pytest.mark.parametrize(
    ("document", "path", "message"),
    [
        ("text", "", "is text, not a Kubernetes object"),
        ([1], "", "is a list, not a Kubernetes object"),
        (3.5, "", "is a number, not a Kubernetes object"),
        (None, "", "is null, not a Kubernetes object"),
        ({}, "apiVersion", "has no apiVersion"),
        ({"apiVersion": "v1"}, "kind", "has no kind"),
        ({"apiVersion": 1, "kind": "Pod"}, "apiVersion", "apiVersion must be text"),
    ],
)
def test_value_without_kind_is_no_object(document: object, path: str, message: str) -> None:
    verdict = finding(document)
    assert (verdict.path, verdict.message) == (path, message)


def test_spelling_distance_counts_edits() -> None:
    assert distance("kitten", "sitting", at_most=9) == 3
    assert distance("ab", "ba", at_most=2) == 1
    assert distance("", "abc", at_most=3) == 3
    assert distance("", "abcdef", at_most=2) > 2
