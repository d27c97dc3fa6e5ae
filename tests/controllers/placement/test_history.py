"""Decisions that the controller writes are in the history, and name their record."""

from dataclasses import replace
from pathlib import Path

from controllers.conftest import ALONE, Start
from controllers.hub_fleet import HubFleet
from fairway.api.placement import PlacementSpec
from fairway.api.resources import PLACEMENT_DECISIONS
from fairway.history.archive import Archive
from fairway.history.recorder import Recorder
from fairway.history.replay import Replayer
from fairway.testing import builders
from fairway.workloads.placement import default_profile
from fairway.workloads.placement.reconcile_plan import DECISION_RECORD
from kubewire.client import Client


async def test_written_decisions_are_recorded(
    start: Start, fleet: HubFleet, client: Client, tmp_path: Path
) -> None:
    recorder = Recorder(tmp_path)
    policy = builders.policy(builders.addon("cpu"), mode="Exact")
    async with start(replace(ALONE, history=recorder)) as manager:
        await fleet.clusters("a", "b")
        await fleet.score("a", {"cpu": 50})
        await fleet.score("b", {"cpu": 20})
        await manager.quiet()
        await fleet.place("web", PlacementSpec(numberOfClusters=1, prioritizerPolicy=policy))
        await fleet.chooses("web", "a")
        await fleet.score("b", {"cpu": 80})
        await fleet.chooses("web", "b")
        await manager.quiet()
    recorder.close()
    namespace = fleet.namespace
    (decision,) = (await client.list(PLACEMENT_DECISIONS, namespace=namespace)).items
    with Archive.open(tmp_path) as archive:
        stored = list(archive.records(namespace=namespace, name="web"))
        records = [one.record for one in stored]
        assert [record.after for record in records][-2:] == [(f"{fleet.prefix}-a",), (f"{fleet.prefix}-b",)]
        assert records[-1].cause.startswith(f"AddOnPlacementScore {fleet.prefix}-b/")
        assert not any(record.error for record in records)
        # The annotation names the record of the write that created the decision.
        assert decision.metadata.annotations[DECISION_RECORD] == records[0].id
        replayer = Replayer()
        assert all(replayer.replay(one, profile=default_profile()).same for one in stored)
