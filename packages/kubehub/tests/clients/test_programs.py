"""kube-controller-manager and kwok work on the embedded hub as on a real one.

The hub's own controllers that do the same are disabled here.
"""

import asyncio
import base64
import os
import re
import signal
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clients import boat_crd
from clients.streams import Collection, until, until_deleted, version
from clients.talk import Talk, context, established

from fairway.testing.hub import hub_in_thread
from kubehub import controllers
from rigs.certificates import Pair
from rigs.kubernetes import (
    CONTROLLER_MANAGER,
    CONTROLLERS,
    KWOK,
    Tools,
    background,
    controller_manager,
    kwok,
    real_hub,
)
from rigs.processes import Process

pytestmark = pytest.mark.kube

THEIRS = frozenset(
    {
        controllers.COLLECTOR,
        controllers.NAMESPACES,
        controllers.ACCOUNTS,
        controllers.ROOT_CA,
        controllers.TOKENS,
        controllers.SIGNER,
    }
)
WORKLOADS = (
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "job-controller",
    "replicaset-controller",
    "statefulset-controller",
)
ELECTION = (
    "--leader-elect-lease-duration=15s",
    "--leader-elect-renew-deadline=14s",
    "--leader-elect-retry-period=1s",
)
"""A killed process is replaced soon; a slow one stays, without errors."""
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
COMPLAINT = re.compile(r"^[EW]\d{4} \S+ +\d+ (?P<source>\S+?):\d+\] (?P<words>.*)")
STARTUP = ("authentication.go", "authorization.go", "options.go")
"""Who complains about flags that are not given, on every hub alike."""
RETRIED = re.compile(
    r"is not as new as written version|the object has been modified|sync .* failed with .* not found"
)
"""A controller that was faster than its own watch, or slower than another; so it is on every hub."""


@dataclass(frozen=True, kw_only=True)
class Bare:
    """A hub with nothing but an API, and what a controller needs to sign for it."""

    kubeconfig: Path
    signer: Pair
    tokens: Path


@pytest.fixture(scope="module", params=["embedded", "real"])
def bare(
    request: pytest.FixtureRequest, kube_tools: Tools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bare]:
    kube_tools.require(CONTROLLER_MANAGER, KWOK)
    folder = tmp_path_factory.mktemp(f"bare-{request.param}")
    with ExitStack() as stack:
        if request.param == "embedded":
            data = folder / "data"
            hub = stack.enter_context(
                hub_in_thread(folder=folder, data=data, definitions=(), controllers=controllers.ALL - THEIRS)
            )
            keys = data / "pki"
            pair = Pair(certificate=hub.authority, key=keys / "ca.pem")
            made = Bare(kubeconfig=hub.kubeconfig, signer=pair, tokens=keys / "tokens.pem")
        else:
            real = stack.enter_context(background(real_hub(kube_tools, folder=folder)))
            made = Bare(
                kubeconfig=real.kubeconfig, signer=real.authority.pair, tokens=real.service_account_key
            )
        asyncio.run(_define(made))  # before the controllers start, who look for new kinds twice a minute
        yield made


async def _define(hub: Bare) -> None:
    url, tls, token = context(hub.kubeconfig)
    async with Talk(url=url, context=tls, token=token) as talk:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        code, answer = await talk.call("POST", path, body=boat_crd.DEFINITION)
        assert code == 201, answer
        await established(talk, boat_crd.DEFINITION_NAME)


@pytest.fixture(scope="module")
def managers(
    bare: Bare, kube_tools: Tools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Process, Process]]:
    """Two of them: the first leads, the second waits for its turn."""
    with ExitStack() as stack:
        started = []
        for name in ("first", "second"):
            folder = tmp_path_factory.mktemp(f"kcm-{name}")
            running = controller_manager(
                kube_tools,
                kubeconfig=bare.kubeconfig,
                folder=folder,
                controllers=(*CONTROLLERS, *WORKLOADS),
                signer=bare.signer,
                service_account_key=bare.tokens,
                extra_args=ELECTION,
            )
            started.append(stack.enter_context(background(running)))
            if name == "first":
                asyncio.run(_elected(bare))
        yield started[0], started[1]


async def _elected(hub: Bare) -> None:
    url, tls, token = context(hub.kubeconfig)
    async with Talk(url=url, context=tls, token=token) as talk:
        await until(talk, LEASE, CONTROLLER_MANAGER, lambda lease: lease["spec"].get("holderIdentity"))


@pytest.fixture
async def talk(bare: Bare) -> Any:
    url, tls, token = context(bare.kubeconfig)
    async with Talk(url=url, context=tls, token=token) as made:
        yield made


@pytest.fixture
async def room(managers: tuple[Process, Process], talk: Talk, namespace: str) -> str:
    await talk.call("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
    return namespace


@pytest.fixture
def maps(talk: Talk, room: str) -> Collection:
    return Collection(talk, f"/api/v1/namespaces/{room}/configmaps", {})


@pytest.fixture
def fleet(talk: Talk, room: str) -> Collection:
    return Collection(talk, boat_crd.path(room), boat_crd.boat(""))


async def owned(collection: Collection, name: str, owner: dict[str, Any]) -> dict[str, Any]:
    """A new object that depends on the owner, and that a foreground deletion waits for."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    await collection.create(name)
    return await collection.merge(name, {"metadata": {"ownerReferences": [reference]}})


async def remove(collection: Collection, name: str, propagation: str) -> None:
    path = f"{collection.path}/{name}?propagationPolicy={propagation}"
    code, answer = await collection.talk.call("DELETE", path)
    assert code == 200, answer


async def test_namespaces_get_a_service_account_and_the_ca(talk: Talk, maps: Collection, room: str) -> None:
    accounts = f"/api/v1/namespaces/{room}/serviceaccounts"
    first = await until(talk, accounts, "default", lambda _: True)
    published = await until(talk, maps.path, "kube-root-ca.crt", lambda _: True)
    assert "BEGIN CERTIFICATE" in published["data"]["ca.crt"]
    await talk.call("DELETE", f"{accounts}/default")
    await until(talk, accounts, "default", lambda document: version(document) > version(first))
    await maps.merge("kube-root-ca.crt", {"data": {"ca.crt": "forged"}})
    await until(talk, maps.path, "kube-root-ca.crt", lambda document: document["data"] == published["data"])


async def test_terminating_namespace_is_removed_once_empty(
    talk: Talk, maps: Collection, fleet: Collection, room: str
) -> None:
    await maps.create("buoy")
    await fleet.create("raft")
    await fleet.create("held")
    await fleet.merge("held", {"metadata": {"finalizers": ["suite.fairway.dev/wait"]}})
    code, marked = await talk.call("DELETE", f"/api/v1/namespaces/{room}")
    assert (code, marked["status"]["phase"]) == (200, "Terminating")
    code, answer = await talk.call("POST", maps.path, body={"metadata": {"name": "late"}})
    assert (code, answer["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")

    def held(document: dict[str, Any]) -> bool:
        conditions = {c["type"]: c for c in document["status"].get("conditions", ())}
        remaining = conditions.get("NamespaceFinalizersRemaining", {})
        return bool(
            remaining.get("status") == "True"
            and "suite.fairway.dev/wait in 1 resource" in remaining["message"]
        )

    await until(talk, "/api/v1/namespaces", room, held)
    await until_deleted(talk, maps.path, "buoy")
    await until_deleted(talk, fleet.path, "raft")
    await fleet.merge("held", {"metadata": {"finalizers": None}})
    await until_deleted(talk, "/api/v1/namespaces", room)


async def test_dependents_are_deleted_in_the_background(maps: Collection, fleet: Collection) -> None:
    owner = await maps.create("owner")
    await owned(maps, "child", owner)
    boat = await owned(fleet, "child", owner)
    await owned(maps, "grandchild", boat)
    await remove(maps, "owner", "Background")
    for collection, name in ((maps, "child"), (fleet, "child"), (maps, "grandchild")):
        await until_deleted(collection.talk, collection.path, name)


async def test_dependents_are_deleted_in_the_foreground(maps: Collection, fleet: Collection) -> None:
    owner = await fleet.create("owner")
    await owned(maps, "child", owner)
    await maps.merge("child", {"metadata": {"finalizers": ["suite.fairway.dev/wait"]}})
    await caught_up(maps, owner)
    await remove(fleet, "owner", "Foreground")
    await until(maps.talk, maps.path, "child", lambda document: document["metadata"].get("deletionTimestamp"))
    assert (await fleet.get("owner"))["metadata"]["finalizers"] == ["foregroundDeletion"]
    await maps.merge("child", {"metadata": {"finalizers": None}})
    await until_deleted(fleet.talk, fleet.path, "owner")


async def test_orphaned_dependents_stay(maps: Collection, fleet: Collection) -> None:
    owner = await maps.create("owner")
    await owned(fleet, "child", owner)
    await caught_up(fleet, owner)
    await remove(maps, "owner", "Orphan")
    await until_deleted(maps.talk, maps.path, "owner")
    assert "ownerReferences" not in (await fleet.get("child"))["metadata"]


async def caught_up(collection: Collection, owner: dict[str, Any]) -> None:
    """Wait until the garbage collector has processed an object that was created later."""
    await owned(collection, "stray", stray(owner))
    await until_deleted(collection.talk, collection.path, "stray")


def stray(owner: dict[str, Any]) -> dict[str, Any]:
    """An owner of the same kind that never was."""
    return {**owner, "metadata": {"name": "ghost", "uid": "00000000-0000-0000-0000-000000000000"}}


async def test_dependent_of_a_nonexistent_owner_is_collected(maps: Collection) -> None:
    owner = await maps.create("owner")
    await maps.create("child")
    await owned(maps, "stray", stray(owner))
    await until_deleted(maps.talk, maps.path, "stray")
    assert await maps.get("child")


async def test_token_secrets_get_tokens_from_controllers(bare: Bare, talk: Talk, room: str) -> None:
    """Signed by the controller with the hub's key, so the hub accepts them."""
    await until(talk, f"/api/v1/namespaces/{room}/serviceaccounts", "default", lambda _: True)
    secrets = f"/api/v1/namespaces/{room}/secrets"
    document = {
        "metadata": {"name": "token", "annotations": {"kubernetes.io/service-account.name": "default"}},
        "type": "kubernetes.io/service-account-token",
    }
    code, answer = await talk.call("POST", secrets, body=document)
    assert code == 201, answer
    filled = await until(talk, secrets, "token", lambda document: document.get("data", {}).get("token"))
    token = base64.b64decode(filled["data"]["token"]).decode()
    trusting = ssl.create_default_context(cafile=bare.signer.certificate)
    async with Talk(url=talk.url, context=trusting, token=token) as account:
        _, review = await account.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body={})
    assert review["status"]["userInfo"]["username"] == f"system:serviceaccount:{room}:default"


async def test_second_controller_manager_takes_over(
    managers: tuple[Process, Process], talk: Talk, room: str
) -> None:
    first, _ = managers
    _, before = await talk.call("GET", f"{LEASE}/{CONTROLLER_MANAGER}")
    if first.alive:
        os.kill(first.pid, signal.SIGKILL)
    held = before["spec"]["holderIdentity"]
    after = await until(
        talk, LEASE, CONTROLLER_MANAGER, lambda lease: lease["spec"]["holderIdentity"] != held
    )
    assert after["spec"]["leaseTransitions"] == before["spec"]["leaseTransitions"] + 1
    await talk.call("POST", "/api/v1/namespaces", body={"metadata": {"name": f"{room}-2"}})
    await until(talk, f"/api/v1/namespaces/{room}-2/serviceaccounts", "default", lambda _: True)


async def test_kwok_nodes_run_pods(
    bare: Bare, kube_tools: Tools, talk: Talk, namespace: str, tmp_path: Path
) -> None:
    node, pods = namespace, "/api/v1/namespaces/default/pods"
    async with kwok(kube_tools, kubeconfig=bare.kubeconfig, folder=tmp_path) as process:
        await talk.call("POST", "/api/v1/nodes", body={"metadata": {"name": node}})

        def ready(document: dict[str, Any]) -> bool:
            conditions = document.get("status", {}).get("conditions", ())
            return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

        known = await until(talk, "/api/v1/nodes", node, ready)
        assert known["status"]["allocatable"]["pods"] == "1M"
        spec = {"containers": [{"name": "main", "image": "image:1"}]}
        await talk.call("POST", pods, body={"metadata": {"name": node}, "spec": spec})
        target = {"metadata": {"name": node}, "target": {"kind": "Node", "name": node}}
        code, answer = await talk.call("POST", f"{pods}/{node}/binding", body=target)
        assert code == 201, answer
        running = await until(talk, pods, node, lambda pod: pod["status"].get("phase") == "Running")
        assert ready(running)
        assert running["status"]["containerStatuses"][0]["ready"]
        await talk.call("DELETE", f"{pods}/{node}")
        await until_deleted(talk, pods, node)
        assert complaints(process) == []


async def test_controller_manager_rolls_out_workloads(
    bare: Bare, kube_tools: Tools, talk: Talk, room: str, tmp_path: Path
) -> None:
    """Deployment, replica sets, pods, a budget: each level is another controller's, and watches the next."""
    apps = f"/apis/apps/v1/namespaces/{room}"
    spec = {"nodeName": room, "containers": [{"name": "main", "image": "image:1"}]}
    template = {"metadata": {"labels": {"app": "fleet"}}, "spec": spec}
    selector = {"matchLabels": {"app": "fleet"}}
    deployment = {
        "metadata": {"name": "fleet"},
        "spec": {"replicas": 3, "selector": selector, "template": template},
    }
    budget = {"metadata": {"name": "fleet"}, "spec": {"selector": selector, "maxUnavailable": 1}}
    budgets = f"/apis/policy/v1/namespaces/{room}/poddisruptionbudgets"

    def rolled_out(generation: int) -> Callable[[dict[str, Any]], bool]:
        def holds(document: dict[str, Any]) -> bool:
            status = document["status"]
            counts = {status.get(key) for key in ("replicas", "updatedReplicas", "availableReplicas")}
            return bool(status.get("observedGeneration") == generation and counts == {3})

        return holds

    async with kwok(kube_tools, kubeconfig=bare.kubeconfig, folder=tmp_path) as process:
        await talk.call("POST", "/api/v1/nodes", body={"metadata": {"name": room}})
        for path, document in ((budgets, budget), (f"{apps}/deployments", deployment)):
            code, answer = await talk.call("POST", path, body=document)
            assert code == 201, answer
        await until(talk, f"{apps}/deployments", "fleet", rolled_out(1))
        await until(
            talk, budgets, "fleet", lambda document: document.get("status", {}).get("disruptionsAllowed") == 1
        )
        image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "image:2"}]
        await talk.call("PATCH", f"{apps}/deployments/fleet", body=image, type_="application/json-patch+json")
        await until(talk, f"{apps}/deployments", "fleet", rolled_out(2))
        _, sets = await talk.call("GET", f"{apps}/replicasets")
        assert sorted(item["spec"]["replicas"] for item in sets["items"]) == [0, 3]
        await talk.call("DELETE", f"{apps}/deployments/fleet?propagationPolicy=Foreground")
        await until_deleted(talk, f"{apps}/deployments", "fleet")
        _, pods = await talk.call("GET", f"/api/v1/namespaces/{room}/pods")
        assert pods["items"] == []
        assert complaints(process) == []


def test_controllers_log_no_errors(managers: tuple[Process, Process]) -> None:
    """After all of the above."""
    for process in managers:
        assert complaints(process) == []


def complaints(process: Process) -> list[str]:
    lines = []
    for line in process.log.read_text(encoding="utf-8", errors="replace").splitlines():
        match = COMPLAINT.match(line)
        if match and match["source"] not in STARTUP and not RETRIED.search(match["words"]):
            lines.append(f"{match['source']}: {match['words']}")
    return lines
