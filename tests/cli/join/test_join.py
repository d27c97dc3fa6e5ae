"""`fairway join` as a process, with a hub and a cluster, and its errors."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli.live_hub import act
from fairway.api.cluster import CONDITION_ACCEPTED, CONDITION_AVAILABLE, ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS, MANIFEST_WORKS, NODES
from fairway.cli.commands.join import A_NAME
from fairway.cli.errors import BadInputError
from fairway.cli.join.bootstrap import HALF, NO_SERVER, NOT_BASE64, TWO_AUTHORITIES, TWO_WAYS, BootstrapChoice
from fairway.cli.join.leave import LEFT
from fairway.cli.join.messages import CLOCK, CLUSTER_CONFIG, PLAIN, UNTRUSTED, cluster_message, hub_message
from fairway.cli.join.process import FORGOTTEN, NO_BOOTSTRAP, NO_NAME, RUN_OUT
from fairway.cli.main import run
from fairway.controllers.acceptance.conditions import ENDING_MESSAGE
from fairway.klusterlet import names
from fairway.klusterlet.bootstrap import KINDS
from fairway.klusterlet.certificates import Subject
from fairway.klusterlet.kinds import DEFINITIONS
from fairway.klusterlet.registration import ALREADY_ACTIVE, API_ADDRESS, NOT_ACCEPTED_YET
from fairway.klusterlet.state import NOT_A_FOLDER, OTHER_CLUSTER, State
from fairway.testing.hub import HubAddress, embedded_hub, hub_in_thread
from klusterlet.fleet import Fleet, JoinProcess, controllers, ended, join
from klusterlet.key_pairs import signed
from klusterlet.test_registration import decide
from kubehub.testing.background import background
from kubewire.api.meta import find_condition
from kubewire.client import Client, Connection, NotFound, Patch, load
from kubewire.client.csr import SIGNING_REQUESTS, CertificateSigningRequest
from kubewire.client.errors import UntrustedError
from rigs.processes import Port
from rigs.waiting import fresh, until, until_deleted

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with (
        hub_in_thread(folder=tmp_path_factory.mktemp("hub")) as hub,
        hub_in_thread(folder=tmp_path_factory.mktemp("cluster"), definitions=()) as cluster,
        background(controllers(hub.kubeconfig)),
    ):
        yield Fleet(hub=hub.kubeconfig, cluster=cluster.kubeconfig)


def joining(fleet: Fleet, folder: Path, name: str, *more: object) -> tuple[object, ...]:
    bootstrap = fleet.bootstrap_file(folder)
    state = ("--state", folder / name)
    return (
        "--name",
        name,
        "--hub-bootstrap-kubeconfig",
        bootstrap,
        "--kubeconfig",
        fleet.cluster,
        *state,
        *more,
    )


def resuming(fleet: Fleet, folder: Path, name: str) -> tuple[object, ...]:
    return ("--name", name, "--kubeconfig", fleet.cluster, "--state", folder / name)


def accept_cluster(fleet: Fleet, name: str, process: JoinProcess) -> None:
    process.until("is waiting for approval; on the hub run: fairway accept")
    fleet.accept(name)
    process.until("has joined hub")


def available(cluster: ManagedCluster) -> bool:
    condition = find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
    return condition is not None and condition.status == "True"


def seen_available(fleet: Fleet, name: str) -> ManagedCluster:
    return act(fleet.hub, lambda admin: until(admin, MANAGED_CLUSTERS, name, available))


def requests_of(fleet: Fleet, name: str) -> list[CertificateSigningRequest]:
    async def found(admin: Client) -> list[CertificateSigningRequest]:
        return list((await admin.list(SIGNING_REQUESTS, labels=f"{names.CLUSTER_LABEL}={name}")).items)

    return act(fleet.hub, found)


async def give_work(admin: Client, name: str) -> None:
    """Create a ConfigMap for the cluster and wait until it is applied."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
    spec = {"workload": {"manifests": [manifest]}}
    await admin.create(MANIFEST_WORKS, {"metadata": {"name": "w"}, "spec": spec}, namespace=name)
    await until(
        admin,
        MANIFEST_WORKS,
        "w",
        lambda work: any(
            condition.type == "Available" and condition.status == "True"
            for condition in work.status.conditions
        ),
        namespace=name,
    )


def test_join_registers_and_reports_after_acceptance(fleet: Fleet, tmp_path: Path) -> None:
    name, node = fresh(), fresh("node")

    async def give_node(cluster: Client) -> None:
        await cluster.create(NODES, {"metadata": {"name": node}})
        status = {"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3500m"}}}
        await cluster.patch(NODES, node, status, kind=Patch.MERGE, subresource="status")

    with join(tmp_path, *joining(fleet, tmp_path, name, "--lease-seconds", 20)) as process:
        accept_cluster(fleet, name, process)
        joined = seen_available(fleet, name)
        assert joined.spec.leaseDurationSeconds == 20
        assert joined.spec.managedClusterClientConfigs[0].url == load(fleet.cluster).context().server
        act(fleet.cluster, give_node)
        act(fleet.hub, lambda admin: until(admin, MANAGED_CLUSTERS, name, lambda c: bool(c.status.capacity)))
        act(fleet.hub, lambda admin: give_work(admin, name))
        assert process.stop() == 0
    errors = process.errors.read_text()
    assert "Traceback" not in errors
    assert "WARNING" not in errors


def test_killed_join_resumes_with_its_certificate(fleet: Fleet, tmp_path: Path) -> None:
    name = fresh()
    with join(tmp_path, *joining(fleet, tmp_path, name)) as first:
        accept_cluster(fleet, name, first)
        seen_available(fleet, name)
        first.kill()
    lost: dict[str, Any] = {"status": {"conditions": []}}

    async def forget(admin: Client) -> None:
        await admin.patch(MANAGED_CLUSTERS, name, lost, kind=Patch.MERGE, subresource="status")

    act(fleet.hub, forget)
    with join(tmp_path, *resuming(fleet, tmp_path, name)) as second:
        goes_on = second.until("continuing as")
        joined = second.until("has joined hub")
        seen_available(fleet, name)
        assert second.stop() == 0
    assert len(requests_of(fleet, name)) == 1
    agent = (tmp_path / name / "hub" / "agent-name").read_text()
    assert f"system:open-cluster-management:{name}:{agent}" in goes_on
    assert joined.endswith(f"system:open-cluster-management:{name}:{agent}")


def test_join_renews_its_certificate(fleet: Fleet, tmp_path: Path) -> None:
    """The certificate is signed by the hub's CA with an earlier time."""
    name = fresh()
    with join(tmp_path, *joining(fleet, tmp_path, name, "--certificate-seconds", 600)) as first:
        accept_cluster(fleet, name, first)
        seen_available(fleet, name)
        first.kill()
    with State.locked(tmp_path / name, cluster=name) as state:
        before = state.certificate()
        first_pair = (tmp_path / name / "hub" / "tls.crt").read_bytes()
        assert before is not None
        assert (before.ends - before.begins) == timedelta(minutes=15)
    # Of fifteen minutes, five were over at the beginning: at a threshold of four fifths it is due.
    with join(tmp_path, *resuming(fleet, tmp_path, name), "--renew-left", "80") as second:
        second.until("has joined hub")

        async def renewed(admin: Client) -> None:
            await until(
                admin,
                MANAGED_CLUSTERS,
                name,
                lambda managed: find_condition(managed.status.conditions or (), names.ROTATED) is not None,
            )

        act(fleet.hub, renewed)
        second.kill()
    with State.locked(tmp_path / name, cluster=name) as state:
        after = state.certificate()
        assert after is not None
        assert (tmp_path / name / "hub" / "tls.crt").read_bytes() != first_pair
        assert after.ends >= before.ends  # in whole seconds
        assert after.subject == before.subject
    made_by = {request.spec.username.rpartition(":")[2] for request in requests_of(fleet, name)}
    assert made_by == {"agent-registration-bootstrap", after.subject.user.rpartition(":")[2]}


def test_join_ends_when_its_request_is_denied(fleet: Fleet, tmp_path: Path) -> None:
    name = fresh()
    with join(tmp_path, *joining(fleet, tmp_path, name)) as process:
        request = process.until("is waiting for approval").split()[2]
        act(fleet.hub, lambda admin: decide(admin, request, "Denied", "not this one"))
        assert process.process.wait() == 1
        assert (
            process.errors.read_text()
            == f"fairway: the hub denied certificate request {request}: not this one\n"
        )


def test_join_ends_when_the_hub_deletes_the_cluster(fleet: Fleet, tmp_path: Path) -> None:
    name = fresh()
    with join(tmp_path, *joining(fleet, tmp_path, name)) as process:
        accept_cluster(fleet, name, process)
        seen_available(fleet, name)
        act(fleet.hub, lambda admin: admin.delete(MANAGED_CLUSTERS, name))
        assert process.process.wait() == 1
        told = process.errors.read_text()
        assert f"cluster {name} was removed from the hub" in told
        assert "no longer accepts" not in told  # for it could not come back by being accepted


def test_join_registers_again_after_the_cluster_was_deleted(fleet: Fleet, tmp_path: Path) -> None:
    name = fresh()
    with join(tmp_path, *joining(fleet, tmp_path, name)) as process:
        accept_cluster(fleet, name, process)
        process.kill()

    async def remove(admin: Client) -> None:
        await admin.delete(MANAGED_CLUSTERS, name)
        await until_deleted(admin, MANAGED_CLUSTERS, name)

    act(fleet.hub, remove)
    with join(tmp_path, *joining(fleet, tmp_path, name)) as process:
        process.until(FORGOTTEN.format(name=name))
        accept_cluster(fleet, name, process)
        seen_available(fleet, name)
        assert process.stop() == 0


def test_join_reports_that_the_old_namespace_is_being_deleted(fleet: Fleet, tmp_path: Path) -> None:
    name = fresh()
    with join(tmp_path, *joining(fleet, tmp_path, name)) as process:
        accept_cluster(fleet, name, process)
        act(fleet.hub, lambda admin: give_work(admin, name))
        process.kill()

    async def remove(admin: Client) -> None:
        held = {"metadata": {"name": "held", "finalizers": ["test.dev/holds"]}}
        await admin.request("POST", f"/api/v1/namespaces/{name}/configmaps", body=held)
        await admin.delete(MANAGED_CLUSTERS, name)
        await admin.request("DELETE", f"/api/v1/namespaces/{name}")
        await until_deleted(admin, MANAGED_CLUSTERS, name)
        await until_deleted(admin, MANIFEST_WORKS, "w", namespace=name)

    async def remove_finalizers(admin: Client) -> None:
        path = f"/api/v1/namespaces/{name}/configmaps/held"
        body = {"metadata": {"finalizers": None}}
        headers = {"Content-Type": "application/merge-patch+json"}
        await admin.request("PATCH", path, body=body, headers=headers)

    act(fleet.hub, remove)
    with join(tmp_path, *joining(fleet, tmp_path, name)) as process:
        process.until("is waiting for approval; on the hub run: fairway accept")
        fleet.accept(name)
        told = process.until("does not accept")
        before, after = NOT_ACCEPTED_YET.format(name=name, why="|").split("|")
        assert told.startswith(f"{before}{ENDING_MESSAGE.format(name=name)}")
        assert told.endswith(after)
        act(fleet.hub, remove_finalizers)
        process.until("has joined hub")
        seen_available(fleet, name)
        assert process.stop() == 0


def test_join_waits_for_a_cluster_that_starts_later(fleet: Fleet, tmp_path: Path) -> None:
    """The cluster's API may start at the same time, as after a power failure."""
    name = fresh()
    with Port() as port:
        starting = partial(embedded_hub, folder=tmp_path / "data", port=port.number, definitions=())
        with background(starting()) as cluster:
            kubeconfig = tmp_path / "cluster"
            cluster.certificates.write_kubeconfig(kubeconfig, server=cluster.url)
            late = Fleet(hub=fleet.hub, cluster=kubeconfig)
            with join(tmp_path, *joining(late, tmp_path, name)) as process:
                accept_cluster(late, name, process)
                process.kill()
        with join(tmp_path, *resuming(late, tmp_path, name)) as process:
            assert f":{port}" in process.until("has joined before, retrying")
            with background(starting()):
                process.until("has joined hub")
                assert process.stop() == 0


def test_join_waits_when_acceptance_is_revoked(fleet: Fleet, tmp_path: Path) -> None:
    name = fresh()
    with join(tmp_path, *joining(fleet, tmp_path, name)) as process:
        accept_cluster(fleet, name, process)
        seen_available(fleet, name)
        process.kill()

    async def deny(admin: Client) -> None:
        denied = {"spec": {"hubAcceptsClient": False}}
        await admin.patch(MANAGED_CLUSTERS, name, denied, kind=Patch.MERGE)
        await until(admin, MANAGED_CLUSTERS, name, is_denied)

    def is_denied(cluster: ManagedCluster) -> bool:
        accepted = find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED)
        return accepted is not None and accepted.status == "False"

    act(fleet.hub, deny)
    with join(tmp_path, *resuming(fleet, tmp_path, name)) as process:
        process.until(f"waiting to be accepted; on the hub run: fairway accept {name}")
        fleet.accept(name)
        process.until("has joined hub")
        assert process.stop() == 0


def test_second_join_in_the_same_folder_exits_2(fleet: Fleet, tmp_path: Path) -> None:
    name = fresh()
    with join(tmp_path, *joining(fleet, tmp_path, name)) as process:
        process.until("is waiting for approval")
        second = ended(*joining(fleet, tmp_path, name))
        assert second.returncode == 2
        assert f"in use by another fairway join (process {process.process.pid})" in second.stderr


def test_leave_removes_the_objects_of_join(tmp_path: Path, fleet: Fleet, capsys: Capture) -> None:
    """On a separate cluster, because leave also removes CRDs."""
    name = fresh()
    (tmp_path / "cluster").mkdir()
    with hub_in_thread(folder=tmp_path / "cluster", definitions=()) as own:
        alone = Fleet(hub=fleet.hub, cluster=own.kubeconfig)
        with join(tmp_path, *joining(alone, tmp_path, name)) as process:
            accept_cluster(fleet, name, process)
            act(fleet.hub, lambda admin: give_work(admin, name))
            assert process.stop() == 0
        capsys.readouterr()
        arguments = [str(line) for line in resuming(alone, tmp_path, name)]
        assert run(["join", "leave", *arguments]) == 0
        told = capsys.readouterr().out
        assert LEFT.format(name=name) in told
        assert f"kubectl delete managedcluster {name}" in told
        act(own.kubeconfig, without_kinds)
        with pytest.raises(NotFound):
            act(own.kubeconfig, lambda client: client.request("GET", _CONFIG_MAP.format(name=name)))
    assert list((tmp_path / name).iterdir()) == []
    # Nothing on the hub holds on to its deletion.
    act(fleet.hub, lambda admin: _removed(admin, name))


_CONFIG_MAP = "/api/v1/namespaces/default/configmaps/{name}"


async def without_kinds(cluster: Client) -> None:
    for kind in KINDS:
        await until_deleted(cluster, DEFINITIONS, f"{kind.plural}.{kind.group}")


async def _removed(admin: Client, name: str) -> None:
    await admin.delete(MANAGED_CLUSTERS, name)
    await admin.delete(MANIFEST_WORKS, "w", namespace=name)
    await until_deleted(admin, MANIFEST_WORKS, "w", namespace=name)


def refused(*arguments: object) -> str:
    outcome = ended(*arguments)
    assert outcome.returncode == 2, outcome.stderr
    assert "Traceback" not in outcome.stderr
    return outcome.stderr.removeprefix("fairway: ").rstrip("\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], NO_NAME),
        (["--name", "kube-system"], "is reserved: Kubernetes uses it"),
        (["--name", "Not_A_Name"], "is not a valid namespace name"),
        (["--name", "c1", "token"], "not an option of `fairway join token`"),
        (["--name", "c1", "tokne"], "Did you mean 'token'?"),
        (["c1"], f"No such command 'c1'; known: token, leave, forget; {A_NAME.format(name='c1')}"),
    ],
)
def test_join_rejects_invalid_cluster_names(arguments: list[str], message: str, capsys: Capture) -> None:
    assert run(["join", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (BootstrapChoice(kubeconfig=Path("k"), server="https://hub"), TWO_WAYS),
        (BootstrapChoice(server="https://hub"), HALF),
        (BootstrapChoice(token="t"), HALF),
        (BootstrapChoice(authority_data="x"), NO_SERVER),
        (BootstrapChoice(server="https://hub", token="t", authority_data="%"), NOT_BASE64),
        (
            BootstrapChoice(server="https://hub", token="t", authority=Path("a"), authority_data="x"),
            TWO_AUTHORITIES,
        ),
        (BootstrapChoice(server="hub", token="t"), "is not the address of a server"),
        (BootstrapChoice(kubeconfig=Path("missing")), "does not exist"),
    ],
)
def test_join_rejects_unusable_hub_addresses(choice: BootstrapChoice, message: str) -> None:
    with pytest.raises(BadInputError) as refusal:
        choice.connection()
    assert message in str(refusal.value)


def test_first_join_needs_a_token(fleet: Fleet, tmp_path: Path) -> None:
    assert BootstrapChoice().connection() is None
    said = refused("--name", "c1", "--kubeconfig", fleet.cluster, "--state", tmp_path / "s")
    assert said == NO_BOOTSTRAP.format(name="c1", folder=tmp_path / "s")


def test_join_reports_unreachable_hub_and_rejected_token(fleet: Fleet, tmp_path: Path) -> None:
    known = load(fleet.hub).context()
    assert known.authority is not None
    authority = tmp_path / "ca.crt"
    authority.write_bytes(known.authority.read())
    common = ("--name", "c1", "--kubeconfig", fleet.cluster, "--state", tmp_path / "s")
    nowhere = refused(*common, "--hub-server", "https://127.0.0.1:9", "--hub-token", "t")
    assert "check that the hub is running and that the address is right" in nowhere
    untrusted = refused(*common, "--hub-server", known.server, "--hub-token", "t")
    assert "set the hub's certificate authority with --hub-ca" in untrusted
    plain = known.server.replace("https://", "http://")
    clear = refused(*common, "--hub-server", plain, "--hub-token", "t")
    assert clear.endswith(PLAIN.format(why="", server=plain))
    wrong = ("--hub-server", known.server, "--hub-token", "wrong", "--hub-ca", authority)
    assert "the token was rejected by hub" in refused(*common, *wrong)


def test_join_reports_a_server_that_is_no_hub(fleet: Fleet, tmp_path: Path) -> None:
    arguments = ("--name", "c1", "--kubeconfig", fleet.cluster, "--state", tmp_path / "s")
    (tmp_path / "bare").mkdir()
    with hub_in_thread(folder=tmp_path / "bare", definitions=()) as bare:
        said = refused(*arguments, "--hub-bootstrap-kubeconfig", bare.kubeconfig)
    assert "does not serve ManagedClusters, so it is not a hub" in said


def test_join_reports_a_token_without_rights(fleet: Fleet, tmp_path: Path) -> None:
    async def plain(admin: Client) -> str:
        path = "/api/v1/namespaces/default/serviceaccounts"
        name = fresh("sa")
        await admin.request("POST", path, body={"metadata": {"name": name}})
        answer = await admin.request("POST", f"{path}/{name}/token", body={"spec": {}})
        token: str = json.loads(answer.body)["status"]["token"]
        return token

    known = load(fleet.hub).context()
    assert known.authority is not None
    authority = tmp_path / "ca.crt"
    authority.write_bytes(known.authority.read())
    common = ("--name", fresh(), "--kubeconfig", fleet.cluster, "--state", tmp_path / "s")
    hub = ("--hub-server", known.server, "--hub-token", act(fleet.hub, plain), "--hub-ca", authority)
    assert "the token has no permission to join clusters" in refused(*common, *hub)


def test_join_reports_an_unusable_managed_cluster(fleet: Fleet, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "current-context": "c",
    }
    nowhere.write_text(json.dumps(config))
    common = ("--name", "c1", "--state", tmp_path / "s", "--hub-bootstrap-kubeconfig", fleet.hub)
    assert "cannot reach the joining cluster" in refused(*common, "--kubeconfig", nowhere)
    missing = tmp_path / "missing"
    wanted = CLUSTER_CONFIG.format(why=f"{missing}: does not exist; check the path")
    assert refused(*common, "--kubeconfig", missing) == wanted


@pytest.mark.parametrize("why", ["certificate is not yet valid", "certificate has expired", "self-signed"])
def test_join_reports_clock_differences(why: str) -> None:
    connection = Connection(server="https://hub")
    error = UntrustedError(f"the certificate of https://hub is not trusted: {why}")
    about_time = why != "self-signed"
    for said in (hub_message(error, connection), cluster_message(error, connection)):
        assert (CLOCK.format(why=error, now="|").partition("|")[0] in said) is about_time
    assert (hub_message(error, connection) == UNTRUSTED.format(why=error)) is not about_time


def test_join_reports_another_agent_of_the_same_name(fleet: Fleet, tmp_path: Path) -> None:
    """An agent with the name of another cluster would be treated as that cluster."""
    name = fresh()
    with join(tmp_path, *joining(fleet, tmp_path, name, "--cluster-url", "https://first")) as process:
        accept_cluster(fleet, name, process)
        seen_available(fleet, name)
        other = ("--name", name, "--hub-bootstrap-kubeconfig", fleet.bootstrap_file(tmp_path))
        here = ("--kubeconfig", fleet.cluster, "--state", tmp_path / "other")
        server, where = load(fleet.hub).context().server, API_ADDRESS.format(url="https://first")
        for url, told in (("https://second", where), ("https://first", "")):
            with join(tmp_path, *other, *here, "--cluster-url", url) as second:
                said = second.until("on hub")
                assert said == ALREADY_ACTIVE.format(name=name, server=server, where=told)
                assert second.stop() == 0
        assert process.stop() == 0


def test_join_with_an_unwritable_folder_exits_2(fleet: Fleet, tmp_path: Path) -> None:
    """No certificate is requested that could not be stored."""
    name = fresh()
    (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / name / "pending").write_bytes(b"")
    wanted = NOT_A_FOLDER.format(folder=tmp_path / name, why="Not a directory")
    assert wanted in refused(*joining(fleet, tmp_path, name))
    assert requests_of(fleet, name) == []


def test_join_rejects_the_folder_of_another_cluster(fleet: Fleet, tmp_path: Path) -> None:
    with State.locked(tmp_path / "s", cluster="c1") as state:
        assert state.agent
    arguments = ("--name", "c2", "--kubeconfig", fleet.cluster, "--state", tmp_path / "s")
    wanted = OTHER_CLUSTER.format(folder=tmp_path / "s", recorded="c1", name="c2")
    assert refused(*arguments) == wanted


def test_join_with_an_expired_identity_needs_a_token(fleet: Fleet, tmp_path: Path) -> None:
    with State.locked(tmp_path / "s", cluster="c1") as state:
        subject = Subject(
            user=names.user_of("c1", state.agent), groups=(names.group_of("c1"), names.ALL_AGENTS)
        )
        past = datetime(2026, 1, 1, tzinfo=UTC)
        state.store(signed(subject, begins=past, life=timedelta(hours=1)), hub=load(fleet.hub).context())
    arguments = ("--name", "c1", "--kubeconfig", fleet.cluster, "--state", tmp_path / "s")
    wanted = RUN_OUT.format(name="c1", folder=tmp_path / "s", ends="2026-01-01T01:00:00Z", now="|")
    before, after = wanted.split("|")
    said = refused(*arguments)
    assert said.startswith(before)
    assert said.endswith(after)


def test_token_command_prints_the_join_command(fairway_hub: HubAddress, capsys: Capture) -> None:
    kubeconfig = ("--kubeconfig", str(fairway_hub.kubeconfig))
    assert run(["join", "token", "--name", "c1", *kubeconfig]) == 0
    lines = capsys.readouterr().out.splitlines()
    variable, _, command = lines[1].strip().partition(" ")
    name, _, secret = variable.partition("=")
    assert name == "FAIRWAY_HUB_TOKEN"
    assert command.startswith(f"fairway join --name c1 --hub-server {fairway_hub.url} --hub-ca-data ")
    assert secret not in command  # which every user of the machine can read while it runs
    assert lines[-1] == "  fairway accept c1"
    assert run(["join", "token", "-o", "json", "--hours", "1", *kubeconfig]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"server", "token", "validUntil", "certificateAuthority", "command"}

    async def rights(client: Client) -> dict[str, bool]:
        clusters, requests = "cluster.open-cluster-management.io", "certificates.k8s.io"
        answers = {}
        for verb, group, resource in (
            *((name, clusters, "managedclusters") for name in ("create", "get", "list", "watch")),
            *((name, requests, "certificatesigningrequests") for name in ("create", "get", "list", "watch")),
            *((name, clusters, "managedclusters") for name in ("update", "patch", "delete")),
            *((name, requests, "certificatesigningrequests") for name in ("update", "patch", "delete")),
            *(("patch", clusters, f"managedclusters/{name}") for name in ("status", "finalizers")),
            ("update", requests, "certificatesigningrequests/approval"),
            ("create", clusters, "managedclustersets/join"),
            ("update", "register.open-cluster-management.io", "managedclusters/accept"),
            ("renew", "register.open-cluster-management.io", "managedclusters/clientcertificates"),
            ("list", clusters, "placements"),
            ("get", "", "configmaps"),
            ("get", "", "secrets"),
            ("list", "", "namespaces"),
        ):
            plural, _, subresource = resource.partition("/")
            asked = {"group": group, "resource": plural, "subresource": subresource, "verb": verb}
            body = {"spec": {"resourceAttributes": asked}}
            path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
            answer = await client.request("POST", path, body=body)
            answers[f"{verb} {resource}"] = json.loads(answer.body)["status"]["allowed"]
        return answers

    choice = BootstrapChoice(
        server=told["server"], token=told["token"], authority_data=told["certificateAuthority"]
    )
    connection = choice.connection()
    assert connection is not None

    async def ask() -> dict[str, bool]:
        async with Client(connection) as client:
            return await rights(client)

    verdicts = asyncio.run(ask())
    assert [check for check, allowed in verdicts.items() if allowed] == list(verdicts)[:8]


def test_token_file_is_private(fairway_hub: HubAddress, tmp_path: Path) -> None:
    out = tmp_path / "bootstrap"
    assert run(["join", "token", "--out", str(out), "--kubeconfig", str(fairway_hub.kubeconfig)]) == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert load(out).context().server == fairway_hub.url
