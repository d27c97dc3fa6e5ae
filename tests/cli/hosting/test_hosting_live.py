"""`fairway hosting` against a hub: approving a plan, and one request."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cli.hosting.test_hosting import EXAMPLE, NOW, resident
from cli.live_hub import act, fill
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.placement import PlacementSpec
from fairway.api.resources import HOSTED_CLUSTER_REQUESTS, MANAGED_CLUSTERS
from fairway.cli.hosting.run import EXISTS
from fairway.cli.main import run
from fairway.testing import builders
from fairway.testing.hub import HubAddress, hub_in_thread
from fairway.workloads.hosting.workload import MOVE_PLAN, MOVE_TO
from fairway.workloads.placement.plugins.score_debits import SCORE_DEBITS
from kubewire.api.selector import LabelSelector
from kubewire.client import Client

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAddress]:
    """Two requests on host-1, which then carries one hosted cluster too many."""
    with hub_in_thread(folder=tmp_path_factory.mktemp("hosting"), controllers=frozenset()) as hub:
        fill(hub.kubeconfig, paths=[EXAMPLE / "hosts.yaml"])
        uid = act(hub.kubeconfig, lambda client: client.get(MANAGED_CLUSTERS, "host-1")).metadata.uid
        for name in ("a", "b"):
            document = resident(name, on=1)
            document["status"]["hostingCluster"]["uid"] = uid
            fill(hub.kubeconfig, msgspec.convert(document, HostedClusterRequest))
        yield hub


def hosting(hub: HubAddress, *arguments: str) -> int:
    return run(["hosting", *arguments, "--kubeconfig", str(hub.kubeconfig)])


async def annotations(client: Client) -> dict[str, dict[str, str]]:
    requests = (await client.list(HOSTED_CLUSTER_REQUESTS)).items
    return {request.metadata.name: dict(request.metadata.annotations) for request in requests}


def test_plan_is_approved_by_its_hash_only(hub: HubAddress, capsys: Capture) -> None:
    assert hosting(hub, "rebalance", *NOW, "-o", "json") == 0
    plan = json.loads(capsys.readouterr().out)
    (move,) = plan["moves"]
    assert hosting(hub, "rebalance", *NOW, "--apply", "0123456789ab") == 1
    assert f"plan 0123456789ab is not the current plan, which is {plan['hash']}" in capsys.readouterr().err
    assert not any(act(hub.kubeconfig, annotations).values())
    assert hosting(hub, "rebalance", *NOW, "--apply", plan["hash"]) == 0
    assert "1 moves approved" in capsys.readouterr().out
    name = move["request"].partition("/")[2]
    assert act(hub.kubeconfig, annotations)[name] == {MOVE_TO: "host-2", MOVE_PLAN: plan["hash"]}


def test_request_of_a_file_that_the_hub_has_is_named_and_not_placed_again(
    hub: HubAddress, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "request.yaml"
    document = {**resident("a", on=1), "status": {}}
    file.write_text(json.dumps(document))
    assert hosting(hub, "place", *NOW, "-f", str(file), "--hub") == 2
    assert EXISTS.format(name="team-a/a", host="host-1") in capsys.readouterr().err


def test_adopt_shows_first_and_writes_when_applied(hub: HubAddress, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "host-2.yaml"
    kind = {"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HostedCluster"}
    items = [
        {**kind, "metadata": {"name": name, "namespace": "clusters"}, "spec": {"platform": {"type": "None"}}}
        for name in ("one", "two")
    ]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    words = ("adopt", "host-2", "-n", "team-a", "--from", str(file), *NOW, "-o", "json")
    for applied in (False, True):
        assert hosting(hub, *words, *(["--apply"] if applied else [])) == 0
        shown = json.loads(capsys.readouterr().out)
        assert [adoption["request"] for adoption in shown["adoptions"]] == ["team-a/one", "team-a/two"]
        assert ("one" in act(hub.kubeconfig, annotations)) is applied
    assert hosting(hub, *words) == 0
    assert json.loads(capsys.readouterr().out)["adopted"] == 2
    assert hosting(hub, "capacity", *NOW, "-o", "json") == 0
    second = json.loads(capsys.readouterr().out)[1]
    assert (second["hosted"], second["reserved"]) == (2, 0), "they are part of the published number"
    assert hosting(hub, "delete", "team-a/one") == 0
    assert "stays on host-2" in capsys.readouterr().out
    assert hosting(hub, "delete", "team-a/two") == 0


def test_adopt_names_what_is_wrong_with_its_input(hub: HubAddress, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "none.yaml"
    file.write_text("kind: List\nitems: [3, {kind: Pod}]\n")
    for words, message in (
        (("--from", str(file)), "name that HOST"),
        (("host-1", "--from", str(file)), "contains no HostedCluster"),
        (("host-1", "--from", str(tmp_path / "missing.yaml")), "missing.yaml"),
        (("host-1", "--policy", "nope"), "nope"),
        (("host-1", "--size", "huge"), "there is no size 'huge'"),
    ):
        assert hosting(hub, "adopt", *words, *NOW) == 2
        assert message in capsys.readouterr().err


def test_explain_of_a_request_without_scores_names_its_host(hub: HubAddress, capsys: Capture) -> None:
    assert hosting(hub, "explain", "team-a/a") == 0
    assert capsys.readouterr().out.startswith("team-a/a is hosted on host-1 (Bound)")


@pytest.mark.parametrize(
    "words",
    [
        "hostedclusterrequest team-a/a",
        "HostedClusterRequests.placement.fairway.dev/a -n team-a",
        "hostedclusterrequest.v1alpha1.placement.fairway.dev a -n team-a",
    ],
)
def test_explain_of_any_kind_forwards_requests(
    hub: HubAddress, words: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRWAY_SCHEDULER_CONFIG", "of-the-controllers.yaml")
    assert hosting(hub, "explain", "team-a/a") == 0
    expected = capsys.readouterr()
    assert run(["explain", *words.split(), "--kubeconfig", str(hub.kubeconfig)]) == 0
    assert capsys.readouterr() == expected


def test_explanation_of_a_placement_names_requests_that_change_the_score(
    hub: HubAddress, capsys: Capture
) -> None:
    by_count = builders.addon("hostedClustersCount", -1, resource="hosted-clusters-score")
    spec = PlacementSpec(numberOfClusters=1, prioritizerPolicy=builders.policy(by_count, mode="Exact"))
    debits = {SCORE_DEBITS: "hosted-clusters-score/hostedClustersCount=+1"}
    fill(
        hub.kubeconfig,
        builders.cluster_set("global", selector=LabelSelector()),
        builders.binding("global"),
        builders.placement("web", spec=spec, annotations=debits),
    )
    explain = ["explain", "placement", "ns1/web", "--cluster", "host-1", *NOW]
    assert run([*explain, "--kubeconfig", str(hub.kubeconfig)]) == 0
    told = capsys.readouterr().out
    assert (
        "published 4; HostedClusterRequests team-a/a, team-a/b since then, expected to change it by +2"
        in told
    )


@pytest.mark.parametrize("verb", ["explain", "delete"])
def test_unknown_request_is_bad_input(hub: HubAddress, verb: str, capsys: Capture) -> None:
    assert hosting(hub, verb, "team-a/nope") == 2
    assert "there is no HostedClusterRequest team-a/nope" in capsys.readouterr().err
    assert hosting(hub, verb, "nope") == 2
    assert "write NAMESPACE/NAME" in capsys.readouterr().err
