"""The official Python client and objects of built-in kinds: written, read, selected, patched and deleted."""

from typing import Any

import pytest
from clients.official import MERGE, client, config_map, deployment
from clients.refusals import absent, refused, stale


@pytest.fixture
def core(api: Any) -> Any:
    return client.CoreV1Api(api)


@pytest.fixture
def apps(api: Any) -> Any:
    return client.AppsV1Api(api)


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


def test_official_objects_pages(core: Any, room: str) -> None:
    for name in ("a", "b", "c"):
        core.create_namespaced_config_map(room, config_map(name, labels={"page": "yes"}))
    first = core.list_namespaced_config_map(room, limit=2, label_selector="page")
    rest = core.list_namespaced_config_map(
        room, limit=2, label_selector="page", _continue=first.metadata._continue
    )
    assert [item.metadata.name for item in first.items + rest.items] == ["a", "b", "c"]
    assert rest.metadata._continue is None


def test_official_objects_scale(apps: Any, room: str) -> None:
    apps.create_namespaced_deployment(room, deployment("fleet", replicas=2))
    scale = apps.read_namespaced_deployment_scale("fleet", room)
    assert (scale.spec.replicas, scale.status.selector) == (2, "app=fleet")
    scale.spec.replicas = 5
    assert apps.replace_namespaced_deployment_scale("fleet", room, scale).spec.replicas == 5
    body = {"spec": {"replicas": 3}}
    scaled = apps.patch_namespaced_deployment_scale("fleet", room, body, _content_type=MERGE)
    assert scaled.spec.replicas == 3
    parent = apps.read_namespaced_deployment("fleet", room)
    assert (parent.spec.replicas, parent.metadata.generation) == (3, 3)
    with refused(stale("deployments", "fleet", group="apps")):
        apps.replace_namespaced_deployment_scale("fleet", room, scale)
