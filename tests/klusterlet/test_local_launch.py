"""From a Deployment to a process of this machine."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairway.klusterlet.local_launch import (
    BAD_ACCOUNT,
    BAD_VOLUME,
    NO_PART,
    NO_VARIABLE,
    NO_VOLUME,
    TOO_LONG,
    TOO_MANY_PORTS,
    Deployment,
    Launch,
    Probe,
    launch_of,
)
from fairway.klusterlet.local_options import (
    AS_VARIABLE,
    BAD_ADDRESS,
    NO_OPTION,
    NO_VALUE,
    NOT_MOUNTED,
    NOT_RUN,
    NUL,
    UNEXPECTED_VALUE,
    VARIABLES,
    NotLaunchable,
)
from fairway.providers.hosted import options as hosted
from fairway.providers.usage import options as usage

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


CONFINED = ("--confined-to=/state/volumes",)
HUB: Any = {
    "volumeMounts": [{"name": "hub", "mountPath": "/managed"}],
    "pod": {"volumes": [{"name": "hub", "secret": {"secretName": "s"}}]},
}


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
def test_only_agents_from_manifestworks_are_launched(parts: dict[str, Any]) -> None:
    assert deployment(**parts).agent is None


def test_command_and_args_are_joined() -> None:
    launch = launched(command=["fairway"], args=["agent", "run", "--cluster-name=c1"])
    assert launch.arguments == ("agent", "run", "--cluster-name=c1", *CONFINED)


def test_secret_volume_paths_are_translated() -> None:
    launch = launched(
        args=[
            "--hub-kubeconfig=/managed/hub-kubeconfig/kubeconfig",
            "--addon-name",
            "/managed/hub-kubeconfig",
        ],
        env=[{"name": "HUB_KUBECONFIG", "value": "/managed/hub-kubeconfig/kubeconfig"}],
        volumeMounts=[{"name": "hub", "mountPath": "/managed/hub-kubeconfig"}],
        pod={"volumes": [{"name": "hub", "secret": {"secretName": "s", "optional": True}}]},
    )
    place = Path("/state/volumes/hub")
    assert launch.arguments[2:] == (
        f"--hub-kubeconfig={place}/kubeconfig",
        "--addon-name=/managed/hub-kubeconfig",
        *CONFINED,
    )
    assert launch.variables == {"HUB_KUBECONFIG": f"{place}/kubeconfig"}
    assert launch.folders == {place: "s"}
    assert launch.optional == {"s"}


def test_nested_mounts_are_translated_once() -> None:
    """The state folder of a klusterlet may be below a path that a container mounts."""
    launch = launch_of(
        deployment(
            args=["--hub-kubeconfig=/managed/y"],
            env=[{"name": "HUB_KUBECONFIG", "value": "/tmp/x"}],
            volumeMounts=[{"name": "tmp", "mountPath": "/tmp"}, {"name": "hub", "mountPath": "/managed"}],
            pod={
                "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "hub", "secret": {"secretName": "s"}}]
            },
        ),
        folder=Path("/tmp/state"),
        ports=[],
    )
    assert launch.arguments[2] == "--hub-kubeconfig=/tmp/state/volumes/hub/y"
    assert launch.variables == {"HUB_KUBECONFIG": "/tmp/state/volumes/tmp/x"}
    assert launch.empty == (Path("/tmp/state/volumes/tmp"),)


def test_null_empty_dir_is_accepted() -> None:
    launch = launched(
        volumeMounts=[{"name": "tmp", "mountPath": "/tmp"}],
        pod={"volumes": [{"name": "tmp", "emptyDir": None}]},
    )
    assert launch.empty == (Path("/state/volumes/tmp"),)


def test_variables_expand_as_in_kubernetes() -> None:
    launch = launched(
        args=["--cluster-name=$(NAME)", "--addon-name=$$(NAME)", "--interval=$(NOBODY)"],
        env=[
            {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "NAME", "value": "in-$(WHERE)"},
            {"name": "SCORES", "value": "$(NAME)"},
        ],
    )
    assert launch.arguments[2:] == (
        "--cluster-name=in-ns",
        "--addon-name=$(NAME)",
        "--interval=$(NOBODY)",
        *CONFINED,
    )
    assert launch.variables == {"SCORES": "in-ns"}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "PATH",
            "HOME",
            "KUBECONFIG",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "PYTHONINSPECT",
            "LD_PRELOAD",
            "BROWSER",
        ),
        *(
            "OPENSSL_CONF",
            "OPENSSL_MODULES",
            "SSLKEYLOGFILE",
            "SSL_CERT_FILE",
            "GCONV_PATH",
            "GLIBC_TUNABLES",
        ),
        *(
            "KUBERNETES_SERVICE_HOST",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "_FAIRWAY_COMPLETE",
            "TMPDIR",
            "XDG_STATE_HOME",
        ),
    ],
)
def test_unsafe_variables_are_dropped(name: str) -> None:
    launch = launched(env=[{"name": name, "value": "x"}, {"name": "MAXCPUCOUNT", "value": "8"}])
    assert launch.variables == {"MAXCPUCOUNT": "8"}


def test_provider_variables_are_passed() -> None:
    assert {usage.MAX_CPU, usage.MAX_MEMORY, usage.ONLY, *hosted.VARIABLES.values()} <= VARIABLES


def test_container_ports_map_to_local_ports() -> None:
    launch = launched(
        args=["--health-address=:8081", "--metrics-address", "0.0.0.0:8080"],
        ports=[{"name": "health", "containerPort": 8081}, {"name": "metrics", "containerPort": 8080}],
        readinessProbe={"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 5},
    )
    assert launch.arguments[2:] == (
        "--health-address=127.0.0.1:50001",
        "--metrics-address=127.0.0.1:50002",
        *CONFINED,
    )
    assert launch.ready == Probe(url="http://127.0.0.1:50001/readyz", period=5.0, timeout=1.0)


def test_undeclared_port_maps_to_local_port() -> None:
    """Another program may listen on the container's port number here."""
    launch = launched(
        args=["--metrics-address=:2375"], readinessProbe={"httpGet": {"path": "/../x", "port": 2376}}
    )
    assert launch.arguments[2:4] == ("--metrics-address=127.0.0.1:50001", "--health-address=127.0.0.1:50002")
    assert launch.ready is not None
    assert launch.ready.url == "http://127.0.0.1:50002/../x"
    assert launched(args=["--metrics-address=off"]).arguments[2] == "--metrics-address=off"


def test_default_health_port_is_set_explicitly() -> None:
    launch = launched(readinessProbe={"httpGet": {"path": "readyz", "port": 8081}})
    assert launch.arguments[2:] == ("--health-address=127.0.0.1:50001", *CONFINED)
    assert launch.ready is not None
    assert launch.ready.url == "http://127.0.0.1:50001/readyz"


def test_agent_without_probe_is_ready_when_running() -> None:
    assert launched().ready is None


def test_service_account_of_launch() -> None:
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
        (
            {
                "volumeMounts": [{"name": "../../hub", "mountPath": "/v"}],
                "pod": {"volumes": [{"name": "../../hub", "secret": {"secretName": "s"}}]},
            },
            BAD_VOLUME.format(name="../../hub"),
        ),
        (
            {"pod": {"serviceAccountName": "../../kube-system/serviceaccounts/admin"}},
            BAD_ACCOUNT.format(name="../../kube-system/serviceaccounts/admin"),
        ),
        ({"command": ["fairway", "agent", "--help"]}, NOT_RUN.format(verb="--help")),
        ({"command": ["fairway", "agent"]}, NOT_RUN.format(verb="")),
        ({"args": ["--adopt=yes"]}, UNEXPECTED_VALUE.format(name="--adopt")),
        ({"args": ["--managed-cluster-scores=no"]}, UNEXPECTED_VALUE.format(name="--managed-cluster-scores")),
        ({"args": ["--interval"]}, NO_VALUE.format(name="--interval")),
        ({"args": ["--interval=\0"]}, NUL.format(what="an argument")),
        ({"env": [{"name": "SCORES", "value": "\0"}]}, NUL.format(what="variable SCORES")),
        (
            {"env": [{"name": "FAIRWAY_AGENT_PROVIDERS", "value": "os:system"}]},
            AS_VARIABLE.format(name="FAIRWAY_AGENT_PROVIDERS"),
        ),
        (
            {"args": ["--metrics-address=192.0.2.1:8080"]},
            BAD_ADDRESS.format(name="--metrics-address", value="192.0.2.1:8080"),
        ),
        (
            {"args": ["--metrics-address", "evil.example:80"]},
            BAD_ADDRESS.format(name="--metrics-address", value="evil.example:80"),
        ),
        (
            {
                "args": [
                    "--metrics-address=:1",
                    "--metrics-address=:2",
                    "--metrics-address=:3",
                    "--metrics-address=:4",
                ]
            },
            TOO_MANY_PORTS,
        ),
        (
            {
                "env": [
                    {"name": "A0", "value": "aaaaaaaaaa"},
                    *({"name": f"A{index + 1}", "value": f"$(A{index})" * 10} for index in range(20)),
                ]
            },
            TOO_LONG,
        ),
    ],
)
def test_unsupported_deployment_features_are_named(parts: dict[str, Any], fault: str) -> None:
    with pytest.raises(NotLaunchable) as refused:
        launched(**parts)
    assert str(refused.value) == fault


@pytest.mark.parametrize(
    "option",
    [
        *(
            "--kubeconfig=/home/somebody/.kube/config",
            "--context=admin",
            "--config=/managed/options.yaml",
            "--confined-to=/",
        ),
        *(
            "--hub-kubeconfi=/managed/x",
            "--help",
            "--",
            "-x",
            "run",
            "",
            "--no-adopt",
            "--hub-kubeconfig\n=/managed/x",
        ),
    ],
)
def test_unknown_options_are_rejected(option: str) -> None:
    with pytest.raises(NotLaunchable, match=NO_OPTION.partition("{")[0]):
        launched(args=[option], **HUB)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/etc/passwd",
            "kubeconfig",
            "",
            "/",
            "/managed",
            "/managed/",
            "/managedx/kubeconfig",
            "~/.kube/config",
        ),
        *(
            "/managed/../../cluster/kubeconfig",
            "/managed/../../../../hub/kubeconfig",
            "/state/volumes/../cluster/token",
        ),
        *("/managed/x/../../../..", "file:///managed/kubeconfig", "$(NOBODY)"),
    ],
)
def test_files_outside_volumes_are_rejected(path: str) -> None:
    for args in ([f"--hub-kubeconfig={path}"], ["--hub-kubeconfig", path]):
        with pytest.raises(
            NotLaunchable, match=NOT_MOUNTED.partition("{value")[0].format(name="--hub-kubeconfig")
        ):
            launched(args=args, **HUB)


@pytest.mark.parametrize(
    "providers",
    [
        *(
            "/managed/evil.py",
            "evil.py",
            "evil.py:x",
            "os:system",
            "fairway.providers.usage:resource_usage",
            "./x",
        ),
        *("resource-usage,os:system", "resource-usage, ../x", "a\nb"),
    ],
)
def test_provider_files_and_modules_are_rejected(providers: str) -> None:
    with pytest.raises(NotLaunchable, match="is not the name of a provider"):
        launched(args=[f"--providers={providers}"])


def test_installed_provider_names_are_accepted() -> None:
    launch = launched(args=["--providers=resource-usage,health", "--interval", "-1"])
    assert launch.arguments[2:4] == ("--providers=resource-usage,health", "--interval=-1")
