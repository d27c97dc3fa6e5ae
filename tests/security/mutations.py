"""Requests with one or two faults: of every kind, method and media type."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote

import yaml

from kubehub.resource import Resource
from kubehub.schema import Node

PATCHES = (
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
)
BODIES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/plain", "")
ACCEPTED = (
    "application/json",
    "application/yaml",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf",
    "application/json;q=x;;=,*/*;q=",
    "",
)
QUERIES = (
    *(
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
        "pretty",
        "labelSelector",
        "fieldSelector",
        "limit",
    ),
    *("continue", "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "allowWatchBookmarks"),
    *(
        "timeoutSeconds",
        "gracePeriodSeconds",
        "propagationPolicy",
        "orphanDependents",
        "uid",
        "includeObject",
    ),
)
WORDS = (
    *(
        "",
        "a",
        "All",
        "Strict",
        "Warn",
        "true",
        "false",
        "null",
        "None",
        "0",
        "1",
        "-1",
        "+1",
        "1.5",
        "1e99999",
    ),
    *(
        "a=b",
        "a in (b,c)",
        "a notin ()",
        "!a",
        "a>5",
        "metadata.name=a",
        "spec.nodeName!=b\\,c",
        "\\",
        ",",
        "=",
        "((",
    ),
    *(
        "Exact",
        "NotOlderThan",
        "Background",
        "Foreground",
        "Orphan",
        "default",
        "kube-system",
        "kubernetes.io/a",
    ),
    *(
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00+25:00",
        "9999-99-99T99:99:99Z",
        "10Gi",
        "1e+100",
        "500m",
        "1_0",
    ),
    *(
        "9" * 5000,
        "a" * 300,
        "\u0000",
        "\u00e4",
        "\u2028",
        "\U0001f600",
        "\ud800",
        "%",
        "%zz",
        "../..",
        "a/b",
        "$(x)",
    ),
    *(
        "{.spec.a}",
        "self.x > 1",
        "self.all(x, x",
        "[a-",
        "(?<a>b)",
        "Y2E=",
        "=====",
        "10.0.0.1",
        "::1",
        "10.0.0.0/8",
    ),
    *(
        "* * * * *",
        "v1",
        "apps/v1",
        "a/b/c",
        "ConfigMap",
        "ServiceAccount",
        "system:masters",
        "11:22",
        "-",
        ".",
        "..",
        "9",
    ),
)
NUMBERS = (0, 1, -1, 2**31, 2**63 - 1, -(2**63), 2**64, 10**30, 0.5, 1e300, -0.0, 5, 443, 70000)
NAMES = ("fuzz-0", "fuzz-1", "fuzz-2", "default", "kubernetes", "Fuzz_3", "a.b", "f\u00fczz", "x" * 260)
OPERATIONS = ("add", "remove", "replace", "move", "copy", "test", "nope")


_POD = {"containers": [{"name": "main", "image": "registry.example/app:1"}]}
_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": _POD}
_JOB = {"template": {"spec": {**_POD, "restartPolicy": "Never"}}}
_WORKLOAD = {"selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE}
_ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
_RULE = {"apiGroups": ["a"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
_CHECKED = {"matchConstraints": {"resourceRules": [_RULE]}, "validations": [{"expression": "true"}]}
_SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
VALID: dict[str, dict[str, Any]] = {
    "ConfigMap": {"data": {"a": "b"}},
    "Secret": {"stringData": {"a": "b"}},
    "Service": {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}},
    "Pod": {"spec": _POD},
    "PodTemplate": {"template": _TEMPLATE},
    "ReplicationController": {"spec": {"selector": {"a": "b"}, "template": _TEMPLATE}},
    "Deployment": {"spec": _WORKLOAD},
    "ReplicaSet": {"spec": _WORKLOAD},
    "DaemonSet": {"spec": _WORKLOAD},
    "StatefulSet": {"spec": {**_WORKLOAD, "serviceName": "a"}},
    "ControllerRevision": {"revision": 1, "data": {"a": 1}},
    "Job": {"spec": _JOB},
    "CronJob": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": _JOB}}},
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
    "NetworkPolicy": {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}},
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}},
    "IngressClass": {"spec": {"controller": "a.b/c"}},
    "EndpointSlice": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]},
    "Endpoints": {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    "PersistentVolume": {
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}}
    },
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "StorageClass": {"provisioner": "a.b/c"},
    "CSINode": {"spec": {"drivers": []}},
    "PriorityClass": {"value": 5},
    "RuntimeClass": {"handler": "a"},
    "Lease": {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 5}},
    "Role": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "ClusterRole": {"rules": [{"nonResourceURLs": ["/a"], "verbs": ["get"]}]},
    "RoleBinding": {"roleRef": _ROLE, "subjects": [{"kind": "User", "name": "a"}]},
    "ClusterRoleBinding": {"roleRef": _ROLE, "subjects": [{"kind": "Group", "name": "a"}]},
    "ValidatingAdmissionPolicy": {"spec": _CHECKED},
    "ValidatingAdmissionPolicyBinding": {"spec": {"policyName": "nothing", "validationActions": ["Deny"]}},
    "LimitRange": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}},
    "ResourceQuota": {"spec": {"hard": {"pods": "5"}}},
    "Event": {"involvedObject": {"namespace": "default", "name": "a"}, "reason": "A", "type": "Normal"},
    "CustomResourceDefinition": {
        "metadata": {"name": "things.fuzz.example"},
        "spec": {
            "group": "fuzz.example",
            "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": _SCHEMA}],
        },
    },
    "Boat": {"spec": {"port": "a", "crew": 1, "sails": [{"name": "a", "area": 5}]}},
    "ManagedCluster": {"spec": {"hubAcceptsClient": True, "taints": []}},
    "ManagedClusterSetBinding": {"spec": {"clusterSet": "default"}},
    "Placement": {"spec": {"numberOfClusters": 2, "clusterSets": ["default"]}},
    "AddOnPlacementScore": {"status": {"scores": [{"name": "a", "value": 5}]}},
    "ManifestWork": {"spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap"}]}}},
    "TokenReview": {"spec": {"token": "a"}},
    "SelfSubjectAccessReview": {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
}
"""Minimal valid objects."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    method: str
    path: str
    """The encoded path with its query."""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def watches(self) -> bool:
        return "watch" in self.path


class Mutator:
    """Generates requests; equal seeds generate equal requests."""

    def __init__(self, seed: int, resources: Sequence[Resource]) -> None:
        self._random = Random(seed)
        self._resources = sorted(
            resources, key=lambda resource: (resource.group, resource.version, resource.plural)
        )

    def valid(self) -> Iterator[Mutant]:
        """Requests that create the objects which later requests use."""
        for resource in self._resources:
            for name in NAMES[:3]:
                document = {"metadata": {"name": name}, **VALID.get(resource.kind, {})}
                document |= {"apiVersion": resource.api_version, "kind": resource.kind}
                root = f"/apis/{resource.group}" if resource.group else "/api"
                scope = "/namespaces/default" if resource.namespaced else ""
                yield Mutant(
                    method="POST",
                    path=f"{root}/{resource.version}{scope}/{resource.plural}",
                    headers={"Content-Type": "application/json"},
                    body=_json(document),
                )

    def request(self) -> Mutant:
        draw = self._random
        resource = draw.choice(self._resources)
        if resource.verbs == ("create",) and draw.random() < 0.6:
            resource = draw.choice(self._resources)
        method = draw.choice(("POST", "POST", "PUT", "PATCH", "PATCH", "PATCH", "DELETE", "GET", "GET"))
        if self._rarely():
            method = draw.choice(("HEAD", "OPTIONS", "TRACE", "FOO", "get", "DELETE", "PATCH"))
        name = "" if method == "POST" else draw.choice(NAMES[:3] if draw.random() < 0.7 else NAMES)
        if method in ("GET", "DELETE") and draw.random() < 0.3:
            name = ""
        if method == "DELETE" and resource.kind == "CustomResourceDefinition":
            name = name or "things.fuzz.example"  # the other parts are required
        path = self._path(resource, name)
        media = draw.choice(PATCHES if method == "PATCH" else BODIES[: 2 if draw.random() < 0.8 else 5])
        if self._rarely():
            media = draw.choice((*PATCHES, *BODIES, "a", "/", ";", "application/json;a"))
        headers = {"Content-Type": media, "Accept": draw.choice(ACCEPTED if self._seldom() else ACCEPTED[:1])}
        if self._rarely():
            header = (
                "Impersonate-User",
                "Impersonate-Group",
                "If-None-Match",
                "User-Agent",
                "Impersonate-Extra-a",
            )
            headers[draw.choice(header)] = self._printable()
        body = b"" if method in ("GET", "HEAD") else self._body(resource, name, method, media)
        return Mutant(method=method, path=path + self._query(method, media), headers=headers, body=body)

    def _rarely(self) -> bool:
        return self._random.random() < 0.05

    def _seldom(self) -> bool:
        return self._random.random() < 0.2

    def _printable(self) -> str:
        return "".join(char for char in self._random.choice(WORDS) if " " <= char <= "~")[:200]

    def _path(self, resource: Resource, name: str) -> str:
        draw = self._random
        parts = ["apis", resource.group, resource.version] if resource.group else ["api", resource.version]
        if self._rarely():
            parts.append("watch")
        if resource.namespaced and not self._rarely():
            parts += ["namespaces", "default"]
        parts.append(resource.plural)
        if name:
            parts.append(name)
        if name and resource.subresources and draw.random() < 0.35:
            parts.append(draw.choice(sorted(resource.subresources)))
        if self._rarely():
            parts[draw.randrange(len(parts))] = draw.choice(WORDS)[:100]
        if self._rarely():
            parts.insert(draw.randrange(len(parts)), draw.choice(WORDS)[:100])
        return "/" + "/".join(_quoted(part) for part in parts)

    def _query(self, method: str, media: str) -> str:
        draw = self._random
        pairs = []
        if method == "PATCH" and media == PATCHES[3]:
            pairs += ["fieldManager=fuzz", *(["force=true"] if draw.random() < 0.5 else ())]
        for _ in range(draw.choice((0, 0, 0, 1, 1, 2, 4))):
            pairs.append(f"{draw.choice(QUERIES)}={_quoted(draw.choice(WORDS))}")
        if self._rarely():
            pairs.append(draw.choice(("&&", "=", "%", "a;b", "dryRun", "watch=1", "dryRun=All&dryRun=")))
        return f"?{'&'.join(pairs)}" if pairs else ""

    # Bodies

    def _body(self, resource: Resource, name: str, method: str, media: str) -> bytes:
        draw = self._random
        document: Any = self._document(resource, name)
        if method == "DELETE":
            document = self._deletion() if self._seldom() else None
        elif media == PATCHES[2]:
            document = [self._operation(document) for _ in range(draw.choice((0, 1, 1, 2, 5)))]
        if self._rarely():
            document = draw.choice((None, [], "x", 5, True, {}, [document], {"items": [document]}))
        if document is None and method == "DELETE":
            return b""
        written_as_yaml = media in (BODIES[1], PATCHES[3]) and draw.random() < 0.5
        raw = yaml.safe_dump(document).encode("utf-8", "replace") if written_as_yaml else _json(document)
        if media == BODIES[2] and draw.random() < 0.7:
            raw = b"k8s\x00" + bytes(draw.randrange(256) for _ in range(draw.randrange(60)))
        if self._rarely():
            at = draw.randrange(len(raw) + 1)
            raw = draw.choice(
                (raw[:at], raw[:at] + draw.randbytes(3) + raw[at:], raw * 2, b"\xff" + raw, b"&a [*a]")
            )
        return raw

    def _document(self, resource: Resource, name: str) -> dict[str, Any]:
        draw = self._random
        document: dict[str, Any] = json.loads(_json(VALID.get(resource.kind, {})))
        if draw.random() < 0.6:
            self._mutate(document, resource.node)
        if draw.random() < 0.3 or not document:
            random = self._value(resource.node, 0)
            document |= random if isinstance(random, dict) else {}
        metadata: Any = {"name": name or draw.choice(NAMES[:3])}
        if self._seldom():
            part = draw.choice(sorted(_META))
            metadata[part] = draw.choice(_META[part]) if draw.random() < 0.8 else self._odd()
        document |= {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        if self._seldom():
            document[draw.choice(("apiVersion", "kind", "metadata", "spec", "status", "unknown"))] = (
                self._odd()
            )
        return document

    def _mutate(self, value: Any, node: Node) -> None:
        """Replace one to three values of the document by values that match the schema or violate it."""
        draw = self._random
        for _ in range(draw.randrange(1, 4)):
            at, schema = value, node
            for _ in range(draw.randrange(1, 9)):
                if isinstance(at, list) and at and schema.items is not None:
                    at, schema = draw.choice(at), schema.items
                elif isinstance(at, dict) and schema is not None:
                    names = [*at, *schema.properties]
                    name = draw.choice(names) if names else ""
                    child = schema.child(name) or Node()
                    if isinstance(at.get(name), dict | list) and draw.random() < 0.8:
                        at, schema = at[name], child
                    else:
                        at[name] = self._odd() if draw.random() < 0.5 else self._value(child, 3)
                        break
                else:
                    break

    def _deletion(self) -> dict[str, Any]:
        draw = self._random
        made: dict[str, Any] = {}
        for key in (
            "dryRun",
            "preconditions",
            "propagationPolicy",
            "gracePeriodSeconds",
            "orphanDependents",
            "kind",
        ):
            if self._seldom():
                made[key] = draw.choice((self._odd(), ["All"], {"uid": "x"}, "Foreground", 1, True))
        return made

    def _operation(self, document: dict[str, Any]) -> Any:
        draw = self._random
        places = (
            "/spec",
            "/metadata/labels",
            "/metadata/name",
            "/spec/replicas",
            "",
            "/",
            "/a~2",
            "/spec/x/-",
            "/items/0",
        )
        made: Any = {"op": draw.choice(OPERATIONS), "path": draw.choice(places), "value": self._odd()}
        if draw.random() < 0.3:
            made["value"] = document.get("spec")
        if draw.random() < 0.3:
            made["from"] = draw.choice(places)
        if self._seldom():
            made = draw.choice((self._odd(), {}, {"op": "add"}, {"path": 5}))
        return made

    def _value(self, node: Node, depth: int) -> Any:
        """A value that mostly matches the schema, with some of its properties."""
        draw = self._random
        if draw.random() < 0.04:
            return self._odd()
        if node.int_or_string:
            return draw.choice((draw.choice(NUMBERS), draw.choice(WORDS)))
        if node.properties:
            chance = 0.6 if depth < 2 else 0.25
            names = [
                name
                for name in node.properties
                if name not in ("apiVersion", "kind", "metadata")
                and (draw.random() < chance or name in node.required)
            ]
            return (
                {} if depth > 7 else {name: self._value(node.properties[name], depth + 1) for name in names}
            )
        if node.items is not None:
            return [] if depth > 7 else [self._value(node.items, depth + 1) for _ in range(draw.randrange(3))]
        if node.additional is not None:
            count = 0 if depth > 7 else draw.randrange(3)
            return {draw.choice(WORDS)[:60]: self._value(node.additional, depth + 1) for _ in range(count)}
        return self._scalar(node.type)

    def _scalar(self, wanted: str) -> Any:
        draw = self._random
        if wanted in ("integer", "number"):
            return draw.choice(NUMBERS)
        if wanted == "boolean":
            return draw.random() < 0.5
        if wanted == "string":
            return draw.choice(WORDS)
        return self._odd()

    def _odd(self) -> Any:
        draw = self._random
        odd: tuple[Any, ...] = (
            None,
            [],
            {},
            [None],
            [[]],
            {"": None},
            {"a": {"b": [1, "x", None]}},
            True,
            "x" * 3000,
        )
        return draw.choice((draw.choice(odd), draw.choice(NUMBERS), draw.choice(WORDS)))


_OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u", "controller": True}
_ENTRY = {"manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
_META: dict[str, Sequence[Any]] = {
    "labels": ({"a": "b"}, {"a": None}, {"": ""}),
    "annotations": ({"a": "b"}, {"deprecated.daemonset.template.generation": "x"}, {"a" * 300: "b"}),
    "finalizers": (["a.b/c"], ["a.b/c", "a.b/c"], ["bad"], [None]),
    "ownerReferences": ([_OWNER], [_OWNER, _OWNER], [{}], [None]),
    "managedFields": (
        [],
        [{}],
        [_ENTRY],
        [{**_ENTRY, "fieldsV1": {"f:spec": {"k:{": {}}}}],
        [{**_ENTRY, "time": "x"}],
    ),
    "resourceVersion": ("", "0", "1", "x", "9" * 400),
    "uid": ("", "x"),
    "generateName": ("g-", "G_", ""),
    "deletionTimestamp": ("2026-01-01T00:00:00Z", "x", None),
    "deletionGracePeriodSeconds": (0, -1, 2**63),
    "creationTimestamp": ("2026-01-01T00:00:00Z", "x"),
    "generation": (-1, 2**63, 7),
    "namespace": ("default", "other", ""),
}


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def _json(document: Any) -> bytes:
    return json.dumps(document).encode()
