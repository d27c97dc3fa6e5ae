"""The official Python client and custom objects: through the API for them, and through the dynamic client."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clients import boats as custom
from clients.official import APPLY, JSON_PATCH, MERGE, STRATEGIC, client, dynamic, watch
from clients.refusals import absent, refused, stale, status

DEADLINE = 120
BOATS = {"group": custom.GROUP, "version": custom.VERSION, "plural": custom.PLURAL}


@pytest.fixture
def objects(api: Any, boats: None) -> Any:
    return client.CustomObjectsApi(api)


@pytest.fixture(scope="module")
def dynamics(api: Any, boats: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    # What it finds out it keeps by address, where a hub of another run may have been at the same one.
    return dynamic.DynamicClient(api, cache_file=str(tmp_path_factory.mktemp("dynamic") / "found"))


@pytest.fixture
def fleet(dynamics: Any) -> Any:
    return dynamics.resources.get(api_version=custom.API_VERSION, kind=custom.KIND)


def test_official_custom_object_lifecycle(objects: Any, room: str) -> None:
    where = {**BOATS, "namespace": room}
    made = objects.create_namespaced_custom_object(body=custom.boat("kon-tiki"), **where)
    assert made["spec"] == {"port": "home", "crew": 1}
    assert made["metadata"]["generation"] == 1
    made["spec"]["crew"] = 6
    replaced = objects.replace_namespaced_custom_object(name="kon-tiki", body=made, **where)
    assert replaced["metadata"]["generation"] == 2
    with refused(stale("boats", "kon-tiki", group=custom.GROUP)):
        objects.replace_namespaced_custom_object(name="kon-tiki", body=made, **where)
    assert objects.get_namespaced_custom_object(name="kon-tiki", **where) == replaced
    gone = objects.delete_namespaced_custom_object(name="kon-tiki", **where)
    assert gone["details"] == {
        "name": "kon-tiki",
        "group": custom.GROUP,
        "kind": "boats",
        "uid": made["metadata"]["uid"],
    }
    with refused(absent("boats", "kon-tiki", group=custom.GROUP)):
        objects.get_namespaced_custom_object(name="kon-tiki", **where)


def test_official_custom_patches(objects: Any, room: str) -> None:
    where = {**BOATS, "namespace": room, "name": "kon-tiki"}
    objects.create_namespaced_custom_object(body=custom.boat("kon-tiki"), **BOATS, namespace=room)
    merged = objects.patch_namespaced_custom_object(
        body={"spec": {"crew": 6, "port": None}}, _content_type=MERGE, **where
    )
    assert merged["spec"] == {"crew": 6}
    operations = [{"op": "replace", "path": "/spec/crew", "value": 5}]
    patched = objects.patch_namespaced_custom_object(body=operations, _content_type=JSON_PATCH, **where)
    assert patched["spec"] == {"crew": 5}
    applied = objects.patch_namespaced_custom_object(
        body={
            "apiVersion": custom.API_VERSION,
            "kind": custom.KIND,
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


def test_what_the_schema_refuses(objects: Any, room: str) -> None:
    schema = "Invalid value: -1: spec.crew in body should be greater than or equal to 0"
    scale = "Invalid value: -1: should be a non-negative integer"
    expected = status(
        422,
        "Invalid",
        f'Boat.{custom.GROUP} "raft" is invalid: [spec.crew: {schema}, .spec.crew: {scale}]',
        name="raft",
        group=custom.GROUP,
        kind="Boat",
        causes=[
            {"reason": "FieldValueInvalid", "message": schema, "field": "spec.crew"},
            {"reason": "FieldValueInvalid", "message": scale, "field": ".spec.crew"},
        ],
    )
    with refused(expected):
        objects.create_namespaced_custom_object(body=custom.boat("raft", crew=-1), namespace=room, **BOATS)


def test_official_custom_status_and_scale(objects: Any, room: str) -> None:
    where = {**BOATS, "namespace": room, "name": "kon-tiki"}
    body = {**custom.boat("kon-tiki", crew=6), "status": {"phase": "lost"}}
    made = objects.create_namespaced_custom_object(body=body, **BOATS, namespace=room)
    assert "status" not in made
    told = objects.patch_namespaced_custom_object_status(
        body={"status": {"phase": "afloat", "aboard": 5, "selector": "boat=kon-tiki"}, "spec": {"crew": 9}},
        _content_type=MERGE,
        **where,
    )
    assert (told["spec"]["crew"], told["status"]["phase"], told["metadata"]["generation"]) == (6, "afloat", 1)
    scale = objects.get_namespaced_custom_object_scale(**where)
    assert scale["spec"] == {"replicas": 6}
    assert scale["status"] == {"replicas": 5, "selector": "boat=kon-tiki"}
    scaled = objects.patch_namespaced_custom_object_scale(
        body={"spec": {"replicas": 4}}, _content_type=MERGE, **where
    )
    assert scaled["spec"] == {"replicas": 4}
    scaled["spec"]["replicas"] = 3
    assert objects.replace_namespaced_custom_object_scale(body=scaled, **where)["spec"] == {"replicas": 3}
    found = objects.get_namespaced_custom_object(**where)
    assert (found["spec"]["crew"], found["metadata"]["generation"]) == (3, 3)
    found["status"]["phase"] = "ashore"
    assert objects.replace_namespaced_custom_object_status(body=found, **where)["status"]["phase"] == "ashore"


def test_official_custom_lists(objects: Any, room: str) -> None:
    for name, port in (("a", "home"), ("b", "away"), ("c", "home")):
        boat = custom.boat(name, labels={"room": room}, port=port)
        objects.create_namespaced_custom_object(body=boat, namespace=room, **BOATS)
    found = objects.list_cluster_custom_object(label_selector=f"room={room}", **BOATS)
    assert (found["kind"], [each["metadata"]["name"] for each in found["items"]]) == (
        "BoatList",
        ["a", "b", "c"],
    )
    assert found["items"][0]["kind"] == "Boat"
    found = objects.list_namespaced_custom_object(
        namespace=room, field_selector="spec.port=home", limit=1, **BOATS
    )
    rest = objects.list_namespaced_custom_object(
        namespace=room, field_selector="spec.port=home", _continue=found["metadata"]["continue"], **BOATS
    )
    assert [each["metadata"]["name"] for each in found["items"] + rest["items"]] == ["a", "c"]
    with refused(status(400, "BadRequest", "field label not supported: spec.crew")):
        objects.list_namespaced_custom_object(namespace=room, field_selector="spec.crew=1", **BOATS)
    objects.delete_collection_namespaced_custom_object(
        namespace=room, field_selector="spec.port=home", **BOATS
    )
    left = objects.list_namespaced_custom_object(namespace=room, **BOATS)["items"]
    assert [each["metadata"]["name"] for each in left] == ["b"]


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
    made = fleet.create(body=custom.boat("kon-tiki"), namespace=room)
    assert made.spec.crew == 1
    patched = fleet.patch(name="kon-tiki", namespace=room, body={"spec": {"crew": 6}}, content_type=MERGE)
    assert (patched.spec.crew, patched.metadata.generation) == (6, 2)
    told = fleet.status.patch(
        name="kon-tiki", namespace=room, body={"status": {"phase": "afloat"}}, content_type=MERGE
    )
    assert told.status.phase == "afloat"
    with pytest.raises(dynamic.exceptions.ConflictError):
        fleet.replace(body={**made.to_dict(), "spec": {"crew": 2}}, namespace=room)
    assert [each.metadata.name for each in fleet.get(namespace=room).items] == ["kon-tiki"]
    fleet.delete(name="kon-tiki", namespace=room)
    with pytest.raises(dynamic.exceptions.NotFoundError):
        fleet.get(name="kon-tiki", namespace=room)


def test_official_custom_dynamic_apply(fleet: Any, room: str) -> None:
    def applied(manager: str, crew: int, **more: Any) -> Any:
        body = custom.boat("kon-tiki", crew=crew)
        return fleet.server_side_apply(body=body, namespace=room, field_manager=manager, **more)

    assert applied("captain", 6).metadata.managedFields[0].manager == "captain"
    with pytest.raises(dynamic.exceptions.ConflictError, match=r'conflict with \\"captain\\": \.spec\.crew'):
        applied("mutineer", 1)
    assert applied("mutineer", 1, force_conflicts=True).spec.crew == 1


def test_official_custom_dynamic_watch(fleet: Any, room: str) -> None:
    fleet.create(body=custom.boat("there"), namespace=room)
    watcher = watch.Watch()
    told = []
    for event in fleet.watch(namespace=room, watcher=watcher, timeout=DEADLINE):
        told.append((event["type"], event["object"].metadata.name))
        if len(told) == 1:
            fleet.create(body=custom.boat("later"), namespace=room)
        elif len(told) == 2:
            fleet.delete(name="there", namespace=room)
        else:
            watcher.stop()
    assert told == [("ADDED", "there"), ("ADDED", "later"), ("DELETED", "there")]


@pytest.fixture
def rafts(api: Any) -> Iterator[dict[str, Any]]:
    """A definition for one test, which may delete it."""
    group = "rafts.clients.suite.fairway.dev"
    definition = {
        **custom.DEFINITION,
        "metadata": {"name": f"rafts.{group}"},
        "spec": {
            **custom.DEFINITION["spec"],
            "group": group,
            "names": {"plural": "rafts", "singular": "raft", "kind": "Raft"},
        },
    }
    yield definition
    definitions = client.ApiextensionsV1Api(api)
    if definitions.list_custom_resource_definition(field_selector=f"metadata.name=rafts.{group}").items:
        definitions.delete_custom_resource_definition(f"rafts.{group}")


def until_served(look: Callable[[], Any]) -> None:
    """A real hub may serve a definition a moment after it says so."""
    ends = time.monotonic() + DEADLINE
    while True:
        try:
            look()
        except client.ApiException as error:
            if error.status != 404 or time.monotonic() > ends:
                raise
        else:
            return


def test_the_life_of_a_definition(api: Any, rafts: dict[str, Any], room: str) -> None:
    definitions, objects = client.ApiextensionsV1Api(api), client.CustomObjectsApi(api)
    name, group = rafts["metadata"]["name"], rafts["spec"]["group"]
    where = {"group": group, "version": "v1", "plural": "rafts", "namespace": room}
    definitions.create_custom_resource_definition(rafts)
    watcher = watch.Watch()
    for event in watcher.stream(
        definitions.list_custom_resource_definition,
        field_selector=f"metadata.name={name}",
        timeout_seconds=DEADLINE,
    ):
        found = event["object"].status
        if any(c.type == "Established" and c.status == "True" for c in found.conditions or ()):
            assert (found.accepted_names.kind, found.stored_versions) == ("Raft", ["v1"])
            watcher.stop()
    raft = {
        "apiVersion": f"{group}/v1",
        "kind": "Raft",
        "metadata": {"name": "r", "finalizers": ["suite.fairway.dev/wait"]},
    }
    until_served(lambda: objects.list_namespaced_custom_object(**where))
    objects.create_namespaced_custom_object(body=raft, **where)
    definitions.delete_custom_resource_definition(name)
    # The definition stays for as long as its objects do.
    for event in watcher.stream(objects.list_namespaced_custom_object, timeout_seconds=DEADLINE, **where):
        if event["object"]["metadata"].get("deletionTimestamp"):
            watcher.stop()
    held = definitions.read_custom_resource_definition(name)
    assert held.metadata.deletion_timestamp
    objects.patch_namespaced_custom_object(
        name="r", body={"metadata": {"finalizers": None}}, _content_type=MERGE, **where
    )
    told = []
    for event in watcher.stream(
        definitions.list_custom_resource_definition,
        field_selector=f"metadata.name={name}",
        resource_version=held.metadata.resource_version,
        timeout_seconds=DEADLINE,
    ):
        told.append(event["type"])
        if told[-1] == "DELETED":
            watcher.stop()
    assert told[-1] == "DELETED"
