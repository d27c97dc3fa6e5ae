"""`fairway hosting recover`, and what the other commands state about lost hosts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from cli.hosting.test_hosting import EXAMPLE, NOW, hosting, resident, write
from cli.live_hub import act, fill
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.resources import HOSTED_CLUSTER_REQUESTS, MANAGED_CLUSTERS
from fairway.cli.hosting.run import WITHIN_POLICY_BUT
from fairway.cli.main import run
from fairway.testing.hub import HubAddress, hub_in_thread
from fairway.workloads.hosting.workload import MOVE_PLAN, MOVE_TO, RECOVER_FROM
from kubewire.client import Client, Patch

Capture = pytest.CaptureFixture[str]
LOST = "host-1 is not available since 2026-03-02T11:00:00Z, and counts as lost"
UID = "00000000-0000-0000-0000-000000000001"


def condition(type_: str, status: str, reason: str, since: str = "2026-03-02T11:00:00Z") -> dict[str, str]:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": LOST if type_ == "HostAvailable" else "",
        "lastTransitionTime": since,
    }


def stranded(name: str, *, existing: bool = True, uid: str = UID) -> dict[str, Any]:
    """A request on host-1, whose loss the controller has recorded."""
    document = resident(name, on=1)
    document["status"]["hostingCluster"]["uid"] = uid
    document["status"]["conditions"] = [condition("HostAvailable", "False", "HostingClusterLost")]
    if existing:
        document["status"]["phase"] = "Confirmed"
        document["status"]["conditions"].append(condition("Confirmed", "True", "Reported"))
    return document


def hosts(since: str = "2026-03-02T11:00:00Z", **policy: Any) -> list[dict[str, Any]]:
    """The hosts of the example, without host-1."""
    documents = list(yaml.safe_load_all((EXAMPLE / "hosts.yaml").read_text(encoding="utf-8")))
    for document in documents:
        if document["kind"] == "HostingPolicy":
            document["spec"].update(policy)
        if document["kind"] == "ManagedCluster" and document["metadata"]["name"] == "host-1":
            document["status"]["conditions"] = [
                condition("ManagedClusterConditionAvailable", "Unknown", "Lease", since)
            ]
    return documents


def files(folder: Path, *documents: dict[str, Any], **policy: Any) -> tuple[Path]:
    _, file = write(folder, *hosts(**policy), *documents)
    return (file,)


RECREATE: dict[str, Any] = {"hostLoss": {"recreate": "Approved"}}


def test_plan_says_what_is_created_again_and_what_keeps_its_place(tmp_path: Path, capsys: Capture) -> None:
    requests = (stranded("a"), stranded("b", existing=False))
    assert hosting("recover", "host-1", files=files(tmp_path, *requests, **RECREATE)) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{LOST}."
    assert [line.split() for line in out[2:4]] == [
        ["team-a/a", "small", "host-2", "created", "again,", "empty"],
        ["team-a/b", "small", "host-2", "never", "reported"],
    ]
    assert "1 hosted clusters are created again, empty" in out[4]
    assert out[5].startswith("Approve it with: fairway hosting recover host-1 --apply ")
    assert hosting("recover", "host-1", files=files(tmp_path, *requests)) == 1
    out = capsys.readouterr().out.splitlines()
    assert "does not permit to create it again" in out[3]
    assert "1 keep their place." in out


def test_host_that_is_not_lost_is_not_recovered(tmp_path: Path, capsys: Capture) -> None:
    assert hosting("recover", "host-2") == 1
    assert "host-2 is available" in capsys.readouterr().err
    assert hosting("recover", "nope") == 2
    assert "host-1, host-2, host-3" in capsys.readouterr().err
    early = files(tmp_path, stranded("a"), since="2026-03-02T11:55:00Z", **RECREATE)
    assert hosting("recover", "host-1", files=early) == 1
    assert "counts as lost from 2026-03-02T12:05:00Z on" in capsys.readouterr().out


def test_hash_changes_with_what_the_plan_read(tmp_path: Path, capsys: Capture) -> None:
    def hash_of(document: dict[str, Any]) -> str:
        assert hosting("recover", "host-1", "-o", "json", files=files(tmp_path, document, **RECREATE)) == 0
        plan = json.loads(capsys.readouterr().out)
        assert [move["recreated"] for move in plan["moves"]] == [True]
        return str(plan["hash"])

    first, other, edited, later = (stranded("a") for _ in range(4))
    other["metadata"]["uid"] = "uid-other"
    edited["metadata"]["generation"] = 7
    later["status"]["conditions"][0]["lastTransitionTime"] = "2026-03-02T11:10:00Z"
    hashes = [hash_of(document) for document in (first, first, other, edited, later)]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 4


def test_deleted_host_is_recovered_by_its_name(tmp_path: Path, capsys: Capture) -> None:
    remaining = [document for document in hosts(**RECREATE) if document["metadata"]["name"] != "host-1"]
    _, file = write(tmp_path, *remaining, stranded("a"))
    assert hosting("recover", "host-1", files=(file,)) == 0
    assert "host-1 was deleted or recreated" in capsys.readouterr().out
    assert hosting("drain", "host-1", files=(file,)) == 1
    assert "fairway hosting recover host-1" in capsys.readouterr().err
    assert hosting("capacity", files=(file,)) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("host-1")]
    assert "the cluster was deleted or recreated" in row


def test_capacity_rebalance_and_drain_state_the_loss(tmp_path: Path, capsys: Capture) -> None:
    given = files(tmp_path, stranded("a"))
    assert hosting("capacity", files=given) == 0
    assert f"the cluster{LOST.removeprefix('host-1')}" in capsys.readouterr().out
    assert hosting("rebalance", files=given) == 1
    out = capsys.readouterr().out
    assert WITHIN_POLICY_BUT in out
    assert f"{LOST}; plan where its 1 hosted clusters go with: fairway hosting recover host-1" in out
    assert hosting("rebalance", "-o", "json", files=given) == 1
    assert json.loads(capsys.readouterr().out)["lostHosts"] == ["host-1"]
    assert hosting("drain", "host-1", files=given) == 1
    assert "fairway hosting recover host-1" in capsys.readouterr().out


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAddress]:
    folder = tmp_path_factory.mktemp("recover")
    with hub_in_thread(folder=folder, controllers=frozenset()) as hub:
        fill(hub.kubeconfig, paths=list(write(folder, *hosts(maxPerHost=6, **RECREATE))[1:]))
        uid = act(hub.kubeconfig, lambda client: client.get(MANAGED_CLUSTERS, "host-1")).metadata.uid
        fill(hub.kubeconfig, msgspec.convert(stranded("a", uid=uid), HostedClusterRequest))
        fill(hub.kubeconfig, msgspec.convert(resident("b", on=2), HostedClusterRequest))
        yield hub


def test_recovery_is_approved_by_its_hash_only(hub: HubAddress, capsys: Capture) -> None:
    def recover(*words: str, verb: str = "recover") -> int:
        return run(["hosting", verb, "host-1", *NOW, *words, "--kubeconfig", str(hub.kubeconfig)])

    assert recover("-o", "json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert recover("--apply", "0123456789ab") == 1
    assert f"which is {plan['hash']}" in capsys.readouterr().err
    assert recover("--apply", plan["hash"], verb="drain") == 1
    assert "fairway hosting recover host-1" in capsys.readouterr().err
    assert recover("--apply", plan["hash"]) == 0
    assert "1 recoveries approved" in capsys.readouterr().out

    async def approved(client: Client) -> HostedClusterRequest:
        return await client.get(HOSTED_CLUSTER_REQUESTS, "a", namespace="team-a")

    request = act(hub.kubeconfig, approved)
    place = request.status.hostingCluster
    assert place is not None
    assert request.metadata.annotations == {
        MOVE_TO: "host-2",
        MOVE_PLAN: plan["hash"],
        RECOVER_FROM: f"{place.uid}@2026-03-02T11:00:00Z",
    }
    assert recover() == 0
    assert "approved already" in capsys.readouterr().out
    assert run(["hosting", "explain", "team-a/a", "--kubeconfig", str(hub.kubeconfig)]) == 0
    assert LOST in capsys.readouterr().out


def test_drain_is_approved_by_its_hash_only(hub: HubAddress, capsys: Capture) -> None:
    async def place(client: Client) -> None:
        uid = (await client.get(MANAGED_CLUSTERS, "host-2")).metadata.uid
        body = {"status": {"hostingCluster": {"name": "host-2", "uid": uid}}}
        await client.patch(
            HOSTED_CLUSTER_REQUESTS, "b", body, kind=Patch.MERGE, namespace="team-a", subresource="status"
        )
        status = {"status": {"conditions": [condition("ManagedClusterConditionAvailable", "True", "Lease")]}}
        await client.patch(MANAGED_CLUSTERS, "host-1", status, kind=Patch.MERGE, subresource="status")

    def drain(*words: str) -> int:
        return run(["hosting", "drain", "host-2", *NOW, *words, "--kubeconfig", str(hub.kubeconfig)])

    act(hub.kubeconfig, place)
    assert drain("-o", "json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert drain("--apply", "0123456789ab") == 1
    assert drain("--apply", plan["hash"]) == 0
    assert "1 moves approved" in capsys.readouterr().out

    async def annotations(client: Client) -> dict[str, str]:
        request = await client.get(HOSTED_CLUSTER_REQUESTS, "b", namespace="team-a")
        return dict(request.metadata.annotations)

    assert act(hub.kubeconfig, annotations) == {MOVE_TO: "host-1", MOVE_PLAN: plan["hash"]}
