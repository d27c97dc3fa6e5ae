"""`fairway run`: options, errors, and its work as a process."""

import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from aiohttp import ClientSession

from cli.up_process import fairway, logging, running, until
from fairway.api import crds
from fairway.api.resources import (
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.cli.commands.run import run
from fairway.cli.options.controllers import APPROVAL_OF_NOBODY, DEFAULT_CONTROLLERS, NAMES, NONE_LEFT, chosen
from fairway.cli.options.permits import WITHOUT_ADDRESS
from fairway.cli.options.serving import DEBUG, HALF_A_PAIR, HEALTH, METRICS, NOTHING_TO_PROTECT
from fairway.cli.run.process import SHADOWING
from fairway.cli.run.run import IDENTITY_OF_NOBODY, PERMITS_OF_NOTHING, SHADOW_OF_NOTHING
from fairway.controllers.kinds import DEFINITIONS
from fairway.controllers.placement import ocm_detection
from fairway.controllers.placement.shard import Shard
from fairway.controllers.serving import Address
from fairway.controllers.settings import ALL, DEFAULT, Settings
from fairway.simulation.creation import NAMESPACES, ensure
from fairway.testing.hub import HubAddress, hub_in_thread
from kubewire.api.lease import format_micro_time
from kubewire.client import SYSTEM_CLOCK, Client
from kubewire.client.kubeconfig import load
from kubewire.client.lease import LEASES
from rigs.processes import Port

NAMESPACE = "fairway-system"


# What it takes


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the job instead of running it."""
    job: dict[str, Any] = {}

    def note(hub: object, settings: Settings, listening: object) -> None:
        job.update(hub=hub, settings=settings, listening=listening)

    monkeypatch.setattr("fairway.cli.run.run.serve", note)
    monkeypatch.setattr("fairway.cli.run.run.logs.configure", lambda **given: job.update(logs=given))
    for name in ("KUBERNETES_SERVICE_HOST", "POD_NAME"):
        monkeypatch.delenv(name, raising=False)
    return job


def call(*arguments: str) -> None:
    run.main(arguments, prog_name="fairway run", standalone_mode=False)


@pytest.mark.parametrize("option", ["--permit-address", "--insecure-permit-address"])
def test_permit_addresses_require_the_controller_of_machines(parsed: dict[str, Any], option: str) -> None:
    with pytest.raises(click.UsageError, match=re.escape(PERMITS_OF_NOTHING.format(option=option))):
        call(option, "127.0.0.1:0")
    call(option, "127.0.0.1:0", "--controllers=+machines")
    assert parsed["listening"].options[option] is not None


def test_run_defaults_outside_a_pod(parsed: dict[str, Any]) -> None:
    call()
    settings: Settings = parsed["settings"]
    assert settings.controllers == DEFAULT == set(DEFAULT_CONTROLLERS)
    assert set(NAMES) == ALL
    assert settings.election is not None
    assert settings.namespace == NAMESPACE
    assert settings.identity.startswith(socket.gethostname())
    assert (settings.shadow, settings.beside_ocm) == (False, False)
    assert (settings.shard, settings.grace, settings.default_label) == (Shard(), 5.0, True)
    listening = parsed["listening"]
    assert (listening.health, listening.metrics, listening.debug) == (None, None, None)
    assert parsed["logs"] == {"format": "text", "level": "info"}


def test_run_defaults_in_a_pod(parsed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("POD_NAME", "fairway-7d9")
    call()
    listening = parsed["listening"]
    assert listening.health == Address.parse(HEALTH)
    assert listening.metrics == Address.parse(METRICS)
    assert listening.debug == Address.parse(DEBUG)
    assert parsed["settings"].identity.startswith("fairway-7d9_")
    call("--debug-address", "off")
    assert parsed["listening"].debug is None


def test_run_options_reach_the_manager(parsed: dict[str, Any], tmp_path: Path) -> None:
    pem = tmp_path / "pem"
    pem.touch()
    call(
        *("--identity", "me", "--lease-namespace", "leases"),
        *("--shard", "1/3", "--beside-ocm", "--workers", "7", "--grace", "2.5", "--no-default-set"),
        *("--health-address", "127.0.0.1:1", "--metrics-address", "[::1]:2", "--debug-address", ":3"),
        *("--tls-cert", str(pem), "--tls-key", str(pem), "--log-format", "json", "--log-level", "debug"),
        *("--kubeconfig", "file", "--context", "there", "--ocm-namespace", "theirs"),
        *("--controllers", "placement,clustersets,acceptance", "--auto-approve-user", "one"),
        *("--auto-approve-user", "two"),
    )
    settings: Settings = parsed["settings"]
    assert settings.controllers == {"placement", "clustersets", "acceptance"}
    assert settings.auto_approve_users == {"one", "two"}
    assert (settings.identity, settings.namespace, settings.ocm_namespace) == ("me", "leases", "theirs")
    assert (settings.shard, settings.workers, settings.grace) == (Shard(index=1, count=3), 7, 2.5)
    assert settings.beside_ocm
    assert not settings.default_label
    listening = parsed["listening"]
    assert list(map(str, (listening.health, listening.metrics, listening.debug))) == [
        "127.0.0.1:1",
        "[::1]:2",
        ":3",
    ]
    assert listening.certificate == listening.key == pem
    assert (parsed["hub"].kubeconfig, parsed["hub"].context) == ("file", "there")
    assert parsed["logs"] == {"format": "json", "level": "debug"}
    call("--no-leader-elect", "--shadow")
    assert parsed["settings"].election is None
    assert parsed["settings"].shadow


def test_every_run_option_has_an_environment_variable(
    parsed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "CONTROLLERS": "placement",
        "LEADER_ELECT": "false",
        "LEASE_NAMESPACE": "leases",
        "SHARD": "2/4",
        "SHADOW": "true",
        "LOG_FORMAT": "json",
        "HEALTH_ADDRESS": ":1",
        "KUBECONFIG": "file",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"FAIRWAY_{name}", value)
    call()
    settings: Settings = parsed["settings"]
    assert settings.controllers == {"placement"}
    assert (settings.election, settings.namespace) == (None, "leases")
    assert (settings.shard, settings.shadow) == (Shard(index=2, count=4), True)
    assert parsed["listening"].health == Address(port=1)
    assert parsed["hub"].kubeconfig == "file"
    assert parsed["logs"]["format"] == "json"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("placement", {"placement"}),
        (" placement , acceptance ", {"placement", "acceptance"}),
        ("-acceptance", DEFAULT - {"acceptance"}),
        ("+recovery", DEFAULT | {"recovery"}),
        ("+recovery,-addons", DEFAULT - {"addons"} | {"recovery"}),
        ("placement,+recovery", {"placement", "recovery"}),
        ("-acceptance,-availability", DEFAULT - {"acceptance", "availability"}),
        ("placement,acceptance,-acceptance", {"placement"}),
    ],
)
def test_controllers_option_adds_and_removes_names(text: str, names: set[str]) -> None:
    assert chosen(text) == names


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("placements", "did you mean 'placement'?; known: placement, clustersets"),
        ("-acceptence", "did you mean 'acceptance'?"),
        ("everything", "unknown controller 'everything'; known:"),
        ("", NONE_LEFT),
        (",", NONE_LEFT),
        ("placement,-placement", NONE_LEFT),
    ],
)
def test_unknown_controller_names_exit_2(text: str, told: str) -> None:
    with pytest.raises(click.BadParameter) as error:
        chosen(text)
    assert told in error.value.message


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--shadow", "--controllers", "clustersets"), SHADOW_OF_NOTHING),
        (("--identity", "me", "--no-leader-elect"), IDENTITY_OF_NOBODY),
        (("--tls-key", __file__), HALF_A_PAIR),
        (("--tls-key", __file__, "--tls-cert", __file__), NOTHING_TO_PROTECT),
        (("--permit-agent", "me"), WITHOUT_ADDRESS.format(option="--permit-agent")),
        (("--permit-audience", "x"), WITHOUT_ADDRESS.format(option="--permit-audience")),
        (("--auto-approve-user", "system:anonymous"), "is every client without credentials"),
        (("--auto-approve-user", "me", "--controllers", "placement"), APPROVAL_OF_NOBODY),
        (("--shard", "3/3"), "is not a shard"),
        (("--health-address", "8081"), "is not an address to listen on"),
        (("--controllers", "placment"), "did you mean 'placement'?"),
        (("--workers", "0"), "--workers"),
        (("--log-level", "loud"), "--log-level"),
    ],
)
def test_wrong_usage_of_run_exits_2(arguments: tuple[str, ...], told: str) -> None:
    refused = fairway("run", *arguments)
    assert refused.returncode == 2
    # click breaks the line and draws no frame around it.
    assert " ".join(told.split()) in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr


def test_run_help_has_examples() -> None:
    printed = fairway("run", "--help").stdout
    assert "Examples:\n" in printed
    assert "Exit status:" in printed


# On a hub


@pytest.fixture
def connection(fairway_hub: HubAddress) -> Client:
    return Client(load(fairway_hub.kubeconfig).context())


async def create_fleet(client: Client) -> None:
    """Create a cluster and a placement that selects it."""
    await client.create(MANAGED_CLUSTER_SETS, {"metadata": {"name": "all"}, "spec": everything()})
    binding = {"metadata": {"name": "all"}, "spec": {"clusterSet": "all"}}
    await client.create(MANAGED_CLUSTER_SET_BINDINGS, binding, namespace="default")
    await client.create(MANAGED_CLUSTERS, {"metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": True}})
    await client.create(PLACEMENTS, {"metadata": {"name": "p"}, "spec": {}}, namespace="default")


def everything() -> dict[str, Any]:
    return {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}


async def decided(client: Client) -> None:
    await until(
        client,
        PLACEMENT_DECISIONS,
        lambda decisions: any(decision.status.decisions for decision in decisions.values()),
    )


PLACEMENT_ONLY = ("--controllers", "placement")


async def test_run_decides_placements_until_a_signal(fairway_hub: HubAddress, connection: Client) -> None:
    async with connection as client:
        await create_fleet(client)
        with running("--kubeconfig", fairway_hub.kubeconfig, *PLACEMENT_ONLY, "--identity", "me") as process:
            assert process.lines[-1]["msg"] == f"started placement on hub {fairway_hub.url}"
            assert process.lines[-1]["identity"] == "me"
            await decided(client)
            lease = await client.get(LEASES, "fairway-placement", namespace=NAMESPACE)
            assert lease.spec.holderIdentity == "me"
            assert process.stop() == 0
        assert [line["msg"] for line in process.lines if line["level"] in ("warning", "error")] == []
        # Given back, so that the next one need not wait.
        assert (await client.get(LEASES, "fairway-placement", namespace=NAMESPACE)).spec.holderIdentity == ""


async def test_run_serves_health_metrics_and_debug_endpoint(fairway_hub: HubAddress) -> None:
    free = "127.0.0.1:0"
    with running(
        *("--kubeconfig", fairway_hub.kubeconfig, *PLACEMENT_ONLY, "--no-leader-elect"),
        *("--health-address", free, "--metrics-address", free, "--debug-address", free),
    ) as process:
        told = process.lines[-1]
        async with ClientSession() as session:
            async with session.get(f"http://{told['health']}/livez") as answer:
                assert answer.status == 200
            metrics = told.get("metrics", told["health"])
            async with session.get(f"http://{metrics}/metrics") as answer:
                text = await answer.text()
            assert "fairway_build_info" in text
            assert "fairway_objects{" in text
            async with session.get(
                f"https://{told['debug']}/debug/placements/default/p", ssl=False
            ) as answer:
                assert answer.status == 401
        assert process.stop(signal.SIGINT) == 0


@pytest.fixture
def bare_hub(tmp_path: Path) -> Iterator[HubAddress]:
    """A hub without the kinds of OCM and Fairway."""
    with hub_in_thread(folder=tmp_path, definitions=()) as hub:
        yield hub


async def test_run_names_missing_kinds_and_starts_when_they_are_defined(bare_hub: HubAddress) -> None:
    arguments = ("--kubeconfig", bare_hub.kubeconfig, "--health-address", "127.0.0.1:0")
    with logging("run", *arguments) as process:
        missing = process.read_until(lambda line: line["level"] == "error")["msg"]
        assert "placements.cluster.open-cluster-management.io" in missing
        assert "fairway crds | kubectl apply -f -" in missing
        opened = process.read_until(lambda line: line["msg"].startswith("health at "))["msg"]
        url = f"http://{opened.removeprefix('health at ')}"
        async with ClientSession() as session:
            async with session.get(f"{url}/livez") as answer:
                assert answer.status == 200
            async with session.get(f"{url}/readyz?verbose") as answer:
                assert answer.status == 503
                assert "the hub does not serve placements." in await answer.text()
        async with Client.from_kubeconfig(bare_hub.kubeconfig) as client:
            for definition in crds():
                await client.create(DEFINITIONS, definition)
            started = process.read_until(lambda line: line["msg"].startswith("started "))
            assert started["msg"].startswith(
                "started acceptance, addons, availability, clustersets, placement, scores"
            )
            await create_fleet(client)
            await decided(client)
            async with (
                ClientSession() as session,
                session.get(f"http://{started['health']}/readyz") as answer,
            ):
                assert answer.status == 200
        assert process.stop() == 0
    assert [line["msg"] for line in process.lines if line["level"] in ("warning", "error")] == [missing]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_that_waits_for_kinds_stops_on_a_signal(bare_hub: HubAddress, number: signal.Signals) -> None:
    with logging("run", "--kubeconfig", bare_hub.kubeconfig) as process:
        process.read_until(lambda line: line["level"] == "error")
        assert process.stop(number) == 0  # which reads a log of JSON lines, without a traceback
    assert [line["msg"] for line in process.lines[-2:]] == ["stopping", "stopped"]


async def test_second_run_waits_for_the_lease(fairway_hub: HubAddress, connection: Client) -> None:
    options = ("--kubeconfig", fairway_hub.kubeconfig, *PLACEMENT_ONLY)
    async with connection as client:
        with running(*options, "--identity", "a") as first:
            first.read_until(lambda line: "a became leader" in line["msg"])
            with running(*options, "--identity", "b") as second:
                await create_fleet(client)
                await decided(client)
                assert first.stop() == 0
                second.read_until(lambda line: "b became leader" in line["msg"])
                decision = (await client.list(PLACEMENT_DECISIONS)).items[0].metadata.name
                await client.delete(PLACEMENT_DECISIONS, decision, namespace="default")
                await decided(client)
                assert second.stop() == 0


async def they_run(client: Client) -> None:
    await ensure(client, NAMESPACES, {"metadata": {"name": ocm_detection.NAMESPACE}})
    now = format_micro_time(SYSTEM_CLOCK.wall())
    spec = {"holderIdentity": "them", "leaseDurationSeconds": 3600, "renewTime": now}
    await client.create(
        LEASES, {"metadata": {"name": ocm_detection.LEASE}, "spec": spec}, namespace=ocm_detection.NAMESPACE
    )


async def test_run_refuses_to_start_beside_the_ocm_controller(
    fairway_hub: HubAddress, connection: Client
) -> None:
    async with connection as client:
        await they_run(client)
    refused = fairway("run", "--kubeconfig", fairway_hub.kubeconfig)
    assert refused.returncode == 1
    told = ocm_detection.RUNS.format(
        holder="them", namespace=ocm_detection.NAMESPACE, name=ocm_detection.LEASE
    )
    assert refused.stderr.splitlines()[-1] == f"fairway: {told}"


@pytest.mark.parametrize(
    "options", [("--beside-ocm",), ("--shadow",), ("--controllers=-placement",), ("--ocm-namespace", "else")]
)
async def test_beside_ocm_option_allows_the_ocm_controller(
    fairway_hub: HubAddress, connection: Client, options: tuple[str, ...]
) -> None:
    async with connection as client:
        await they_run(client)
    with running("--kubeconfig", fairway_hub.kubeconfig, *options) as process:
        assert process.stop() == 0


@pytest.fixture
def silent_hub(tmp_path: Path) -> Iterator[HubAddress]:
    """A hub without controllers, so that every write is of another process."""
    with hub_in_thread(folder=tmp_path, controllers=frozenset()) as hub:
        yield hub


async def test_run_shadow_writes_nothing(silent_hub: HubAddress) -> None:
    async with Client(load(silent_hub.kubeconfig).context()) as client:
        await create_fleet(client)
        before = await client.newest(PLACEMENTS)
        with running("--kubeconfig", silent_hub.kubeconfig, "--shadow") as process:
            assert process.lines[-1]["msg"].startswith(f"started {SHADOWING}")
            # Logged after the comparison, which follows the minimum duration of a difference.
            process.read_until(lambda line: "placement default/p: " in line["msg"])
            assert process.stop() == 0
        assert await client.newest(PLACEMENTS) == before


def test_run_without_a_hub_exits_2(tmp_path: Path, fairway_hub: HubAddress) -> None:
    gone, known = tmp_path / "gone", fairway_hub.kubeconfig.read_text()
    with Port() as port:  # reserved meanwhile
        gone.write_text(known.replace(fairway_hub.url, f"https://127.0.0.1:{port}"))
        refused = fairway("run", "--kubeconfig", gone)
    assert refused.returncode == 2
    assert f"127.0.0.1:{port}" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert fairway("run", "--kubeconfig", tmp_path / "none").returncode == 2


def test_run_on_an_unusable_port_exits_2(fairway_hub: HubAddress) -> None:
    options = ("run", "--kubeconfig", fairway_hub.kubeconfig, "--no-leader-elect")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        busy = fairway(*options, "--health-address", address)
    assert busy.returncode == 2
    assert busy.stderr == (
        f"fairway: cannot listen on {address}: the port is in use by another process; set another address with "
        "--health-address\n"
    ), "one line, without a traceback of the informers that were not listed yet"
    elsewhere = fairway(*options, "--metrics-address", "192.0.2.1:8080")
    assert elsewhere.returncode == 2
    assert elsewhere.stderr == (
        "fairway: cannot listen on 192.0.2.1:8080: not an address of this machine; set another address with "
        "--metrics-address\n"
    )


def test_run_with_an_invalid_certificate_exits_2(fairway_hub: HubAddress, tmp_path: Path) -> None:
    file = tmp_path / "tls.pem"
    file.write_text("c2VjcmV0")
    refused = fairway(
        *("run", "--kubeconfig", fairway_hub.kubeconfig, "--no-leader-elect"),
        *("--debug-address", "127.0.0.1:0", "--tls-cert", file, "--tls-key", file),
    )
    assert refused.returncode == 2
    assert str(file) in refused.stderr
    assert "c2VjcmV0" not in refused.stderr
