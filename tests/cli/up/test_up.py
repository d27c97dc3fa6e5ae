"""`fairway up`: its announcement, the printed steps, signals, and a restart after SIGKILL."""

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import forked
from cli.up_process import FAIRWAY, ROOT, Up, environment, fairway, running, until, up
from fairway.api.decision import PlacementDecision
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    HOSTED_CLUSTER_REQUESTS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.api.score import AddOnPlacementScore
from fairway.cli.hub.process import BUSY, HOW_TO_STOP, STOPPING
from fairway.cli.options.controllers import WITH_HUB
from fairway.cli.up import tour
from fairway.cli.up.demo import FIRST, MOVES
from fairway.cli.up.services import CONTROLLERS, FLEET, IDENTITY, MAKING, NO_CLUSTERS
from fairway.controllers.placement import ocm_detection
from fairway.simulation.agents import AGENT, LEASE, STOPPED
from fairway.simulation.creation import NAMESPACES, ensure
from fairway.simulation.objects import SCORE
from kubehub.storage.entry import LOCKED
from kubewire.api.lease import format_micro_time
from kubewire.api.resource import key_of
from kubewire.client import SYSTEM_CLOCK, Client, Patch
from kubewire.client.kubeconfig import load
from kubewire.client.lease import LEASES

CALM = ("--period", "86400")
"""Scores stay as they are while the test looks."""

Decisions = Mapping[Any, PlacementDecision]


def chosen(decisions: Decisions) -> set[str]:
    return {decision.clusterName for page in decisions.values() for decision in page.status.decisions}


async def apply_example(client: Client) -> None:
    example = yaml.safe_load(fairway("up", "--example").stdout)
    await client.patch(PLACEMENTS, "most-free-cpu", example, kind=Patch.APPLY, namespace="default")


async def decisions_of(client: Client) -> Decisions:
    return {key_of(decision): decision for decision in (await client.list(PLACEMENT_DECISIONS)).items}


async def free_cpu(client: Client) -> dict[str, int]:
    return {
        score.metadata.namespace: next(
            item.value for item in score.status.scores if item.name == "cpuAvailable"
        )
        for score in (await client.list(ADD_ON_PLACEMENT_SCORES)).items
        if score.metadata.name == SCORE
    }


async def publish(client: Client, cluster: str, value: int) -> None:
    status = {"status": {"scores": [{"name": "cpuAvailable", "value": value}]}}
    await client.patch(
        ADD_ON_PLACEMENT_SCORES, SCORE, status, kind=Patch.MERGE, namespace=cluster, subresource="status"
    )


async def decided(client: Client) -> dict[str, int]:
    """Wait until the three best clusters are selected; return the free CPU of each cluster."""
    free = await free_cpu(client)
    best = set(sorted(free, key=lambda name: (-free[name], name))[:3])
    await until(client, PLACEMENT_DECISIONS, lambda decisions: chosen(decisions) == best)
    return free


def started_command(started: Up) -> str:
    """Return the command in front of the printed steps."""
    return str(started.announcement["try"][0]).removesuffix(" get clusters")


@pytest.fixture(scope="class")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with up(tmp_path_factory.mktemp("up"), "--clusters", 12, *CALM) as started:
        yield started


class TestTour:
    async def test_printed_steps_of_up_work(self, calm: Up) -> None:
        """Without kubectl; test_up_kubectl does the same with it."""
        see, apply, ask = calm.announcement["try"]
        seen = shell(see, calm)
        assert seen.returncode == 0, seen.stderr
        assert len(seen.stdout.splitlines()) == 1 + 12

        name = "placement.cluster.open-cluster-management.io/most-free-cpu"
        assert shell(apply, calm).stdout == f"{name} created\n"
        assert shell(apply, calm).stdout == f"{name} unchanged\n"
        async with calm.client() as client:
            await decided(client)

        asked = shell(ask, calm)
        assert asked.returncode == 0, asked.stderr
        assert asked.stdout.startswith("default/most-free-cpu: 3 of 3 clusters, AllDecisionsScheduled")

    async def test_hosted_cluster_is_placed_explained_and_deleted(self, calm: Up) -> None:
        assert (ROOT / "examples" / "hosted-cluster.yaml").read_text() == tour.REQUEST
        shell(f"{started_command(calm)} apply -f examples/hosted-cluster.yaml", calm)
        async with calm.client() as client:
            await until(
                client,
                HOSTED_CLUSTER_REQUESTS,
                lambda requests: any(request.status.phase == "Confirmed" for request in requests.values()),
            )
        answers = tour.demo_steps(started_command(calm), hosting=True).values()
        *_, capacity, explain, delete = [command for commands in answers for command in commands]
        assert shell(capacity, calm).stdout.count("Slots") == 2
        explained = shell(explain, calm)
        assert explained.returncode == 0, explained.stderr
        assert "default/shop is hosted on " in explained.stdout
        assert shell(delete, calm).stdout == "default/shop is deleted\n"
        assert shell(explain, calm).returncode == 2

    def test_up_announces_hub_controllers_and_fleet(self, tmp_path: Path) -> None:
        data = tmp_path / "my hub"
        command = [*FAIRWAY, "up", "--port", "0", "--clusters", "2", "--period", "30", "--data", str(data)]
        with forked.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(), cwd=ROOT) as process:
            assert process.stdout is not None
            lines: list[str] = []
            while not lines or lines[-1] != HOW_TO_STOP:
                lines.append(process.stdout.readline().rstrip("\n"))
            process.send_signal(signal.SIGINT)
            assert process.stdout.read().endswith(f"{STOPPING}\n")
        assert process.returncode == 0
        assert lines[0].endswith(f", data in {data}")
        assert lines[1] == CONTROLLERS.format(names=", ".join(sorted(WITH_HUB)))
        assert lines[2] == FLEET.format(count=2, period=30)
        assert f"  export KUBECONFIG='{data / 'admin.kubeconfig'}'" in lines
        tries = tour.demo_steps(f"{shlex.quote(sys.executable)} -m fairway", hosting=False)
        assert [line[2:] for line in lines if line.startswith("  ")][1:] == [
            command for commands in tries.values() for command in commands
        ]

    async def test_demo_prints_decision_and_each_move_with_its_cause(self, tmp_path: Path) -> None:
        kubeconfig = tmp_path / "kubeconfig"
        options = ("--port", "0", "--clusters", "8", *CALM, "--kubeconfig-out", str(kubeconfig))
        with forked.Process(["up", *options], stdout=forked.PIPE, env=environment(), cwd=ROOT) as process:
            assert process.stdout is not None
            printed = iter(process.stdout.readline, "")
            lines = (line for line in printed if not line.startswith(tour.REQUEST_NAME))
            assert any(line == f"{FIRST.format(placement=tour.NAME, count=3, fleet=8)}\n" for line in lines)
            assert [next(lines).split()[0] for _ in range(4)] == ["RANK", "1", "2", "3"]
            assert next(lines) == f"{MOVES}\n"
            async with Client(load(kubeconfig).context()) as client:
                requests = await client.list(HOSTED_CLUSTER_REQUESTS)
                free = await free_cpu(client)
                worst, *_, third = sorted(free, key=lambda name: (free[name], name))[:-2]
                await publish(client, worst, 100)
            heading, *move = (next(lines).strip() for _ in range(3))
            process.send_signal(signal.SIGINT)
            process.stdout.read()
        assert [item.metadata.name for item in requests.items] == ["shop"]
        added = f"+{worst} (rank 1, 100 points, was {free[worst]})"
        dropped = f"-{third} (rank 4, {free[third]} points)"
        assert (heading[10:], move) == (f"{tour.NAME}:", [added, dropped])

    def test_up_without_clusters_names_the_option(self, tmp_path: Path) -> None:
        with forked.Process(["up", "--port", "0"], stdout=forked.PIPE, env=environment()) as process:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            assert f"{NO_CLUSTERS}\n" in lines
            process.send_signal(signal.SIGTERM)
            process.stdout.read()
        assert process.returncode == 0

    def test_up_example_equals_the_example_file(self) -> None:
        assert (ROOT / tour.FILE).read_text(encoding="utf-8") == tour.EXAMPLE
        printed = fairway("up", "--example")
        assert (printed.returncode, printed.stdout) == (0, tour.EXAMPLE)

    def test_up_prints_the_example_command_outside_the_checkout(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert tour.apply_command("fairway") == "fairway up --example | fairway apply -f -"
        (tmp_path / "examples").mkdir()
        (tmp_path / tour.FILE).write_text("something else")
        assert tour.apply_command("fairway") == "fairway up --example | fairway apply -f -"

    def test_up_prints_commands_with_its_own_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = tmp_path / "my venv" / "bin" / "fairway"
        program.parent.mkdir(parents=True)
        program.touch(mode=0o755)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PATH", os.defpath)
        assert tour.fairway_command([str(program)]) == "'my venv/bin/fairway'"
        monkeypatch.chdir(program.parent)
        assert tour.fairway_command(["./fairway"]) == "./fairway"
        monkeypatch.chdir(ROOT)
        assert tour.fairway_command([str(program)]) == f"'{program}'"
        monkeypatch.setenv("PATH", str(program.parent))
        assert tour.fairway_command([str(program)]) == "fairway"
        module = Path(tour.__file__).parents[2] / "__main__.py"
        assert tour.fairway_command([str(module)]) == f"{shlex.quote(sys.executable)} -m fairway"

    def test_up_help_has_examples(self) -> None:
        printed = fairway("up", "--help").stdout
        assert "Examples:\n" in printed
        assert all(option in printed for option in ("--data", "--clusters", "--kubeconfig-out", "--name"))


class TestDecisions:
    async def test_risen_score_moves_the_decision_of_up(self, tmp_path: Path) -> None:
        with up(tmp_path, "--clusters", 6, *CALM) as started:
            async with started.client() as client:
                await apply_example(client)
                free = await decided(client)
                worst = min(free, key=lambda name: free[name])
                await publish(client, worst, 100)
                await until(client, PLACEMENT_DECISIONS, lambda decisions: worst in chosen(decisions))
            assert started.stop() == 0
            assert started.errors.read_text() == ""

    async def test_stopped_agent_of_up_loses_its_cluster_and_regains_it(self, tmp_path: Path) -> None:
        with up(tmp_path, "--clusters", 6, *CALM) as started:
            async with started.client() as client:
                await apply_example(client)
                free = await decided(client)
                best = max(free, key=lambda name: free[name])
                # Silence counts in durations of the lease, and a minute is long.
                plug = {"metadata": {"labels": {AGENT: STOPPED}}, "spec": {"leaseDurationSeconds": 1}}
                await client.patch(MANAGED_CLUSTERS, best, plug, kind=Patch.MERGE)
                await until(client, PLACEMENT_DECISIONS, lambda decisions: best not in chosen(decisions))
                assert len(chosen(await decisions_of(client))) == 3
                back = {"metadata": {"labels": {AGENT: None}}}
                await client.patch(MANAGED_CLUSTERS, best, back, kind=Patch.MERGE)
                await until(client, PLACEMENT_DECISIONS, lambda decisions: best in chosen(decisions))

    async def test_scores_of_up_change(self, tmp_path: Path) -> None:
        with up(tmp_path, "--clusters", 3, "--period", 1) as started:
            async with started.client() as client:
                before = await free_cpu(client)

                def moved(scores: Mapping[Any, AddOnPlacementScore]) -> bool:
                    return any(
                        item.name == "cpuAvailable" and item.value != before[key[0]]
                        for key, score in scores.items()
                        for item in score.status.scores
                    )

                await until(client, ADD_ON_PLACEMENT_SCORES, moved)


class TestProcess:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_up_stops_on_a_signal(self, tmp_path: Path, number: signal.Signals) -> None:
        with up(tmp_path, "--clusters", 3, "--period", 1, "--data", tmp_path / "hub") as started:
            assert started.announcement["controllers"] == sorted(WITH_HUB)
            assert started.announcement["clusters"] == 3
            assert started.stop(number) == 0
            assert started.errors.read_text() == ""

    def test_up_stops_while_it_creates_clusters(self) -> None:
        command = ["up", "--port", "0", "--clusters", "100000", "-v"]
        with forked.Process(command, stdout=forked.PIPE, stderr=forked.PIPE, env=environment()) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert any(line.endswith(f"{MAKING}\n") for line in process.stderr)
            process.send_signal(signal.SIGINT)
            printed, errors = process.stdout.read(), process.stderr.read()
        assert (process.returncode, printed) == (0, f"{STOPPING}\n")
        assert "Traceback" not in errors

    async def test_killed_up_resumes_after_a_restart(self, tmp_path: Path) -> None:
        data = tmp_path / "hub"
        with up(tmp_path, "--clusters", 5, *CALM, "--data", data) as started:
            async with started.client() as client:
                await apply_example(client)
                await decided(client)
                names = {cluster.metadata.name for cluster in (await client.list(MANAGED_CLUSTERS)).items}
                await until(client, LEASES, lambda leases: {(name, LEASE) for name in names} <= set(leases))
                before = await renewals(client)
                pages = (await client.list(PLACEMENT_DECISIONS)).items
            assert started.stop(signal.SIGKILL) == -signal.SIGKILL
        with up(tmp_path, "--data", data, *CALM) as started:
            assert started.announcement["clusters"] == 5
            async with started.client() as client:
                assert (await client.list(PLACEMENT_DECISIONS)).items == pages
                assert {
                    cluster.metadata.name for cluster in (await client.list(MANAGED_CLUSTERS)).items
                } == names
                # The agents are at work again, and so are the controllers, without waiting for the old leases.
                await until(
                    client,
                    LEASES,
                    lambda leases: all(leases[(name, LEASE)].spec.renewTime > before[name] for name in names),
                )
                await client.delete(PLACEMENT_DECISIONS, pages[0].metadata.name, namespace="default")
                await until(client, PLACEMENT_DECISIONS, lambda decisions: len(chosen(decisions)) == 3)
                held = await client.get(LEASES, "fairway-placement", namespace="fairway-system")
                assert held.spec.holderIdentity == IDENTITY
            assert started.stop() == 0

    def test_second_up_on_the_same_folder_or_port_exits_2(self, tmp_path: Path) -> None:
        data = tmp_path / "hub"
        with up(tmp_path, "--data", data) as started:
            second = fairway("up", "--data", data, "--port", 0)
            told = LOCKED.format(path=data, holder=f"process {started.process.pid}")
            assert (second.returncode, second.stderr) == (2, f"fairway: {told}\n")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            busy = fairway("up", "--port", port)
        assert (busy.returncode, busy.stderr) == (2, f"fairway: {BUSY.format(host='127.0.0.1', port=port)}\n")

    async def test_up_refuses_to_run_beside_the_ocm_controller(self, tmp_path: Path) -> None:
        data = tmp_path / "hub"
        with up(tmp_path, "--data", data) as started:
            async with started.client() as client:
                await ensure(client, NAMESPACES, {"metadata": {"name": ocm_detection.NAMESPACE}})
                now = format_micro_time(SYSTEM_CLOCK.wall())
                spec = {"holderIdentity": "them", "leaseDurationSeconds": 3600, "renewTime": now}
                body = {"metadata": {"name": ocm_detection.LEASE}, "spec": spec}
                await client.create(LEASES, body, namespace=ocm_detection.NAMESPACE)
            started.stop()
        refused = fairway("up", "--data", data, "--port", 0)
        assert refused.returncode == 1
        assert refused.stderr.startswith("fairway: OCM's own placement controller runs on this hub: them")

    @pytest.mark.parametrize(
        "arguments", [("--clusters", "-1"), ("--period", "0"), ("--clusters", "many"), ("--nonsense",)]
    )
    def test_wrong_usage_of_up_exits_2(self, arguments: tuple[str, ...]) -> None:
        refused = fairway("up", *arguments)
        assert refused.returncode == 2
        assert arguments[0] in refused.stderr


async def renewals(client: Client) -> dict[str, str]:
    leases = (await client.list(LEASES)).items
    return {
        lease.metadata.namespace: lease.spec.renewTime for lease in leases if lease.metadata.name == LEASE
    }


def shell(line: str, started: Up) -> "subprocess.CompletedProcess[str]":
    """Run a printed command, which begins with the interpreter and the module."""
    interpreter, option, module, *arguments = shlex.split(line)
    assert (interpreter, option, module) == (sys.executable, "-m", "fairway")
    return fairway(*arguments, KUBECONFIG=str(started.kubeconfig))


def test_up_runs_the_controllers_asked_for_with_their_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("recovery: {dwell: 1m, recoveryDwell: 2m}")
    with up(tmp_path, "--controllers", "placement,recovery", "--config", config) as started:
        assert started.announcement["controllers"] == ["placement", "recovery"]
        # A second process with the same lease logs the holder.
        with running("--kubeconfig", started.kubeconfig, "--controllers", "recovery") as waiting:
            line = waiting.read_until(lambda line: line["msg"].startswith("waiting for the lease"))
            assert f"fairway-system/fairway-recovery, held by {IDENTITY} since 2" in line["msg"]
            assert line["msg"].endswith("not running until then: recovery")
    config.write_text("recovery: {below: nonsense}")
    refused = fairway("up", "--port", "0", "--controllers", "+recovery", "--config", config)
    assert (refused.returncode, str(config) in refused.stderr) == (2, True)
