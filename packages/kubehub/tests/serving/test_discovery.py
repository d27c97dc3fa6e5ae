"""Discovery documents."""

from kubehub import builtin
from kubehub.registry import Registry
from kubehub.resource import Resource
from kubehub.schema import Node
from kubehub.serving import discovery


def things(version: str, *, storage_version: str = "") -> Resource:
    return Resource(
        group="g.io",
        version=version,
        kind="Thing",
        plural="things",
        namespaced=True,
        node=Node(),
        custom=True,
        storage_version=storage_version,
    )


def test_discovery_lists_versions_by_priority() -> None:
    registry = Registry(())
    registry.define(
        "things.g.io", [things(v) for v in ("v1alpha1", "foo1", "v1", "v2", "v1beta2", "v10", "v1beta1")]
    )
    assert registry.groups["g.io"] == ("v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo1")


def test_discovery_follows_created_and_deleted_crds() -> None:
    registry = Registry(builtin.resources())
    before = registry.generation
    registry.define("things.g.io", [things("v1")])
    assert registry.find("g.io", "v1", "things") is not None
    assert registry.of_kind("g.io", "v1", "Thing") is not None
    assert registry.generation > before
    registry.remove("things.g.io")
    assert registry.find("g.io", "v1", "things") is None
    assert "g.io" not in registry.groups
    again = registry.generation
    registry.remove("things.g.io")
    assert registry.generation == again


def test_storage_version_is_found_by_the_resource_key() -> None:
    registry = Registry(())
    registry.define("things.g.io", [things("v2", storage_version="v1"), things("v1", storage_version="v1")])
    kept = registry.of_key("things.g.io")
    assert kept is not None
    assert kept.version == "v1"


def test_both_kinds_of_discovery_agree() -> None:
    registry = Registry(builtin.resources())
    for core in (True, False):
        for group in discovery.aggregated(registry, core=core)["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                older = discovery.resources(registry, name, version["version"])
                assert older is not None
                told = {entry["name"]: entry["verbs"] for entry in older["resources"]}
                for resource in version["resources"]:
                    assert told.pop(resource["resource"]) == resource["verbs"]
                    for sub in resource.get("subresources", ()):
                        assert told.pop(f"{resource['resource']}/{sub['subresource']}") == sub["verbs"]
                assert not told
    assert discovery.group(registry, "no.such") is None
    assert discovery.resources(registry, "apps", "v9") is None
