"""Parts of the machines controller: the order of writes, replies to agents, and settings from files."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from controllers.machines.machine_rig import machine_rig
from controllers.machines.test_story import scene
from fairway.controllers.machines.driver import REBUILDING
from fairway.controllers.machines.lanes import MachineLanes, lane_of
from fairway.controllers.machines.options import DIFFERENT, settings_of
from fairway.controllers.machines.waiting_agents import WaitingAgents
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.scheduling import ConfigurationError, Scheduling, Supervisor
from fairway.scheduling.loading import parse
from fairway.workloads.machines.instructions import Abort, DeleteRecord, Prepare, WriteRecord
from fairway.workloads.machines.migration import Migration, Reason
from fairway.workloads.machines.permit_protocol import Permit, PermitError, PermitRequest
from fairway.workloads.machines.policy import PolicyError
from fairway.workloads.pods.plugins.vm_scaling import NAME
from fairway.workloads.pods.profile import POD_KIND
from kubewire.client import WorkQueue

MIGRATION = Migration(
    id="vm-1",
    vm="vm",
    source=WorkloadKey("ns", "source", "1"),
    source_host=HostKey("n1", "1"),
    target=WorkloadKey("ns", "vm-1"),
    target_host=HostKey("n2", "2"),
    amounts={"cpu": 1},
    reason=Reason.DEMAND,
    started=0,
    since=0,
    deadline=1,
    revision=1,
)


async def waiting(*instructions: Prepare | Abort | WriteRecord | DeleteRecord) -> list[object]:
    """Return what is left to do after these instructions."""
    lanes = MachineLanes(WorkQueue())
    for instruction in instructions:
        lanes.add(instruction)
    waiting_instructions: list[object] = []
    lane = lane_of(instructions[0])
    while (first := lanes.first(lane)) is not None:
        waiting_instructions.append(first)
        lanes.finish(lane, first)
    assert not lanes.is_waiting(lane)
    return waiting_instructions


async def test_newer_record_replaces_one_that_waits() -> None:
    newer = WriteRecord(replace(MIGRATION, revision=2))
    assert await waiting(WriteRecord(MIGRATION), Prepare(MIGRATION), newer) == [Prepare(MIGRATION), newer]


async def test_abort_replaces_steps_that_wait_and_keeps_records() -> None:
    record = WriteRecord(MIGRATION)
    assert await waiting(Prepare(MIGRATION), record, Abort(MIGRATION)) == [record, Abort(MIGRATION)]


async def test_deletion_of_a_record_replaces_everything() -> None:
    deletion = DeleteRecord(MIGRATION)
    assert await waiting(WriteRecord(MIGRATION), Prepare(MIGRATION), deletion) == [deletion]


def request(units: int) -> PermitRequest:
    return PermitRequest(namespace="ns", name="vm", unit={"cpu": 1}, resources={"cpu": units})


async def test_permit_is_at_most_what_each_agent_asked_for() -> None:
    agents = WaitingAgents()
    with agents.asking(request(2)) as small, agents.asking(request(4)) as large:
        agents.reply(("ns", "vm"), Permit(resources={"cpu": 4}))
        answers = [await small, await large]
    assert [answer.resources for answer in answers if isinstance(answer, Permit)] == [{"cpu": 2}, {"cpu": 4}]
    assert len(agents) == 0


async def test_refusal_of_one_request_does_not_answer_another_one_for_the_same_pod() -> None:
    agents = WaitingAgents()
    with agents.asking(request(2)) as first, agents.asking(request(4)) as second:
        with agents.handling(request(4), second):
            agents.reply(("ns", "vm"), PermitError(403, "foreign"))
        assert isinstance(second.result(), PermitError)
        assert not first.done()
        agents.reply(("ns", "vm"), PermitError(503, "not written"))
        assert isinstance(first.result(), PermitError)


async def test_each_request_gets_one_reply() -> None:
    agents = WaitingAgents()
    with agents.asking(request(2)) as mine:
        agents.reply(("ns", "vm"), Permit(resources={"cpu": 1}))
        agents.reply(("ns", "vm"), Permit(resources={"cpu": 2}))
        agents.refuse_all(PermitError(503, "over"))
        answer = await asyncio.wait_for(mine, 1)
    assert isinstance(answer, Permit)
    assert answer.resources == {"cpu": 1}


HEAD = "apiVersion: fairway.dev/v1alpha1\nkind: SchedulerConfiguration\nprofiles:\n"
PROFILE = """\
- schedulerName: {name}
  pluginConfig:
  - name: VirtualMachineAutoscaling
    args: {args}
"""


def configured(*profiles: tuple[str, str]) -> Scheduling:
    text = HEAD + "".join(PROFILE.format(name=name, args=args) for name, args in profiles)
    supervisor = Supervisor(clock=time.monotonic)
    return parse(text.encode(), path=Path("scheduler.yaml"), kind=POD_KIND, supervisor=supervisor)


def test_settings_are_the_arguments_of_the_plugin_in_a_profile() -> None:
    scheduling = configured(("a", "{watermark: 0.8, migration: {maxInFleet: 4}}"))
    settings = settings_of(scheduling.specs)
    assert (settings.policy.watermark, settings.policy.per_fleet) == (800, 4)


def test_profiles_with_different_settings_are_refused() -> None:
    scheduling = configured(("a", "{watermark: 0.8}"), ("b", "{watermark: 0.9}"))
    with pytest.raises(PolicyError) as refused:
        settings_of(scheduling.specs)
    assert str(refused.value) == DIFFERENT.format(first="a", second="b", plugin=NAME)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("{migration: {maxInFleet: none}}", "migration.maxInFleet must be a whole number; got 'none'"),
        ("{scoring: {scorePeak: 2}}", "scoring.scorePeak must be a number from 0 to 1; got 2"),
        ("{watermrk: 1}", "watermrk is unknown; did you mean watermark?"),
    ],
)
def test_wrong_setting_in_a_file_is_reported_with_its_line(args: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        configured(("a", args))
    (problem,) = refused.value.problems
    assert message in str(problem)
    assert problem.line in (5, 7), problem


@pytest.mark.embedded
async def test_unexpected_error_rebuilds_the_state_from_the_hub(
    machine_hub: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with machine_rig(machine_hub) as rig:
        await scene(rig)
        async with rig.controlling():
            await rig.ask("vm-a", 4)
            broken = rig.state.state
            monkeypatch.setattr(broken, "handle", Mock(side_effect=RuntimeError("broken")))
            with pytest.raises(PermitError):
                await rig.ask_once(rig.vm("vm-a").status.podName, 6)
            assert rig.state.state is not broken
            await rig.ask("vm-a", 6)
            await rig.until(lambda: rig.approved("vm-a") == 6)
            rig.check()
    assert REBUILDING in caplog.messages
