"""The janitor on a hub: what others see of it, and providers that apply their scores by force.

Time is that of the machine here, and short; when exactly things happen is for ``test_silence``.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from controllers.hubs import HubUnderTest
from controllers.running import MARK, RunningController, at_work
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES, MANAGED_CLUSTERS
from fairway.api.score import AddOnPlacementScore
from fairway.controllers.kinds import NAMESPACES
from fairway.controllers.scores import RULES, ScoreController, Silence, SilencePolicy
from fairway.controllers.scores.silence_marker import BEFORE
from fairway.hosts.clusters.scores import SILENT, is_silent
from fairway.observe.meters import Meters
from fairway.workloads.placement.plugins.prioritizer_policy import BUILT_INS
from kubewire.api.meta import find_condition, format_time
from kubewire.client import Client, HubEvents, Patch, Recorder
from kubewire.client.events import EVENTS, Api
from rigs.waiting import fresh, until, until_deleted

RESOURCE = "usage"
LONG = timedelta(hours=1)


@asynccontextmanager
async def janitor(hub: HubUnderTest, policy: SilencePolicy) -> AsyncIterator[RunningController]:
    async with (
        Client(hub.administrator) as client,
        Recorder(HubEvents(client), component="test", api=Api.EVENTS) as recorder,
        at_work(
            hub,
            lambda mine: ScoreController(mine, meters=Meters(), recorder=recorder, policy=policy),
            rules=RULES,
        ) as running,
    ):
        yield running
        await recorder.flush()


async def joined(client: Client) -> str:
    name = fresh("c")
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    await client.create(MANAGED_CLUSTERS, {"metadata": {"name": name, "labels": MARK}})
    return name


async def publish(client: Client, cluster: str, *, lasts: timedelta, **values: int) -> AddOnPlacementScore:
    """As the SDK does: made first, then the status applied by force."""
    metadata: dict[str, Any] = {"name": RESOURCE, "namespace": cluster}
    head = {"apiVersion": ADD_ON_PLACEMENT_SCORES.api_version, "kind": ADD_ON_PLACEMENT_SCORES.kind}
    moment = datetime.now(UTC) + lasts
    condition = {
        "type": "AddOnPlacementScoreUpdated",
        "status": "True",
        "reason": "AddOnPlacementScoreUpdated",
        "message": "",
        "lastTransitionTime": format_time(datetime.now(UTC)),
    }
    status = {
        "scores": [{"name": name, "value": value} for name, value in values.items()],
        "validUntil": format_time(moment),
        "conditions": [condition],
    }
    for body, subresource in (({}, None), ({"status": status}, "status")):
        written = await client.patch(
            ADD_ON_PLACEMENT_SCORES,
            RESOURCE,
            {**head, "metadata": metadata, **body},
            kind=Patch.APPLY,
            namespace=cluster,
            subresource=subresource,
            field_manager="fairway-provider-usage",
            force=True,
        )
    return written


def values(score: AddOnPlacementScore) -> dict[str, int]:
    return {item.name: item.value for item in score.status.scores}


async def test_silent_score_is_marked_and_restored_on_return(hub: HubUnderTest, client: Client) -> None:
    cluster = await joined(client)
    await publish(client, cluster, lasts=timedelta(seconds=-5), cpu=40, mem=-7)
    async with janitor(hub, SilencePolicy(default=Silence.WORST, grace=0.1)) as running:
        score = await until(client, ADD_ON_PLACEMENT_SCORES, RESOURCE, is_silent, namespace=cluster)
        assert (values(score), score.status.validUntil) == ({"cpu": -100, "mem": -100}, None)
        assert [condition.type for condition in score.status.conditions] == [
            "AddOnPlacementScoreUpdated",
            SILENT,
        ]
        condition = find_condition(score.status.conditions, SILENT)
        assert condition is not None
        assert condition.message.endswith("Last values: cpu 40, mem -7")
        assert BEFORE in score.metadata.annotations
        await publish(client, cluster, lasts=LONG, cpu=41, mem=-100)
        back = await until(
            client,
            ADD_ON_PLACEMENT_SCORES,
            RESOURCE,
            lambda score: not is_silent(score) and BEFORE not in score.metadata.annotations,
            namespace=cluster,
        )
        assert values(back) == {"cpu": 41, "mem": -100}
        assert [condition.type for condition in back.status.conditions] == ["AddOnPlacementScoreUpdated"]
        await running.caught_up(ADD_ON_PLACEMENT_SCORES, back)
        again = await client.get(ADD_ON_PLACEMENT_SCORES, RESOURCE, namespace=cluster)
        assert again.metadata.resourceVersion == back.metadata.resourceVersion
    events = await client.list(EVENTS, namespace=cluster)
    assert sorted(event.reason for event in events.items) == ["ScoreReturned", "ScoreSilent"]


async def test_renewed_score_is_not_changed(hub: HubUnderTest, client: Client) -> None:
    cluster = await joined(client)
    written = await publish(client, cluster, lasts=LONG, cpu=1)
    async with janitor(hub, SilencePolicy(default=Silence.DROP, grace=0.1)) as running:
        await running.caught_up(ADD_ON_PLACEMENT_SCORES, written)
        score = await client.get(ADD_ON_PLACEMENT_SCORES, RESOURCE, namespace=cluster)
        assert score == written


async def test_silent_scores_are_deleted_by_policy_drop(hub: HubUnderTest, client: Client) -> None:
    cluster = await joined(client)
    await publish(client, cluster, lasts=timedelta(seconds=-5), cpu=40)
    policy = SilencePolicy(by_resource={RESOURCE: Silence.DROP}, grace=0.1)
    async with janitor(hub, policy):
        await until_deleted(client, ADD_ON_PLACEMENT_SCORES, RESOURCE, namespace=cluster)
        await publish(client, cluster, lasts=LONG, cpu=3)
        assert values(await client.get(ADD_ON_PLACEMENT_SCORES, RESOURCE, namespace=cluster)) == {"cpu": 3}


async def test_a_calculator_named_like_a_built_in_prioritizer_is_reported_once(
    hub: HubUnderTest, client: Client
) -> None:
    cluster = await joined(client)
    calculators = [*(name.lower() for name in BUILT_INS), "resourceratiocpu", "memory"]
    for calculator in calculators:
        body = {"metadata": {"name": f"{cluster}-{calculator}"}}
        made = await client.create(MANAGED_CLUSTER_SCORES, body, namespace=cluster)
    async with janitor(hub, SilencePolicy()) as running:
        await running.caught_up(MANAGED_CLUSTER_SCORES, made)
        moment = format_time(datetime.now(UTC))
        condition = {
            "type": "ManagedClusterScoreUpdated",
            "status": "True",
            "reason": "ManagedClusterScoreUpdated",
            "message": "",
            "lastTransitionTime": moment,
            "lastUpdateTime": moment,
        }
        for calculator in calculators:
            written = await client.patch(
                MANAGED_CLUSTER_SCORES,
                f"{cluster}-{calculator}",
                {"status": {"score": 7, "conditions": [condition]}},
                kind=Patch.MERGE,
                namespace=cluster,
                subresource="status",
            )
        await running.caught_up(MANAGED_CLUSTER_SCORES, written)
        assert await client.get(MANAGED_CLUSTER_SCORES, written.metadata.name, namespace=cluster) == written
    events = (await client.list(EVENTS, namespace=cluster)).items
    assert {event.reason for event in events} == {"BuiltInPrioritizer"}
    reported = sorted(
        (event.regarding.name, event.note.split(" is a built-in")[0].split()[-1]) for event in events
    )
    assert reported == sorted((f"{cluster}-{name.lower()}", name) for name in BUILT_INS)
