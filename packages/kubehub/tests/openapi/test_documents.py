"""OpenAPI documents: complete, with what kubectl reads, and custom resources as by kube-apiserver."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kubehub import builtin
from kubehub.openapi import documents
from kubehub.resource import Document, Resource, Subresource
from kubehub.schema import parse

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
CRON_TAB = "com.example.stable.v1.CronTab"
SCHEMA: Document = {
    "type": "object",
    "description": "A cron tab.",
    "required": ["spec"],
    "properties": {
        "apiVersion": {"type": "string", "description": "Ours."},
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [{"rule": "self.replicas > 0"}],
            "properties": {
                "replicas": {"type": "integer", "format": "int32", "minimum": 1, "default": 1},
                "port": {"x-kubernetes-int-or-string": True},
                "maybe": {"type": "string", "nullable": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "items": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["a"],
                    "items": {"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": True}}},
                },
                "one": {
                    "type": "object",
                    "oneOf": [{"required": ["a"]}],
                    "additionalProperties": {"type": "string"},
                },
            },
        },
    },
}
CUSTOM = Resource(
    group="stable.example.com",
    version="v1",
    kind="CronTab",
    plural="crontabs",
    list_kind="CronTabList",
    namespaced=True,
    custom=True,
    node=parse(SCHEMA),
    subresources={
        "status": Subresource(name="status", verbs=("get", "patch", "update")),
        "scale": Subresource(
            name="scale", verbs=("get", "patch", "update"), kind="Scale", group="autoscaling", version="v1"
        ),
    },
)
EVERYTHING = (*builtin.resources(), CUSTOM)
VERSIONS = sorted({(resource.group, resource.version) for resource in EVERYTHING})


def published(group: str, version: str) -> Document:
    return documents.document(group, version, EVERYTHING)


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for child in value.values():
            yield from references(child)
    elif isinstance(value, list):
        for child in value:
            yield from references(child)


@pytest.mark.parametrize(("group", "version"), VERSIONS)
def test_openapi_documents_have_no_dangling_references(group: str, version: str) -> None:
    document = published(group, version)
    schemas = document["components"]["schemas"]
    assert set(references(document)) == {f"#/components/schemas/{name}" for name in schemas}
    assert list(schemas) == sorted(schemas)
    kinds = {
        (kind["group"], kind["version"], kind["kind"])
        for schema in schemas.values()
        for kind in schema.get("x-kubernetes-group-version-kind", ())
    }
    identities = []
    for resource in EVERYTHING:
        if (resource.group, resource.version) == (group, version):
            assert (group, version, resource.kind) in kinds
            assert "list" not in resource.verbs or (group, version, resource.list_kind) in kinds
    for item in document["paths"].values():
        for method, operation in item.items():
            if method != "parameters":
                identities.append(operation["operationId"])
                assert operation["responses"]["401"]
    assert len(set(identities)) == len(identities)


def test_openapi_documents_have_what_kubectl_reads() -> None:
    paths = published("", "v1")["paths"]
    patch = paths["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"]
    assert patch["operationId"] == "patchCoreV1NamespacedConfigMap"
    assert patch["x-kubernetes-action"] == "patch"
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "kind": "ConfigMap", "version": "v1"}
    assert {parameter["name"] for parameter in patch["parameters"]} == {
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
    }
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    everywhere = paths["/api/v1/configmaps"]["get"]
    assert everywhere["operationId"] == "listCoreV1ConfigMapForAllNamespaces"
    assert everywhere["responses"]["200"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/io.k8s.api.core.v1.ConfigMapList"
    }
    assert set(paths["/api/v1/namespaces"]) == {"get", "post", "parameters"}
    evict = paths["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]["post"]
    assert evict["x-kubernetes-group-version-kind"]["kind"] == "Eviction"
    assert evict["operationId"] == "createCoreV1NamespacedPodEviction"
    roles = published("rbac.authorization.k8s.io", "v1")["paths"]
    gone = roles["/apis/rbac.authorization.k8s.io/v1/clusterroles"]["delete"]
    assert gone["operationId"] == "deleteRbacAuthorizationV1CollectionClusterRole"
    assert gone["tags"] == ["rbacAuthorization_v1"]


def test_schemas_of_built_in_types() -> None:
    schemas = published("", "v1")["components"]["schemas"]
    port = schemas["io.k8s.api.core.v1.ContainerPort"]
    assert port["required"] == ["containerPort"]
    assert port["properties"]["containerPort"] == {"type": "integer", "format": "int32", "default": 0}
    assert port["properties"]["protocol"] == {
        "type": "string",
        "enum": ["SCTP", "TCP", "UDP"],
        "default": "TCP",
    }
    container = schemas["io.k8s.api.core.v1.Container"]["properties"]
    assert container["ports"] == {
        "type": "array",
        "items": {
            "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.ContainerPort"}],
            "default": {},
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
        "x-kubernetes-patch-merge-key": "containerPort",
        "x-kubernetes-patch-strategy": "merge",
    }
    assert schemas["io.k8s.api.core.v1.Secret"]["properties"]["data"] == {
        "type": "object",
        "additionalProperties": {"type": "string", "format": "byte"},
    }
    assert schemas["io.k8s.api.core.v1.PersistentVolumeSpec"]["properties"]["claimRef"] == {
        "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.ObjectReference"}],
        "x-kubernetes-map-type": "granular",
    }
    assert schemas["io.k8s.api.core.v1.Pod"]["description"]
    assert "io.k8s.api.core.v1.VolumeSource" not in schemas
    options = schemas[f"{META}.DeleteOptions"]["x-kubernetes-group-version-kind"]
    assert options == [{"group": "", "kind": "DeleteOptions", "version": "v1"}]


def test_openapi_schema_of_custom_resource_is_completed() -> None:
    document = published("stable.example.com", "v1")
    schemas = document["components"]["schemas"]
    metadata = {"allOf": [{"$ref": f"#/components/schemas/{META}.ObjectMeta"}]}
    either = [{"type": "integer"}, {"type": "string"}]
    spec = SCHEMA["properties"]["spec"]
    fields = spec["properties"]
    assert schemas[CRON_TAB] == SCHEMA | {
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": metadata,
            "spec": spec
            | {
                "properties": fields
                | {
                    "port": fields["port"] | {"anyOf": either},
                    "template": fields["template"]
                    | {
                        "properties": {
                            "apiVersion": {"type": "string"},
                            "kind": {"type": "string"},
                            "metadata": metadata,
                        },
                        "required": ["kind", "apiVersion"],
                    },
                    "items": fields["items"]
                    | {
                        "items": {
                            "type": "object",
                            "properties": {"a": {"x-kubernetes-int-or-string": True, "anyOf": either}},
                        }
                    },
                }
            },
        },
        "x-kubernetes-group-version-kind": [
            {"group": "stable.example.com", "kind": "CronTab", "version": "v1"}
        ],
    }
    assert SCHEMA["properties"].keys() == {"apiVersion", "spec"}, "the definition itself stays as it was"
    assert schemas[f"{CRON_TAB}List"]["properties"]["items"]["items"] == {
        "$ref": f"#/components/schemas/{CRON_TAB}"
    }
    one = document["paths"]["/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}"]
    assert "application/strategic-merge-patch+json" not in one["patch"]["requestBody"]["content"]
    assert one["get"]["operationId"] == "readStableExampleComV1NamespacedCronTab"
    scale = document["paths"]["/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}/scale"][
        "put"
    ]
    assert scale["requestBody"]["content"]["*/*"]["schema"]["$ref"].endswith(
        "io.k8s.api.autoscaling.v1.Scale"
    )
    assert scale["x-kubernetes-group-version-kind"]["kind"] == "CronTab"


def test_default_that_looks_like_a_reference_is_not_resolved() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "object", "default": {"$ref": "elsewhere"}}}}
    document = documents.document(CUSTOM.group, "v1", [replace(CUSTOM, node=parse(schema))])
    assert document["components"]["schemas"][CRON_TAB]["properties"]["a"]["default"] == {"$ref": "elsewhere"}


def test_openapi_index_has_a_content_hash_per_document() -> None:
    paths = documents.index(EVERYTHING)["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/stable.example.com/v1"} <= paths.keys()
    assert len(paths) == len(VERSIONS)
    url, _, digest = paths["apis/apps/v1"]["serverRelativeURL"].partition("?hash=")
    assert (url, len(digest)) == ("/openapi/v3/apis/apps/v1", 128)
    assert documents.index(EVERYTHING)["paths"] == paths
    changes: list[Resource] = [
        replace(CUSTOM, node=parse(SCHEMA | {"description": "Another."})),
        replace(CUSTOM, subresources={}),
        replace(CUSTOM, verbs=("get",)),
        replace(CUSTOM, namespaced=False),
    ]
    hashes = {
        documents.index((*builtin.resources(), resource))["paths"]["apis/stable.example.com/v1"][
            "serverRelativeURL"
        ]
        for resource in (CUSTOM, *changes)
    }
    assert len(hashes) == len(changes) + 1


def test_openapi_v2_drops_what_it_cannot_express() -> None:
    document = documents.swagger(EVERYTHING)
    definitions = document["definitions"]
    assert document["swagger"] == "2.0"
    assert set(references(document)) == {f"#/definitions/{name}" for name in definitions}
    assert definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] == {"type": "string"}
    assert definitions["io.k8s.api.core.v1.Namespace"]["properties"]["spec"] == {
        "$ref": "#/definitions/io.k8s.api.core.v1.NamespaceSpec"
    }
    fields = definitions[CRON_TAB]["properties"]["spec"]["properties"]
    assert fields["replicas"] == {"type": "integer", "format": "int32", "minimum": 1}
    assert fields["port"] == {"x-kubernetes-int-or-string": True}
    assert fields["maybe"] == {}
    assert fields["free"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert fields["one"] == {"type": "object", "additionalProperties": {"type": "string"}}
    put = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["put"]
    assert put["parameters"][0] == {
        "name": "body",
        "in": "body",
        "required": True,
        "schema": {"$ref": "#/definitions/io.k8s.api.apps.v1.Deployment"},
    }
    assert {"name": "fieldValidation", "in": "query", "type": "string", "uniqueItems": True} in put[
        "parameters"
    ]
    whole = replace(CUSTOM, node=parse({"type": "object", "x-kubernetes-preserve-unknown-fields": True}))
    assert documents.swagger((whole,))["definitions"][CRON_TAB].keys() == {
        "type",
        "x-kubernetes-group-version-kind",
    }
