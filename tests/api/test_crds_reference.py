"""The generated CRDs, compared field by field with those that OCM publishes (open-cluster-management.io/api 1.3)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.api import crds
from fairway.api.crd import machine_crds

REPOSITORY = Path(__file__).parents[2]
REFERENCE = REPOSITORY.parent / "shared" / "reference" / "crds"

PLACEMENTS = "placements.cluster.open-cluster-management.io"
TEMPLATES = "addontemplates.addon.open-cluster-management.io"
FILES = ("*_clusters.*.yaml", "*_work.*.yaml", "*_addon.*.yaml")

ALLOWED = {
    f"{PLACEMENTS}: spec.versions[v1alpha1]": "documents written for the version OCM dropped are still read",
    "hostedclusterrequests.placement.fairway.dev": "a kind of Fairway",
    "hostingpolicies.placement.fairway.dev": "a kind of Fairway",
    "machinemigrations.placement.fairway.dev": "a kind of Fairway",
    "managedclusterscores.cluster.open-cluster-management.io": "proposed to OCM, never published there",
    f"{TEMPLATES}: metadata.creationTimestamp: only in theirs": "null, left over from how it was made",
    f"{TEMPLATES}: spec.versions[v1alpha1].subresources: only in theirs": "empty, which is the same as none",
    "clusterclaims.cluster.open-cluster-management.io": "published for managed clusters, not with those of the hub",
}


def without_descriptions(value: Any) -> Any:
    """Drop descriptions of schemas, but not properties with that name."""
    if isinstance(value, dict):
        return {
            key: without_descriptions(child)
            for key, child in value.items()
            if not (key == "description" and isinstance(child, str))
        }
    return [without_descriptions(child) for child in value] if isinstance(value, list) else value


def by_name(value: list[Any]) -> dict[str, Any] | None:
    if value and all(isinstance(item, dict) and "name" in item for item in value):
        return {f"[{item['name']}]": item for item in value}
    return None


def differences(ours: Any, theirs: Any, path: str) -> Iterator[str]:
    if isinstance(ours, list) and isinstance(theirs, list):
        mine, other = by_name(ours), by_name(theirs)
        if mine is not None and other is not None and [*mine] != [*other] and not set(other) < set(mine):
            yield f"{path}: order {[*mine]} for {[*other]}"
        if mine is not None and other is not None:
            ours, theirs = mine, other
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            place = f"{path}{key}" if key.startswith("[") else f"{path}.{key}".removeprefix(".")
            if key not in theirs:
                yield f"{place}: only in ours"
            elif key not in ours:
                yield f"{place}: only in theirs"
            else:
                yield from differences(ours[key], theirs[key], place)
    elif ours != theirs or type(ours) is not type(theirs):
        yield f"{path}: {ours!r} for {theirs!r}"


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    if not REFERENCE.is_dir():
        pytest.skip("the published CRDs are not beside this checkout")
    documents = (yaml.safe_load(path.read_text()) for files in FILES for path in REFERENCE.glob(files))
    return {document["metadata"]["name"]: document for document in documents}


def found_differences(reference: dict[str, Any]) -> set[str]:
    differing: set[str] = set()
    ours = {crd["metadata"]["name"]: crd for crd in crds()}
    for name in ours.keys() | reference.keys():
        if name not in reference or name not in ours:
            differing.add(name)
            continue
        theirs = {key: value for key, value in reference[name].items() if key != "status"}
        for difference in differences(without_descriptions(ours[name]), without_descriptions(theirs), ""):
            differing.add(f"{name}: {difference}")
    return differing


def test_crds_differ_from_ocm_only_as_listed(reference: dict[str, Any]) -> None:
    differences = {difference.removesuffix(": only in ours") for difference in found_differences(reference)}
    assert differences == set(ALLOWED)


def test_every_published_crd_is_compared_with_ocm(reference: dict[str, Any]) -> None:
    assert len(reference) == 12
    assert reference.keys() < {crd["metadata"]["name"] for crd in crds()}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"a": 1}, {"a": 1.0}),
        ({"a": True}, {"a": 1}),
        ({"a": {}}, {}),
        ({}, {"a": {}}),
        ([{"name": "x"}, {"name": "y"}], [{"name": "y"}, {"name": "x"}]),
        ({"required": ["a", "b"]}, {"required": ["b", "a"]}),
    ],
)
def test_crd_comparison_sees_small_differences(ours: Any, theirs: Any) -> None:
    assert list(differences(ours, theirs, ""))


NEON_ALLOWED = {
    "spec.guest.cpus.max: form": "a quantity; NeonVM's type accepts the same, and declares an integer",
    "spec.guest.cpus.min: form": "the same",
    "spec.guest.cpus.use: form": "the same",
    "status.cpus: form": "a quantity, too",
}


def form_of(schema: dict[str, Any]) -> Any:
    return "quantity" if "anyOf" in schema else schema.get("type")


def neon_differences(ours: dict[str, Any], theirs: dict[str, Any], path: str) -> Iterator[str]:
    """Compare what Fairway declares: it has fewer fields."""
    if form_of(ours) != form_of(theirs):
        yield f"{path}: form"
        return
    if ours.get("default") != theirs.get("default") and "default" in ours:
        yield f"{path}: default"
    if set(ours.get("required", ())) - set(theirs.get("required", ())):
        yield f"{path}.required: more in ours"
    for name, child in ours.get("properties", {}).items():
        if name not in theirs.get("properties", {}):
            yield f"{path}.{name}: only in ours"
        else:
            yield from neon_differences(child, theirs["properties"][name], f"{path}.{name}")
    if "items" in ours:
        yield from neon_differences(ours["items"], theirs["items"], f"{path}[]")


@pytest.mark.usefixtures("reference")
def test_definitions_of_virtual_machines_accept_what_neonvm_declares() -> None:
    differences: set[str] = set()
    for ours in machine_crds():
        (path,) = REFERENCE.glob(f"vm.neon.tech_{ours['spec']['names']['plural']}.yaml")
        theirs = yaml.safe_load(path.read_text())
        schemas = [crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for crd in (ours, theirs)]
        assert ours["spec"]["names"]["kind"] == theirs["spec"]["names"]["kind"]
        for part in ("spec", "status"):
            mine, other = (schema["properties"][part] for schema in schemas)
            differences.update(neon_differences(mine, other, part))
    assert differences == set(NEON_ALLOWED)
