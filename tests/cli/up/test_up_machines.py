"""`fairway up --nodes`: nodes and virtual machines, and what it prints about migrations."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cli.up_process import until, up
from fairway.api.resources import NODES, VIRTUAL_MACHINES
from fairway.cli.main import run
from fairway.cli.up.machines import describe
from fairway.cli.up.run import VMS_WITHOUT_NODES
from fairway.hosts.instant import to_micros
from fairway.workloads.machines.migration import Phase
from fairway.workloads.machines.migration_story import Step, Story


async def test_up_runs_virtual_machines_on_synthetic_nodes(tmp_path: Path) -> None:
    with up(tmp_path, "--nodes", 2, "--vms", 3, "--period", 86400) as started:
        assert (started.announcement["nodes"], started.announcement["virtualMachines"]) == (2, 3)
        assert "machines" in started.announcement["controllers"]
        assert [step.rpartition(" fairway ")[2] for step in started.announcement["try"][:2]] == [
            *("machines top", "machines migrations")
        ]
        async with started.client() as client:
            assert len((await client.list(NODES)).items) == 2
            await until(
                client,
                VIRTUAL_MACHINES,
                lambda machines: (
                    len(machines) == 3
                    and all(
                        machine.status.phase == "Running" and machine.status.node
                        for machine in machines.values()
                    )
                ),
            )
        assert started.stop() == 0
    assert started.errors.read_text().strip() in ("", "stopping")


def test_machines_without_nodes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["up", "--vms", "3"]) == 2
    assert VMS_WITHOUT_NODES in capsys.readouterr().err


@pytest.mark.parametrize(
    ("phase", "line"),
    [
        (Phase.PLANNED, "12:00:00  ns/b moves from n1 to n2 to make room for ns/a (1 cpu)"),
        (Phase.CUTOVER, "12:00:00  ns/b runs on n2"),
        (Phase.CLEANED, "12:00:00  ns/b left n1 after 3.0 s; its room belongs to ns/a (1 cpu)"),
        (Phase.CANCELLED, "12:00:00  ns/b stays on n1: room appeared"),
    ],
)
def test_up_prints_a_line_for_each_phase_of_a_migration(phase: Phase, line: str) -> None:
    story = Story(
        id="b-1",
        namespace="ns",
        vm="b",
        source="n1",
        target="n2",
        reason="DeniedDemand",
        started=to_micros(datetime(2026, 3, 1, tzinfo=UTC)),
        steps=(Step(phase=Phase.PLANNED, seconds=0), Step(phase=phase, seconds=3)),
        beneficiaries=("ns/a (1 cpu)",),
        message="room appeared",
    )
    assert describe(story, phase, time="12:00:00") == line
