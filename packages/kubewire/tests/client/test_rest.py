"""The verbs: what goes over the wire, and what comes back."""

import gzip
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from client.conftest import QUICK

from fairway.api.cluster import ManagedCluster, ManagedClusterSpec
from fairway.api.placement import Placement
from fairway.api.resources import MANAGED_CLUSTERS, PLACEMENTS
from kubewire.api.meta import ObjectMeta
from kubewire.api.resource import Resource
from kubewire.client import rest
from kubewire.client.connection import Connection
from kubewire.client.credentials import StoredCredentials
from kubewire.client.errors import AlreadyExists, ConfigError, NotFound, UnreadableError
from kubewire.client.request_options import Patch
from kubewire.client.rest import Client
from kubewire.user_agent import user_agent
from rigs.fake_server import GROUP, PATH, FakeServer

BODY = {"metadata": {"name": "a", "labels": {"x": "1"}}}


def names(clusters: tuple[ManagedCluster, ...]) -> list[str]:
    return [obj.metadata.name for obj in clusters]


class TestReading:
    async def test_client_gets_an_object(self, hub: FakeServer, client: Client) -> None:
        hub.put("a", x="1")
        cluster = await client.get(MANAGED_CLUSTERS, "a")
        assert isinstance(cluster, ManagedCluster)
        assert cluster.metadata.labels == {"x": "1"}
        assert hub.requests[0].path == f"{PATH}/a"
        with pytest.raises(NotFound, match=f"GET {PATH}/b: 404 NotFound"):
            await client.get(MANAGED_CLUSTERS, "b")

    async def test_client_sends_its_headers(self, hub: FakeServer) -> None:
        connection = Connection(server=hub.url, credentials=StoredCredentials(token="t"))
        async with Client(connection) as client:
            await client.list(MANAGED_CLUSTERS)
        headers = hub.requests[0].headers
        assert headers["User-Agent"] == user_agent()
        assert headers["Accept"] == "application/json"
        assert headers["Authorization"] == "Bearer t"
        assert "Cookie" not in headers

    async def test_client_lists_in_pages(self, hub: FakeServer, client: Client) -> None:
        for name in "edcba":
            hub.put(name)
        hub.objects.revision = 99
        listing = await client.list(
            MANAGED_CLUSTERS, limit=2, labels="x in (1, 2)", fields="metadata.name!=z"
        )
        assert names(listing.items) == ["a", "b", "c", "d", "e"]
        assert listing.resource_version == "99"
        selectors = {"labelSelector": "x in (1, 2)", "fieldSelector": "metadata.name!=z"}
        assert [request.query for request in hub.requests] == [
            {**selectors, "limit": "2"},
            {**selectors, "limit": "2", "continue": "99:2"},
            {**selectors, "limit": "2", "continue": "99:4"},
        ]

    async def test_client_lists_one_page(self, hub: FakeServer, client: Client) -> None:
        hub.put("a")
        await client.list(MANAGED_CLUSTERS, limit=0, resource_version="5", match="NotOlderThan")
        assert hub.requests[0].query == {"resourceVersion": "5", "resourceVersionMatch": "NotOlderThan"}

    async def test_client_lists_no_objects(self, hub: FakeServer, client: Client) -> None:
        assert (await client.list(MANAGED_CLUSTERS)).items == ()
        hub.fault(code=200, body=b'{"metadata":{"resourceVersion":"7"},"items":null}')
        assert (await client.list(MANAGED_CLUSTERS)).items == ()

    async def test_expired_page_token_restarts_the_list(self, hub: FakeServer, client: Client) -> None:
        for name in "abc":
            hub.put(name)
        hub.fault("list")
        hub.fault("list", code=410, reason="Expired")
        listing = await client.list(MANAGED_CLUSTERS, limit=2, resource_version="3", match="NotOlderThan")
        assert names(listing.items) == ["a", "b", "c"]
        asked = {"resourceVersion": "3", "resourceVersionMatch": "NotOlderThan"}
        assert [request.query for request in hub.requests] == [
            {**asked, "limit": "2"},
            {"limit": "2", "continue": f"{hub.objects.revision}:2"},
            asked,
        ]

    async def test_repeated_page_token_is_an_error(self, hub: FakeServer, client: Client) -> None:
        page = b'{"metadata":{"continue":"x"},"items":[]}'
        hub.fault(code=200, body=page)
        hub.fault(code=200, body=page)
        with pytest.raises(UnreadableError, match=rest.NO_PROGRESS):
            await client.list(MANAGED_CLUSTERS)

    async def test_unreadable_objects_of_a_list_are_reported(self, hub: FakeServer, client: Client) -> None:
        page = {
            "metadata": {"resourceVersion": "5"},
            "items": [
                {"metadata": {"name": "good"}},
                {"metadata": {"name": "nulls", "labels": None}, "spec": None},
                {"metadata": {"name": "bad", "resourceVersion": "4"}, "spec": {"taints": "no list"}},
            ],
        }
        hub.fault(code=200, body=json.dumps(page).encode())
        listing = await client.list(MANAGED_CLUSTERS)
        assert names(listing.items) == ["good", "nulls", "bad"]
        assert [(obj.key, obj.fields[0].path) for obj in listing.unreadable] == [(("", "bad"), "spec.taints")]

    @pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"items": 7}', b'{"items":[7'])
    async def test_response_that_is_not_a_list_is_an_error(
        self, hub: FakeServer, client: Client, body: bytes
    ) -> None:
        hub.fault(code=200, body=body)
        with pytest.raises(UnreadableError):
            await client.list(MANAGED_CLUSTERS)
        hub.fault(code=200, body=b"no object")
        with pytest.raises(UnreadableError):
            await client.get(MANAGED_CLUSTERS, "a")

    async def test_client_reads_the_newest_version(self, hub: FakeServer, client: Client) -> None:
        hub.put("a")
        hub.put("b")
        assert await client.newest(MANAGED_CLUSTERS) == str(hub.objects.revision)
        assert len(hub.requests) == 1

    async def test_client_sends_other_requests(self, hub: FakeServer, client: Client) -> None:
        hub.fault(code=200, body=b"v1", headers={"X-Thing": "yes"})
        response = await client.request("GET", "/version", query={"timeout": "32s"})
        assert (response.status, response.body, response.headers["x-thing"]) == (200, b"v1", "yes")
        assert "v1" not in repr(response)
        assert hub.requests[0].query == {"timeout": "32s"}
        hub.put("a")
        await client.request("PUT", f"{PATH}/a", body=BODY)
        assert hub.requests[1].headers["Content-Type"] == "application/json"
        assert hub.requests[1].json == BODY
        await client.request(
            "PUT", f"{PATH}/a", body=b'{"metadata": {}}', content_type="text/x", headers={"If-Match": "1"}
        )
        assert hub.requests[2].headers["Content-Type"] == "text/x"
        assert hub.requests[2].headers["If-Match"] == "1"


class TestWriting:
    async def test_client_creates_from_a_mapping(self, hub: FakeServer, client: Client) -> None:
        cluster = await client.create(MANAGED_CLUSTERS, BODY)
        assert cluster.metadata.uid == "uid-1"
        seen = hub.requests[0]
        assert (seen.method, seen.path) == ("POST", PATH)
        assert seen.query == {"fieldManager": "fairway"}
        assert seen.headers["Content-Type"] == "application/json"
        assert seen.json == {"apiVersion": f"{GROUP}/v1", "kind": "ManagedCluster", **BODY}
        with pytest.raises(AlreadyExists):
            await client.create(MANAGED_CLUSTERS, BODY)

    async def test_client_creates_from_a_typed_object(self, hub: FakeServer, client: Client) -> None:
        wanted = ManagedCluster(metadata=ObjectMeta(name="a"), spec=ManagedClusterSpec(hubAcceptsClient=True))
        await client.create(MANAGED_CLUSTERS, wanted, dry_run=True, field_manager="me")
        assert hub.requests[0].json == {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ManagedCluster",
            "metadata": {"name": "a"},
            "spec": {"hubAcceptsClient": True},
        }
        assert hub.requests[0].query == {"fieldManager": "me", "dryRun": "All"}

    async def test_client_accepts_a_status_response_of_a_subresource(
        self, hub: FakeServer, client: Client
    ) -> None:
        pods: Resource[Placement] = Resource(
            group="", version="v1", plural="pods", kind="Binding", namespaced=True, type=Placement
        )
        hub.fault(code=201, body=b'{"kind":"Status","status":"Success"}')
        body = {"metadata": {"name": "p"}, "target": {"name": "node-1"}}
        created = await client.create(pods, body, namespace="n", subresource="binding")
        assert created.metadata.name == "p"
        assert hub.requests[0].path == "/api/v1/namespaces/n/pods/p/binding"
        assert hub.requests[0].json == {"apiVersion": "v1", "kind": "Binding", **body}

    async def test_client_updates_an_object(self, hub: FakeServer, client: Client) -> None:
        body = {**BODY, "spec": {"unknown": 1}}
        await client.update(MANAGED_CLUSTERS, "a", body, subresource="status")
        assert (hub.requests[0].method, hub.requests[0].path) == ("PUT", f"{PATH}/a/status")
        assert hub.requests[0].json["spec"] == {"unknown": 1}

    async def test_typed_object_cannot_be_written_back(self, hub: FakeServer, client: Client) -> None:
        hub.put("a")
        typed: Any = await client.get(MANAGED_CLUSTERS, "a")
        with pytest.raises(TypeError, match="unknown fields would be lost"):
            await client.update(MANAGED_CLUSTERS, "a", typed)

    @pytest.mark.parametrize(
        ("kind", "body", "content_type"),
        [
            (Patch.JSON, [{"op": "remove", "path": "/x"}], "application/json-patch+json"),
            (Patch.MERGE, {"status": {"x": None}}, "application/merge-patch+json"),
            (Patch.STRATEGIC, {"spec": {}}, "application/strategic-merge-patch+json"),
        ],
    )
    async def test_client_sends_all_patch_types(
        self, hub: FakeServer, client: Client, kind: Patch, body: Any, content_type: str
    ) -> None:
        await client.patch(MANAGED_CLUSTERS, "a", body, kind=kind, subresource="status", dry_run=True)
        seen = hub.requests[0]
        assert (seen.method, seen.path) == ("PATCH", f"{PATH}/a/status")
        assert seen.headers["Content-Type"] == content_type
        assert seen.json == body
        assert seen.query == {"fieldManager": "fairway", "dryRun": "All"}

    async def test_client_applies_an_object(self, hub: FakeServer, client: Client) -> None:
        await client.patch(
            PLACEMENTS, "p", {"spec": {}}, kind=Patch.APPLY, namespace="n", field_manager="me", force=True
        )
        seen = hub.requests[0]
        assert seen.headers["Content-Type"] == "application/apply-patch+yaml"
        assert seen.query == {"fieldManager": "me", "force": "true"}
        assert seen.json == {"apiVersion": f"{GROUP}/v1beta1", "kind": "Placement", "spec": {}}

    async def test_invalid_patches_are_rejected(self, hub: FakeServer) -> None:
        async with Client(Connection(server=hub.url), field_manager="") as client:
            with pytest.raises(ValueError, match=rest.FORCE_APPLIES):
                await client.patch(MANAGED_CLUSTERS, "a", {}, kind=Patch.MERGE, force=True)
            with pytest.raises(ValueError, match=rest.APPLY_NEEDS_MANAGER):
                await client.patch(MANAGED_CLUSTERS, "a", {}, kind=Patch.APPLY)
        assert hub.requests == []

    async def test_client_deletes_with_options(self, hub: FakeServer, client: Client) -> None:
        hub.put("a")
        await client.delete(
            MANAGED_CLUSTERS,
            "a",
            uid="u",
            resource_version="7",
            propagation="Foreground",
            grace_period=0,
            dry_run=True,
        )
        assert hub.requests[0].json == {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u", "resourceVersion": "7"},
            "propagationPolicy": "Foreground",
            "gracePeriodSeconds": 0,
            "dryRun": ["All"],
        }
        with pytest.raises(NotFound):
            await client.delete(MANAGED_CLUSTERS, "a")
        assert hub.requests[1].json == {"apiVersion": "v1", "kind": "DeleteOptions"}


class TestCompression:
    def test_local_hub_is_not_asked_for_compression(self) -> None:
        assert Connection(server="http://localhost:1").local
        assert Connection(server="http://127.3.2.1").local
        assert Connection(server="https://[::1]:6443").local
        assert not Connection(server="https://hub.example").local
        assert not Connection(server="https://10.0.0.1").local

    async def test_only_lists_of_remote_hubs_ask_for_compression(
        self, hub: FakeServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def asked(connection: Connection) -> list[str]:
            hub.requests.clear()
            async with Client(connection, retry=QUICK) as client:
                await client.list(MANAGED_CLUSTERS)
                await client.get(MANAGED_CLUSTERS, "a")
                async with client.stream(MANAGED_CLUSTERS):
                    pass
            return [request.headers["Accept-Encoding"] for request in hub.requests]

        hub.put("a")
        assert await asked(Connection(server=hub.url)) == ["identity"] * 3
        monkeypatch.setattr(Connection, "local", False)
        assert await asked(Connection(server=hub.url)) == ["gzip", "identity", "identity"]
        assert await asked(Connection(server=hub.url, compression=False)) == ["identity"] * 3

    async def test_compressed_response_is_decoded(self, hub: FakeServer, client: Client) -> None:
        body = gzip.compress(b'{"metadata":{"resourceVersion":"8"},"items":[]}')
        hub.fault(code=200, body=body, headers={"Content-Encoding": "gzip"})
        assert (await client.list(MANAGED_CLUSTERS)).resource_version == "8"


class TestOpening:
    def kubeconfig(self, hub: FakeServer, folder: Path) -> Path:
        path = folder / "config"
        path.write_text(
            "contexts: [{name: x, context: {cluster: x, namespace: ns}}, {name: y, context: {cluster: x}}]\n"
            f"clusters: [{{name: x, cluster: {{server: '{hub.url}'}}}}]\ncurrent-context: x\n",
            encoding="utf-8",
        )
        return path

    async def test_client_is_built_from_a_kubeconfig(self, hub: FakeServer, tmp_path: Path) -> None:
        path = self.kubeconfig(hub, tmp_path)
        async with Client.from_kubeconfig(path) as client:
            assert client.namespace == "ns"
            assert (await client.list(MANAGED_CLUSTERS)).items == ()
        assert Client.from_kubeconfig(path, context="y", timeout=5.0).namespace == "default"

    def test_client_is_built_from_the_environment(
        self, hub: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = self.kubeconfig(hub, tmp_path)
        monkeypatch.setenv("KUBECONFIG", str(path))
        assert Client.from_environment().namespace == "ns"
        assert Client.from_environment(context="y").namespace == "default"
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        with pytest.raises(ConfigError, match="does not run in a pod"):
            Client.from_environment()
        with pytest.raises(ConfigError, match="no kubeconfig was found"):
            Client.from_environment(context="y")
        with pytest.raises(ConfigError, match="does not exist"):
            Client.from_environment(tmp_path / "missing")

    async def test_closed_client_raises(self, hub: FakeServer) -> None:
        with pytest.raises(RuntimeError, match="async with"):
            await Client(Connection(server=hub.url)).get(MANAGED_CLUSTERS, "a")


async def test_warnings_of_the_hub_are_logged_once(
    hub: FakeServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    warning = '299 - "v1alpha1 is \\"old\\"", 299 - "use v1"'
    for _ in range(2):
        hub.fault(code=200, body=b"{}", headers={"Warning": warning})
    with caplog.at_level(logging.WARNING):
        await client.list(MANAGED_CLUSTERS)
        await client.list(MANAGED_CLUSTERS)
    assert [record.message for record in caplog.records] == [
        f'{hub.url}: v1alpha1 is "old"',
        f"{hub.url}: use v1",
    ]
