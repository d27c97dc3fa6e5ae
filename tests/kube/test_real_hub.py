"""The real thing starts, does what tests rely on, and is gone when it should be."""

import asyncio
import json
import os
import select
import signal
import ssl
import subprocess
import sys
from base64 import b64decode, b64encode
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fairway.api.crd import crds
from kube.definitions import known
from rigs.certificates import Pair
from rigs.kubernetes import (
    ADMIN,
    ALICE,
    API_SERVER,
    CONTROLLER_MANAGER,
    CONTROLLERS,
    ETCD,
    KWOK,
    Ran,
    RealHub,
    StartFailed,
    Tools,
    controller_manager,
    kubectl,
    kwok,
)
from rigs.kubernetes import real_hub as start

NODE_AND_POD = """\
apiVersion: v1
kind: Node
metadata: {name: simulated}
---
apiVersion: v1
kind: Pod
metadata: {name: bound, namespace: default}
spec:
  nodeName: simulated
  containers: [{name: one, image: none}]
"""
WAITS = "--timeout=120s"
HOLDS_ONE = """\
import asyncio, json, sys
from pathlib import Path
from rigs.kubernetes import CONTROLLERS, Tools, real_hub

async def main():
    tools, folder = Tools(Path(sys.argv[1])), Path(sys.argv[2])
    async with real_hub(tools, folder=folder, controllers=CONTROLLERS, with_kwok=True) as hub:
        print(json.dumps(hub.pids), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def run(tools: Tools, kubeconfig: Path, *arguments: str, given: str = "") -> Ran:
    ran = await kubectl(tools, *arguments, kubeconfig=kubeconfig, given=given)
    assert ran.status == 0, ran.errors
    return ran


async def who_is(hub: RealHub, pair: Pair) -> tuple[str, list[str]]:
    """Whom the hub takes the holder of a client certificate for."""
    tls = ssl.create_default_context(cafile=hub.ca_file)
    tls.load_cert_chain(pair.certificate, pair.key)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    url = f"{hub.url}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    async with aiohttp.ClientSession() as session, session.post(url, json=review, ssl=tls) as answer:
        user = (await answer.json())["status"]["userInfo"]
    return user["username"], user["groups"]


async def test_real_hub_is_of_the_release_of_the_tools(kube_tools: Tools, real_hub: RealHub) -> None:
    ran = await run(kube_tools, real_hub.kubeconfig, "version", "--output=json")
    versions = json.loads(ran.output)
    assert versions["serverVersion"]["gitVersion"] == versions["clientVersion"]["gitVersion"]


async def test_real_hub_client_needs_ca_and_token(real_hub: RealHub) -> None:
    tls = ssl.create_default_context(cafile=real_hub.ca_file)
    headers = {"Authorization": f"Bearer {real_hub.token}"}
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{real_hub.url}/api/v1/namespaces", ssl=tls, headers=headers) as answer:
            assert answer.status == 200
        async with session.get(f"{real_hub.url}/api/v1/namespaces", ssl=tls) as answer:
            assert answer.status == 403
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(f"{real_hub.url}/api/v1/namespaces", headers=headers)


async def test_real_hub_user_alice_has_no_rights(kube_tools: Tools, real_hub: RealHub) -> None:
    ran = await kubectl(kube_tools, "get", "namespaces", kubeconfig=real_hub.kubeconfig_for(ALICE))
    assert ran.status == 1
    assert 'User "alice" cannot list resource "namespaces"' in ran.errors
    with pytest.raises(LookupError, match=f"bob has no token; users of this hub: {ADMIN}, {ALICE}"):
        real_hub.kubeconfig_for("bob")


async def test_real_hub_client_certificate_names_user_and_groups(real_hub: RealHub) -> None:
    pair = real_hub.authority.issue("carol", groups=("ops", "night-shift"))
    assert await who_is(real_hub, pair) == ("carol", ["ops", "night-shift", "system:authenticated"])


async def test_real_hub_accepts_every_fairway_kind(kube_tools: Tools, real_hub: RealHub) -> None:
    documents = [dict(each) for each in crds()]
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    admin = real_hub.kubeconfig
    await run(kube_tools, admin, "apply", "--server-side", "-f", "-", given=given)
    await known(kube_tools, documents, kubeconfig=admin)
    names = [f"crd/{each['metadata']['name']}" for each in documents]
    await run(kube_tools, admin, "wait", WAITS, "--for=condition=Established", *names)


async def test_real_hub_keeps_its_data_after_a_crash(kube_tools: Tools, tmp_path: Path) -> None:
    async with start(kube_tools, folder=tmp_path / "hub") as hub:
        await run(kube_tools, hub.kubeconfig, "create", "namespace", "kept")
        before = hub.pids
        await hub.restart(grace=0)
        assert hub.pids[API_SERVER] != before[API_SERVER]
        assert hub.pids[ETCD] == before[ETCD]
        await run(kube_tools, hub.kubeconfig, "get", "namespace", "kept")


async def test_real_hub_that_cannot_start_shows_its_log(kube_tools: Tools, tmp_path: Path) -> None:
    with pytest.raises(
        StartFailed, match=r"(?s)kube-apiserver ended with status 1 .*unknown flag: --nonsense"
    ):
        async with start(kube_tools, folder=tmp_path / "hub", extra_args=["--nonsense"]):
            raise AssertionError("started")


async def test_real_hub_controllers_create_service_accounts(
    kube_tools: Tools, real_hub: RealHub, tmp_path: Path
) -> None:
    async with controller_manager(
        kube_tools, kubeconfig=real_hub.kubeconfig, folder=tmp_path, signer=real_hub.authority.pair
    ):
        admin, inside = real_hub.kubeconfig, ("--namespace", "controlled")
        await run(kube_tools, admin, "create", "namespace", "controlled")
        await run(kube_tools, admin, "wait", WAITS, "--for=create", "serviceaccount/default", *inside)
        await run(kube_tools, admin, "wait", WAITS, "--for=create", "configmap/kube-root-ca.crt", *inside)
        token = (await run(kube_tools, admin, "create", "token", "default", *inside)).output.strip()
        who = await run(kube_tools, admin, f"--token={token}", "auth", "whoami", "--output=json")
        user = json.loads(who.output)["status"]["userInfo"]
        assert user["username"] == "system:serviceaccount:controlled:default"


async def test_real_hub_controllers_sign_approved_csrs(
    kube_tools: Tools, real_hub: RealHub, tmp_path: Path
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dave")])
    asked = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    request = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "dave"},
        "spec": {
            "request": b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    }
    async with controller_manager(
        kube_tools,
        kubeconfig=real_hub.kubeconfig,
        folder=tmp_path,
        leader_elect=False,  # whoever led before gives up its lease only with time
        signer=real_hub.authority.pair,
    ):
        admin = real_hub.kubeconfig
        await run(kube_tools, admin, "create", "-f", "-", given=json.dumps(request))
        await run(kube_tools, admin, "certificate", "approve", "dave")
        await run(kube_tools, admin, "wait", WAITS, "--for=jsonpath={.status.certificate}", "csr/dave")
        written = await run(
            kube_tools, admin, "get", "csr", "dave", "--output=jsonpath={.status.certificate}"
        )
    pair = Pair(tmp_path / "dave.crt", tmp_path / "dave.key")
    pair.certificate.write_bytes(b64decode(written.output))
    plain = serialization.NoEncryption()
    pair.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    assert await who_is(real_hub, pair) == ("dave", ["system:authenticated"])


async def test_simulated_nodes_become_ready_and_run_bound_pods(
    kube_tools: Tools, real_hub: RealHub, tmp_path: Path
) -> None:
    admin = real_hub.kubeconfig
    async with kwok(kube_tools, kubeconfig=admin, folder=tmp_path):
        await run(kube_tools, admin, "apply", "-f", "-", given=NODE_AND_POD)
        await run(kube_tools, admin, "wait", WAITS, "--for=condition=Ready", "node/simulated", "pod/bound")
        phase = await run(kube_tools, admin, "get", "pod", "bound", "--output=jsonpath={.status.phase}")
        assert phase.output == "Running"
        await run(kube_tools, admin, "delete", "pod/bound", "node/simulated", WAITS)


async def test_real_hub_runs_with_controllers_and_nodes(kube_tools: Tools, tmp_path: Path) -> None:
    taints = ("get", "node", "simulated", "--output=jsonpath={.spec.taints}")
    async with start(
        kube_tools,
        folder=tmp_path / "hub",
        controllers=(*CONTROLLERS, "node-lifecycle-controller"),
        with_kwok=True,
        service_accounts=True,
    ) as hub:
        assert list(hub.pids) == [ETCD, API_SERVER, CONTROLLER_MANAGER, KWOK]
        assert all(held > 10 << 20 for held in hub.resident().values())
        await run(kube_tools, hub.kubeconfig, "wait", WAITS, "--for=create", "serviceaccount/default")
        await run(kube_tools, hub.kubeconfig, "apply", "-f", "-", given=NODE_AND_POD)
        await run(kube_tools, hub.kubeconfig, "wait", WAITS, "--for=condition=Ready", "pod/bound")
        # The taint of a node that isn't ready goes by the word of a controller.
        async with asyncio.timeout(120):
            while (await run(kube_tools, hub.kubeconfig, *taints)).output:
                pass
        processes = list(hub.processes.values())
    assert not any(process.alive for process in processes)
    assert not (tmp_path / "hub" / "etcd").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel doesn't kill orphans")
def test_real_hub_processes_end_with_a_killed_test(kube_tools: Tools, tmp_path: Path) -> None:
    kube_tools.require(CONTROLLER_MANAGER, KWOK)
    command = [sys.executable, "-c", HOLDS_ONE, str(kube_tools.folder), str(tmp_path / "hub")]
    tests = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=tests) as holder,
        ExitStack() as stack,
    ):
        assert holder.stdout is not None
        pids = json.loads(holder.stdout.readline())
        assert list(pids) == [ETCD, API_SERVER, CONTROLLER_MANAGER, KWOK]
        children = {name: os.pidfd_open(pid) for name, pid in pids.items()}
        for child in children.values():
            stack.callback(os.close, child)
        holder.send_signal(signal.SIGKILL)
        for name, child in children.items():
            ended, _, _ = select.select([child], [], [], 120)
            assert ended, f"{name} lives on"
