"""From a Deployment to a process of this machine."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairway.klusterlet.local_launch import (
    NO_PART,
    NO_VARIABLE,
    NO_VOLUME,
    Deployment,
    Launch,
    Probe,
    Unlaunchable,
    launch_of,
)

OWNER = {
    "apiVersion": "work.open-cluster-management.io/v1",
    "kind": "AppliedManifestWork",
    "name": "w",
    "uid": "1",
}


def deployment(*, owners: Any = (OWNER,), pod: Any = None, **container: Any) -> Deployment:
    agent = {"name": "agent", "command": ["fairway", "agent", "run"], **container}
    document = {
        "metadata": {"name": "d", "namespace": "ns", "ownerReferences": list(owners)},
        "spec": {"template": {"spec": {"containers": [agent], **(pod or {})}}},
    }
    return msgspec.convert(document, Deployment)


def launched(folder: Path = Path("/state"), **parts: Any) -> Launch:
    return launch_of(deployment(**parts), folder=folder, ports=[50001, 50002, 50003])


@pytest.mark.parametrize(
    "parts",
    [
        {"owners": ()},
        {"command": ["sh", "-c", "fairway agent run"]},
        {"command": ["fairway", "provider", "run", "x.py"]},
        {"command": ["/bin/fairway", "agent"]},
        {"command": [], "args": ["agent", "run"]},
    ],
)
def test_only_the_agent_that_a_work_brought_is_ours(parts: dict[str, Any]) -> None:
    assert deployment(**parts).agent is None


def test_command_and_arguments_are_one_line() -> None:
    found = launched(command=["fairway"], args=["agent", "run", "--cluster-name=c1"])
    assert found.arguments == ("agent", "run", "--cluster-name=c1")


def test_files_of_a_secret_are_found_where_they_are_put() -> None:
    found = launched(
        args=[
            "--hub-kubeconfig=/managed/hub-kubeconfig/kubeconfig",
            "--other",
            "/managed/hub-kubeconfig-not",
        ],
        env=[{"name": "HUB_KUBECONFIG", "value": "/managed/hub-kubeconfig/kubeconfig"}],
        volumeMounts=[{"name": "hub", "mountPath": "/managed/hub-kubeconfig"}],
        pod={"volumes": [{"name": "hub", "secret": {"secretName": "s", "optional": True}}]},
    )
    place = Path("/state/volumes/hub")
    assert found.arguments[2:] == (
        f"--hub-kubeconfig={place}/kubeconfig",
        "--other",
        "/managed/hub-kubeconfig-not",
    )
    assert found.variables == {"HUB_KUBECONFIG": f"{place}/kubeconfig"}
    assert found.folders == {place: "s"}
    assert found.optional == {"s"}


def test_a_folder_in_another_is_not_moved_twice() -> None:
    """The state of a klusterlet may lie below a path that a container mounts."""
    found = launch_of(
        deployment(
            args=["--a=/tmp/x", "--b=/managed/y"],
            volumeMounts=[{"name": "tmp", "mountPath": "/tmp"}, {"name": "hub", "mountPath": "/managed"}],
            pod={
                "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "hub", "secret": {"secretName": "s"}}]
            },
        ),
        folder=Path("/tmp/state"),
        ports=[],
    )
    assert found.arguments[2:] == ("--a=/tmp/state/volumes/tmp/x", "--b=/tmp/state/volumes/hub/y")
    assert found.empty == (Path("/tmp/state/volumes/tmp"),)


def test_an_empty_folder_may_be_written_as_null() -> None:
    found = launched(
        volumeMounts=[{"name": "tmp", "mountPath": "/tmp"}],
        pod={"volumes": [{"name": "tmp", "emptyDir": None}]},
    )
    assert found.empty == (Path("/state/volumes/tmp"),)


def test_variables_are_expanded_as_kubernetes_does() -> None:
    found = launched(
        args=["--name=$(NAME)", "--price=$$(NAME)", "--unknown=$(NOBODY)"],
        env=[
            {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "NAME", "value": "in-$(WHERE)"},
        ],
    )
    assert found.arguments[2:] == ("--name=in-ns", "--price=$(NAME)", "--unknown=$(NOBODY)")
    assert found.variables == {"WHERE": "ns", "NAME": "in-ns"}


def test_no_variable_makes_another_program_of_it() -> None:
    bad = ("PATH", "PYTHONPATH", "PYTHONSTARTUP", "LD_PRELOAD", "KUBECONFIG", "HOME")
    found = launched(
        env=[*({"name": name, "value": "x"} for name in bad), {"name": "MAXCPUCOUNT", "value": "8"}]
    )
    assert found.variables == {"MAXCPUCOUNT": "8"}


def test_ports_are_those_of_this_machine() -> None:
    found = launched(
        args=["--health-address=:8081", "--metrics-address", "0.0.0.0:8080", "--other=:9999"],
        ports=[{"name": "health", "containerPort": 8081}, {"name": "metrics", "containerPort": 8080}],
        readinessProbe={"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 5},
    )
    assert found.arguments[2:] == (
        "--health-address=127.0.0.1:50001",
        "--metrics-address",
        "127.0.0.1:50002",
        "--other=:9999",
    )
    assert found.ready == Probe(url="http://127.0.0.1:50001/readyz", period=5.0, timeout=1.0)


def test_an_agent_that_listens_without_being_told_is_told() -> None:
    found = launched(readinessProbe={"httpGet": {"path": "readyz", "port": 8081}})
    assert found.arguments[2:] == ("--health-address=127.0.0.1:50001",)
    assert found.ready is not None
    assert found.ready.url == "http://127.0.0.1:50001/readyz"


def test_without_a_probe_to_run_is_to_be_ready() -> None:
    assert launched().ready is None


def test_its_service_account() -> None:
    assert launched().account == "default"
    assert launched(pod={"serviceAccountName": "agent-sa"}).account == "agent-sa"


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            NO_VARIABLE.format(name="A", container="agent"),
        ),
        (
            {
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "pod": {"volumes": [{"name": "v", "hostPath": {"path": "/etc"}}]},
            },
            NO_VOLUME.format(name="v"),
        ),
        (
            {
                "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "p"}],
                "pod": {"volumes": [{"name": "v", "emptyDir": {}}]},
            },
            NO_PART.format(name="v"),
        ),
    ],
)
def test_what_cannot_be_had_here_is_said(parts: dict[str, Any], fault: str) -> None:
    with pytest.raises(Unlaunchable) as refused:
        launched(**parts)
    assert str(refused.value) == fault
