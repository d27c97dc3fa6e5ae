"""Objects with unreadable fields, and the values that replace those fields."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, structs

from fairway.api import fallbacks
from fairway.api.addon import ManagedClusterAddOn
from fairway.api.cluster import ManagedCluster, Taint
from fairway.api.decision import PlacementDecision
from fairway.api.node import Node
from fairway.api.placement import Placement
from fairway.api.pod import Pod
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.api.work import ManifestWork
from kubewire.api import salvage
from kubewire.api.encoding import encode
from kubewire.api.lease import Lease
from kubewire.api.meta import is_dropped, unreadable_fields, unreadable_within
from kubewire.api.salvage import MOST_FIELDS, MOST_ITEMS, SalvageError

BAD_TIME = "2026-01-01T00:00:00+25:00"
GOOD_TIME = "2026-01-01T00:00:00Z"
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Fine",
    "message": "",
    "lastTransitionTime": GOOD_TIME,
}
META = {
    "name": "x",
    "namespace": "n",
    "uid": "u",
    "resourceVersion": "7",
    "labels": {"region": "eu"},
    "finalizers": ["f"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "w"}],
}
DOCUMENTS: dict[type[Struct], dict[str, Any]] = {
    ManagedCluster: {
        "metadata": META,
        "spec": {
            "hubAcceptsClient": True,
            "leaseDurationSeconds": 60,
            "taints": [{"key": "k", "value": "v", "effect": "NoSelect", "timeAdded": GOOD_TIME}],
        },
        "status": {
            "conditions": [CONDITION, {**CONDITION, "type": "Other"}],
            "capacity": {"cpu": "4", "memory": "8Gi"},
            "allocatable": {"cpu": 4},
            "version": {"kubernetes": "v1.35.0"},
            "clusterClaims": [{"name": "id", "value": "1"}, {"name": "platform", "value": "AWS"}],
            "managedNamespaces": [{"name": "a", "clusterSet": "s", "conditions": [CONDITION]}],
        },
    },
    AddOnPlacementScore: {
        "metadata": META,
        "status": {
            "conditions": [CONDITION],
            "scores": [{"name": "cpu", "value": 7}, {"name": "memory", "value": -7}],
            "validUntil": GOOD_TIME,
        },
    },
    ManagedClusterScore: {
        "metadata": META,
        "status": {"conditions": [{**CONDITION, "lastUpdateTime": GOOD_TIME}], "score": 5},
    },
    Placement: {
        "metadata": META,
        "spec": {
            "numberOfClusters": 2,
            "predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"region": "eu"}}}}],
            "tolerations": [{"key": "k", "operator": "Exists"}],
        },
        "status": {"numberOfSelectedClusters": 1, "conditions": [CONDITION]},
    },
    PlacementDecision: {
        "metadata": META,
        "status": {
            "decisions": [{"clusterName": "a", "reason": "", "score": 3}, {"clusterName": "b", "reason": ""}]
        },
    },
    ManagedClusterAddOn: {
        "metadata": META,
        "spec": {"installNamespace": "agents"},
        "status": {"conditions": [CONDITION], "namespace": "agents"},
    },
    ManifestWork: {
        "metadata": META,
        "spec": {
            "workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}]},
            "deleteOption": {"propagationPolicy": "Foreground"},
        },
        "status": {"conditions": [CONDITION], "resourceStatus": {"manifests": [{"conditions": [CONDITION]}]}},
    },
    Lease: {
        "metadata": META,
        "spec": {"holderIdentity": "h", "leaseDurationSeconds": 15, "renewTime": GOOD_TIME},
    },
    Node: {
        "metadata": META,
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    },
    Pod: {
        "metadata": META,
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    },
}
JUNK: tuple[Any, ...] = (
    *(7, -1, 10**30, 1e300, True, None, "", "x", BAD_TIME, "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z"),
    *("\ud800", [], [None], [7], [[[]]], {}, {"a": {"b": []}}, {"\ud800": 1}),
)


def read(struct: type[Struct], document: dict[str, Any]) -> Any:
    """Decode as the codec of the client does."""
    raw = json.dumps(document).encode()
    try:
        return msgspec.json.decode(raw, type=struct)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return salvage.salvage(raw, struct)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    for key, child in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from places(child, (*path, key))


def replaced(document: dict[str, Any], path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    changed: dict[str, Any] = json.loads(json.dumps(document))
    inner: Any = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


def changes(section: str) -> st.SearchStrategy[tuple[type[Struct], tuple[str | int, ...], Any]]:
    every = [
        (struct, (section, *path))
        for struct, document in DOCUMENTS.items()
        if section in document
        for path in places(document[section])
    ]
    return st.tuples(st.sampled_from(every), st.sampled_from(JUNK)).map(
        lambda change: (*change[0], change[1])
    )


@given(st.lists(changes("status"), min_size=1, max_size=4))
def test_unreadable_status_does_not_affect_metadata_and_spec(
    written: list[tuple[type[Struct], tuple[str | int, ...], Any]],
) -> None:
    struct = written[0][0]
    document = DOCUMENTS[struct]
    for _, path, junk in (change for change in written if change[0] is struct):
        try:
            document = replaced(document, path, junk)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change removed this path
    honest, obj = read(struct, DOCUMENTS[struct]), read(struct, document)
    for field in honest.metadata.__struct_fields__:
        assert getattr(obj.metadata, field) == getattr(honest.metadata, field)
    assert getattr(obj, "spec", None) == getattr(honest, "spec", None)
    assert all(field.path.startswith("status") for field in unreadable_fields(obj))


@given(changes("status") | changes("spec"))
def test_salvaged_object_survives_a_round_trip(
    change: tuple[type[Struct], tuple[str | int, ...], Any],
) -> None:
    """The replacements are valid, so that a controller can write the object back."""
    struct, path, junk = change
    obj = read(struct, replaced(DOCUMENTS[struct], path, junk))
    written = encode(obj)
    assert "unreadable" not in written["metadata"]
    again = read(struct, written)
    assert unreadable_fields(again) == ()
    assert structs.replace(obj, metadata=again.metadata) == again


def test_valid_documents_decode_the_same_with_salvage() -> None:
    for struct, document in DOCUMENTS.items():
        raw = json.dumps(document).encode()
        assert salvage.salvage(raw, struct) == msgspec.json.decode(raw, type=struct)


@pytest.mark.parametrize(
    ("struct", "path", "junk", "expected"),
    [
        # status, written by an agent
        (ManagedCluster, "status.conditions.0.lastTransitionTime", BAD_TIME, LONG_AGO),
        (ManagedCluster, "status.conditions.0.status", 7, "Unknown"),
        (ManagedCluster, "status.conditions.0.type", 7, "Other"),
        (ManagedCluster, "status.clusterClaims.0.value", 7, "AWS"),
        (AddOnPlacementScore, "status.validUntil", BAD_TIME, LONG_AGO),
        (AddOnPlacementScore, "status.scores.0.value", 10**10, -7),
        (ManagedClusterScore, "status.conditions.0.lastUpdateTime", BAD_TIME, LONG_AGO),
        (PlacementDecision, "status.decisions.0.clusterName", 7, "b"),
        # metadata and spec
        (ManagedCluster, "metadata.deletionTimestamp", BAD_TIME, LONG_AGO),
        (ManagedCluster, "spec.hubAcceptsClient", "yes", False),
        (ManagedCluster, "spec.taints.0.timeAdded", BAD_TIME, None),
        (ManagedCluster, "spec.taints.0.effect", 7, "NoSelect"),
        (ManagedCluster, "spec.taints.0", 7, fallbacks.UNREADABLE_TAINT),
        (ManagedCluster, "spec.taints", 7, (fallbacks.UNREADABLE_TAINT,)),
        (Lease, "spec.holderIdentity", 7, "Unreadable"),
        (Placement, "spec.numberOfClusters", 10**10, 0),
        (ManifestWork, "spec.deleteOption.propagationPolicy", 7, "Orphan"),
    ],
)  # fmt: skip
def test_unreadable_field_counts_as_the_safest_value(
    struct: type[Struct], path: str, junk: Any, expected: Any
) -> None:
    keys = tuple(int(step) if step.isdigit() else step for step in path.split("."))
    obj = read(struct, replaced(DOCUMENTS[struct], keys, junk))
    (unreadable,) = unreadable_fields(obj)
    value: Any = obj
    for key in keys:
        # A dropped item does not count against the limit.
        key = -1 if isinstance(key, int) and expected in ("Other", "AWS", -7, "b") else key
        value = value[key] if isinstance(key, int) else getattr(value, key)
    assert value == expected
    assert unreadable.path.replace("[", ".").replace("]", "") == path


def test_score_that_cannot_be_read_is_missing_and_not_zero() -> None:
    obj = read(ManagedClusterScore, replaced(DOCUMENTS[ManagedClusterScore], ("status", "score"), 1e300))
    assert (obj.value, is_dropped(obj, "status.score")) == (None, True)
    assert read(ManagedClusterScore, DOCUMENTS[ManagedClusterScore]).value == 5


def test_placement_with_one_unreadable_requirement_selects_nothing() -> None:
    path = ("spec", "predicates", 0, "requiredClusterSelector", "labelSelector", "matchLabels", "region")
    obj = read(Placement, replaced(DOCUMENTS[Placement], path, 7))
    field = unreadable_within(obj, "spec")
    assert field is not None
    assert field.path.startswith("spec.predicates[0].requiredClusterSelector.labelSelector.matchLabels")
    assert (obj.spec.numberOfClusters, obj.spec.predicates) == (0, ())


def test_number_without_fraction_is_an_integer() -> None:
    obj = read(Placement, replaced(DOCUMENTS[Placement], ("status", "numberOfSelectedClusters"), 1.0))
    assert (obj.status.numberOfSelectedClusters, unreadable_fields(obj)) == (1, ())


def test_more_unreadable_fields_than_the_limit_drop_the_list_that_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bounds the work on one object, whatever number of fields its writer made unreadable."""
    reads = 0
    read_one = salvage._Node.read

    def counted(*arguments: Any) -> Any:
        nonlocal reads
        reads += 1
        return read_one(*arguments)

    monkeypatch.setattr(salvage._Node, "read", counted)
    bad = [
        {**CONDITION, "type": f"T{number}", "lastTransitionTime": BAD_TIME} for number in range(MOST_ITEMS)
    ]
    cluster = read(
        ManagedCluster, replaced(DOCUMENTS[ManagedCluster], ("status", "conditions"), bad[:MOST_FIELDS])
    )
    assert cluster.status.conditions is not None
    (field,) = unreadable_fields(cluster)
    assert len(cluster.status.conditions) == field.count == MOST_FIELDS
    assert str(field) == (
        "status.conditions[0].lastTransitionTime: Invalid RFC3339 encoded datetime (and 99 more)"
    )
    few, reads = reads, 0
    cluster = read(ManagedCluster, replaced(DOCUMENTS[ManagedCluster], ("status", "conditions"), bad))
    assert [field.path for field in unreadable_fields(cluster)] == ["status.conditions"]
    assert cluster.status.conditions is None
    assert len(cluster.status.clusterClaims) == 2
    assert cluster.spec.taints == (
        Taint(key="k", value="v", effect="NoSelect", timeAdded=datetime(2026, 1, 1, tzinfo=UTC)),
    )
    assert reads <= few + 10
    reads = 0
    cluster = read(ManagedCluster, replaced(DOCUMENTS[ManagedCluster], ("status", "conditions"), [*bad, 7]))
    assert [field.path for field in unreadable_fields(cluster)] == ["status.conditions"]
    assert reads <= 10


def test_paths_name_fields_of_the_schema_whatever_keys_an_agent_invents() -> None:
    keys: dict[str, list[int]] = {f"k].x[{number}\n": [] for number in range(20)}
    obj = read(ManagedCluster, replaced(DOCUMENTS[ManagedCluster], ("status", "capacity"), keys))
    assert {field.field for field in unreadable_fields(obj)} == {"status.capacity[]"}
    assert all(field.path.isprintable() for field in unreadable_fields(obj))


def test_object_without_a_readable_name_is_refused() -> None:
    for raw in (b"7", b"[]", b'{"metadata":{"name":7}}', b'{"metadata":7}', b'{"spec":7}', b'{"metadata":'):
        with pytest.raises(SalvageError):
            salvage.salvage(raw, ManagedCluster)
