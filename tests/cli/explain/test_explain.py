import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.cli.main import run

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "fleet")
NOW = "2026-01-03T00:00:00Z"
Capture = pytest.CaptureFixture[str]

HEAD = """\
ns1/most-free-cpu: 2 of 2 clusters, AllDecisionsScheduled: All cluster decisions scheduled
8 in the fleet, 3 passed every filter

Why these
  RANK  CLUSTER   TOTAL  AddOn/resource-usage-score/cpuAvailable
     1  apps-iad     66  66 × 1 = 66
     2  apps-fra     12  12 × 1 = 12

Why not the others
  1 cluster passed every filter but ranked lower
      apps-sin (rank 3, 9)
  4 clusters rejected by ClusterSets: is in none of the sets this namespace may use (apps)
      edge-store-7, hosting-fra, hosting-iad, hosting-sin
  1 cluster rejected by TaintToleration: has taint gpu=true:NoSelect, which the placement does not tolerate
      gpu-iad
"""

TURNED_AWAY = """
Why not gpu-iad
  ClusterSets passes
  Predicate passes
  TaintToleration rejects it: has taint gpu=true:NoSelect, which the placement does not tolerate
  MissingScore passes

What would make it win
  let placement ns1/most-free-cpu tolerate the taint gpu=true:NoSelect
  Verified: with this change it is selected; apps-fra would be dropped. No smaller change is enough.
  Or:
    remove the taint gpu=true:NoSelect from cluster gpu-iad
"""

RANKED_LOWER = """
Why not apps-sin
  rank 3 with 9 points: AddOn/resource-usage-score/cpuAvailable 9 × 1 = 9
  passed every filter, but 2 hosts ranked higher, and 2 are wanted
  3 points behind apps-fra, the last one selected:
    PRIORITIZER                              apps-sin   apps-fra     DIFFERENCE
    AddOn/resource-usage-score/cpuAvailable  9 × 1 = 9  12 × 1 = 12          -3

What would make it win
  raise score resource-usage-score/cpuAvailable of cluster apps-sin by 4 points, from 9 to 13
  Verified: with this change it is selected; apps-fra would be dropped. No smaller change is enough.
  Or:
    raise spec.numberOfClusters of placement ns1/most-free-cpu from 2 to 3
"""

CHOSEN = """
Why apps-iad
  rank 1 with 66 points: AddOn/resource-usage-score/cpuAvailable 66 × 1 = 66

How safe its place is
  It can lose 57 points before apps-sin replaces it.
"""


def explain(name: str, *arguments: str) -> int:
    return run(["explain", "-f", EXAMPLE, "placement", name, "--now", NOW, *arguments])


def test_explain_prints_selected_and_rejected_clusters(capsys: Capture) -> None:
    assert explain("ns1/most-free-cpu") == 0
    assert capsys.readouterr() == (HEAD, "")


@pytest.mark.parametrize(
    ("cluster", "expected"), [("gpu-iad", TURNED_AWAY), ("apps-sin", RANKED_LOWER), ("apps-iad", CHOSEN)]
)
def test_explain_cluster_prints_the_smallest_change(capsys: Capture, cluster: str, expected: str) -> None:
    """The requested cluster comes first."""
    assert explain("ns1/most-free-cpu", "--cluster", cluster) == 0
    summary, rest = HEAD.split("\n\n", 1)
    assert capsys.readouterr() == (f"{summary}\n{expected}\n{rest}", "")


def test_explain_numbers_several_edits(capsys: Capture) -> None:
    assert explain("hypershift/least-hosted", "--cluster", "hosting-sin") == 0
    lines = capsys.readouterr().out.split("What would make it win\n")[1].splitlines()
    claim = "full.hostedclustercount.hypershift.openshift.io"
    assert lines[:2] == [
        f"  1. change the claim {claim} of cluster hosting-sin from true to false",
        "  2. lower score hosted-clusters-score/hostedClustersCount of cluster hosting-sin by 69 points, "
        "from 80 to 11",
    ]


def test_explain_without_a_small_change_says_so(capsys: Capture) -> None:
    assert explain("ns1/modern-and-free", "--cluster", "apps-sin") == 0
    answer = capsys.readouterr().out.split("What would make it win\n")[1]
    assert answer.startswith("  No small change found: CEL expression 'semver(")
    assert "\n  Note: plugin Predicate gives no remedy; its result depends on " in answer
    assert "cluster field status/version/kubernetes" in answer


def test_explain_shortens_lists_unless_all_is_given(capsys: Capture) -> None:
    assert explain("hypershift/least-hosted") == 0
    assert "apps-fra, apps-iad, apps-sin, edge-store-7 … and 1 more\n" in capsys.readouterr().out
    assert explain("hypershift/least-hosted", "--all") == 0
    assert "apps-fra, apps-iad, apps-sin, edge-store-7, gpu-iad\n" in capsys.readouterr().out


def test_explain_of_spread_has_no_margin(capsys: Capture) -> None:
    assert explain("everywhere/three-regions", "--cluster", "hosting-fra") == 0
    assert "  The spread policy decides, so there is no margin in points.\n" in capsys.readouterr().out
    assert explain("everywhere/roll-out", "--cluster", "apps-fra") == 0
    assert "  No other cluster competes for its place.\n" in capsys.readouterr().out


def test_explain_decides_earlier_placements_first(capsys: Capture) -> None:
    def totals(*arguments: str) -> list[int]:
        assert explain("ns1/training", "-o", "json", *arguments) == 0
        return [load["total"] for load in json.loads(capsys.readouterr().out)["chosen"]]

    assert totals() == [50]
    assert totals("--alone") == [100]


def test_explain_json_has_all_fields(capsys: Capture) -> None:
    assert explain("ns1/most-free-cpu", "--cluster", "apps-sin", "-o", "json") == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert sorted(document) == [
        "advice",
        "chosen",
        "cluster",
        "clusters",
        "leftAlone",
        "message",
        "passedOver",
        "placement",
        "queue",
        "reason",
        "recorded",
        "recordedAt",
        "recordedScores",
        "rejected",
        "satisfied",
        "wanted",
    ]
    assert document["chosen"][0] == {
        "cluster": "apps-iad",
        "rank": 1,
        "total": 66,
        "contributions": [
            {
                "plugin": "AddOn/resource-usage-score/cpuAvailable",
                "score": 66,
                "weight": 1,
                "points": 66,
                "known": True,
                "note": "",
            }
        ],
    }
    assert [(rejection["plugin"], rejection["count"]) for rejection in document["rejected"]] == [
        ("ClusterSets", 4),
        ("TaintToleration", 1),
    ]
    cluster = document["cluster"]
    assert (cluster["name"], cluster["rank"], cluster["selected"]) == ("apps-sin", 3, False)
    assert (cluster["comparison"]["with"], cluster["comparison"]["gap"]) == ("apps-fra", 3)
    what = cluster["counterfactual"]
    assert what["state"] == "Found"
    assert what["edits"] == [
        {
            "kind": "PublishScore",
            "description": "raise score resource-usage-score/cpuAvailable of cluster apps-sin by 4 points, "
            "from 9 to 13",
            "cluster": "apps-sin",
            "resource": "resource-usage-score",
            "score": "cpuAvailable",
            "base": 9,
            "value": 13,
            "missing": False,
            "ranOut": "",
            "weighed": ["cpuAvailable"],
            "silenced": False,
        }
    ]
    assert [edit["kind"] for edit in what["alternatives"][0]] == ["WantMore"]
    assert what["displaced"] == ["apps-fra"]
    assert explain("ns1/most-free-cpu", "--cluster", "apps-sin", "-o", "yaml") == 0
    assert yaml.safe_load(capsys.readouterr().out) == document


def test_explain_of_an_empty_decision(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "alone.yaml"
    file.write_text(
        "apiVersion: cluster.open-cluster-management.io/v1beta1\n"
        "kind: Placement\n"
        "metadata: {name: web, namespace: ns1, "
        "annotations: {cluster.open-cluster-management.io/experimental-scheduling-disable: 'true'}}\n"
        "spec: {}\n"
    )
    assert run(["explain", "-f", str(file), "placement", "web", "--now", NOW]) == 0
    assert capsys.readouterr().out == (
        "ns1/web: skipped, scheduling is disabled by annotation. Without that:\n"
        "ns1/web: 0 clusters, NoManagedClusterSetBindings: "
        "No valid ManagedClusterSetBindings found in placement namespace\n"
        "0 in the fleet, 0 passed every filter\n"
        "Unsatisfied: No valid ManagedClusterSetBindings found in placement namespace\n"
        "    remedy: create a ManagedClusterSetBinding named like the set in namespace ns1; "
        "there is no set yet\n"
        "\nWhy these\n  No cluster was selected.\n\nWhy not the others\n  All clusters were selected.\n"
    )


def test_explain_of_misconfigured_and_zero_cluster_placements(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(
        """
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: odd, namespace: ns1}
spec: {tolerations: [{key: gpu, operator: Exists, value: a}]}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: none, namespace: ns1}
spec: {numberOfClusters: 0}
"""
    )
    assert explain("ns1/odd", "-f", str(file), "--cluster", "apps-iad") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "Misconfigured: If the operator is Exists, the value should be empty."
    assert lines[3] == "    remedy: correct spec.tolerations"
    nothing_yet = (
        "  Nothing yet: If the operator is Exists, the value should be empty.; correct spec.tolerations"
    )
    assert nothing_yet in lines
    assert explain("ns1/none", "-f", str(file), "--cluster", "apps-iad") == 0
    text = capsys.readouterr().out
    assert "  3 clusters passed every filter but the placement wants none\n" in text
    assert "  raise spec.numberOfClusters of placement ns1/none from 0 to 2\n" in text


def test_explain_of_an_unsatisfied_placement_has_no_remedy(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "many.yaml"
    file.write_text(
        "apiVersion: cluster.open-cluster-management.io/v1beta1\n"
        "kind: Placement\nmetadata: {name: many, namespace: ns1}\nspec: {numberOfClusters: 9}\n"
    )
    assert explain("ns1/many", "-f", str(file)) == 0
    text = capsys.readouterr().out
    assert "Unsatisfied: 6 cluster decisions unscheduled\n" in text
    assert "remedy" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ns1/idlst",), "placement ns1/idlst not found; did you mean ns1/idlest?"),
        (("ns1/idlest", "--cluster", "gpu-aid"), "cluster gpu-aid not found; did you mean gpu-iad?"),
    ],
)
def test_explain_of_unknown_names_exits_2(capsys: Capture, arguments: tuple[str, ...], message: str) -> None:
    assert explain(*arguments) == 2
    assert capsys.readouterr() == ("", f"fairway: {message}\n")


def test_explain_without_placement_exits_2(capsys: Capture) -> None:
    assert run(["explain", "-f", f"{EXAMPLE}/clusters.yaml", "placement", "web"]) == 2
    assert capsys.readouterr().err == "fairway: no Placement in the input; name a file with one with -f\n"


def test_explain_of_another_kind_exits_2(capsys: Capture) -> None:
    assert run(["explain", "-f", EXAMPLE, "pod", "web"]) == 2
    assert "placement" in capsys.readouterr().err


def test_explain_amounts_are_verified(capsys: Capture) -> None:
    words = ["explain", "-f", EXAMPLE, "placement", "everywhere/three-regions", "--cluster", "apps-sin"]
    assert run([*words, "--now", NOW]) == 0
    answer = capsys.readouterr().out
    assert (
        "  change allocatable cpu of cluster apps-sin from 30 to 184\n"
        "  Verified: with this change it is selected; hosting-sin would be dropped. With 1 cpu less, it is not.\n"
    ) in answer
    assert run([*words, "--now", NOW, "-o", "json"]) == 0
    (edit,) = json.loads(capsys.readouterr().out)["cluster"]["counterfactual"]["edits"]
    assert (edit["kind"], edit["old"], edit["value"]) == ("Allocate", "30", "184")


@pytest.mark.parametrize(
    "words",
    [
        "placements ns1/idlest",
        "placement/idlest",
        "Placement/ns1/idlest",
        "placements.cluster.open-cluster-management.io idlest",
        "placements.v1beta1.cluster.open-cluster-management.io/idlest -n ns1",
        "PLACEMENT idlest --namespace ns1",
    ],
)
def test_kubectl_spellings_of_a_placement_are_accepted(capsys: Capture, words: str) -> None:
    assert run(["explain", "-f", EXAMPLE, *words.split(), "--now", NOW]) == 0
    assert capsys.readouterr().out.startswith("ns1/idlest: ")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("ns1/idlest", "cannot explain kind 'ns1/idlest'; write: fairway explain placement ns1/idlest"),
        ("cluster apps-sin", "cannot explain kind 'cluster'; write: fairway explain placement NS/NAME"),
        ("placement", "no placement named; write: fairway explain placement NS/NAME"),
        ("placement/idlest web", "'placement/idlest' and 'web' both name an object; give one of them"),
        (
            "placement ns1/idlest -n ns2",
            "'ns1/idlest' names namespace 'ns1', but -n is 'ns2'; give one of them",
        ),
        (
            "hostedclusterrequest ns1/shop --all",
            "-f, --all: for placements only; a HostedClusterRequest takes",
        ),
        ("hostedclusterrequest/shop web", "'hostedclusterrequest/shop' and 'web' both name an object"),
        (
            "hostedclusterrequests.example.com ns1/shop",
            "cannot explain kind 'hostedclusterrequests.example.com'",
        ),
    ],
)
def test_wrong_kind_or_name_gets_the_command_to_write(capsys: Capture, words: str, complaint: str) -> None:
    assert run(["explain", "-f", EXAMPLE, *words.split()]) == 2
    assert complaint in capsys.readouterr().err


def test_score_that_only_has_to_be_published_claims_no_least_value(tmp_path: Path, capsys: Capture) -> None:
    placement = tmp_path / "placement.yaml"
    placement.write_text(
        """\
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata:
  name: by-mem
  namespace: ns1
  annotations: {fairway.dev/missing-score: exclude}
spec:
  numberOfClusters: 1
  tolerations: [{key: gpu, operator: Exists}]
  prioritizerPolicy:
    mode: Exact
    configurations:
    - weight: 1
      scoreCoordinate: {type: AddOn, addOn: {resourceName: nobody-publishes, scoreName: x}}
"""
    )
    words = [
        "explain",
        "-f",
        EXAMPLE,
        "-f",
        str(placement),
        "placement",
        "ns1/by-mem",
        "--cluster",
        "gpu-iad",
    ]
    assert run([*words, "--now", NOW]) == 0
    assert (
        "  publish score nobody-publishes/x for cluster gpu-iad, which has none, as 0\n"
        "  Verified: with this change it is selected. Without it, it is not.\n"
    ) in capsys.readouterr().out
