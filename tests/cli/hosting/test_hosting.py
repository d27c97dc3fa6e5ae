"""`fairway hosting` with files: room, dry runs of requests, and plans of moves."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs

from fairway.api.hosted_request import HostingRejection
from fairway.cli.errors import BadInputError, NegativeAnswerError
from fairway.cli.hosting.request import _first_clusters
from fairway.cli.hosting.run import (
    FITS,
    NEEDS_HUB,
    NO_HOSTS,
    NO_REQUESTS,
    NOTHING_TO_APPROVE,
    RESOLVED,
    STUCK,
    WITHIN_POLICY,
    WITHIN_POLICY_AMONG,
    check_hash,
    violation_rows,
)
from fairway.cli.main import run
from fairway.workloads.hosting.planning.moves import FOREIGN
from fairway.workloads.hosting.planning.violations import Violation

EXAMPLE = Path(__file__).parents[3] / "examples" / "hosting"
NOW = ("--now", "2026-03-02T12:00:00Z")
Capture = pytest.CaptureFixture[str]

CAPACITY = """\
HOST    MODEL  HOSTED  RESERVED  SMALL  MEDIUM  LARGE  HEADROOM  LIMITED BY      PROBLEM
host-1  Count       4         0      1       1      1  20 %      hostedclusters  -
host-2  Count       2         0      3       3      3  60 %      hostedclusters  -
host-3  -           -         0      0       0      0  -         -               hosted-clusters-score expired 3600 seconds ago, so that its load is unknown
"""  # noqa: E501 what is printed is that wide


def hosting(*arguments: str, files: tuple[Path, ...] = (EXAMPLE,)) -> int:
    named = [word for file in files for word in ("-f", str(file))]
    return run(["hosting", *arguments, *NOW, *named])


def resident(name: str, *, on: int, namespace: str = "team-a", **spec: Any) -> dict[str, Any]:
    """A request with a place, whose hosted cluster does not exist yet."""
    return {
        "apiVersion": "placement.fairway.dev/v1alpha1",
        "kind": "HostedClusterRequest",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {"hostedCluster": {"spec": {"platform": {"type": "None"}}}, **spec},
        "status": {
            "phase": "Bound",
            "hostingCluster": {"name": f"host-{on}", "uid": f"00000000-0000-0000-0000-00000000000{on}"},
        },
    }


def write(folder: Path, *documents: dict[str, Any]) -> tuple[Path, Path]:
    file = folder / "residents.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
    return EXAMPLE / "hosts.yaml", file


def test_capacity_shows_room_and_what_limits_it(capsys: Capture) -> None:
    assert hosting("capacity") == 0
    assert capsys.readouterr().out == CAPACITY


def test_capacity_as_json_has_slots_by_size(capsys: Capture) -> None:
    assert hosting("capacity", "-o", "json") == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert first["slots"] == {"small": 1, "medium": 1, "large": 1}
    assert (first["headroomPercent"], first["limitedBy"]) == (20, "hostedclusters")


def shared_with_placement(folder: Path, *, debits: str) -> tuple[Path]:
    """The hosts, as a hub shows them, and a Placement that has just selected host-1."""
    documents = list(yaml.safe_load_all((EXAMPLE / "hosts.yaml").read_text(encoding="utf-8")))
    for document in documents:
        if document["kind"] == "AddOnPlacementScore":
            document["metadata"]["resourceVersion"] = "10"
        elif document["kind"] == "HostingPolicy":
            document["spec"]["placementNamespaces"] = ["clusters"]
    cluster = "cluster.open-cluster-management.io"
    annotations = {"fairway.dev/score-debits": debits} if debits else {}
    by_count = {
        "type": "AddOn",
        "addOn": {"resourceName": "hosted-clusters-score", "scoreName": "hostedClustersCount"},
    }
    ranking = {"mode": "Exact", "configurations": [{"scoreCoordinate": by_count, "weight": -1}]}
    documents.append(
        {
            "apiVersion": f"{cluster}/v1beta1",
            "kind": "Placement",
            "metadata": {"name": "web", "namespace": "clusters", "annotations": annotations},
            "spec": {"prioritizerPolicy": ranking},
        }
    )
    documents.append(
        {
            "apiVersion": f"{cluster}/v1beta1",
            "kind": "PlacementDecision",
            "metadata": {
                "name": "web-decision-1",
                "namespace": "clusters",
                "labels": {f"{cluster}/placement": "web"},
                "resourceVersion": "20",
                "creationTimestamp": "2026-03-02T11:59:00Z",
            },
            "status": {"decisions": [{"clusterName": "host-1", "reason": ""}]},
        }
    )
    file = folder / "hub.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return (file,)


def test_capacity_names_the_placements_that_reserve_room(tmp_path: Path, capsys: Capture) -> None:
    files = shared_with_placement(tmp_path, debits="hosted-clusters-score/hostedClustersCount=+1")
    assert hosting("capacity", files=files) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:5] == ["host-1", "Count", "4", "1", "0"]
    assert lines[4:] == ["host-1: 1 reserved by placement clusters/web"]
    assert hosting("capacity", "-o", "json", files=files) == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert (first["reserved"], first["placements"]) == (1, ["clusters/web"])


def test_capacity_includes_score_debits_of_the_profile(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "hub").mkdir()
    files = shared_with_placement(tmp_path / "hub", debits="")
    debits = {"hosted-clusters-score/hostedClustersCount": 1}
    configuration = {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "SchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "PrioritizerPolicy", "args": {"debits": debits}}]}],
    }
    file = tmp_path / "scheduler.yaml"
    file.write_text(yaml.safe_dump(configuration))
    assert hosting("capacity", files=files) == 0
    assert "reserved by" not in capsys.readouterr().out
    assert hosting("capacity", "--scheduler-config", str(file), files=files) == 0
    assert "host-1: 1 reserved by placement clusters/web" in capsys.readouterr().out


def test_place_shows_hosts_and_what_would_fit(capsys: Capture) -> None:
    assert hosting("place") == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["team-a/shop", "host-2"],
        ["team-a/search", "host-1"],
        ["team-b/billing", "-"],
    ]
    assert lines[4] == "team-b/billing: would fit with: spec.constraints without regions"


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_place_as_document_names_every_rejected_cluster(tmp_path: Path, capsys: Capture, output: str) -> None:
    names = [f"plain-{number}" for number in range(8)]
    kind = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster"}
    file = tmp_path / "clusters.yaml"
    file.write_text(yaml.safe_dump_all([{**kind, "metadata": {"name": name}} for name in names]))
    files = (EXAMPLE / "hosts.yaml", EXAMPLE / "requests.yaml", file)
    assert hosting("place", "-o", output, files=files) == 1
    for request in yaml.safe_load(capsys.readouterr().out):
        assert all(rejection["count"] == len(rejection["clusters"]) for rejection in request["rejections"])
        (plain,) = (rejection for rejection in request["rejections"] if names[0] in rejection["clusters"])
        assert plain["clusters"] == names


def test_place_without_requests_is_bad_input(capsys: Capture) -> None:
    assert hosting("place", files=(EXAMPLE / "hosts.yaml",)) == 2
    assert NO_REQUESTS in capsys.readouterr().err


def test_commands_without_hosting_clusters_are_bad_input(capsys: Capture) -> None:
    assert hosting("capacity", files=(EXAMPLE / "requests.yaml",)) == 2
    assert NO_HOSTS in capsys.readouterr().err


def test_drain_that_fits_lists_the_moves(tmp_path: Path, capsys: Capture) -> None:
    assert hosting("drain", "host-1", files=write(tmp_path, resident("a", on=1))) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[1].split() == ["team-a/a", "small", "host-1", "host-2", "0", "min"]
    assert FITS.format(count=1, freeze="0 min") in out


def test_drain_that_does_not_fit_exits_1_with_the_reason(tmp_path: Path, capsys: Capture) -> None:
    pinned = resident("a", on=1, constraints={"regions": ["eu-1"]})
    assert hosting("drain", "host-1", files=write(tmp_path, pinned)) == 1
    out = capsys.readouterr().out
    header, row, *_ = out.splitlines()
    assert header.split("  ")[-1] == "WHY IT STAYS"
    assert row.split("  ")[1] == "small"
    assert "its region is us-1" in row
    assert STUCK.format(count=1, host="host-1") in out


def test_drain_of_an_unknown_host_names_the_known_ones(capsys: Capture) -> None:
    assert hosting("drain", "nope") == 2
    assert "host-1, host-2, host-3" in capsys.readouterr().err


def test_rebalance_within_policy_has_nothing_to_move(capsys: Capture) -> None:
    assert hosting("rebalance") == 0
    assert capsys.readouterr().out == f"{WITHIN_POLICY}\n"


def test_rebalance_prints_violations_moves_and_hash(tmp_path: Path, capsys: Capture) -> None:
    files = write(tmp_path, resident("a", on=1), resident("b", on=1))
    assert hosting("rebalance", "-o", "json", files=files) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [violation["host"] for violation in plan["violations"]] == ["host-1"]
    assert [(move["from"], move["to"]) for move in plan["moves"]] == [("host-1", "host-2")]
    assert plan["remaining"] == []
    assert (plan["proof"]["result"], plan["proof"]["lowerBound"]) == ("Cheapest", 1)
    assert hosting("rebalance", files=files) == 0
    printed = capsys.readouterr().out
    assert f"fairway hosting rebalance --apply {plan['hash']}" in printed
    assert plan["proof"]["statement"] in printed


def test_violation_is_listed_once_with_what_the_plan_does_about_it(tmp_path: Path, capsys: Capture) -> None:
    movable = write(tmp_path, resident("a", on=1), resident("b", on=1))
    assert hosting("rebalance", files=movable) == 0
    out = capsys.readouterr().out
    assert [line.split()[-1] for line in out.splitlines() if line.startswith("host-1 ")] == [RESOLVED]
    here = {"regions": ["eu-1"]}
    stuck = write(tmp_path, resident("a", on=1, constraints=here), resident("b", on=1, constraints=here))
    assert hosting("rebalance", files=stuck) == 1
    out = capsys.readouterr().out
    assert sum(line.startswith("host-1") for line in out.splitlines()) == 1


def test_empty_plan_has_no_hash(capsys: Capture) -> None:
    assert hosting("rebalance", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["hash"] is None
    with pytest.raises(NegativeAnswerError, match=NOTHING_TO_APPROVE):
        check_hash(None, "3bdfe398de8c")


def test_hash_that_is_none_mistyped_or_outdated_is_told_apart() -> None:
    current = "3bdfe398de8c"
    check_hash(current, current)
    with pytest.raises(BadInputError, match="is not the hash of a plan"):
        check_hash(current, "3bdfe398")
    with pytest.raises(NegativeAnswerError, match=f"did you mean {current}"):
        check_hash(current, "3bdfe398de8d")
    with pytest.raises(NegativeAnswerError, match="mistyped, or the fleet has changed since"):
        check_hash(current, "0123456789ab")


def test_several_hosts_are_planned_together(tmp_path: Path, capsys: Capture) -> None:
    """host-1 is over by one, host-2 has one, host-3 is silent: each of them fits alone, and no two at once."""
    files = write(tmp_path, resident("a", on=1), resident("b", on=1), resident("c", on=2))
    assert hosting("drain", "host-1", "-o", "json", files=files) == 0
    assert hosting("drain", "host-1", "host-2", files=files) == 1
    out = capsys.readouterr().out
    assert STUCK.format(count=3, host="host-1 host-2") in out
    assert FOREIGN.format(host="host-2", count=2) in out
    assert hosting("rebalance", "host-2", files=files) == 0
    assert capsys.readouterr().out == f"{WITHIN_POLICY_AMONG.format(hosts='host-2')}\n"
    assert hosting("rebalance", "host-1", "-o", "json", files=files) == 0
    assert [move["from"] for move in json.loads(capsys.readouterr().out)["moves"]] == ["host-1"]
    for verb in ("drain", "rebalance", "recover", "lose", "adopt"):
        assert hosting(verb, "host-1", "nope", files=files) == 2
        assert "there is no hosting cluster 'nope'" in capsys.readouterr().err


def test_lose_answers_without_spare_hosts(tmp_path: Path, capsys: Capture) -> None:
    files = write(tmp_path, resident("a", on=2))
    assert hosting("lose", files=files) == 1
    rows = [line.split()[:4] for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == [["host-1", "4", "2", "2"], ["host-2", "3", "1", "2"], ["host-3", "unknown", "0", "0"]]
    assert hosting("lose", "host-2", "-o", "json", files=files) == 1
    (loss,) = json.loads(capsys.readouterr().out)
    assert (loss["hosted"], loss["stranded"], loss["withoutRequest"]) == (3, 2, {"hosted": 2, "stranded": 2})
    assert [(move["request"], move["to"]) for move in loss["moves"]] == [("team-a/a", "host-1")]


def test_rebalance_apply_needs_a_hub(capsys: Capture) -> None:
    assert hosting("rebalance", "--apply", "123") == 2
    assert NEEDS_HUB in capsys.readouterr().err


def test_clusters_that_a_status_leaves_out_are_counted() -> None:
    clusters = ("c1", "c2", "c3", "c4", "c5")
    rejection = HostingRejection(reason="full", plugin="Fit", count=17, clusters=clusters)
    assert _first_clusters(rejection) == "c1,c2,c3,c4,c5 and 12 more"
    assert _first_clusters(structs.replace(rejection, count=5)) == "c1,c2,c3,c4,c5"


def test_violation_that_moves_reduce_has_one_row() -> None:
    def over(host: str, message: str) -> Violation:
        return Violation(host=host, limit="slots", message=message, weight=1.0)

    before = (over("a", "3 too many"), over("b", "1 too many"), over("c", "2 too many"))
    after = (over("a", "1 too many"), over("c", "2 too many"), over("d", "1 too many"))
    assert [tuple(row.values()) for row in violation_rows(before, after)] == [
        ("a", "3 too many", "1 too many"),
        ("b", "1 too many", "resolved"),
        ("c", "2 too many", "remains"),
        ("d", "1 too many", "new"),
    ]
