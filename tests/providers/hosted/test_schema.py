"""The claim with the fields that HyperShift requires on a cluster."""

from typing import Any

import msgspec
import pytest

from fairway.api import crds
from fairway.providers.hosted.claims import SCHEMA
from fairway.providers.hosted.schema import LONGEST, RequiredFields, claim_of
from kubewire.client import Client
from providers.hosted.hosting import HOSTED_CLUSTER, hosting, reading
from rigs.hypershift import definition

Schema = dict[str, Any]


def document(**kinds: Schema) -> Schema:
    return {
        "components": {
            "schemas": {
                f"io.openshift.hypershift.v1beta1.{kind}": {
                    "properties": {"spec": spec},
                    "x-kubernetes-group-version-kind": [
                        {"group": "hypershift.openshift.io", "version": "v1beta1", "kind": kind}
                    ],
                }
                for kind, spec in kinds.items()
            }
        }
    }


def mapping(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": required, "properties": properties}


def test_claim_has_required_fields_without_a_default() -> None:
    text: Schema = {"type": "string"}
    hosted = mapping(
        ["release", "services", "etcd", "network", "broken"],
        release=mapping(["image"], image=text, other=text),
        services={"type": "array", "items": mapping(["service"], service=text)},
        etcd={**mapping(["managementType"], managementType=text), "default": {"managementType": "Managed"}},
        network=mapping(["type", "cidr"], type={**text, "default": "x"}, cidr=text),
        optional=mapping(["name"], name=text),
    )
    pool = mapping(["clusterName", "replicas"], clusterName=text, replicas={"type": "integer"})
    assert claim_of(document(HostedCluster=hosted, NodePool=pool), digest="0123456789ABCDEF") == (
        "v1beta1 0123456789AB hostedclusters=broken,network.cidr,release.image,services nodepools=replicas"
    )


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"components": {"schemas": {"a": None}}},
        {"components": []},
        document(NodePool=mapping([])),
    ],
)
def test_document_without_hosted_clusters_has_no_claim(document: object) -> None:
    assert claim_of(document, digest="a") == ""


def test_claim_is_never_longer_than_a_claim_may_be() -> None:
    names = [f"field{number:04}" for number in range(500)]
    many = mapping(names, **{name: {"type": "string"} for name in names})
    claim = claim_of(document(HostedCluster=many, NodePool=many), digest="A" * 128)
    assert len(claim) <= LONGEST
    hosted, pools = claim.split(" ")[2:]
    assert hosted.startswith("hostedclusters=field0000,field0001,")
    assert hosted.endswith(",...")
    assert pools.endswith(",...")
    long = "x" * 2000
    assert len(claim_of(document(HostedCluster=mapping([long])), digest="")) <= LONGEST


def test_deep_schema_is_read_to_a_bounded_depth() -> None:
    deep: Schema = {"type": "string"}
    for _ in range(500):
        deep = mapping(["a"], a=deep)
    claim = claim_of(document(HostedCluster=deep), digest="a")
    assert claim.startswith("v1beta1 a hostedclusters=a.a.a")
    assert len(claim) < 100


async def test_provider_publishes_what_the_definitions_of_hypershift_require() -> None:
    async with hosting(*crds(), definition("hostedclusters"), definition("nodepools")) as cluster:
        await cluster.node("n")
        await reading(cluster)
        version, digest, *lists = (await cluster.claims())[SCHEMA].split(" ")
    assert version == "v1beta1"
    assert len(digest) == 12
    assert lists == [
        "hostedclusters=platform.type,pullSecret,release.image,services",
        "nodepools=management.upgradeType,platform.type,release.image",
    ]


async def test_schemas_are_read_again_only_after_they_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    request = Client.request

    async def recorded(client: Client, method: str, path: str, **more: Any) -> Any:
        asked.append(path)
        return await request(client, method, path, **more)

    async with hosting(*crds(), HOSTED_CLUSTER) as cluster:
        fields = RequiredFields(cluster.client)
        monkeypatch.setattr(Client, "request", recorded)
        before = await fields.claim()
        assert before.endswith(" hostedclusters=")
        assert await fields.claim() == before
        assert len([path for path in asked if "hypershift" in path]) == 1
        schema = {"type": "object", "properties": {"spec": mapping(["release"], release={"type": "string"})}}
        version = {**HOSTED_CLUSTER["spec"]["versions"][0], "schema": {"openAPIV3Schema": schema}}
        changed = {**HOSTED_CLUSTER, "spec": {**HOSTED_CLUSTER["spec"], "versions": [version]}}
        path = (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/hostedclusters.hypershift.openshift.io"
        )
        await cluster.client.request(
            "PATCH", path, body={"spec": changed["spec"]}, content_type="application/merge-patch+json"
        )
        after = await fields.claim()
        assert after.endswith(" hostedclusters=release")
        assert after.split(" ")[1] != before.split(" ")[1]


async def test_claim_is_left_out_where_the_schemas_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    request = Client.request

    async def without(client: Client, method: str, path: str, **more: Any) -> Any:
        response = await request(client, method, path, **more)
        return msgspec.structs.replace(response, body=b"{") if "openapi" in path else response

    async with hosting(*crds(), HOSTED_CLUSTER) as cluster:
        await cluster.node("n")
        monkeypatch.setattr(Client, "request", without)
        await reading(cluster)
        assert SCHEMA not in await cluster.claims()
