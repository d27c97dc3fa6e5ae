"""AddOnPlacementScores on a hub: create, apply, correct, remove; foreign objects stay."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from fairway.api.resources import ADD_ON_PLACEMENT_SCORES
from fairway.providers.placement_scores import AddOnPlacementScores
from fairway.providers.publication import Publication
from fairway.providers.rbac import ADOPT_RULES, CLEANUP_RULES, CLUSTER_RULES
from fairway.providers.sink import ForeignObject, NamespaceMissing, SinkError, WriteRefused, labels_of
from kubewire.client import Client, Patch
from kubewire.client.rbac import Rule
from providers.hub_fleet import HubFleet, values_of

RESOURCE = "queue-score"
WELL = Publication(
    scores=(("age", -3), ("free", 40)),
    valid_until=datetime(2026, 3, 1, 12, 3, tzinfo=UTC),
    ok=True,
    reason="AddOnPlacementScoreUpdated",
    message="age 7 s, free 700",
    changed_at=datetime(2026, 3, 1, 12, 0, tzinfo=UTC),
)


def sink_of(client: Client, *, provider: str = "queue", adopt: bool = False) -> AddOnPlacementScores:
    return AddOnPlacementScores(client, provider=provider, resource=RESOURCE, adopt=adopt)


@pytest.fixture
def sink(client: Client) -> AddOnPlacementScores:
    return sink_of(client)


async def test_score_object_is_created_before_its_status(fleet: HubFleet, sink: AddOnPlacementScores) -> None:
    cluster = await fleet.namespace()
    held = await sink.write(cluster, WELL, stored=None)
    assert held.publication == WELL
    live = await fleet.raw(cluster, RESOURCE)
    assert live["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "fairway",
        "fairway.dev/provider": "queue",
    }
    assert live["status"] == {
        "conditions": [
            {
                "type": "AddOnPlacementScoreUpdated",
                "status": "True",
                "reason": "AddOnPlacementScoreUpdated",
                "message": "age 7 s, free 700",
                "lastTransitionTime": "2026-03-01T12:00:00Z",
            }
        ],
        "scores": [{"name": "age", "value": -3}, {"name": "free", "value": 40}],
        "validUntil": "2026-03-01T12:03:00Z",
    }
    managers = {
        (managed_field["manager"], managed_field["operation"])
        for managed_field in live["metadata"]["managedFields"]
    }
    assert ("fairway-provider-queue", "Apply") in managers
    assert held.version == int(live["metadata"]["resourceVersion"])


async def test_existing_score_is_found(fleet: HubFleet, sink: AddOnPlacementScores) -> None:
    cluster = await fleet.namespace()
    assert await sink.find(cluster) is None
    written = await sink.write(cluster, WELL, stored=None)
    assert await sink.find(cluster) == written


async def test_score_without_status_is_completed(
    fleet: HubFleet, client: Client, sink: AddOnPlacementScores
) -> None:
    cluster = await fleet.namespace()
    body = {"metadata": {"name": RESOURCE, "labels": labels_of("queue")}}
    await client.create(ADD_ON_PLACEMENT_SCORES, body, namespace=cluster)
    held = await sink.find(cluster)
    assert held is not None
    assert (held.publication.scores, held.publication.valid_until, held.publication.reason) == ((), None, "")
    assert (await sink.write(cluster, WELL, stored=held)).publication == WELL


async def test_omitted_score_is_removed_from_object(fleet: HubFleet, sink: AddOnPlacementScores) -> None:
    cluster = await fleet.namespace()
    held = await sink.write(cluster, WELL, stored=None)
    await sink.write(cluster, replace(WELL, scores=(("free", 1),)), stored=held)
    assert values_of(await fleet.get(cluster, RESOURCE)) == {"free": 1}


async def test_scores_of_other_managers_are_removed(
    fleet: HubFleet, client: Client, sink: AddOnPlacementScores
) -> None:
    """As the scores controller does, which applies scores under the same names."""
    cluster = await fleet.namespace()
    held = await sink.write(cluster, WELL, stored=None)
    worst = {"status": {"scores": [{"name": "age", "value": -100}, {"name": "old", "value": -100}]}}
    await client.patch(
        ADD_ON_PLACEMENT_SCORES,
        RESOURCE,
        worst,
        kind=Patch.APPLY,
        namespace=cluster,
        subresource="status",
        field_manager="janitor",
        force=True,
    )
    await sink.write(cluster, replace(WELL, scores=(("free", 2),)), stored=held)
    assert values_of(await fleet.get(cluster, RESOURCE)) == {"free": 2}


async def test_foreign_conditions_stay_on_score(
    fleet: HubFleet, client: Client, sink: AddOnPlacementScores
) -> None:
    cluster = await fleet.namespace()
    held = await sink.write(cluster, WELL, stored=None)
    theirs = {
        "type": "Checked",
        "status": "True",
        "reason": "Checked",
        "message": "",
        "lastTransitionTime": "2026-03-01T12:00:00Z",
    }
    await client.patch(
        ADD_ON_PLACEMENT_SCORES,
        RESOURCE,
        {"status": {"conditions": [theirs]}},
        kind=Patch.APPLY,
        namespace=cluster,
        subresource="status",
        field_manager="auditor",
    )
    failed = replace(WELL, ok=False, reason="Down", message="away")
    await sink.write(cluster, failed, stored=held)
    conditions = (await fleet.get(cluster, RESOURCE)).status.conditions
    assert {condition.type: condition.reason for condition in conditions} == {
        "Checked": "Checked",
        "AddOnPlacementScoreUpdated": "Down",
    }


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({}, "was not created by Fairway"),
        ({"app.kubernetes.io/managed-by": "helm"}, "was not created by Fairway"),
        ({"fairway.dev/provider": "queue"}, "was not created by Fairway"),
        (labels_of("other"), "belongs to the provider 'other'"),
    ],
)
async def test_foreign_score_is_not_changed(
    fleet: HubFleet, sink: AddOnPlacementScores, labels: dict[str, str], words: str
) -> None:
    cluster = await fleet.namespace()
    await fleet.foreign(cluster, RESOURCE, labels=labels)
    before = await fleet.raw(cluster, RESOURCE)
    with pytest.raises(ForeignObject, match=words):
        await sink.find(cluster)
    with pytest.raises(ForeignObject, match=words):
        await sink.write(cluster, WELL, stored=None)
    assert await sink.remove(cluster) is False
    assert await fleet.raw(cluster, RESOURCE) == before


async def test_adopted_score_is_cleared_of_foreign_fields(fleet: HubFleet, client: Client) -> None:
    cluster = await fleet.namespace()
    await fleet.foreign(cluster, RESOURCE, labels={"team": "a"})
    adopting = sink_of(client, adopt=True)
    await adopting.write(cluster, WELL, stored=None)
    score = await fleet.get(cluster, RESOURCE)
    assert values_of(score) == {"age": -3, "free": 40}
    assert score.metadata.labels == {"team": "a", **labels_of("queue")}
    assert await sink_of(client).find(cluster) is not None


async def test_deleted_score_is_recreated(fleet: HubFleet, sink: AddOnPlacementScores) -> None:
    cluster = await fleet.namespace()
    held = await sink.write(cluster, WELL, stored=None)
    await fleet.delete(cluster, RESOURCE)
    again = await sink.write(cluster, WELL, stored=held)
    assert again.uid != held.uid
    assert values_of(await fleet.get(cluster, RESOURCE)) == {"age": -3, "free": 40}


async def test_replaced_score_is_not_changed(fleet: HubFleet, sink: AddOnPlacementScores) -> None:
    cluster = await fleet.namespace()
    held = await sink.write(cluster, WELL, stored=None)
    await fleet.delete(cluster, RESOURCE)
    await fleet.foreign(cluster, RESOURCE)
    with pytest.raises(ForeignObject):
        await sink.write(cluster, WELL, stored=held)
    assert values_of(await fleet.get(cluster, RESOURCE)) == {"theirs": 7}


async def test_missing_namespace_is_reported(fleet: HubFleet, sink: AddOnPlacementScores) -> None:
    nowhere = fleet.name("nowhere")
    with pytest.raises(NamespaceMissing, match=f"the hub has no namespace {nowhere}"):
        await sink.write(nowhere, WELL, stored=None)
    assert await sink.find(nowhere) is None
    assert await sink.remove(nowhere) is False


async def test_terminating_namespace_is_reported(
    fleet: HubFleet, client: Client, sink: AddOnPlacementScores
) -> None:
    """The namespace remains while a finalizer in it is pending."""
    cluster = await fleet.namespace()
    held = await sink.write(cluster, WELL, stored=None)
    finalized = {"metadata": {"name": "last", "finalizers": ["example.com/wait"]}}
    await client.create(ADD_ON_PLACEMENT_SCORES, finalized, namespace=cluster)
    await fleet.vacate(cluster)
    await fleet.until(cluster, "last", lambda score: score.metadata.deletionTimestamp is not None)
    await fleet.until_deleted(cluster, RESOURCE)
    with pytest.raises(NamespaceMissing):
        await sink.write(cluster, WELL, stored=held)
    await client.patch(
        ADD_ON_PLACEMENT_SCORES,
        "last",
        {"metadata": {"finalizers": None}},
        kind=Patch.MERGE,
        namespace=cluster,
    )


async def test_unserved_score_kind_is_reported(client: Client, fleet: HubFleet) -> None:
    odd = AddOnPlacementScores(client, provider="queue", resource="no such name")
    with pytest.raises(SinkError) as caught:
        await odd.write(await fleet.namespace(), WELL, stored=None)
    assert caught.value.reason == "Invalid"


async def test_score_writes_need_declared_rights_only(fleet: HubFleet) -> None:
    cluster = await fleet.namespace()
    connection = await fleet.account(cluster, CLUSTER_RULES)
    async with Client(connection) as client:
        sink = sink_of(client)
        assert await sink.find(cluster) is None
        held = await sink.write(cluster, WELL, stored=None)
        await sink.write(cluster, replace(WELL, scores=()), stored=held)
        with pytest.raises(WriteRefused):
            await sink.remove(cluster)
        with pytest.raises(WriteRefused):
            await sink.write(await fleet.namespace("c2"), WELL, stored=None)
        await fleet.delete(cluster, RESOURCE)
        await fleet.foreign(cluster, RESOURCE)
        with pytest.raises(WriteRefused):
            await sink_of(client, adopt=True).write(cluster, WELL, stored=None)


async def test_adoption_and_cleanup_need_declared_rights_only(fleet: HubFleet) -> None:
    cluster = await fleet.namespace()
    rules: tuple[Rule, ...] = (*CLUSTER_RULES, *ADOPT_RULES, *CLEANUP_RULES)
    connection = await fleet.account(cluster, rules)
    await fleet.foreign(cluster, RESOURCE)
    async with Client(connection) as client:
        await sink_of(client, adopt=True).write(cluster, WELL, stored=None)
        assert await sink_of(client).remove(cluster) is True
        assert await sink_of(client).remove(cluster) is False


async def test_unauthorized_write_is_reported(fleet: HubFleet, client: Client) -> None:
    cluster = await fleet.namespace()
    connection = await fleet.account(cluster, ())
    async with Client(connection) as stranger:
        with pytest.raises(WriteRefused, match="the hub refuses") as caught:
            await sink_of(stranger).find(cluster)
    assert caught.value.reason == "Forbidden"
