"""What is written to the status of a pod that could not be scheduled."""

from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from msgspec import structs

from clocks import LoopClock
from fairway.api.pod import Pod, PodCondition
from fairway.controllers.pods.keys import StatusKey
from fairway.controllers.pods.status import POD_SCHEDULED, UNSCHEDULABLE, PodReporter
from fairway.engine.workload import WorkloadKey
from hosts.nodes.builders import pod

KEY = WorkloadKey("ns1", "a", "")


class StatusHarness:
    """A reporter of one pod, and the patches that it writes."""

    def __init__(self) -> None:
        self.pod = pod("a")
        self.hub = MagicMock(patch_status=AsyncMock(side_effect=self._patch))
        self.patches: list[dict[str, Any]] = []
        self.reporter = PodReporter(
            pods=MagicMock(get=lambda *_names, **_options: self.pod),
            recorders={self.pod.spec.schedulerName: MagicMock()},
            hub=self.hub,
            metrics=MagicMock(),
            wake=lambda _: None,
            clock=LoopClock(),
        )

    async def _patch(self, _key: WorkloadKey, patch: dict[str, Any]) -> Pod:
        self.patches.append(patch)
        return self.pod

    async def write(self) -> dict[str, Any]:
        await self.reporter.write(StatusKey("ns1", "a"))
        return self.patches[-1] if self.patches else {}


@pytest.fixture
async def harness() -> StatusHarness:
    return StatusHarness()


async def test_transition_time_of_a_condition_stays_while_its_status_does(harness: StatusHarness) -> None:
    for message, changed in (("full", True), ("fuller", False)):
        harness.reporter.failed(KEY, UNSCHEDULABLE, message)
        (condition,) = (await harness.write())["conditions"]
        assert (condition["message"], "lastTransitionTime" in condition) == (message, changed)
        known = PodCondition(type=POD_SCHEDULED, status="False", reason=UNSCHEDULABLE, message=message)
        status = structs.replace(harness.pod.status, conditions=(known,))
        harness.pod = structs.replace(harness.pod, status=status)


async def test_condition_keeps_a_nomination_that_is_not_written_yet(harness: StatusHarness) -> None:
    harness.reporter.nominate(KEY, "n1")
    harness.reporter.failed(KEY, UNSCHEDULABLE, "full")
    written = await harness.write()
    assert (written["nominatedNodeName"], len(written["conditions"])) == ("n1", 1)


async def test_condition_of_a_pod_that_was_bound_meanwhile_is_not_written(harness: StatusHarness) -> None:
    harness.reporter.failed(KEY, UNSCHEDULABLE, "full")
    harness.pod = pod("a", on="n1")
    assert await harness.write() == {}
