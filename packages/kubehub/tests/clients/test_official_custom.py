"""The official Python client and custom objects: through the API for them, and through the dynamic client."""

from typing import Any

import pytest
from clients import boat_crd
from clients.official import APPLY, JSON_PATCH, MERGE, STRATEGIC, client, dynamic, watch
from clients.refusals import absent, refused, stale, status

DEADLINE = 120
BOATS = {"group": boat_crd.GROUP, "version": boat_crd.VERSION, "plural": boat_crd.PLURAL}


@pytest.fixture
def objects(api: Any, boats: None) -> Any:
    return client.CustomObjectsApi(api)


@pytest.fixture(scope="module")
def dynamics(api: Any, boats: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    # What it finds out it keeps by address, where a hub of another run may have been at the same one.
    return dynamic.DynamicClient(api, cache_file=str(tmp_path_factory.mktemp("dynamic") / "found"))


@pytest.fixture
def fleet(dynamics: Any) -> Any:
    return dynamics.resources.get(api_version=boat_crd.API_VERSION, kind=boat_crd.KIND)


def test_official_custom_object_lifecycle(objects: Any, room: str) -> None:
    where = {**BOATS, "namespace": room}
    made = objects.create_namespaced_custom_object(body=boat_crd.boat("kon-tiki"), **where)
    assert made["spec"] == {"port": "home", "crew": 1}
    assert made["metadata"]["generation"] == 1
    made["spec"]["crew"] = 6
    replaced = objects.replace_namespaced_custom_object(name="kon-tiki", body=made, **where)
    assert replaced["metadata"]["generation"] == 2
    with refused(stale("boats", "kon-tiki", group=boat_crd.GROUP)):
        objects.replace_namespaced_custom_object(name="kon-tiki", body=made, **where)
    assert objects.get_namespaced_custom_object(name="kon-tiki", **where) == replaced
    gone = objects.delete_namespaced_custom_object(name="kon-tiki", **where)
    assert gone["details"] == {
        "name": "kon-tiki",
        "group": boat_crd.GROUP,
        "kind": "boats",
        "uid": made["metadata"]["uid"],
    }
    with refused(absent("boats", "kon-tiki", group=boat_crd.GROUP)):
        objects.get_namespaced_custom_object(name="kon-tiki", **where)


def test_official_custom_patches(objects: Any, room: str) -> None:
    where = {**BOATS, "namespace": room, "name": "kon-tiki"}
    objects.create_namespaced_custom_object(body=boat_crd.boat("kon-tiki"), **BOATS, namespace=room)
    merged = objects.patch_namespaced_custom_object(
        body={"spec": {"crew": 6, "port": None}}, _content_type=MERGE, **where
    )
    assert merged["spec"] == {"crew": 6}
    operations = [{"op": "replace", "path": "/spec/crew", "value": 5}]
    patched = objects.patch_namespaced_custom_object(body=operations, _content_type=JSON_PATCH, **where)
    assert patched["spec"] == {"crew": 5}
    applied = objects.patch_namespaced_custom_object(
        body={
            "apiVersion": boat_crd.API_VERSION,
            "kind": boat_crd.KIND,
            "spec": {"sails": [{"name": "main", "area": 27}]},
        },
        field_manager="sailmaker",
        _content_type=APPLY,
        **where,
    )
    assert applied["spec"] == {"crew": 5, "sails": [{"name": "main", "area": 27}]}
    words = (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{JSON_PATCH}, {MERGE}, {APPLY}"
    )
    with refused(status(415, "UnsupportedMediaType", words)):
        objects.patch_namespaced_custom_object(body={"spec": {}}, _content_type=STRATEGIC, **where)


def test_official_custom_lists(objects: Any, room: str) -> None:
    for name, port in (("a", "home"), ("b", "away"), ("c", "home")):
        boat = boat_crd.boat(name, labels={"room": room}, port=port)
        objects.create_namespaced_custom_object(body=boat, namespace=room, **BOATS)
    listing = objects.list_cluster_custom_object(label_selector=f"room={room}", **BOATS)
    assert (listing["kind"], [item["metadata"]["name"] for item in listing["items"]]) == (
        "BoatList",
        ["a", "b", "c"],
    )
    assert listing["items"][0]["kind"] == "Boat"
    listing = objects.list_namespaced_custom_object(
        namespace=room, field_selector="spec.port=home", limit=1, **BOATS
    )
    rest = objects.list_namespaced_custom_object(
        namespace=room, field_selector="spec.port=home", _continue=listing["metadata"]["continue"], **BOATS
    )
    assert [item["metadata"]["name"] for item in listing["items"] + rest["items"]] == ["a", "c"]
    with refused(status(400, "BadRequest", "field label not supported: spec.crew")):
        objects.list_namespaced_custom_object(namespace=room, field_selector="spec.crew=1", **BOATS)
    objects.delete_collection_namespaced_custom_object(
        namespace=room, field_selector="spec.port=home", **BOATS
    )
    left = objects.list_namespaced_custom_object(namespace=room, **BOATS)["items"]
    assert [item["metadata"]["name"] for item in left] == ["b"]


def test_official_custom_discovery(dynamics: Any) -> None:
    version = dynamics.version["kubernetes"]
    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"].partition("+")[0] == "v1.36.3"
    maps = dynamics.resources.get(kind="ConfigMap")
    assert (maps.group_version, maps.namespaced, maps.name) == ("v1", True, "configmaps")
    deployments = dynamics.resources.get(api_version="apps/v1", kind="Deployment")
    assert {"scale", "status"} <= set(deployments.subresources)
    boats = dynamics.resources.get(short_names=["bt"])
    assert (boats.kind, boats.preferred, boats.subresources["scale"].kind) == ("Boat", True, "Scale")
    with pytest.raises(dynamic.exceptions.ResourceNotFoundError):
        dynamics.resources.get(api_version="v1", kind="Ghost")


def test_official_custom_dynamic_objects(fleet: Any, room: str) -> None:
    made = fleet.create(body=boat_crd.boat("kon-tiki"), namespace=room)
    assert made.spec.crew == 1
    patched = fleet.patch(name="kon-tiki", namespace=room, body={"spec": {"crew": 6}}, content_type=MERGE)
    assert (patched.spec.crew, patched.metadata.generation) == (6, 2)
    told = fleet.status.patch(
        name="kon-tiki", namespace=room, body={"status": {"phase": "afloat"}}, content_type=MERGE
    )
    assert told.status.phase == "afloat"
    with pytest.raises(dynamic.exceptions.ConflictError):
        fleet.replace(body={**made.to_dict(), "spec": {"crew": 2}}, namespace=room)
    assert [item.metadata.name for item in fleet.get(namespace=room).items] == ["kon-tiki"]
    fleet.delete(name="kon-tiki", namespace=room)
    with pytest.raises(dynamic.exceptions.NotFoundError):
        fleet.get(name="kon-tiki", namespace=room)


def test_official_custom_dynamic_watch(fleet: Any, room: str) -> None:
    fleet.create(body=boat_crd.boat("there"), namespace=room)
    watcher = watch.Watch()
    told = []
    for event in fleet.watch(namespace=room, watcher=watcher, timeout=DEADLINE):
        told.append((event["type"], event["object"].metadata.name))
        if len(told) == 1:
            fleet.create(body=boat_crd.boat("later"), namespace=room)
        elif len(told) == 2:
            fleet.delete(name="there", namespace=room)
        else:
            watcher.stop()
    assert told == [("ADDED", "there"), ("ADDED", "later"), ("DELETED", "there")]
