"""Schemas, operations, names and columns of built-in kinds equal those of a real kube-apiserver.

The field tables are of one release; with another release, this test names every changed field.
"""

import json
import ssl
import urllib.request
from typing import Any

import pytest

from kubehub import builtin
from kubehub.builtin.canonical import Malformed, canonical
from kubehub.openapi import documents
from kubehub.resource import Document, Resource, Subresource
from kubehub.schema import parse
from rigs.kubernetes import API_SERVER, RealHub
from rigs.processes import ready

VERSIONS = sorted({(resource.group, resource.version) for resource in builtin.resources()})
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
# Intended differences: descriptions, and fields that no client reads.
LEFT_OUT = frozenset({"x-kubernetes-unions"})
NOT_SERVED = {
    ("", "nodes"): {"proxy"},
    ("", "services"): {"proxy"},
    ("", "pods"): {"attach", "ephemeralcontainers", "exec", "log", "portforward", "proxy", "resize"},
}
TOLD = ("operationId", "x-kubernetes-action", "x-kubernetes-group-version-kind", "tags")
GROUP = "openapi-reference.fairway.dev"
DEFINITION: Document = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"crontabs.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "crontabs", "kind": "CronTab", "listKind": "CronTabList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "apiVersion": {"type": "string", "maxLength": 5},
                            "spec": {
                                "type": "object",
                                "required": ["replicas"],
                                "x-kubernetes-validations": [{"rule": "self.replicas > 0"}],
                                "properties": {
                                    "replicas": {"type": "integer", "minimum": 1, "default": 1},
                                    "port": {"x-kubernetes-int-or-string": True},
                                    "free": {"x-kubernetes-preserve-unknown-fields": True},
                                    "maybe": {"type": "string", "nullable": True},
                                    "template": {
                                        "type": "object",
                                        "x-kubernetes-embedded-resource": True,
                                        "x-kubernetes-preserve-unknown-fields": True,
                                    },
                                    "items": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["a"],
                                        "items": {
                                            "type": "object",
                                            "required": ["a"],
                                            "properties": {"a": {"type": "string"}},
                                        },
                                    },
                                    "one": {
                                        "type": "object",
                                        "x-kubernetes-map-type": "atomic",
                                        "properties": {"a": {"type": "string"}},
                                        "oneOf": [{"required": ["a"]}],
                                    },
                                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                                },
                            },
                            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                        },
                    }
                },
            }
        ],
    },
}


def ask(hub: RealHub, path: str, *, accept: str = "application/json", body: Document | None = None) -> Any:
    request = urllib.request.Request(
        hub.url + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {hub.token}",
            "Accept": accept,
            "Content-Type": "application/json",
        },
    )
    try:
        with urllib.request.urlopen(
            request, context=ssl.create_default_context(cafile=hub.ca_file)
        ) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refusal:
        return json.load(refusal)


def path_of(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def bare(value: Any) -> Any:
    """Remove descriptions, the order of required fields, and the wrapping that a description causes."""
    if isinstance(value, list):
        return [bare(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {
        key: sorted(content) if key == "required" and isinstance(content, list) else bare(content)
        for key, content in value.items()
        if key not in LEFT_OUT and not (key == "description" and isinstance(content, str))
    }
    return made["allOf"][0] if made.keys() == {"allOf"} and len(made["allOf"]) == 1 else made


def bare_schemas(document: Document) -> Document:
    """Kinds of every group name the groups that know them, of which a real one has more."""
    schemas = bare(document["components"]["schemas"])
    schemas["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"] = None
    return dict(schemas)


@pytest.mark.parametrize(("group", "version"), VERSIONS)
def test_openapi_schemas_match_the_real_hub(real_hub: RealHub, group: str, version: str) -> None:
    theirs = bare_schemas(ask(real_hub, f"/openapi/v3/{path_of(group, version)}"))
    ours = bare_schemas(documents.document(group, version, builtin.resources()))
    assert ours == {name: theirs.get(name) for name in ours}


@pytest.mark.parametrize(("group", "version"), VERSIONS)
def test_openapi_operations_match_the_real_hub(real_hub: RealHub, group: str, version: str) -> None:
    theirs = ask(real_hub, f"/openapi/v3/{path_of(group, version)}")["paths"]
    for path, item in documents.document(group, version, builtin.resources())["paths"].items():
        for method in item.keys() - {"parameters"}:
            ours = {key: item[method].get(key) for key in TOLD}
            assert ours == {key: theirs[path][method].get(key) for key in TOLD}
            assert item[method]["responses"].keys() == theirs[path][method]["responses"].keys()
            known = {parameter["name"] for parameter in item[method].get("parameters", ())}
            assert known <= {
                parameter["name"]
                for parameter in [
                    *theirs[path][method].get("parameters", ()),
                    *theirs[path].get("parameters", ()),
                ]
            }


async def test_openapi_of_custom_resources_matches_the_real_hub(real_hub: RealHub) -> None:
    created = ask(real_hub, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=DEFINITION)
    assert created["kind"] == "CustomResourceDefinition", created
    where = f"/openapi/v3/apis/{GROUP}/v1"
    tls = ssl.create_default_context(cafile=real_hub.ca_file)
    await ready(real_hub.url + where, real_hub.processes[API_SERVER], tls=tls, token=real_hub.token)
    theirs = ask(real_hub, where)
    version = DEFINITION["spec"]["versions"][0]
    verbs = ("get", "patch", "update")
    resource = Resource(
        group=GROUP,
        version="v1",
        kind="CronTab",
        plural="crontabs",
        list_kind="CronTabList",
        namespaced=True,
        custom=True,
        node=parse(version["schema"]["openAPIV3Schema"]),
        subresources={
            "status": Subresource(name="status", verbs=verbs),
            "scale": Subresource(name="scale", verbs=verbs, kind="Scale", group="autoscaling", version="v1"),
        },
    )
    ours = documents.document(GROUP, "v1", [resource])
    schemas = bare_schemas(ours)
    assert bare_schemas(theirs) == {name: schemas.get(name) for name in bare_schemas(theirs)}
    for path, item in theirs["paths"].items():
        for method in item.keys() - {"parameters"}:
            for key in TOLD:
                assert ours["paths"][path][method][key] == item[method][key]


def discovered(hub: RealHub) -> dict[tuple[str, str, str], Any]:
    return {
        (group["metadata"].get("name", ""), version["version"], resource["resource"]): resource
        for root in ("/api", "/apis")
        for group in ask(hub, root, accept=DISCOVERY)["items"]
        for version in group["versions"]
        for resource in version["resources"]
    }


def test_discovery_matches_the_real_hub(real_hub: RealHub) -> None:
    theirs = discovered(real_hub)
    for resource in builtin.resources():
        published = theirs[resource.group, resource.version, resource.plural]
        assert published["responseKind"]["kind"] == resource.kind
        assert published["scope"] == ("Namespaced" if resource.namespaced else "Cluster")
        assert published["singularResource"] == resource.singular
        assert tuple(published.get("shortNames", ())) == resource.short_names
        assert tuple(published.get("categories", ())) == resource.categories
        assert sorted(published["verbs"]) == sorted(resource.verbs)
        subresources = {
            subresource["subresource"]: subresource for subresource in published.get("subresources", ())
        }
        for name in NOT_SERVED.get((resource.group, resource.plural), ()):
            del subresources[name]
        assert {name: sorted(subresource["verbs"]) for name, subresource in subresources.items()} == {
            name: sorted(sub.verbs) for name, sub in resource.subresources.items()
        }
        assert {name: subresource["responseKind"]["kind"] for name, subresource in subresources.items()} == {
            name: sub.kind or resource.kind for name, sub in resource.subresources.items()
        }


LISTED = [resource for resource in builtin.resources() if "list" in resource.verbs]


@pytest.mark.parametrize("resource", LISTED, ids=lambda resource: resource.key)
def test_printer_columns_match_the_real_hub(real_hub: RealHub, resource: Resource) -> None:
    path = f"/{path_of(resource.group, resource.version)}/{resource.plural}?limit=1"
    fields = ("name", "type", "format", "priority")
    theirs = [
        {key: column[key] for key in fields}
        for column in ask(real_hub, path, accept=TABLE)["columnDefinitions"]
    ]
    assert [{key: getattr(column, key) for key in fields} for column in resource.columns] == theirs


@pytest.mark.parametrize("resource", LISTED, ids=lambda resource: resource.key)
def test_field_selectors_match_the_real_hub(real_hub: RealHub, resource: Resource) -> None:
    for name in resource.selectable:
        path = f"/{path_of(resource.group, resource.version)}/{resource.plural}?fieldSelector={name}%3Dx"
        assert ask(real_hub, path)["kind"] == resource.list_kind, name


@pytest.mark.parametrize(
    "document",
    [
        {"metadata": {"name": 5}},
        {"metadata": {"name": "a", "creationTimestamp": "2020-02-30T00:00:00Z"}},
        {"spec": {"containers": "x"}},
        {"spec": {"priority": 1.5}},
        {"spec": {"volumes": [{"configMap": 5}]}},
        {"spec": {"containers": [{"resources": {"limits": {"cpu": "5mm"}}}]}},
        {"spec": {"containers": [{"ports": [{"protocol": 1}]}]}},
    ],
)
def test_malformed_objects_get_the_real_hub_message(real_hub: RealHub, document: Document) -> None:
    theirs = ask(
        real_hub,
        "/api/v1/namespaces/default/pods?dryRun=All",
        body={"apiVersion": "v1", "kind": "Pod"} | document,
    )
    with pytest.raises(Malformed) as ours:
        canonical(builtin.kind("", "v1", "Pod"), document)
    assert theirs["message"] == f'Pod in version "v1" cannot be handled as a Pod: {ours.value}'
