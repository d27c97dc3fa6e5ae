"""Requests about options of writes and deletions, and about writes at the limits."""

from typing import Any

from clients.exchanges import MERGE, PATCH, Script
from clients.scripts import (
    APPS,
    LEASES,
    MAPS,
    NS,
    W,
    apply,
    config,
    delete,
    deployment,
    get,
    lease,
    patch,
    post,
    put,
    widget,
)

BACKGROUND = {"propagationPolicy": "Background"}
HELD = {"finalizers": ["suite.fairway.dev/hold"]}

DELETIONS_BY_QUERY = (
    "dryRun=",
    "dryRun",
    "dryRun=all",
    "dryRun=None",
    "dryRun=All&dryRun=",
    "dryRun=All&dryRun=All",
    "dryRun=All,All",
    "uid=nope",
    "resourceVersion=1",
    "propagationPolicy=",
    "propagationPolicy=Background&orphanDependents=false",
    "gracePeriodSeconds=",
    "gracePeriodSeconds=1.5",
)
"""None of them deletes."""
DELETIONS_BY_BODY: tuple[Any, ...] = (
    {"dryRun": [""]},
    {"dryRun": ["all"]},
    {"dryRun": ["All", ""]},
    {"dryRun": ["All", "All"]},
    {"preconditions": {"uid": ""}},
    {"preconditions": {"uid": "nope"}},
    {"preconditions": {"resourceVersion": ""}},
    {"propagationPolicy": ""},
)
"""Nor do these."""


OWNER = {"apiVersion": "suite.fairway.dev/v9", "kind": "Nothing", "name": "a", "uid": "u"}
TWICE = {"ownerReferences": [OWNER, OWNER, {**OWNER, "name": "b"}]}
TIME = "2026-01-01T00:00:00Z"
UID = "00000000-0000-0000-0000-000000000000"
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "a"},
    "spec": {"type": "ExternalName", "externalName": "a.example"},
}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "$ns"}}


def scale(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": spec}


def labelled(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"t": "t"}, **metadata}}


UNNAMED = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 4}}
APPLIED_METADATA: tuple[dict[str, Any], ...] = (
    {"metadata": {}},
    {"metadata": None},
    {"metadata": {"name": ""}},
    {"metadata": {"name": "b"}},
    {"metadata": {"namespace": "another"}},
    {"metadata": {"name": "a", "namespace": "another"}},
    {"metadata": {"name": "a", "namespace": ""}},
)
EMPTIED: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("a", {"tags": ["x"]}, {"tags": []}),
    ("b", {"parts": [{"name": "p"}]}, {"parts": []}),
    ("c", {"atomic": {"x": "1"}}, {"atomic": {}}),
    ("d", {"free": {"x": 1}}, {"free": {}}),
    ("e", {"free": {"x": {"y": [1]}}}, {"free": {"x": {}}}),
)
"""Name, what is applied first, and what is applied then."""


def labelled_map(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


SCRIPTS = [
    Script(
        name="deletions that are refused or rehearsed delete nothing",
        calls=[
            post(MAPS, config("a")),
            post(W, widget("a")),
            *(delete(f"{path}/a?{query}") for path in (MAPS, W) for query in DELETIONS_BY_QUERY),
            *(delete(f"{path}/a", body) for path in (MAPS, W) for body in DELETIONS_BY_BODY),
            get(f"{MAPS}/a"),
            get(f"{W}/a"),
        ],
    ),
    Script(
        name="deletions with conditions in the query",
        calls=[
            post(MAPS, config("a"), keep="metadata.uid"),
            get(f"{MAPS}/a", keep="metadata.resourceVersion"),
            delete(f"{MAPS}/a?uid=$uid&resourceVersion=$resourceVersion"),
            post(MAPS, {"metadata": {"name": "b", **HELD}}),
            delete(f"{MAPS}/b?orphanDependents=false"),
            patch(f"{MAPS}/b", {"metadata": {"finalizers": None}}),
        ],
    ),
    Script(
        name="collections are deleted until a condition fails",
        calls=[
            post(MAPS, labelled("a"), keep="metadata.uid"),
            post(MAPS, labelled("b")),
            delete(f"{MAPS}?labelSelector=t%3Dt", {"preconditions": {"uid": "nope"}}),
            delete(f"{MAPS}?labelSelector=t%3Dt&uid=nope"),
            delete(f"{MAPS}?labelSelector=t%3Dt&dryRun="),
            delete(f"{MAPS}?labelSelector=t%3Dt&dryRun=All"),
            get(f"{MAPS}?labelSelector=t%3Dt"),
            delete(f"{MAPS}?labelSelector=t%3Dt", {"preconditions": {"uid": "$uid"}}),
            get(f"{MAPS}?labelSelector=t%3Dt"),
            post(MAPS, labelled("c", **HELD)),
            delete(f"{MAPS}?labelSelector=t%3Dt", BACKGROUND),
            get(f"{MAPS}?labelSelector=t%3Dt"),
            patch(f"{MAPS}/c", {"metadata": {"finalizers": None}}),
        ],
    ),
    Script(
        name="options that no write takes",
        calls=[
            call
            for query in ("dryRun=", "dryRun=All&dryRun=", "dryRun=all&fieldManager=%01", "force=false")
            for call in (
                post(f"{MAPS}?{query}&dryRun=All", config("a")),
                put(f"{MAPS}/a?{query}&dryRun=All", config("a")),
                patch(f"{MAPS}/a?{query}", {"data": {"a": "b"}}, MERGE),
                apply(f"{MAPS}/a?{query}&dryRun=All", config("a"), ""),
            )
        ],
    ),
    Script(
        name="nulls that are applied reach the schema",
        calls=[
            *(
                apply(f"{W}/a?dryRun=All", widget("a", **spec), "suite")
                for spec in (
                    {"colour": None},
                    {"replicas": None},
                    {"size": None},
                    {"tags": None},
                    {"parts": None},
                    {"parts": [{"name": "x", "note": None}]},
                    {"free": None},
                    {"atomic": {"a": None}},
                )
            ),
            apply(f"{W}/a?dryRun=All", {**widget("a"), "spec": None}, "suite"),
            post(f"{W}?dryRun=All", widget("a", colour=None)),
        ],
    ),
    Script(
        name="duplicates in metadata",
        calls=[
            call
            for path, made in ((MAPS, config("a")), (W, widget("a")))
            for call in (
                post(path, {**made, "metadata": {"name": "a", **TWICE}}),
                patch(f"{path}/a", {"metadata": {"finalizers": ["suite.fairway.dev/x"] * 2}}),
                patch(f"{path}/a", {"metadata": {"ownerReferences": [OWNER] * 3}}),
                get(f"{path}/a"),
                patch(f"{path}/a", {"metadata": {"finalizers": None, "ownerReferences": None}}),
            )
        ],
    ),
    Script(
        name="nulls in lists of metadata",
        calls=[
            post(f"{path}?dryRun=All", {**made, "metadata": {"name": "a", part: [None]}})
            for path, made in ((MAPS, config("a")), (W, widget("a")))
            for part in ("finalizers", "ownerReferences", "managedFields")
        ],
    ),
    Script(
        name="only a deletion sets its time",
        calls=[
            call
            for path, made in ((MAPS, config("a")), (W, widget("a")))
            for call in (
                post(path, {**made, "metadata": {"name": "a", "deletionTimestamp": TIME, **HELD}}),
                patch(f"{path}/a", {"metadata": {"deletionTimestamp": TIME}}),
                patch(f"{path}/a", {"metadata": {"deletionGracePeriodSeconds": 0}}),
                apply(f"{path}/a", {**made, "metadata": {"name": "a", "deletionTimestamp": TIME}}, "suite"),
                patch(
                    f"{path}/a", [{"op": "add", "path": "/metadata/deletionTimestamp", "value": TIME}], PATCH
                ),
                delete(f"{path}/a", BACKGROUND),
                patch(f"{path}/a", {"metadata": {"deletionTimestamp": None}}),
                patch(f"{path}/a", {"metadata": {"deletionGracePeriodSeconds": 9}}),
                patch(f"{path}/a", {"metadata": {"finalizers": None}}),
            )
        ],
    ),
    Script(
        name="managed fields that are emptied",
        calls=[
            call
            for path, made in ((MAPS, config("a", x="1")), (W, widget("a")))
            for call in (
                post(path, made),
                patch(f"{path}/a", {"metadata": {"managedFields": []}}),
                get(f"{path}/a"),
                patch(f"{path}/a", {"metadata": {"managedFields": [{}]}}),
                get(f"{path}/a"),
            )
        ],
    ),
    Script(
        name="updates that create",
        calls=[
            put(f"{NS}/services/a", SERVICE),
            put(f"{NS}/services/a", {**SERVICE, "metadata": {"name": "a", "labels": {"a": "b"}}}),
            put(f"{NS}/services/b", {**SERVICE, "metadata": {"name": "b", "uid": UID}}),
            put(f"{NS}/services/A_b", {**SERVICE, "metadata": {"name": "A_b"}}),
            delete(f"{NS}/services/a"),
            put(f"{NS}/endpoints/a", {"metadata": {"name": "a"}}),
            put(f"{LEASES}/a", lease("a")),
            put(f"{LEASES}/a", lease("a")),
            put(f"{MAPS}/a", config("a")),
        ],
    ),
    Script(
        name="rehearsed creations may name a version",
        calls=[
            call
            for path, made in ((MAPS, config("a")), (W, widget("a")))
            for call in (
                post(f"{path}?dryRun=All", {**made, "metadata": {"name": "a", "resourceVersion": "5"}}),
                post(path, {**made, "metadata": {"name": "a", "resourceVersion": "5"}}),
                get(f"{path}/a"),
            )
        ],
    ),
    Script(
        name="the phase of a namespace",
        calls=[
            put(
                f"{NS}/finalize", {**NAMESPACE, "spec": {"finalizers": ["kubernetes", "a.b/c"]}, "status": {}}
            ),
            put(f"{NS}/finalize", {**NAMESPACE, "spec": {"finalizers": ["bad"]}}),
            put(f"{NS}/status", {**NAMESPACE, "status": {"phase": "Terminating"}}),
            put(f"{NS}/status", {**NAMESPACE, "status": {}}),
            put(f"{NS}/finalize", {**NAMESPACE, "spec": {"finalizers": ["kubernetes"]}}),
        ],
    ),
    Script(
        name="applied scales",
        calls=[
            post(f"{APPS}/deployments", deployment("a")),
            apply(f"{APPS}/deployments/a/scale", scale("a", replicas=3), "one"),
            apply(f"{APPS}/deployments/a/scale", scale("a", replicas=3), "one", force=True),
            get(f"{APPS}/deployments/a"),
            apply(f"{APPS}/deployments/a/scale", scale("a", replicas=4), "two"),
            apply(f"{APPS}/deployments/a/scale", scale("a", replicas=3), "two"),
            get(f"{APPS}/deployments/a"),
            apply(f"{APPS}/deployments/a/scale", scale("b", replicas=3), "two"),
            apply(f"{APPS}/deployments/a/scale", scale("a", replicas=-1), "two", force=True),
            apply(f"{APPS}/deployments/a/scale", scale("a", replicas="x"), "two", force=True),
            apply(f"{APPS}/deployments/a/scale", {**scale("a", replicas=1), "kind": "Deployment"}, "two"),
            apply(f"{APPS}/deployments/b/scale", scale("b", replicas=3), "two"),
            apply(f"{APPS}/deployments/a/scale?dryRun=All", scale("a", replicas=9), "two", force=True),
            patch(f"{APPS}/deployments/a/scale", {"spec": {"replicas": 5}}),
            patch(f"{APPS}/deployments/a/scale", {"metadata": "x"}),
            patch(f"{APPS}/deployments/a/scale", {"metadata": None}),
            get(f"{APPS}/deployments/a"),
        ],
    ),
    Script(
        name="scales applied without the name or the namespace of the URL",
        calls=[
            post(f"{APPS}/deployments", deployment("a")),
            *(
                apply(
                    f"{APPS}/deployments/a/scale", {**scale("a", replicas=3), **metadata}, "one", force=True
                )
                for metadata in APPLIED_METADATA
            ),
            apply(f"{APPS}/deployments/a/scale", UNNAMED, "one", force=True),
            get(f"{APPS}/deployments/a"),
            *(patch(f"{APPS}/deployments/a/scale", metadata) for metadata in APPLIED_METADATA),
            *(put(f"{APPS}/deployments/a/scale", {**UNNAMED, **metadata}) for metadata in APPLIED_METADATA),
            *(
                apply(f"{MAPS}/a", {"apiVersion": "v1", "kind": "ConfigMap", **metadata}, "one")
                for metadata in (*APPLIED_METADATA, *APPLIED_METADATA)
            ),
        ],
    ),
    Script(
        name="applies that remove the last item of a value",
        calls=[
            *(
                call
                for name, full, emptied in EMPTIED
                for call in (
                    apply(f"{W}/{name}", widget(name, **full), "one"),
                    apply(f"{W}/{name}", widget(name, **emptied), "one"),
                    apply(f"{W}/{name}", widget(name), "one"),
                )
            ),
            apply(f"{MAPS}/a", config("a", x="1"), "one"),
            apply(f"{MAPS}/a", config("a"), "one"),
            apply(f"{MAPS}/b", labelled_map("b", {"x": "1"}), "one"),
            apply(f"{MAPS}/b", labelled_map("b", {}), "one"),
            apply(f"{W}/f", {**widget("f"), "metadata": {"name": "f", "labels": {"x": "1"}}}, "one"),
            apply(f"{W}/f", {**widget("f"), "metadata": {"name": "f", "labels": {}}}, "one"),
        ],
    ),
    Script(
        name="selectors at their limits",
        calls=[
            post(MAPS, {"metadata": {"name": "a", "labels": {"n": "5", "u": "1_0", "z": "007"}}}),
            *(
                get(f"{MAPS}?labelSelector={text}")
                for text in (
                    *(
                        "n%3E4",
                        "n%3C5",
                        "u%3E5",
                        "z%3E6",
                        "n%3E-1",
                        "n%3E1_0",
                        "n%3E",
                        "n%3D5%3D6",
                        "a/",
                        "/b",
                    ),
                    *("n%3E9223372036854775808", "n%3D" + "v" * 64, "!", "a/b/c"),
                )
            ),
            *(
                get(f"{MAPS}?fieldSelector=metadata.name{text}")
                for text in ("%3Da%5C", "%3Da%5Cx", "%3Da%3Db", "%3Da%5C%3Db", "%3D%3Da", "!%3Da%5C%2Cb")
            ),
            get(f"{MAPS}?limit="),
        ],
    ),
]
