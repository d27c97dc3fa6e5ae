"""Converted resources: a write in one version is visible in the other."""

from typing import Any

from fairway.api import crds
from fairway.testing.hub import embedded_hub
from kubehub.options import Read, Write
from kubehub.serialization import representation
from kubehub.user import MASTERS, User
from kubehub.write_request import MERGE_PATCH, Patch, WriteRequest

GROUP = "cluster.open-cluster-management.io"


def request() -> WriteRequest:
    return WriteRequest(user=User(name="test", groups=(MASTERS,)), options=Write(manager="test"))


def placement(**config: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "Placement",
        "metadata": {"name": "p"},
        "spec": {"numberOfClusters": 1, "prioritizerPolicy": {"mode": "Exact", "configurations": [config]}},
    }


async def test_v1alpha1_placement_is_stored_as_v1beta1() -> None:
    async with embedded_hub(definitions=tuple(crds())) as hub:
        old = hub.registry.find(GROUP, "v1alpha1", "placements")
        new = hub.registry.find(GROUP, "v1beta1", "placements")
        assert old is not None
        assert new is not None
        written = await hub.writer.create(old, "default", placement(name="Steady", weight=2), request())
        kept = representation.decode(new, written.raw)
        assert kept["apiVersion"] == f"{GROUP}/v1beta1"
        assert kept["spec"]["prioritizerPolicy"]["configurations"] == [
            {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}, "weight": 2}
        ]
        shown = representation.decode(old, written.raw)
        assert shown["apiVersion"] == f"{GROUP}/v1alpha1"
        assert shown["spec"]["prioritizerPolicy"]["configurations"][0]["name"] == "Steady"
        patch = Patch(media=MERGE_PATCH, body={"spec": {"numberOfClusters": 3}})
        changed = await hub.writer.patch(old, "default", "p", patch, request())
        assert representation.decode(new, changed.raw)["spec"]["numberOfClusters"] == 3
        assert (
            representation.decode(new, changed.raw)["spec"]["prioritizerPolicy"]
            == kept["spec"]["prioritizerPolicy"]
        )
        listed = await hub.reader.listing(new, "default", Read(), representation.PLAIN_JSON)
        assert listed.count(b'"kind":"Placement"') == 1


async def test_events_of_both_groups_are_stored_as_one_kind() -> None:
    async with embedded_hub(definitions=()) as hub:
        core = hub.registry.find("", "v1", "events")
        modern = hub.registry.find("events.k8s.io", "v1", "events")
        assert core is not None
        assert modern is not None
        event = {
            "metadata": {"name": "e"},
            "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
            "note": "it happened",
            "reason": "Happened",
            "type": "Normal",
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "test",
            "reportingInstance": "i",
            "action": "Do",
        }
        written = await hub.writer.create(modern, "default", event, request())
        assert representation.decode(core, written.raw)["message"] == "it happened"
        assert representation.decode(core, written.raw)["involvedObject"]["name"] == "p"
        assert representation.decode(modern, written.raw)["note"] == "it happened"
        assert hub.store.count("events") == 1
