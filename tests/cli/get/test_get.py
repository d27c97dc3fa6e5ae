"""`fairway get` on a hub with the example fleet."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs

from cli.live_hub import EXAMPLE, act, fill, remove, write_status
from fairway.api import crds
from fairway.api.cluster import ManagedCluster
from fairway.api.resources import HOSTED_CLUSTER_REQUESTS, MANAGED_CLUSTERS
from fairway.api.score import AddOnPlacementScore
from fairway.cli.main import run
from fairway.cli.resource_names import ALIASES
from fairway.testing.builders import cluster, cluster_set, decision, placement, requirement, score
from fairway.testing.hub import HubAddress, hub_in_thread
from kubewire.api.meta import ObjectMeta
from kubewire.api.selector import LabelSelector
from kubewire.client import Client, Patch

Capture = pytest.CaptureFixture[str]

CLUSTERS = """\
NAME          ACCEPTED  AVAILABLE  CLUSTERSET  CPU  MEMORY   KUBERNETES VERSION
apps-fra      true      True       apps        24   47 GiB   v1.31.9
apps-iad      true      True       apps        96   384 GiB  v1.32.5
apps-sin      true      True       apps        32   128 GiB  v1.29.14
edge-store-7  true      Unknown    edge        8    32 GiB   v1.30.11
gpu-iad       true      True       apps        128  1 TiB    v1.32.5
hosting-fra   true      True       hosting     192  768 GiB  v1.31.7
hosting-iad   true      True       hosting     384  1.5 TiB  v1.31.7
hosting-sin   true      True       hosting     192  768 GiB  v1.30.11
"""
SETS = """\
NAME     BOUND NAMESPACES  STATUS                      MANAGED NAMESPACES
apps     ns1               4 ManagedClusters selected  -
edge     -                 -                           -
global   everywhere        -                           -
hosting  hypershift        -                           -
"""
PLACEMENTS = """\
NAME             STATUS  REASON                    SELECTEDCLUSTERS
idlest           -       -                         -
modern-and-free  False   Misconfigured             -
most-free-cpu    True    AllDecisionsScheduled     apps-fra, apps-iad
placement        -       -                         -
training         False   NotAllDecisionsScheduled  a1, a2, b1, b2 … and 2 more: -o wide
"""
DECISIONS = """\
NAMESPACE  PLACEMENT      GROUP     CLUSTER   SCORE  REASON
ns1        most-free-cpu  0         apps-fra  12     second best
ns1        most-free-cpu  0         apps-iad  66     best
ns1        training       0 canary  a1        -      -
ns1        training       0 canary  a2        -      -
ns1        training       1         b1        -      -
ns1        training       1         b2        -      -
ns1        training       1         b3        -      -
ns1        training       1         b10       -      -
"""
SCORES = """\
CLUSTER   RESOURCE                   SCORE             VALUE  VALID UNTIL           AGE
apps-fra  apps-fra-resourceratiocpu  resourceratiocpu  74     -                     AGE
apps-fra  resource-usage-score       cpuAvailable      12     2099-01-01T00:00:00Z  AGE
apps-fra  resource-usage-score       memAvailable      4      2099-01-01T00:00:00Z  AGE
apps-fra  test-score1                memAvailable      4      -                     AGE
"""


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    when = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": when}


def page(title: str, of: str, clusters: list[str], **labels: str) -> Any:
    decision_page = decision(title, clusters, placement=of)
    prefix = "cluster.open-cluster-management.io/decision-group-"
    more = {f"{prefix}{key}": value for key, value in labels.items()}
    return structs.replace(
        decision_page,
        metadata=structs.replace(decision_page.metadata, labels={**decision_page.metadata.labels, **more}),
    )


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAddress]:
    with hub_in_thread(folder=tmp_path_factory.mktemp("get")) as hub:
        chosen = page("most-free-cpu-decision-1", "most-free-cpu", ["apps-fra", "apps-iad"], index="0")
        scored = [
            structs.replace(chosen.status.decisions[0], score=12, reason="second best"),
            structs.replace(chosen.status.decisions[1], score=66, reason="best"),
        ]
        fill(
            hub.kubeconfig,
            structs.replace(chosen, status=structs.replace(chosen.status, decisions=tuple(scored))),
            page("training-decision-1", "training", ["a1", "a2"], index="0", name="canary"),
            page("training-decision-10", "training", ["b10"], index="1", name=""),
            page("training-decision-2", "training", ["b1", "b2", "b3"], index="1", name=""),
            paths=[EXAMPLE],
        )
        satisfied, wrong = "PlacementSatisfied", "PlacementMisconfigured"
        statuses: list[tuple[Any, list[dict[str, str]]]] = [
            (
                cluster_set("apps"),
                [condition("ClusterSetEmpty", "False", "Some", "4 ManagedClusters selected")],
            ),
            (placement("most-free-cpu"), [condition(satisfied, "True", "AllDecisionsScheduled")]),
            (placement("training"), [condition(satisfied, "False", "NotAllDecisionsScheduled")]),
            (
                placement("modern-and-free"),
                [
                    condition(wrong, "True", "Misconfigured"),
                    condition(satisfied, "False", "NoManagedClusterMatched"),
                ],
            ),
        ]

        async def write(client: Client) -> None:
            for thing, conditions in statuses:
                await write_status(client, thing, {"conditions": conditions})

        act(hub.kubeconfig, write)
        yield hub


def get(hub: HubAddress, *arguments: str) -> int:
    return run(["get", *arguments, "--kubeconfig", str(hub.kubeconfig)])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["clusters"], CLUSTERS),
        (["clustersets"], SETS),
        (["placements", "-n", "ns1"], PLACEMENTS),
        (["decisions", "-n", "ns1"], DECISIONS),
        (["scores", "--cluster", "apps-fra"], SCORES),
    ],
)
def test_get_prints_tables(hub: HubAddress, capsys: Capture, arguments: list[str], expected: str) -> None:
    assert get(hub, *arguments) == 0
    shown, complaints = capsys.readouterr()
    assert re.sub(r"  \d+[smh]+\d*s?$", "  AGE", shown, flags=re.M) == expected
    assert complaints == ""


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["clusters", "--clusterset", "apps"], ["apps-fra", "apps-iad", "apps-sin", "gpu-iad"]),
        (["clusters", "--clusterset", "hosting", "-l", "region=eu-central"], ["hosting-fra"]),
        (["clusters", "-l", "region in (eu-central),vendor=EKS"], ["apps-fra"]),
        (["clusters", "gpu-iad", "apps-fra"], ["apps-fra", "gpu-iad"]),
        (["placements", "ns1/idlest", "hypershift/least-hosted"], ["hypershift", "ns1"]),
        (["placements", "idlest", "-A"], ["ns1"]),
        (["decisions", "training-decision-2", "-n", "ns1"], ["ns1", "ns1", "ns1"]),
        (["decisions", "ns1/most-free-cpu"], ["ns1", "ns1"]),
        (["scores", "hosted-clusters-score"], ["hosting-fra", "hosting-iad", "hosting-sin"]),
        (["scores", "apps-iad-resourceratiocpu"], ["apps-iad"]),
    ],
)
def test_get_filters_by_name_selector_and_namespace(
    hub: HubAddress, capsys: Capture, arguments: list[str], names: list[str]
) -> None:
    assert get(hub, *arguments) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == names


def test_label_selector_set_has_its_members(hub: HubAddress, capsys: Capture) -> None:
    """clusteradm searches the label with the name of the set, which these clusters lack."""
    selector = LabelSelector(
        matchLabels={"vendor": "EKS"},
        matchExpressions=(
            requirement("region", "In", "eu-central", "eu-west"),
            requirement("tier", "NotIn", "bronze"),
            requirement("environment", "Exists"),
            requirement("retired", "DoesNotExist"),
        ),
    )
    fill(hub.kubeconfig, cluster_set("gold-eu", selector=selector))
    fill(hub.kubeconfig, structs.replace(cluster_set("nobody", kind="LabelSelector")))
    try:
        assert get(hub, "clusters", "--clusterset", "gold-eu") == 0
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["apps-fra"]
        assert get(hub, "clusters", "--clusterset", "global") == 0
        assert capsys.readouterr().out == CLUSTERS
        assert get(hub, "clusters", "--clusterset", "nobody") == 0
        assert capsys.readouterr() == ("", "No clusters.\n")
    finally:

        async def clear(client: Client) -> None:
            for name in ("gold-eu", "nobody"):
                await remove(client, cluster_set(name))

        act(hub.kubeconfig, clear)


@pytest.mark.parametrize("alias", [(name, alias) for name, aliases in ALIASES.items() for alias in aliases])
def test_get_accepts_kubectl_names_of_kinds(hub: HubAddress, capsys: Capture, alias: tuple[str, str]) -> None:
    space = ["-n", "ns1"] if alias[0] in ("placements", "decisions", "hostedclusterrequests") else []
    assert get(hub, alias[0], *space, "-o", "json") == 0
    expected = capsys.readouterr().out
    assert get(hub, alias[1], *space, "-o", "json") == 0
    assert capsys.readouterr().out == expected


def test_get_accepts_the_full_name_of_a_kind(hub: HubAddress, capsys: Capture) -> None:
    assert get(hub, "ManagedClusters.cluster.open-cluster-management.io") == 0
    assert capsys.readouterr().out == CLUSTERS


def test_get_accepts_kind_slash_name(hub: HubAddress, capsys: Capture) -> None:
    assert get(hub, "clusters", "apps-fra", "apps-iad") == 0
    expected = capsys.readouterr().out
    assert get(hub, "ManagedCluster/apps-fra", "mcl/apps-iad") == 0
    assert capsys.readouterr().out == expected


def test_get_json_is_a_list_or_one_object_as_in_kubectl(hub: HubAddress, capsys: Capture) -> None:
    assert get(hub, "clusters", "-o", "json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert (listed["apiVersion"], listed["kind"], len(listed["items"])) == ("v1", "List", 8)
    assert get(hub, "clusters", "apps-fra", "-o", "yaml") == 0
    alone = yaml.safe_load(capsys.readouterr().out)
    assert alone == listed["items"][0]
    assert alone["apiVersion"] == "cluster.open-cluster-management.io/v1"
    assert alone["kind"] == "ManagedCluster"
    assert alone["metadata"]["uid"]
    assert "managedFields" not in alone["metadata"]
    assert get(hub, "scores", "-n", "apps-fra", "-o", "json") == 0
    kinds = [load["kind"] for load in json.loads(capsys.readouterr().out)["items"]]
    assert kinds == ["AddOnPlacementScore", "AddOnPlacementScore", "ManagedClusterScore"]
    assert get(hub, "decisions", "training", "-n", "ns1", "-o", "json") == 0
    names = [load["metadata"]["name"] for load in json.loads(capsys.readouterr().out)["items"]]
    assert names == ["training-decision-1", "training-decision-10", "training-decision-2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["clusters", "apps-far"],
            "cluster apps-far not found; did you mean apps-fra or apps-iad or apps-sin?",
        ),
        (["clusters", "apps-fra", "nonsense"], "cluster nonsense not found; known: apps-fra, apps-iad, "),
        (["clusters", "apps-far", "-o", "yaml"], "cluster apps-far not found; did you mean apps-fra"),
        (["placements", "ns1/idlst"], "placement idlst not found in namespace ns1; did you mean idlest?"),
        (
            ["placements", "idlest"],
            "placement idlest not found in namespace default; the namespace has none; select another with -n",
        ),
        (["decisions", "trainin", "-A"], "placement with decisions trainin not found; did you mean training"),
        (["clusters", "--clusterset", "aps"], "cluster set aps not found; did you mean apps?"),
        (["scores", "--cluster", "apps-far"], "cluster apps-far not found; did you mean apps-fra"),
        (["providers", "--cluster", "apps-far"], "cluster apps-far not found; did you mean apps-fra"),
        (["clusters", "-l", "a in"], " is not a label selector: unable to parse requirement"),
    ],
)
def test_get_of_an_unknown_name_exits_2(
    hub: HubAddress, capsys: Capture, arguments: list[str], message: str
) -> None:
    """Known objects are not printed either."""
    assert get(hub, *arguments) == 2
    shown, complaint = capsys.readouterr()
    assert shown == ""
    assert message in complaint
    assert complaint.startswith("fairway: ")
    assert complaint.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["clusters", "c1", "-l", "a=b"], "give either names or -l, not both"),
        (["placements", "-A", "-n", "ns1"], "give either -n or -A, not both"),
        (["placements", "-n", "../x"], "'../x' is not a valid namespace name"),
        (["scores", "-n", "UPPER"], "'UPPER' is not a valid namespace name"),
        (["clusters", "--output-watch-events"], "--output-watch-events requires --watch"),
        (["clutsers"], "No such kind 'clutsers'. Did you mean 'clusters'?"),
        (
            ["xyz"],
            "No such kind 'xyz'; known: clusters, clustersets, placements, decisions, scores, providers, "
            "hostedclusterrequests.",
        ),
        (["clusters", "-o", "xml"], "'xml' is not one of 'table', 'wide', 'yaml', 'json'"),
    ],
)
def test_wrong_usage_of_get_exits_2(capsys: Capture, arguments: list[str], message: str) -> None:
    assert run(["get", *arguments]) == 2
    shown, complaint = capsys.readouterr()
    assert shown == ""
    assert message in complaint


def test_get_on_an_empty_hub_says_so(fairway_hub: HubAddress, capsys: Capture) -> None:
    for arguments, message in (
        (["clusters"], "No clusters.\n"),
        (["clustersets"], "No cluster sets.\n"),
        (["placements"], "No placements in namespace default.\n"),
        (["decisions", "-A"], "No decisions.\n"),
        (["scores", "-n", "default"], "No scores in namespace default.\n"),
    ):
        assert get(fairway_hub, *arguments) == 0
        assert capsys.readouterr() == ("", message)
        assert get(fairway_hub, *arguments, "-o", "json") == 0
        assert json.loads(capsys.readouterr().out) == {"apiVersion": "v1", "kind": "List", "items": []}


def test_get_escapes_control_characters_of_clusters(fairway_hub: HubAddress, capsys: Capture) -> None:
    evil = "\x1b[31mred\x1b[0m\r\nNAME\x9b2J"
    named = structs.replace(
        score("c1", {}),
        status=structs.replace(score("c1", {evil: 5}).status, validUntil=datetime(2020, 1, 1, tzinfo=UTC)),
    )
    fill(fairway_hub.kubeconfig, cluster("c1", version=evil, capacity={"cpu": "4"}), named)
    for arguments in (["clusters"], ["scores"]):
        assert get(fairway_hub, *arguments) == 0
        shown = capsys.readouterr().out
        assert len(shown.splitlines()) == 2
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)
        assert "\\x1b[31mred\\x1b[0m NAME\\x9b2J" in shown
    for output in ("json", "yaml"):
        assert get(fairway_hub, "cluster", "c1", "-o", output) == 0
        shown = capsys.readouterr().out
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", shown)
        parsed = json.loads(shown) if output == "json" else yaml.safe_load(shown)
        assert parsed["status"]["version"]["kubernetes"] == evil


def test_get_prints_objects_without_status_or_labels(fairway_hub: HubAddress, capsys: Capture) -> None:
    fill(
        fairway_hub.kubeconfig,
        ManagedCluster(metadata=ObjectMeta(name="bare")),
        AddOnPlacementScore(metadata=ObjectMeta(name="silent", namespace="bare")),
        structs.replace(decision("stray", [])),
        placement("new"),
    )
    assert get(fairway_hub, "clusters") == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["bare", "false", "-", "-", "-", "-", "-"]
    assert get(fairway_hub, "scores") == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:5] == ["bare", "silent", "-", "-", "-"]
    assert get(fairway_hub, "placements", "-A") == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["ns1", "new", "-", "-", "-"]
    assert get(fairway_hub, "decisions", "-A") == 0
    assert capsys.readouterr() == ("", "No decisions.\n")


def test_get_prints_invalid_quantities_unchanged(fairway_hub: HubAddress, capsys: Capture) -> None:
    fill(fairway_hub.kubeconfig, cluster("c1", capacity={"cpu": "4000m", "memory": "1024Mi"}))
    assert get(fairway_hub, "clusters") == 0
    assert capsys.readouterr().out.splitlines()[1].split()[4:7] == ["4", "1", "GiB"]


def loose() -> tuple[dict[str, Any], ...]:
    """CRDs without validation, as of a hub of another version."""
    changed = crds()
    for resource in changed:
        for version in resource["spec"]["versions"]:
            free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            version["schema"] = {"openAPIV3Schema": {**free, "properties": {"metadata": {"type": "object"}}}}
    return changed


def test_get_shows_unknown_fields_and_names_unreadable_ones(tmp_path: Path, capsys: Capture) -> None:
    async def make(client: Client) -> None:
        good = {"metadata": {"name": "good"}, "spec": {"hubAcceptsClient": True, "future": [{"a": None}]}}
        await client.create(MANAGED_CLUSTERS, good)
        for number in range(7):
            bad = {"metadata": {"name": f"bad-{number}"}, "spec": {"hubAcceptsClient": "maybe"}}
            path = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
            body = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": "ManagedCluster", **bad}
            await client.request("POST", path, body=body)

    with hub_in_thread(folder=tmp_path, definitions=loose()) as hub:
        act(hub.kubeconfig, make)
        assert get(hub, "clusters") == 0
        shown, complaints = capsys.readouterr()
        names = [line.split()[0] for line in shown.splitlines()]
        assert names == ["NAME", *(f"bad-{number}" for number in range(7)), "good"]
        lines = complaints.splitlines()
        assert lines[0] == (
            "fairway: ManagedCluster bad-0: cannot decode, ignored: "
            "spec.hubAcceptsClient: Expected `bool`, got `str`"
        )
        assert (len(lines), lines[-1]) == (6, "fairway: 2 more objects with fields that cannot be decoded")
        # What is printed as it came need not be understood.
        assert get(hub, "clusters", "-o", "json") == 0
        shown, complaints = capsys.readouterr()
        items = json.loads(shown)["items"]
        assert (len(items), complaints) == (8, "")
        assert items[-1]["spec"] == {"hubAcceptsClient": True, "future": [{"a": None}]}
        assert items[0]["spec"] == {"hubAcceptsClient": "maybe"}


def test_get_works_on_a_hub_without_managed_cluster_scores(tmp_path: Path, capsys: Capture) -> None:
    theirs = tuple(crd for crd in crds() if not crd["metadata"]["name"].startswith("managedclusterscores"))
    with hub_in_thread(folder=tmp_path, definitions=theirs) as hub:
        fill(hub.kubeconfig, score("c1", {"cpu": 5}))
        assert get(hub, "scores") == 0
        assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["c1", "default", "cpu", "5"]
        assert get(hub, "scores", "-o", "json") == 0
        assert len(json.loads(capsys.readouterr().out)["items"]) == 1


def test_get_reads_all_pages(fairway_hub: HubAddress, capsys: Capture) -> None:
    fill(
        fairway_hub.kubeconfig,
        *(cluster(f"c{number:04}", labels={"half": str(number % 2)}) for number in range(600)),
    )
    assert get(fairway_hub, "clusters") == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown] == ["NAME", *(f"c{number:04}" for number in range(600))]
    assert get(fairway_hub, "clusters", "-l", "half=1", "-o", "json") == 0
    assert len(json.loads(capsys.readouterr().out)["items"]) == 300
    assert get(fairway_hub, "clusters", "c0599x") == 2
    assert "did you mean c0599" in capsys.readouterr().err


def test_get_scores_marks_expired_scores(fairway_hub: HubAddress, capsys: Capture) -> None:
    now = datetime.now(UTC)
    fill(
        fairway_hub.kubeconfig,
        score("c1", {"cpu": 5}, name="old", valid_until=now - timedelta(seconds=2)),
        score("c1", {"cpu": 5}, name="young", valid_until=now + timedelta(hours=1)),
    )
    assert get(fairway_hub, "scores") == 0
    old, young = capsys.readouterr().out.splitlines()[1:]
    assert " EXPIRED  " in old
    assert "EXPIRED" not in young


def test_get_hostedclusterrequests_shows_host_or_reason(fairway_hub: HubAddress, capsys: Capture) -> None:
    body = {"spec": {"hostedCluster": {"spec": {"platform": {"type": "None"}}}}}
    placed = {"phase": "Bound", "hostingCluster": {"name": "host-1", "uid": "uid-1"}, "total": 90}
    waiting = condition("Scheduled", "False", "Unschedulable", "no hosting cluster has room")
    statuses = {"shop": placed, "web": {"phase": "Unschedulable", "conditions": [waiting]}}

    async def create(client: Client) -> None:
        for name, status in statuses.items():
            made = {**body, "metadata": {"name": name, "namespace": "default"}}
            await client.create(HOSTED_CLUSTER_REQUESTS, made, namespace="default")
            patch = {"status": status}
            await client.patch(
                HOSTED_CLUSTER_REQUESTS,
                name,
                patch,
                kind=Patch.MERGE,
                namespace="default",
                subresource="status",
            )

    act(fairway_hub.kubeconfig, create)
    assert get(fairway_hub, "hostedclusterrequests") == 0
    header, shop, web = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAME", "PHASE", "HOST", "SIZE", "SCORE", "REASON", "AGE", "MESSAGE"]
    assert shop.split()[:5] == ["shop", "Bound", "host-1", "small", "90"]
    assert web.split()[:6] == ["web", "Unschedulable", "-", "small", "-", "Unschedulable"]
    assert web.endswith("no hosting cluster has room")
