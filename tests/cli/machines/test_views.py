"""`fairway machines top`, `migrations` and `explain pod`, from files."""

import io
import json
import os
import pty
import re
import sys
import termios
from pathlib import Path

import msgspec
import pytest

from cli.machines import cluster
from fairway.api.node import Node
from fairway.cli.machines.explain import BAD_NAME, NOT_OURS
from fairway.cli.machines.migrations import NONE
from fairway.cli.machines.objects import NO_NODES, NO_NODES_ON_HUB
from fairway.cli.machines.tables import copied
from fairway.cli.machines.top import HIDDEN, WATCH_AS_TABLE, WATCH_HUB, TopView, screen
from fairway.cli.main import run
from fairway.testing.hub import HubAddress
from fairway.workloads.machines.migration import Phase
from fairway.workloads.machines.migration_story import story_of
from fairway.workloads.machines.settings import MachineSettings

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    path.write_text(cluster.written(*cluster.story()))
    return str(path)


def test_top_shows_nodes_and_machines(file: str, capsys: Capture) -> None:
    assert run(["machines", "top", "-f", file]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "2 nodes, 2 virtual machines, 1 with denied demand, 1 migration"
    assert [re.split(r"  +", line) for line in out[2:7]] == [
        [
            *("NODE", "RESOURCE", "CAPACITY", "RESERVED", "COMMITTED", "EARMARKED"),
            *("WATERMARK", "PRESSURE", "VMS", "MOVES"),
        ],
        ["node-1", "cpu", "10", "10 (100 %)", "10", "2", "9", "3", "2", "1 out"],
        ["node-1", "memory", "40 GiB", "40 GiB (100 %)", "40 GiB", "8 GiB", "36 GiB", "12 GiB", "2", "1 out"],
        ["node-2", "cpu", "10", "3 (30 %)", "3", "-", "9", "-", "1", "1 in"],
        ["node-2", "memory", "40 GiB", "12 GiB (30 %)", "12 GiB", "-", "36 GiB", "-", "1", "1 in"],
    ]
    assert [re.split(r"  +", line) for line in out[8:]] == [
        ["VM", "NODE", "SIZE", "PERMIT", "DEMAND", "DENIED", "STATE"],
        [
            *("default/vm-a", "node-1", "4 / 16 GiB", "4 / 16 GiB", "6 / 24 GiB", "2 / 8 GiB"),
            "waits for vm-b-0a1b2c3d-1",
        ],
        [
            *("default/vm-b", "node-1", "3 / 12 GiB", "3 / 12 GiB", "3 / 12 GiB", "-"),
            "moves to node-2 (Copying)",
        ],
    ]


def test_machines_of_kubevirt_are_shown_with_their_kind_and_without_permits(
    tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(cluster.written(*cluster.kubevirt_story()))
    assert run(["machines", "top", "-f", str(path)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "2 nodes, 2 virtual machines, 1 with denied demand, 1 migration"
    assert [re.split(r"  +", line) for line in out[8:]] == [
        ["VM", "KIND", "NODE", "SIZE", "PERMIT", "DEMAND", "DENIED", "STATE"],
        [
            *("default/vm-a", "VirtualMachine", "node-1", "4 / 16 GiB", "4 / 16 GiB", "6 / 24 GiB"),
            *("2 / 8 GiB", "waits for vm-b-0a1b2c3d-1"),
        ],
        [
            *("default/vm-b", "VirtualMachineInstance", "node-1", "3 / 12 GiB", "-", "-", "-"),
            "moves to node-2 (Copying)",
        ],
    ]
    assert run(["machines", "migrations", "-f", str(path), "--vm", "default/vm-b"]) == 0
    row = re.split(r"  +", capsys.readouterr().out.splitlines()[1])
    assert row[:7] == [
        *("vm-b-0a1b2c3d-1", "default/vm-b", "VirtualMachineInstance", "node-1", "node-2", "Copying", "-"),
    ]
    assert run(["machines", "explain", "pod", "default/vm-b-1", "-f", str(path)]) == 0
    assert "VirtualMachineAutoscaling" in capsys.readouterr().out


def test_ended_migration_of_kubevirt_has_the_kind_of_its_machine(tmp_path: Path, capsys: Capture) -> None:
    event = cluster.ended_event()
    event["involvedObject"]["kind"] = "VirtualMachineInstance"
    path = tmp_path / "cluster.yaml"
    path.write_text(cluster.written(cluster.node("node-1"), cluster.ended_event(), event))
    assert run(["machines", "migrations", "-f", str(path), "-o", "json"]) == 0
    stories = json.loads(capsys.readouterr().out)
    assert sorted(story["kind"] for story in stories) == ["VirtualMachine", "VirtualMachineInstance"]


@pytest.mark.parametrize("sort", ["name", "reserved"])
def test_nodes_are_sorted_by_the_value_of_numbers_in_their_names(sort: str) -> None:
    view = TopView(MachineSettings(), sort=sort)
    objects = [msgspec.convert(cluster.node(f"node-{number}"), Node) for number in (10, 2, 1)]
    nodes, _ = view.reports(objects)
    assert [node.node for node in nodes] == ["node-1", "node-2", "node-10"]


def test_top_prints_quantities_as_json(file: str, capsys: Capture) -> None:
    assert run(["machines", "top", "-f", file, "-o", "json", "--sort", "pressure"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [node["node"] for node in document["nodes"]] == ["node-1", "node-2"]
    assert document["nodes"][0]["denied"] == {"cpu": "2000m", "memory": str(8 << 30)}
    assert document["nodes"][0]["promised"] == {"cpu": "2000m", "memory": str(8 << 30)}
    assert document["machines"][0]["waitsFor"] == ["vm-b-0a1b2c3d-1"]


def test_top_cuts_tables_to_the_height_of_a_terminal() -> None:
    view = TopView(MachineSettings(), resource="cpu")
    objects = [cluster_node(number) for number in range(50)]
    nodes, machines = view.reports(objects)
    lines = view.text(nodes, machines, height=20).splitlines()
    assert len(lines) <= 20
    assert lines[-3] == HIDDEN.format(count=36)


def cluster_node(number: int) -> object:
    return msgspec.convert(cluster.node(f"node-{number:02}"), Node)


def test_top_refuses_to_watch_files_and_documents(file: str, capsys: Capture) -> None:
    assert run(["machines", "top", "-w", "-f", file]) == 2
    assert WATCH_HUB in capsys.readouterr().err
    assert run(["machines", "top", "-w", "-o", "json"]) == 2
    assert WATCH_AS_TABLE in capsys.readouterr().err


def test_input_without_nodes_is_refused(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text(cluster.written(cluster.pod("x")))
    assert run(["machines", "top", "-f", str(path)]) == 2
    assert NO_NODES in capsys.readouterr().err


def test_hub_without_nodes_is_refused(fairway_hub: HubAddress, capsys: Capture) -> None:
    assert run(["machines", "top", "--kubeconfig", str(fairway_hub.kubeconfig)]) == 2
    assert NO_NODES_ON_HUB.format(server=fairway_hub.url) in capsys.readouterr().err


def test_objects_of_other_kinds_are_reported_on_request(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "cluster.yaml"
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    path.write_text(cluster.written(*cluster.story(), other))
    assert run(["machines", "top", "-v", "-f", str(path)]) == 0
    assert "ignored 1 object of other kinds: ConfigMap (1)" in capsys.readouterr().err


def test_list_of_kubectl_is_read(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster.story()}))
    assert run(["machines", "top", "-f", str(path)]) == 0
    assert "vm-a" in capsys.readouterr().out


def test_migrations_show_steps_bytes_and_beneficiary(file: str, capsys: Capture) -> None:
    assert run(["machines", "migrations", "-f", file]) == 0
    out = capsys.readouterr().out
    row = re.split(r"  +", out.splitlines()[1])
    assert row[:6] == [
        "vm-b-0a1b2c3d-1", "default/vm-b", "node-1", "node-2", "Copying", "5 GiB of 12 GiB",
    ]  # fmt: skip
    assert row[8] == "default/vm-a (2 cpu, 8 GiB memory)"
    assert [line.split()[1] for line in out.splitlines()[4:]] == [
        *("Planned", "TargetPending", "TargetBound", "Copying"),
    ]
    assert out.splitlines()[4].endswith("Planned         1.0 s")


def test_ended_migration_is_known_from_its_event(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(cluster.written(cluster.node("node-1"), cluster.ended_event()))
    assert run(["machines", "migrations", "-f", str(path), "-o", "json"]) == 0
    (story,) = json.loads(capsys.readouterr().out)
    assert (story["phase"], story["started"], story["vm"]) == ("Cleaned", "2026-03-01T12:00:00Z", "vm-b")
    assert story["steps"][-1] == {"phase": "Cleaned", "seconds": 17.0}
    assert run(["machines", "migrations", "-f", str(path), "--running"]) == 0
    assert capsys.readouterr().out == f"{NONE}\n"
    assert run(["machines", "migrations", "-f", str(path), "--vm", "default/vm-a"]) == 0
    assert capsys.readouterr().out == f"{NONE}\n"


def test_bytes_of_a_cancelled_migration_are_unknown() -> None:
    story = story_of(cluster.migration())
    assert copied(story) == ""
    assert copied(story_of(cluster.migration(phase=Phase.CLEANED))) == "12 GiB"
    assert copied(story_of(cluster.migration(), copied=12 << 30)) == "12 GiB"


def test_pod_that_fits_nowhere_is_explained(tmp_path: Path, capsys: Capture) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
    path = tmp_path / "cluster.yaml"
    big = cluster.pod("big", cpu="9", conditions=[condition])
    path.write_text(cluster.written(*cluster.story(), big))
    assert run(["machines", "explain", "pod", "default/big", "-f", str(path)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("default/big: waits for a node\n0 of 2 nodes pass every filter\n")
    assert "Last attempt on the hub: Unschedulable: 0/2 nodes" in out
    assert re.search(r"VirtualMachineAutoscaling +1 +Insufficient cpu beside", out)
    assert "  request at most " in out


def test_bound_pod_is_explained_with_scores(file: str, capsys: Capture) -> None:
    assert run(["machines", "explain", "pod", "default/x", "-f", file]) == 0
    out = capsys.readouterr().out
    assert out.startswith("default/x: on node node-1\n")
    assert "VirtualMachineAutoscaling" in out
    assert run(["machines", "explain", "pod", "default/x", "-f", file, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {host["node"] for host in document["ranking"]} == {"node-1", "node-2"}


def test_unknown_pod_has_suggestions(file: str, capsys: Capture) -> None:
    assert run(["machines", "explain", "pod", "default/vm-a-2", "-f", file]) == 2
    assert "vm-a-1" in capsys.readouterr().err
    assert run(["machines", "explain", "pod", "x", "-f", file]) == 2
    assert BAD_NAME.format(name="x") in capsys.readouterr().err


def test_pod_of_another_scheduler_is_not_explained(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "cluster.yaml"
    other = cluster.pod("other")
    other["spec"]["schedulerName"] = "default-scheduler"
    path.write_text(cluster.written(*cluster.story(), other))
    assert run(["machines", "explain", "pod", "default/other", "-f", str(path)]) == 2
    message = NOT_OURS.format(pod="default/other", scheduler="default-scheduler", profiles="fairway")
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("key", "status"), [(b"q", 0), (b"\x03", 130)])
def test_key_ends_top_and_restores_the_terminal(fairway_hub: HubAddress, key: bytes, status: int) -> None:
    command = ["-m", "fairway", "machines", "top", "--kubeconfig", str(fairway_hub.kubeconfig)]
    child, terminal = pty.fork()
    if not child:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, *command])
    before = termios.tcgetattr(terminal)
    try:
        shown = b""
        while b"0 nodes" not in shown:
            shown += os.read(terminal, 1024)
        assert not termios.tcgetattr(terminal)[3] & termios.ICANON
        os.write(terminal, key)
        while b"\x1b[?1049l" not in shown:
            shown += os.read(terminal, 1024)
        _, ended = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(ended) == status
        assert termios.tcgetattr(terminal) == before
    finally:
        os.close(terminal)


def test_terminal_shows_top_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    view = TopView(MachineSettings(), resource="cpu")
    reports = view.reports([cluster_node(1)])
    with screen() as show:
        show(view, *reports)
        show(view, *reports)
    shown = terminal.getvalue()
    assert "\x1b[?1049h" in shown, "an alternate screen, so that the terminal is restored at the end"
    assert shown.count("node-01") == 2
    assert "\x1b[H" in shown
