"""Certificates expire: the klusterlet replaces its own and those of add-ons, and agents that run go on with new ones.

The shortest life that is signed is ten minutes, so the hub's clock is set ahead in place of waiting.
"""

import base64
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from e2e.harness import AGENT_NAMESPACE, HUB, NODE, SECRET, LoopHarness, servers
from e2e.test_loop import CLUSTER_OF, SCORE_OF, has_condition, is_valid
from fairway.klusterlet.atomic_directory import AtomicDirectory
from kubehub import hub as embedded
from kubehub.authn.authenticator import Authenticator
from kubewire.client import Client, Unauthorized, load
from rigs.kubernetes import Tools

CLUSTER = "cluster1"
LIFE = 600
LEASE_OF = f"/apis/coordination.k8s.io/v1/namespaces/{CLUSTER}/leases/managed-cluster-lease"
SECRET_OF = f"/api/v1/namespaces/{AGENT_NAMESPACE}/secrets/{SECRET}"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class HubClock:
    """Only ever set ahead. Times that clients write are their own."""

    ahead = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HubClock:
    made = HubClock()
    monkeypatch.setattr(embedded, "_now", made)
    monkeypatch.setattr(embedded, "Authenticator", partial(Authenticator, clock=made))
    return made


@pytest.fixture
def bare_stage(clock: HubClock, tmp_path: Path) -> Iterator[LoopHarness]:
    def tools() -> Tools:
        raise AssertionError

    with servers("embedded", folder=tmp_path, tools=tools) as running:
        yield LoopHarness(tmp_path, running, None)


@pytest.fixture
async def harness(bare_stage: LoopHarness) -> AsyncIterator[LoopHarness]:
    try:
        bare_stage.start(
            "controllers", "run", f"--kubeconfig={bare_stage.kubeconfig(HUB)}", "--no-leader-elect"
        )
        yield bare_stage
    finally:
        await bare_stage.stop()


def join(harness: LoopHarness, *more: str) -> None:
    harness.start(
        f"join-{CLUSTER}",
        *("join", f"--name={CLUSTER}", f"--kubeconfig={harness.kubeconfig(CLUSTER)}"),
        f"--hub-bootstrap-kubeconfig={harness.folder / 'bootstrap.kubeconfig'}",
        *(f"--state={harness.folder / 'state'}", f"--certificate-seconds={LIFE}", "--lease-seconds=1", *more),
    )


async def identity(harness: LoopHarness, *, other_than: bytes = b"") -> dict[str, bytes]:
    """Of the add-on's agent, as the files of a Secret."""

    def files(secret: dict[str, Any]) -> dict[str, bytes]:
        return {name: base64.b64decode(data) for name, data in secret.get("data", {}).items()}

    rotated = await harness.until(
        "the add-on has an identity",
        lambda secret: files(secret).get("tls.crt", b"") not in (b"", other_than),
        SECRET_OF,
        server=CLUSTER,
    )
    return files(rotated)


async def renewed(harness: LoopHarness, path: str, field: str) -> None:
    """Renew what expires."""

    def moment(document: dict[str, Any]) -> str:
        return str(document.get("spec", {}).get(field) or document.get("status", {}).get(field))

    last = moment(await harness.get(path))
    await harness.until(f"{path} is renewed", lambda document: moment(document) > last, path)


async def test_agent_continues_with_renewed_certificate(harness: LoopHarness, clock: HubClock) -> None:
    await harness.fairway("join", "token", "--out", "bootstrap.kubeconfig")
    await harness.create("/api/v1/nodes", NODE, server=CLUSTER)
    join(harness)
    await harness.fairway("addon", "install", "resource-usage")
    await harness.until_printed(f"join-{CLUSTER}", f"fairway accept {CLUSTER}")
    await harness.fairway("accept", CLUSTER)
    first = await identity(harness)
    # As a kubelet mounts it: all files are replaced at once.
    mounted = AtomicDirectory(harness.folder / f"hub-of-{CLUSTER}")
    mounted.write(first)
    await harness.agent(CLUSTER)
    score = SCORE_OF.format(cluster=CLUSTER)
    await harness.until("there is a score", is_valid, score)
    own = (harness.folder / "state" / "hub" / "tls.crt").read_bytes()

    # Five minutes of fifteen were over at the beginning: at a threshold of four fifths it is due.
    clock.ahead = timedelta(seconds=LIFE / 2 - 20)
    await harness.processes[f"join-{CLUSTER}"].stop(grace=0)
    join(harness, "--renew-left=80")
    second = await identity(harness, other_than=first["tls.crt"])
    assert second["tls.key"] != first["tls.key"]
    assert second["kubeconfig"] == first["kubeconfig"]
    mounted.write(second)
    await harness.until(
        "the certificate of the cluster is renewed",
        lambda cluster: has_condition(cluster, "ClusterCertificateRotated"),
        CLUSTER_OF.format(cluster=CLUSTER),
    )
    assert (harness.folder / "state" / "hub" / "tls.crt").read_bytes() != own

    # Those of before do not count any more.
    clock.ahead = timedelta(seconds=LIFE + 60)
    ends = x509.load_pem_x509_certificate(second["tls.crt"]).not_valid_after_utc
    assert ends > clock()
    await refused(harness, first)
    await renewed(harness, score, "validUntil")
    await harness.until("the score is valid", is_valid, score)
    await renewed(harness, LEASE_OF, "renewTime")
    agent = (harness.folder / f"agent-{CLUSTER}.log").read_text(encoding="utf-8")
    assert "WARNING" not in agent, agent
    assert agent.count("resource-usage for cluster") == 1, agent  #  it was not restarted


async def refused(harness: LoopHarness, files: dict[str, bytes]) -> None:
    old = harness.folder / "old"
    old.mkdir()
    for name, data in files.items():
        (old / name).write_bytes(data)
    async with Client(load(old / "kubeconfig").context()) as client:
        with pytest.raises(Unauthorized):
            await client.request("POST", WHO, body={})
