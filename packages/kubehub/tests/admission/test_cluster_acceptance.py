"""The acceptance policy of hubs of managed clusters."""

from pathlib import Path

import pytest
import yaml

from fairway.testing.hub import embedded_hub
from kubehub.admission.cluster_acceptance import AUTO_UPDATE, NAME, documents, is_managed, reconcile
from kubehub.admission.control import BINDINGS, POLICIES
from kubehub.hub import Hub
from kubehub.options import Write
from kubehub.resource import Document
from kubehub.serialization import representation
from kubehub.user import MASTERS, User
from kubehub.write_request import WriteRequest

DEPLOYED = Path(__file__).parents[4] / "deploy/controllers/acceptance/policy.yaml"
REQUEST = WriteRequest(user=User(name="test", groups=(MASTERS,)), options=Write(manager="tests"))


def test_cluster_acceptance_policy_matches_the_deployed_manifest() -> None:
    deployed = list(yaml.safe_load_all(DEPLOYED.read_text(encoding="utf-8")))
    assert [{k: v for k, v in manifest.items() if k in ("metadata", "spec")} for manifest in deployed] == [
        document for _, document in documents()
    ]


def kept(hub: Hub, key: str) -> Document | None:
    resource, item = hub.registry.of_key(key), hub.store.get((key, "", NAME))
    assert resource is not None
    return None if item is None else representation.decode(resource, item.raw)


async def change(hub: Hub, key: str, *, annotation: str, actions: list[str]) -> None:
    def make(document: Document) -> None:
        document["metadata"]["annotations"] = {AUTO_UPDATE: annotation}
        document["spec"]["validationActions"] = actions

    resource = hub.registry.of_key(key)
    assert resource is not None
    await hub.writer.change(resource, "", NAME, make, REQUEST)


async def test_cluster_acceptance_policy_is_created_with_managed_clusters() -> None:
    async with embedded_hub() as hub:
        assert kept(hub, POLICIES) is not None
        assert kept(hub, BINDINGS) is not None
    async with embedded_hub(definitions=()) as hub:
        assert kept(hub, POLICIES) is None
        assert kept(hub, BINDINGS) is None


@pytest.mark.parametrize(("annotation", "actions"), [("true", ["Deny"]), ("false", ["Warn"])])
async def test_hub_start_restores_the_policy_unless_annotated(
    tmp_path: Path, annotation: str, actions: list[str]
) -> None:
    async with embedded_hub(folder=tmp_path) as hub:
        await change(hub, BINDINGS, annotation=annotation, actions=["Warn"])
    async with embedded_hub(folder=tmp_path) as hub:
        binding = kept(hub, BINDINGS)
        assert binding is not None
        assert binding["spec"]["validationActions"] == actions
        revision = binding["metadata"]["resourceVersion"]
    async with embedded_hub(folder=tmp_path) as hub:
        again = kept(hub, BINDINGS)
        assert again is not None
        assert again["metadata"]["resourceVersion"] == revision


def test_additions_to_the_policy_are_kept() -> None:
    [(_, policy), _] = documents()
    more = {**policy, "spec": {**policy["spec"], "matchConditions": [{"name": "a", "expression": "true"}]}}
    assert reconcile(more, policy) is None
    fewer = {**policy, "spec": {**policy["spec"], "validations": policy["spec"]["validations"][:1]}}
    restored = reconcile(fewer, policy)
    assert restored is not None
    assert restored["spec"] == policy["spec"]


@pytest.mark.parametrize(
    ("metadata", "own"),
    [
        ({"name": NAME}, True),
        ({"name": NAME, "annotations": {AUTO_UPDATE: "false"}}, False),
        ({"name": "mine"}, False),
    ],
)
def test_annotated_policy_is_not_managed_by_the_hub(metadata: Document, own: bool) -> None:
    assert is_managed({"metadata": metadata}) is own
