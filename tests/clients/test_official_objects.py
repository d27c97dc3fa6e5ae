"""The official Python client and objects of built-in kinds: written, read, selected, patched and deleted."""

from typing import Any

import pytest

from clients.official import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    client,
    config_map,
    deployment,
)
from clients.refusals import absent, refused, stale, status


@pytest.fixture
def core(api: Any) -> Any:
    return client.CoreV1Api(api)


@pytest.fixture
def apps(api: Any) -> Any:
    return client.AppsV1Api(api)


def managers(document: Any) -> dict[str, str]:
    return {entry.manager: entry.operation for entry in document.metadata.managed_fields}


def test_official_objects_object_lifecycle(core: Any, room: str) -> None:
    made = core.create_namespaced_config_map(room, config_map("buoy", light="green"))
    assert made.metadata.uid
    assert made.metadata.creation_timestamp.tzinfo is not None
    assert core.read_namespaced_config_map("buoy", room) == made
    made.data["light"] = "red"
    replaced = core.replace_namespaced_config_map("buoy", room, made)
    assert replaced.data == {"light": "red"}
    assert int(replaced.metadata.resource_version) > int(made.metadata.resource_version)
    gone = core.delete_namespaced_config_map("buoy", room)
    details = {"name": "buoy", "kind": "configmaps", "uid": made.metadata.uid}
    assert gone == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }
    with refused(absent("configmaps", "buoy")):
        core.read_namespaced_config_map("buoy", room)


def test_official_objects_two_writers(core: Any, room: str) -> None:
    made = core.create_namespaced_config_map(room, config_map("buoy", light="green"))
    made.data["light"] = "red"
    core.replace_namespaced_config_map("buoy", room, made)
    with refused(stale("configmaps", "buoy")):
        core.replace_namespaced_config_map("buoy", room, made)
    with refused(stale("configmaps", "buoy")):
        body = {"metadata": {"resourceVersion": made.metadata.resource_version}, "data": {"light": "off"}}
        core.patch_namespaced_config_map("buoy", room, body, _content_type=MERGE)


def test_what_cannot_be_created(core: Any, room: str) -> None:
    core.create_namespaced_config_map(room, config_map("buoy"))
    with refused(
        status(409, "AlreadyExists", 'configmaps "buoy" already exists', name="buoy", kind="configmaps")
    ):
        core.create_namespaced_config_map(room, config_map("buoy"))
    with refused(absent("namespaces", "nowhere")):
        core.create_namespaced_config_map("nowhere", config_map("buoy"))
    rule = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
        "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )
    told = f'Invalid value: "Buoy": {rule}'
    with refused(
        status(
            422,
            "Invalid",
            f'ConfigMap "Buoy" is invalid: metadata.name: {told}',
            name="Buoy",
            kind="ConfigMap",
            causes=[{"reason": "FieldValueInvalid", "message": told, "field": "metadata.name"}],
        )
    ):
        core.create_namespaced_config_map(room, config_map("Buoy"))


def test_official_objects_generated_names(core: Any, room: str) -> None:
    named = client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="buoy-"))
    made = {core.create_namespaced_config_map(room, named).metadata.name for _ in range(3)}
    assert len(made) == 3
    assert {(name[:5], len(name)) for name in made} == {("buoy-", 10)}


def test_dry_runs_change_nothing(core: Any, room: str) -> None:
    assert core.create_namespaced_config_map(room, config_map("buoy"), dry_run="All").metadata.uid
    with refused(absent("configmaps", "buoy")):
        core.read_namespaced_config_map("buoy", room)
    made = core.create_namespaced_config_map(room, config_map("buoy", light="red"))
    body = {"data": {"light": "off"}}
    patched = core.patch_namespaced_config_map("buoy", room, body, dry_run="All", _content_type=MERGE)
    assert patched.data == {"light": "off"}
    core.delete_namespaced_config_map("buoy", room, dry_run="All")
    assert core.read_namespaced_config_map("buoy", room) == made


def test_official_objects_merge_patch(core: Any, room: str) -> None:
    core.create_namespaced_config_map(room, config_map("buoy", light="red", bell="yes"))
    body = {"data": {"bell": None, "horn": "no"}}
    patched = core.patch_namespaced_config_map("buoy", room, body, _content_type=MERGE)
    assert patched.data == {"light": "red", "horn": "no"}


def test_official_objects_json_patch(core: Any, room: str) -> None:
    core.create_namespaced_config_map(room, config_map("buoy", light="red"))
    body = [
        {"op": "test", "path": "/data/light", "value": "red"},
        {"op": "move", "from": "/data/light", "path": "/data/lamp"},
        {"op": "add", "path": "/metadata/labels", "value": {"sea": "north"}},
    ]
    patched = core.patch_namespaced_config_map("buoy", room, body, _content_type=JSON_PATCH)
    assert (patched.data, patched.metadata.labels) == ({"lamp": "red"}, {"sea": "north"})
    with refused(
        status(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
        | {"details": {}}
    ):
        core.patch_namespaced_config_map("buoy", room, body, _content_type=JSON_PATCH)


def test_a_strategic_patch_merges_by_name(apps: Any, room: str) -> None:
    apps.create_namespaced_deployment(room, deployment("fleet"))
    containers = [{"name": "side", "image": "side:1"}, {"name": "main", "image": "image:2"}]
    body = {"spec": {"template": {"spec": {"containers": containers}}}}
    patched = apps.patch_namespaced_deployment("fleet", room, body, _content_type=STRATEGIC)
    found = {c.name: c.image for c in patched.spec.template.spec.containers}
    assert found == {"main": "image:2", "side": "side:1"}
    assert patched.metadata.generation == 2
    body = {"spec": {"template": {"spec": {"containers": [{"name": "main", "$patch": "delete"}]}}}}
    patched = apps.patch_namespaced_deployment("fleet", room, body, _content_type=STRATEGIC)
    assert [c.name for c in patched.spec.template.spec.containers] == ["side"]


def test_apply_with_owners_and_conflicts(core: Any, room: str) -> None:
    def applied(manager: str, light: str, **more: Any) -> Any:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "buoy"},
            "data": {"light": light},
        }
        return core.patch_namespaced_config_map(
            "buoy", room, body, field_manager=manager, _content_type=APPLY, **more
        )

    made = applied("keeper", "red")
    assert managers(made) == {"keeper": "Apply"}
    assert applied("keeper", "red").metadata.resource_version == made.metadata.resource_version
    assert managers(applied("visitor", "red")) == {"keeper": "Apply", "visitor": "Apply"}
    told = 'conflict with "keeper": .data.light'
    with refused(
        status(
            409,
            "Conflict",
            f"Apply failed with 1 conflict: {told}",
            causes=[
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "keeper"',
                    "field": ".data.light",
                }
            ],
        )
    ):
        applied("visitor", "green")
    assert managers(applied("visitor", "green", force=True)) == {"visitor": "Apply"}


def test_official_objects_selectors(core: Any, room: str) -> None:
    for name, sea in (("a", "north"), ("b", "south"), ("c", "north"), ("d", "baltic")):
        core.create_namespaced_config_map(room, config_map(name, labels={"sea": sea}))

    def found(**query: str) -> list[str]:
        return [each.metadata.name for each in core.list_namespaced_config_map(room, **query).items]

    assert found(label_selector="sea=north") == ["a", "c"]
    assert found(label_selector="sea in (south, baltic)") == ["b", "d"]
    assert found(label_selector="sea,sea notin (north),sea!=south") == ["d"]
    assert found(label_selector="sea", field_selector="metadata.name!=a") == ["b", "c", "d"]
    assert found(field_selector="metadata.name=c") == ["c"]
    with refused(status(400, "BadRequest", "unable to parse requirement: found '=', expected: identifier")):
        found(label_selector="sea===north")
    with refused(
        status(
            400,
            "BadRequest",
            '"data.light" is not a known field selector: only "metadata.name", "metadata.namespace"',
        )
    ):
        found(field_selector="data.light=red")


def test_official_objects_pages(core: Any, room: str) -> None:
    for name in ("a", "b", "c"):
        core.create_namespaced_config_map(room, config_map(name, labels={"page": "yes"}))
    first = core.list_namespaced_config_map(room, limit=2, label_selector="page")
    rest = core.list_namespaced_config_map(
        room, limit=2, label_selector="page", _continue=first.metadata._continue
    )
    assert [each.metadata.name for each in first.items + rest.items] == ["a", "b", "c"]
    assert rest.metadata._continue is None


def test_official_objects_deletion_preconditions(core: Any, room: str) -> None:
    made = core.create_namespaced_config_map(room, config_map("buoy"))
    other = "00000000-0000-0000-0000-000000000000"
    message = (
        f'Operation cannot be fulfilled on ConfigMap "buoy": the UID in the precondition ({other}) does not match the '
        f"UID in record ({made.metadata.uid}). The object might have been deleted and then recreated"
    )
    with refused(status(409, "Conflict", message, name="buoy", kind="ConfigMap")):
        core.delete_namespaced_config_map("buoy", room, body={"preconditions": {"uid": other}})
    core.delete_namespaced_config_map("buoy", room, body={"preconditions": {"uid": made.metadata.uid}})


def test_foreground_deletion_waits_for_dependents(core: Any, room: str) -> None:
    owner = core.create_namespaced_config_map(room, config_map("owner"))
    reference = client.V1OwnerReference(
        api_version="v1", kind="ConfigMap", name="owner", uid=owner.metadata.uid, block_owner_deletion=True
    )
    dependent = config_map("dependent")
    dependent.metadata.owner_references = [reference]
    dependent.metadata.finalizers = ["suite.fairway.dev/wait"]
    core.create_namespaced_config_map(room, dependent)
    core.delete_namespaced_config_map("owner", room, propagation_policy="Foreground")
    held = core.read_namespaced_config_map("owner", room)
    assert held.metadata.finalizers == ["foregroundDeletion"]
    assert held.metadata.deletion_timestamp is not None


def test_a_collection_goes_as_selected(core: Any, room: str) -> None:
    for name, sea in (("a", "north"), ("b", "south"), ("c", "north")):
        core.create_namespaced_config_map(room, config_map(name, labels={"sea": sea}))
    core.delete_collection_namespaced_config_map(room, label_selector="sea=north")
    left = core.list_namespaced_config_map(room, label_selector="sea").items
    assert [each.metadata.name for each in left] == ["b"]


def test_official_objects_scale(apps: Any, room: str) -> None:
    apps.create_namespaced_deployment(room, deployment("fleet", replicas=2))
    scale = apps.read_namespaced_deployment_scale("fleet", room)
    assert (scale.spec.replicas, scale.status.selector) == (2, "app=fleet")
    scale.spec.replicas = 5
    assert apps.replace_namespaced_deployment_scale("fleet", room, scale).spec.replicas == 5
    body = {"spec": {"replicas": 3}}
    scaled = apps.patch_namespaced_deployment_scale("fleet", room, body, _content_type=MERGE)
    assert scaled.spec.replicas == 3
    found = apps.read_namespaced_deployment("fleet", room)
    assert (found.spec.replicas, found.metadata.generation) == (3, 3)
    with refused(stale("deployments", "fleet", group="apps")):
        apps.replace_namespaced_deployment_scale("fleet", room, scale)


def test_status_is_written_apart(apps: Any, room: str) -> None:
    made = apps.create_namespaced_deployment(room, deployment("fleet"))
    made.status.replicas = 1
    made.spec.replicas = 7
    told = apps.replace_namespaced_deployment_status("fleet", room, made)
    assert (told.spec.replicas, told.status.replicas, told.metadata.generation) == (1, 1, 1)
    told.status.replicas = 9
    told.spec.replicas = 2
    replaced = apps.replace_namespaced_deployment("fleet", room, told)
    assert (replaced.spec.replicas, replaced.status.replicas, replaced.metadata.generation) == (2, 1, 2)
