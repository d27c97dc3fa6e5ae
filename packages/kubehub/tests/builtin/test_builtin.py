"""The field tables and the catalog are complete and consistent."""

from pathlib import Path

import pytest

from every import every
from kubehub import builtin
from kubehub.builtin.field_tables import Library
from kubehub.builtin.shapes import Type
from kubehub.resource import ALL_VERBS, Resource
from kubehub.schema import ARRAY, ATOMIC, GRANULAR, MAP, OBJECT, Node

CORE = "io.k8s.api.core.v1"
FOLDER = Path(builtin.__file__).parent
LIBRARY = Library(FOLDER)
TABLES = [LIBRARY.table(path.stem) for path in sorted(FOLDER.glob("*.fields"))]
TYPES = [made for table in TABLES for made in table.types.values()]
RESOURCES = {(resource.group, resource.plural): resource for resource in builtin.resources()}


def field(name: str, *path: str) -> Node:
    node = builtin.type_of(name).node
    for part in path:
        child = node.items if part == "[]" else node.child(part)
        assert child is not None, part
        node = child
    return node


@every("made", TYPES, ids=lambda made: made.full_name)
def test_builtin_types_resolve_completely(made: Type) -> None:
    assert made.node.name == made.full_name
    assert set(made.node.required) <= set(made.fields)
    if made.union:
        assert made.node.preserve_unknown
        assert not made.node.properties
    else:
        assert made.node.type == OBJECT
        assert {name: numbered.node for name, numbered in made.fields.items()} == made.node.properties
    for number, numbered in made.numbers.items():
        assert numbered.number == number
        assert numbered.name == "" or made.fields[numbered.name] is numbered
    if made.kind:
        assert made.description.endswith(".")
        assert list(made.fields)[:2] == ["kind", "apiVersion"]


def test_only_table_types_have_fields_without_a_protobuf_number() -> None:
    silent = {
        made.name
        for made in TYPES
        if any(
            not declared.number
            for name, declared in made.fields.items()
            if name not in ("kind", "apiVersion")
        )
    }
    assert silent == {"Table", "TableColumnDefinition", "TableRow", "TableRowCondition"}


def test_lists_and_maps_merge_as_the_reference_says() -> None:
    ports = field(f"{CORE}.Container", "ports")
    assert (ports.type, ports.list_type, ports.list_keys) == (ARRAY, MAP, ("containerPort", "protocol"))
    assert (ports.merge_key, ports.strategies) == ("containerPort", ("merge",))
    protocol = field(f"{CORE}.Container", "ports", "[]", "protocol")
    assert (protocol.has_default, protocol.default) == (True, "TCP")
    assert protocol.raw["enum"] == ["SCTP", "TCP", "UDP"]
    owners = field(f"{CORE}.Pod", "metadata", "ownerReferences")
    assert (owners.list_keys, owners.merge_key) == (("uid",), "uid")
    assert field(f"{CORE}.Pod", "metadata", "ownerReferences", "[]").map_type == ATOMIC
    finalizers = field(f"{CORE}.Pod", "metadata", "finalizers")
    assert (finalizers.list_type, finalizers.strategies, finalizers.merge_key) == ("set", ("merge",), "")
    assert field(f"{CORE}.PodSpec", "nodeSelector").map_type == ATOMIC
    volumes = field(f"{CORE}.PodSpec", "volumes")
    assert (volumes.merge_key, volumes.strategies) == ("name", ("merge", "retainKeys"))
    assert field(f"{CORE}.PodSpec", "tolerations").list_type == ATOMIC
    conditions = field("io.k8s.api.batch.v1.JobStatus", "conditions")
    assert (conditions.list_type, conditions.list_keys, conditions.merge_key) == (ATOMIC, (), "type")


def test_field_options_override_the_type() -> None:
    strategy = field("io.k8s.api.apps.v1.DeploymentSpec", "strategy")
    assert strategy.strategies == ("retainKeys",)
    assert strategy.properties is builtin.type_of("io.k8s.api.apps.v1.DeploymentStrategy").node.properties
    claim = field(f"{CORE}.PersistentVolumeSpec", "claimRef")
    assert (claim.map_type, builtin.type_of(f"{CORE}.ObjectReference").node.map_type) == (GRANULAR, ATOMIC)


def test_fields_of_embedded_types_lie_flat() -> None:
    volume = builtin.type_of(f"{CORE}.Volume")
    assert "configMap" in volume.node.properties
    assert "configMap" not in {numbered.name for numbered in volume.numbers.values()}
    assert list(volume.fields)[:2] == ["name", "hostPath"]
    assert "command" in builtin.type_of(f"{CORE}.EphemeralContainer").node.properties


def test_recursive_builtin_schema_is_cyclic() -> None:
    schema = builtin.type_of("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").node
    assert schema.properties["properties"].additional is schema
    assert schema.properties["not"] is schema


def test_list_types_of_builtin_kinds_are_derived() -> None:
    pods = builtin.type_of(f"{CORE}.PodList").node
    assert pods.required == ("items",)
    assert pods.properties["items"].items is builtin.type_of(f"{CORE}.Pod").node
    assert (
        pods.properties["metadata"] is builtin.type_of("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta").node
    )
    assert builtin.type_of(f"{CORE}.PodList") is builtin.type_of(f"{CORE}.PodList")
    assert builtin.kind("apps", "v1", "DeploymentList").group == "apps"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Pod",
        f"{CORE}.Nope",
        f"{CORE}.NopeList",
        f"{CORE}.PodSpecList",
        "io.k8s.api.nope.v1.Pod",
        "io.k8s.api.core.v2.Pod",
    ],
)
def test_unknown_builtin_type_raises_key_error(name: str) -> None:
    with pytest.raises(KeyError):
        builtin.type_of(name)


def test_builtin_kinds_are_found_by_group() -> None:
    assert builtin.kind("", "v1", "Pod").full_name == f"{CORE}.Pod"
    assert builtin.kind("rbac.authorization.k8s.io", "v1", "Role").name == "Role"
    for group in ("", "apps", "example.com"):
        assert builtin.kind(group, "v1", "DeleteOptions").full_name.endswith("meta.v1.DeleteOptions")


@pytest.mark.parametrize(
    ("group", "version", "name"),
    [
        ("apps.example.com", "v1", "Deployment"),
        ("apps", "v1beta1", "Deployment"),
        ("", "v1", "PodSpec"),
        ("", "v1", "ObjectMeta"),
        ("nope", "v1", "Pod"),
        ("\0", "v1", "Pod"),
        ("../core", "v1", "Pod"),
    ],
)
def test_unknown_builtin_kind_raises_key_error(group: str, version: str, name: str) -> None:
    with pytest.raises(KeyError):
        builtin.kind(group, version, name)


@every("resource", builtin.resources(), ids=lambda resource: resource.key)
def test_builtin_resources_are_complete(resource: Resource) -> None:
    made = builtin.kind(resource.group, resource.version, resource.kind)
    assert resource.node is made.node
    assert resource.singular == resource.kind.lower()
    assert resource.list_kind == f"{resource.kind}List"
    assert set(resource.verbs) <= set(ALL_VERBS)
    assert not resource.custom
    assert ("list" in resource.verbs) == bool(resource.columns)
    assert ("scale" in resource.subresources) == (resource.scale is not None)
    for sub in resource.subresources.values():
        assert set(sub.verbs) <= {"create", "get", "patch", "update"}
        assert bool(sub.kind) == (sub.node is not None)
        assert ("status" in resource.node.properties) or sub.name != "status"
    for column in resource.columns:
        assert column.description.endswith(".")
        assert column.type in ("string", "integer", "boolean", "date")
        assert column.priority in (0, 1)
    assert len({column.name for column in resource.columns}) == len(resource.columns)


def test_builtin_resource_names_are_unique() -> None:
    assert len(RESOURCES) == len(builtin.resources())
    short = [
        name
        for resource in builtin.resources()
        for name in resource.short_names
        if resource.group != "events.k8s.io"
    ]
    assert len(set(short)) == len(short)


def test_builtin_resources_include_those_of_kopf_and_kubectl() -> None:
    assert RESOURCES["", "namespaces"].verbs == (
        "create",
        "delete",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    )
    assert set(RESOURCES["", "namespaces"].subresources) == {"finalize", "status"}
    assert RESOURCES["apiextensions.k8s.io", "customresourcedefinitions"].short_names == ("crd", "crds")
    pods = RESOURCES["", "pods"]
    assert (pods.short_names, pods.categories) == (("po",), ("all",))
    assert [(column.name, column.priority) for column in pods.columns] == [
        ("Name", 0),
        ("Ready", 0),
        ("Status", 0),
        ("Restarts", 0),
        ("Age", 0),
        ("IP", 1),
        ("Node", 1),
        ("Nominated Node", 1),
        ("Readiness Gates", 1),
    ]
    assert pods.columns[0].format == "name"
    assert "spec.nodeName" in pods.selectable
    eviction = pods.subresources["eviction"]
    assert (eviction.group, eviction.version, eviction.kind) == ("policy", "v1", "Eviction")
    token = RESOURCES["", "serviceaccounts"].subresources["token"]
    assert (token.verbs, token.kind, token.group) == (("create",), "TokenRequest", "authentication.k8s.io")
    assert RESOURCES["authorization.k8s.io", "selfsubjectaccessreviews"].verbs == ("create",)
    columns = {column.name: column.type for column in RESOURCES["apps", "daemonsets"].columns}
    assert (columns["Up-to-date"], columns["Desired"]) == ("integer", "integer")
    columns = {column.name: column.type for column in RESOURCES["apps", "deployments"].columns}
    assert (columns["Up-to-date"], columns["Available"]) == ("string", "string")
    created = RESOURCES["rbac.authorization.k8s.io", "roles"].columns[1]
    assert (created.name, created.type) == ("Created At", "date")
