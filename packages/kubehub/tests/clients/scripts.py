"""Requests that are sent to every hub."""

from typing import Any

from clients.exchanges import APPLY, JSON, MERGE, PATCH, STRATEGIC, TABLE, Call, Script

GROUP = "suite.fairway.dev"

WIDGETS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "shortNames": ["wg"],
            "categories": ["all", "toys"],
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "string", "jsonPath": ".spec.size"},
                    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
                    {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "selectableFields": [{"jsonPath": ".spec.size"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "x-kubernetes-validations": [
                                    {
                                        "rule": "!has(self.replicas) || self.size != 'none' || self.replicas == 0",
                                        "message": "nothing has no replicas",
                                    },
                                    {
                                        "rule": "!has(oldSelf.locked) || has(self.locked) && self.locked",
                                        "message": "locked is for ever",
                                        "fieldPath": ".locked",
                                        "reason": "FieldValueForbidden",
                                    },
                                ],
                                "properties": {
                                    "size": {"type": "string", "enum": ["none", "small", "large"]},
                                    "replicas": {
                                        "type": "integer",
                                        "minimum": 0,
                                        "maximum": 10,
                                        "default": 1,
                                    },
                                    "colour": {"type": "string", "maxLength": 10, "pattern": "^[a-z]*$"},
                                    "locked": {"type": "boolean"},
                                    "port": {"x-kubernetes-int-or-string": True},
                                    "when": {"type": "string", "format": "date-time"},
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "atomic": {
                                        "type": "object",
                                        "x-kubernetes-map-type": "atomic",
                                        "additionalProperties": {"type": "string"},
                                    },
                                    "tags": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "set",
                                        "items": {"type": "string"},
                                    },
                                    "words": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
                                    "parts": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "count": {"type": "integer", "default": 1},
                                                "note": {"type": "string"},
                                            },
                                        },
                                    },
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {
                                    "replicas": {"type": "integer"},
                                    "selector": {"type": "string"},
                                    "phase": {"type": "string"},
                                },
                            },
                        },
                    }
                },
            },
            {
                "name": "v1beta1",
                "served": True,
                "storage": False,
                "deprecated": True,
                "deprecationWarning": "suite.fairway.dev/v1beta1 Widget is old; use v1",
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            },
        ],
    },
}

NS = "/api/v1/namespaces/$ns"
MAPS = f"{NS}/configmaps"
W = f"/apis/{GROUP}/v1/namespaces/$ns/widgets"
BETA = f"/apis/{GROUP}/v1beta1/namespaces/$ns/widgets"
APPS = "/apis/apps/v1/namespaces/$ns"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/$ns/leases"
EVENTS = "/apis/events.k8s.io/v1/namespaces/$ns/events"


def post(path: str, body: Any, *, keep: str = "", accept: str = JSON) -> Call:
    return Call(method="POST", path=path, body=body, keep=keep, accept=accept)


def put(path: str, body: Any, *, keep: str = "") -> Call:
    return Call(method="PUT", path=path, body=body, keep=keep)


def get(path: str, *, accept: str = JSON, keep: str = "") -> Call:
    return Call(method="GET", path=path, accept=accept, keep=keep)


def delete(path: str, body: Any = None) -> Call:
    return Call(method="DELETE", path=path, body=body)


def patch(path: str, body: Any, kind: str = MERGE, *, keep: str = "") -> Call:
    return Call(method="PATCH", path=path, body=body, type=kind, keep=keep)


def apply(path: str, body: Any, manager: str, *, force: bool = False) -> Call:
    query = f"fieldManager={manager}" + ("&force=true" if force else "")
    return patch(f"{path}{'&' if '?' in path else '?'}{query}", body, APPLY)


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def widget(name: str, *, version: str = "v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": "small", **spec},
    }


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}], **spec},
    }


def deployment(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
            },
            **spec,
        },
    }


def lease(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}


def event(name: str, namespace: str = "$ns", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {"kind": "ConfigMap", "name": "a", "namespace": namespace},
        "reason": "Tried",
        "message": "it was tried",
        "type": "Normal",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
        "source": {"component": "suite"},
        **more,
    }


NAMES = ["", "A", "-a", "a_b", "a.b", "a" * 254, "a/b", "ä"]
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "r"},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "b"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
    "subjects": [{"kind": "User", "name": "bob"}],
}

SCRIPTS = [
    Script(
        name="config maps live",
        calls=[
            post(MAPS, config("a", x="1")),
            post(MAPS, config("a", x="1")),
            get(f"{MAPS}/a"),
            get(f"{MAPS}/nope"),
            put(f"{MAPS}/a", config("a", x="2")),
            put(f"{MAPS}/a", config("a", x="2")),
            put(f"{MAPS}/a", {**config("a", x="3"), "metadata": {"name": "a", "resourceVersion": "1"}}),
            put(
                f"{MAPS}/a",
                {
                    **config("a", x="3"),
                    "metadata": {"name": "a", "uid": "00000000-0000-0000-0000-000000000000"},
                },
            ),
            put(f"{MAPS}/b", config("a")),
            put(f"{MAPS}/b", config("b")),
            get(MAPS),
            delete(f"{MAPS}/a"),
            delete(f"{MAPS}/a"),
        ],
    ),
    Script(
        name="creating what can't be",
        calls=[
            *[post(MAPS, config(name)) for name in NAMES],
            post(MAPS, {"metadata": {"name": "a", "resourceVersion": "5"}}),
            post(MAPS, {"metadata": {"name": "a", "namespace": "elsewhere"}}),
            post("/api/v1/namespaces/nowhere/configmaps", config("a")),
            post(MAPS, {"kind": "Foo", "apiVersion": "v1", "metadata": {"name": "a"}}),
            post(MAPS, {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}),
            post(MAPS, {"kind": "ConfigMap", "apiVersion": "v2", "metadata": {"name": "a"}}),
            post(MAPS, {"metadata": {}}),
            post(MAPS, {"metadata": {"name": "a"}, "data": {"a b": "1"}}),
            post(f"{MAPS}?fieldValidation=Strict", {"metadata": {"name": "a"}, "dat": {"a": "1"}}),
            post(f"{MAPS}?fieldValidation=Loud", {"metadata": {"name": "a"}}),
            post(f"{MAPS}?dryRun=Some", {"metadata": {"name": "a"}}),
            post(f"{MAPS}?dryRun=All", config("a", x="1")),
            get(f"{MAPS}/a"),
            post(MAPS, {"metadata": {"name": "a", "labels": {"a b": "c", "d": "e f"}}}),
            post(MAPS, {"metadata": {"name": "a", "annotations": {"a b": "c"}}}),
            post(MAPS, {"metadata": {"name": "a", "finalizers": ["nodomain"]}}),
            post(MAPS, {"metadata": {"name": "a", "ownerReferences": [{"kind": "Pod", "name": "p"}]}}),
            post(f"{MAPS}/a", config("a")),
            post("/api/v1/configmaps", config("a")),
            post("/api/v1/namespaces/$ns/nosuch", config("a")),
            post("/apis/no.such/v1/namespaces/$ns/things", config("a")),
        ],
    ),
    Script(
        name="names made up",
        calls=[
            post(MAPS, {"metadata": {"generateName": "generated-"}}),
            post(MAPS, {"metadata": {"generateName": "Generated-"}}),
        ],
    ),
    Script(
        name="immutable config maps and secrets",
        calls=[
            post(MAPS, {**config("a", x="1"), "immutable": True}),
            patch(f"{MAPS}/a", {"data": {"x": "2"}}),
            patch(f"{MAPS}/a", {"immutable": False}),
            post(f"{NS}/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}}),
            patch(f"{NS}/secrets/s", {"type": "other"}),
            post(f"{NS}/secrets", {"metadata": {"name": "t"}, "type": "kubernetes.io/tls"}),
            post(f"{NS}/secrets", {"metadata": {"name": "t"}, "data": {"a": "%%"}}),
        ],
    ),
    Script(
        name="patches",
        calls=[
            post(MAPS, config("a", x="1", y="2")),
            patch(f"{MAPS}/a", {"data": {"x": None, "z": "3"}}),
            patch(f"{MAPS}/a", [{"op": "add", "path": "/data/w", "value": "4"}], PATCH),
            patch(f"{MAPS}/a", [{"op": "test", "path": "/data/w", "value": "5"}], PATCH),
            patch(f"{MAPS}/a", [{"op": "remove", "path": "/data/none"}], PATCH),
            patch(f"{MAPS}/a", [{"op": "frob", "path": "/data/none"}], PATCH),
            patch(f"{MAPS}/a", {"not": "a list"}, PATCH),
            patch(f"{MAPS}/a", {"metadata": {"labels": {"l": "1"}}}, STRATEGIC),
            patch(f"{MAPS}/a", {"metadata": {"name": "b"}}),
            patch(f"{MAPS}/a", {"metadata": {"resourceVersion": "1"}}),
            patch(f"{MAPS}/a", {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}}),
            patch(f"{MAPS}/a", {"data": {"x": 1}}),
            patch(f"{MAPS}/nope", {"data": {"x": "1"}}),
            patch(f"{MAPS}/a", {"data": {}}, "application/foo"),
            patch(f"{MAPS}/a?force=true", {"data": {}}),
            patch(f"{MAPS}/a", {}),
            patch(f"{MAPS}/a?fieldValidation=Strict", {"dat": {"x": "1"}}),
        ],
    ),
    Script(
        name="json patches with more than they may have",
        calls=[
            post(MAPS, config("a", x="1")),
            patch(
                f"{MAPS}/a?fieldValidation=Strict",
                [{"op": "add", "path": "/data/y", "value": "2", "note": "why"}],
                PATCH,
            ),
            patch(
                f"{MAPS}/a?fieldValidation=Strict",
                [
                    {"op": "test", "path": "/data/x", "value": "1"},
                    {"op": "add", "path": "/dat", "value": {}, "Path": "/data", "b": 1, "a": 2},
                ],
                PATCH,
            ),
            patch(
                f"{MAPS}/a?fieldValidation=Ignore",
                [{"op": "add", "path": "/data/z", "value": "3", "note": "why"}],
                PATCH,
            ),
            patch(f"{MAPS}/a", [{"op": "add", "path": "/data/y", "value": "2", "note": "why"}], PATCH),
            get(f"{MAPS}/a"),
        ],
    ),
    Script(
        name="apply",
        calls=[
            apply(f"{MAPS}/a", config("a", x="1"), "one"),
            apply(f"{MAPS}/a", config("a", x="1"), "one"),
            apply(f"{MAPS}/a", config("a", x="2"), "two"),
            apply(f"{MAPS}/a", config("a", x="2", y="1"), "two", force=True),
            apply(f"{MAPS}/a", config("a"), "two"),
            patch(f"{MAPS}/a", {**config("a"), "metadata": {"name": "a", "managedFields": [{}]}}, APPLY),
            patch(f"{MAPS}/a", config("a"), APPLY),
            apply(f"{MAPS}/a", {"metadata": {"name": "a"}}, "one"),
            apply(f"{MAPS}/a", {"kind": "ConfigMap", "metadata": {"name": "a"}}, "one"),
            apply(f"{MAPS}/a", {**config("b")}, "one"),
            apply(
                f"{MAPS}/a",
                {**config("a"), "metadata": {"name": "a", "managedFields": [{"manager": "x"}]}},
                "one",
            ),
            apply(f"{MAPS}/a", {**config("a"), "nope": 1}, "one"),
            apply(f"{MAPS}/a", {**config("a"), "data": "text"}, "one"),
            get(f"{MAPS}/a"),
        ],
    ),
    Script(
        name="deletion",
        calls=[
            post(MAPS, {"metadata": {"name": "a", "finalizers": ["suite.fairway.dev/hold"]}}),
            delete(f"{MAPS}/a"),
            delete(f"{MAPS}/a"),
            patch(
                f"{MAPS}/a",
                {"metadata": {"finalizers": ["suite.fairway.dev/hold", "suite.fairway.dev/more"]}},
            ),
            patch(f"{MAPS}/a", {"metadata": {"finalizers": []}}),
            get(f"{MAPS}/a"),
            post(MAPS, config("b")),
            delete(f"{MAPS}/b", {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}),
            delete(f"{MAPS}/b", {"preconditions": {"resourceVersion": "1"}}),
            delete(f"{MAPS}/b", {"propagationPolicy": "Nope"}),
            delete(f"{MAPS}/b", {"propagationPolicy": "Orphan", "orphanDependents": True}),
            delete(f"{MAPS}/b?dryRun=All"),
            get(f"{MAPS}/b"),
            delete(f"{MAPS}/b", {"propagationPolicy": "Background"}),
            post(MAPS, {"metadata": {"name": "c", "labels": {"x": "1"}}}),
            post(MAPS, {"metadata": {"name": "d", "labels": {"x": "2"}}}),
            delete(f"{MAPS}?labelSelector=x%3D1"),
            get(f"{MAPS}?labelSelector=x"),
            delete("/api/v1/configmaps"),
        ],
    ),
    Script(
        name="lists",
        calls=[
            *[
                post(MAPS, {"metadata": {"name": f"m{i}", "labels": {"n": str(i), "odd": str(i % 2)}}})
                for i in range(5)
            ],
            get(MAPS),
            *[post(LEASES, lease(f"l{i}", holderIdentity=str(i))) for i in range(5)],
            get(f"{LEASES}?limit=2", keep="metadata.continue"),
            get(f"{LEASES}?limit=2&continue=$continue", keep="metadata.continue"),
            get(f"{LEASES}?limit=2&continue=$continue"),
            get(f"{LEASES}?limit=5"),
            get(f"{MAPS}?labelSelector=odd%3D1"),
            get(f"{MAPS}?labelSelector=n+in+(1,2),odd!%3D1"),
            get(f"{MAPS}?labelSelector=!n"),
            get(f"{MAPS}?labelSelector=n+notin+(1,2)"),
            get(f"{MAPS}?labelSelector=n%3E2"),
            get(f"{MAPS}?fieldSelector=metadata.name%3Dm3"),
            get(f"{MAPS}?fieldSelector=metadata.name!%3Dm3,metadata.namespace%3D$ns"),
            get(f"{MAPS}?labelSelector=a%3D%3D%3D"),
            get(f"{MAPS}?labelSelector=a+in+b"),
            get(f"{MAPS}?labelSelector=,"),
            get(f"{MAPS}?labelSelector=a,,b"),
            get(f"{MAPS}?labelSelector=a+b"),
            get(f"{MAPS}?labelSelector=-a%3Db"),
            get(f"{MAPS}?labelSelector=a%3D-b"),
            get(f"{MAPS}?fieldSelector=data.x%3D1"),
            get(f"{MAPS}?fieldSelector=nonsense"),
            get(f"{MAPS}?limit=x"),
            get(f"{MAPS}?resourceVersion=x"),
            get(f"{MAPS}?resourceVersionMatch=Exact"),
            get(f"{MAPS}?resourceVersionMatch=Nope&resourceVersion=1"),
            get(f"{MAPS}?resourceVersionMatch=Exact&resourceVersion=0"),
            get(f"{MAPS}?continue=abc&limit=2"),
            get(f"{MAPS}?sendInitialEvents=true"),
            get(f"{MAPS}?watch=true&sendInitialEvents=true&timeoutSeconds=1"),
            get(f"{MAPS}?watch=true&resourceVersionMatch=NotOlderThan&resourceVersion=1&timeoutSeconds=1"),
            get(MAPS, accept=TABLE),
            get(f"{MAPS}/m1", accept=TABLE),
            get(f"{MAPS}/m1", accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
            get(MAPS, accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
        ],
    ),
    Script(
        name="widgets live",
        calls=[
            post(W, widget("a", colour="red", port="http", free={"any": [1, {"thing": None}]})),
            get(f"{W}/a"),
            put(f"{W}/a", widget("a", colour="blue")),
            get(f"{W}/a", keep="metadata.resourceVersion"),
            put(
                f"{W}/a",
                {
                    **widget("a", colour="blue"),
                    "metadata": {"name": "a", "resourceVersion": "$resourceVersion"},
                },
            ),
            patch(f"{W}/a", {"spec": {"colour": "green"}, "status": {"phase": "Ignored"}}),
            patch(
                f"{W}/a/status",
                {
                    "spec": {"colour": "black"},
                    "status": {"phase": "Ready", "replicas": 1},
                    "metadata": {"labels": {"x": "y"}},
                },
            ),
            get(f"{W}/a/status"),
            get(f"{W}/a/scale"),
            patch(f"{W}/a/scale", {"spec": {"replicas": 3}}),
            patch(f"{W}/a/scale", {"spec": {"replicas": -1}}),
            patch(f"{W}/a/scale", {"spec": {"replicas": 11}}),
            get(f"{W}/a"),
            patch(f"{W}/a", {"spec": {"colour": "grey"}}, STRATEGIC),
            get(W, accept=TABLE),
            get(f"{BETA}/a"),
            get(f"{W}?fieldSelector=spec.size%3Dsmall"),
            get(f"{W}?fieldSelector=spec.colour%3Dred"),
            delete(f"{W}/a"),
        ],
    ),
    Script(
        name="widgets that can't be",
        calls=[
            post(W, {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a"}}),
            post(W, {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {}}),
            post(W, {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": None}),
            post(
                W, {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": "text"}
            ),
            post(W, widget("a", size="huge")),
            post(W, widget("a", replicas="many")),
            post(W, widget("a", replicas=1.5)),
            post(W, widget("a", replicas=11)),
            post(W, widget("a", replicas=-1)),
            post(W, widget("a", replicas=None)),
            post(W, widget("a", colour="far too long a colour")),
            post(W, widget("a", colour="RED")),
            post(W, widget("a", size="none", replicas=2)),
            post(W, widget("a", tags=["x", "x"])),
            post(W, widget("a", words=["1", "2", "3", "4"])),
            post(W, widget("a", words=["1", 2])),
            post(W, widget("a", parts=[{"name": "x"}, {"name": "x"}])),
            post(W, widget("a", parts=[{"count": 1}])),
            post(W, widget("a", parts="none")),
            post(W, widget("a", port=1.5)),
            post(W, widget("a", when="yesterday")),
            post(W, widget("a", colour="RED", replicas=12, size="huge")),
            post(f"{W}?fieldValidation=Strict", widget("a", shade="x", parts=[{"name": "p", "odd": 1}])),
            post(W, {**widget("a"), "apiVersion": f"{GROUP}/v2"}),
            post(W, {**widget("a"), "kind": "Gadget"}),
            post(W, widget("A")),
            post(W, {"metadata": {"name": "a"}, "spec": {"size": "small"}}),
            post(W, widget("l", locked=True)),
            patch(f"{W}/l", {"spec": {"locked": False}}),
            patch(f"{W}/l", {"spec": {"locked": None}}),
            patch(f"{W}/l", {"spec": {"size": "none"}}),
            patch(f"{W}/l", {"spec": None}),
        ],
    ),
    Script(
        name="widgets applied",
        calls=[
            apply(
                f"{W}/a",
                widget("a", tags=["x"], parts=[{"name": "p", "note": "1"}], atomic={"a": "1"}, words=["w"]),
                "one",
            ),
            apply(f"{W}/a", widget("a", tags=["y"], parts=[{"name": "q"}]), "two"),
            apply(f"{W}/a", widget("a", parts=[{"name": "p", "note": "2"}]), "two"),
            apply(f"{W}/a", widget("a", atomic={"b": "1"}, words=["v"]), "two"),
            apply(
                f"{W}/a",
                widget("a", parts=[{"name": "p", "note": "2"}], atomic={"b": "1"}),
                "two",
                force=True,
            ),
            apply(f"{W}/a", widget("a", tags=["z"]), "one"),
            apply(
                f"{W}/a/status",
                {
                    "apiVersion": f"{GROUP}/v1",
                    "kind": "Widget",
                    "metadata": {"name": "a"},
                    "status": {"phase": "Ready"},
                },
                "three",
            ),
            apply(f"{W}/a", {**widget("a"), "status": {"phase": "Other"}}, "two"),
            patch(f"{W}/a?fieldManager=four", {"spec": {"replicas": 4}}),
            apply(f"{W}/a", widget("a", replicas=5), "one"),
            apply(f"{W}/a", widget("a", shade="x"), "one"),
            apply(f"{W}/a", widget("a", replicas="x"), "one"),
            apply(f"{W}/a", widget("a", replicas=11), "one", force=True),
            apply(f"{BETA}/a", widget("a", version="v1beta1", colour="red"), "five"),
            get(f"{W}/a"),
        ],
    ),
    Script(
        name="pods",
        calls=[
            post(f"{NS}/pods", {**pod("a"), "spec": {}}),
            post(f"{NS}/pods", {**pod("a"), "spec": {"containers": [{"name": "x"}]}}),
            post(f"{NS}/pods", {**pod("a"), "spec": {"containers": [{"image": "x"}]}}),
            post(f"{NS}/pods/nope/binding", {"target": {"kind": "Node", "name": "n"}}),
        ],
    ),
    Script(
        name="deployments",
        calls=[
            post(f"{APPS}/deployments", deployment("a")),
            patch(
                f"{APPS}/deployments/a",
                {
                    "spec": {
                        "template": {
                            "spec": {
                                "containers": [
                                    {"name": "main", "env": [{"name": "A", "value": "1"}]},
                                    {"name": "side", "image": "side:1"},
                                ]
                            }
                        }
                    }
                },
                STRATEGIC,
            ),
            patch(
                f"{APPS}/deployments/a",
                {"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}},
                STRATEGIC,
            ),
            get(f"{APPS}/deployments/a/scale"),
            patch(f"{APPS}/deployments/a/scale", {"spec": {"replicas": 3}}),
            get(f"{APPS}/deployments/a"),
            patch(f"{APPS}/deployments/a", {"spec": {"selector": {"matchLabels": {"app": "b"}}}}),
            patch(f"{APPS}/deployments/a/status", {"status": {"replicas": 3, "readyReplicas": 2}}),
            get(f"{APPS}/deployments", accept=TABLE),
            post(f"{APPS}/deployments", {**deployment("b"), "spec": {}}),
            apply(f"{APPS}/deployments/c", deployment("c", replicas=2), "one"),
            apply(f"{APPS}/deployments/c", deployment("c", replicas=3), "two"),
            apply(
                f"{APPS}/deployments/c",
                {
                    **deployment("c"),
                    "spec": {
                        "template": {"spec": {"containers": [{"name": "main", "image": "other"}]}},
                        "selector": {"matchLabels": {"app": "c"}},
                    },
                },
                "two",
            ),
        ],
    ),
    Script(
        name="leases",
        calls=[
            post(
                LEASES,
                lease(
                    "l", holderIdentity="a", leaseDurationSeconds=15, renewTime="2026-01-01T00:00:00.000000Z"
                ),
            ),
            post(LEASES, lease("m", leaseDurationSeconds=0)),
            post(LEASES, lease("m", leaseTransitions=-1)),
            get(f"{LEASES}/l"),
            get(LEASES, accept=TABLE),
            put(f"{LEASES}/n", lease("n", holderIdentity="b")),
        ],
    ),
    Script(
        name="events",
        calls=[
            post(f"{NS}/events", event("e")),
            get(f"{NS}/events/e"),
            get(f"{EVENTS}/e"),
            get(f"{NS}/events?fieldSelector=involvedObject.name%3Da,reason%3DTried"),
            get(f"{NS}/events?fieldSelector=involvedObject.name%3Db"),
            post(f"{NS}/events", event("f", namespace="elsewhere")),
            post(
                EVENTS,
                {
                    "metadata": {"name": "g"},
                    "regarding": {"kind": "ConfigMap", "name": "a", "namespace": "$ns"},
                    "reason": "Did",
                    "note": "done",
                    "type": "Normal",
                    "eventTime": "2026-01-01T00:00:00.000000Z",
                    "reportingController": "suite.fairway.dev/x",
                    "reportingInstance": "i",
                    "action": "Do",
                },
            ),
            get(f"{NS}/events/g"),
            patch(f"{NS}/events/e", {"count": 2, "lastTimestamp": "2026-01-01T01:00:00Z"}),
        ],
    ),
    Script(
        name="roles",
        calls=[
            post(f"{RBAC}/roles", ROLE),
            post(
                f"{RBAC}/roles",
                {**ROLE, "metadata": {"name": "s"}, "rules": [{"resources": ["pods"], "verbs": ["get"]}]},
            ),
            post(
                f"{RBAC}/roles",
                {
                    **ROLE,
                    "metadata": {"name": "s"},
                    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": []}],
                },
            ),
            post(f"{RBAC}/rolebindings", BINDING),
            patch(f"{RBAC}/rolebindings/b", {"roleRef": {"name": "other"}}),
            post(
                f"{RBAC}/rolebindings",
                {**BINDING, "metadata": {"name": "c"}, "subjects": [{"kind": "Robot", "name": "x"}]},
            ),
            get(f"{RBAC}/rolebindings", accept=TABLE),
        ],
    ),
    Script(
        name="service accounts and tokens",
        calls=[
            post(f"{NS}/serviceaccounts", {"metadata": {"name": "bot"}}),
            post(f"{NS}/serviceaccounts/bot/token", {"spec": {"expirationSeconds": 10}}),
            post(f"{NS}/serviceaccounts/nobody/token", {"spec": {}}),
            post(
                f"{NS}/serviceaccounts/bot/token",
                {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "none"}}},
            ),
        ],
    ),
    Script(
        name="reviews",
        calls=[
            post(
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "$ns"}}},
            ),
            post(
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                {"spec": {"user": "nobody", "resourceAttributes": {"verb": "get", "resource": "pods"}}},
            ),
            post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {}}),
            post(
                "/apis/authorization.k8s.io/v1/namespaces/$ns/localsubjectaccessreviews",
                {
                    "metadata": {"namespace": "$ns"},
                    "spec": {
                        "user": "nobody",
                        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "$ns"},
                    },
                },
            ),
            post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "nonsense"}}),
            get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ],
    ),
    Script(
        name="paths that lead nowhere",
        calls=[
            get("/api/v1/foos"),
            get("/apis/nothing/v1"),
            get("/apis/apps/v9"),
            get("/nothing"),
            get(f"{MAPS}/a/status"),
            get(f"{W}/a/nosuch"),
            Call(method="PUT", path=MAPS, body={}),
            Call(method="PATCH", path=MAPS, body={}, type=MERGE),
            Call(method="POST", path=f"{MAPS}/a", body={}),
            get("/api/v1/namespaces/$ns/namespaces"),
        ],
    ),
    Script(
        name="definitions that can't be",
        calls=[
            post(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                {**WIDGETS, "metadata": {"name": "wrong"}},
            ),
            post(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                {
                    **WIDGETS,
                    "metadata": {"name": f"gadgets.{GROUP}"},
                    "spec": {
                        **WIDGETS["spec"],
                        "names": {"plural": "gadgets", "kind": "Gadget"},
                        "versions": [
                            {
                                "name": "v1",
                                "served": True,
                                "storage": True,
                                "schema": {"openAPIV3Schema": {"properties": {"spec": {"x": 1}}}},
                            }
                        ],
                    },
                },
            ),
            post(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                {
                    "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition",
                    "metadata": {"name": "a.b.c"},
                    "spec": {},
                },
            ),
            post(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                {
                    **WIDGETS,
                    "metadata": {"name": f"gadgets.{GROUP}"},
                    "spec": {
                        **WIDGETS["spec"],
                        "names": {"plural": "gadgets", "kind": "Gadget"},
                        "versions": [
                            {
                                "name": "v1",
                                "served": True,
                                "storage": True,
                                "schema": {
                                    "openAPIV3Schema": {
                                        "type": "object",
                                        "properties": {
                                            "spec": {
                                                "type": "object",
                                                "x-kubernetes-validations": [{"rule": "self.nope == 1"}],
                                            }
                                        },
                                    }
                                },
                            }
                        ],
                    },
                },
            ),
        ],
    ),
]
