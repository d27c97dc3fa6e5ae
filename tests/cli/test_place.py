import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.cli.main import run
from fairway.simulation.synthetic import generate

EXAMPLE = Path(__file__).parents[2] / "examples" / "fleet"
NOW = "2026-01-03T00:00:00Z"
GROUP = "cluster.open-cluster-management.io"

TABLE = """\
PLACEMENT                 CLUSTERS  SATISFIED              CHOSEN (SCORE)
everywhere/roll-out       7         AllDecisionsScheduled  apps-fra (100), apps-iad (100), apps-sin (100), gpu-iad (100) … and 3 more
everywhere/three-regions  3 of 3    AllDecisionsScheduled  hosting-iad (100), hosting-fra (-7), hosting-sin (-7)
hypershift/least-hosted   1 of 1    AllDecisionsScheduled  hosting-fra (-12)
ns1/idlest                1 of 1    AllDecisionsScheduled  apps-fra (74)
ns1/modern-and-free       2         AllDecisionsScheduled  apps-iad (32), apps-fra (-32)
ns1/most-free-cpu         2 of 2    AllDecisionsScheduled  apps-iad (66), apps-fra (12)
ns1/placement             1 of 1    AllDecisionsScheduled  apps-iad (55)
ns1/training              1 of 1    AllDecisionsScheduled  gpu-iad (50)
"""  # noqa: E501 what is printed is that wide

Capture = pytest.CaptureFixture[str]


def cluster(name: str, **more: Any) -> dict[str, Any]:
    labels = {f"{GROUP}/clusterset": "default"}
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": name, "labels": labels},
    }
    return body | {"spec": {"hubAcceptsClient": True}, **more}


def placement(name: str, spec: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "Placement",
        "metadata": {"name": name, "namespace": "ns1", **meta},
        "spec": spec or {},
    }


BOUND: list[dict[str, Any]] = [
    {"apiVersion": f"{GROUP}/v1beta2", "kind": "ManagedClusterSet", "metadata": {"name": "default"}},
    {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": "ManagedClusterSetBinding",
        "metadata": {"name": "default", "namespace": "ns1"},
        "spec": {"clusterSet": "default"},
    },
]


def write(path: Path, objects: list[dict[str, Any]]) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return str(path)


def place(*arguments: str) -> int:
    return run(["place", "--now", NOW, *arguments])


def test_place_decides_the_example_fleet(capsys: Capture) -> None:
    assert place("-f", str(EXAMPLE)) == 0
    assert capsys.readouterr() == (TABLE, "")


def test_place_reasons_lists_every_cluster(capsys: Capture) -> None:
    assert place("-f", str(EXAMPLE), "--reasons", "--placement", "ns1/most-free-cpu") == 0
    assert capsys.readouterr().out == (
        "ns1/most-free-cpu: 2 of 2 clusters, AllDecisionsScheduled\n"
        "  CLUSTER   SCORE  WHY\n"
        "  apps-iad     66  Rank 1 of 3 with 66 points: AddOn/resource-usage-score/cpuAvailable 66\n"
        "  apps-fra     12  Rank 2 of 3 with 12 points: AddOn/resource-usage-score/cpuAvailable 12\n"
    )


def test_place_reasons_are_grouped_by_placement(capsys: Capture) -> None:
    assert place("-f", str(EXAMPLE), "--reasons") == 0
    headings = [part.split(":")[0] for part in capsys.readouterr().out.split("\n\n")]
    assert headings == [line.split()[0] for line in TABLE.splitlines()[1:]]


def test_place_selects_placements_by_name(capsys: Capture) -> None:
    assert place("-f", str(EXAMPLE), "--placement", "training", "--placement", "ns1/idlest") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["ns1/idlest", "ns1/training"]


def test_place_prints_kubernetes_objects(capsys: Capture) -> None:
    assert place("-f", str(EXAMPLE), "-o", "yaml", "--placement", "everywhere/roll-out") == 0
    text = capsys.readouterr().out
    document = yaml.safe_load(text)
    assert (document["apiVersion"], document["kind"]) == ("v1", "List")
    first, *decisions = document["items"]
    assert (first["kind"], first["metadata"]["name"]) == ("Placement", "roll-out")
    assert first["status"]["numberOfSelectedClusters"] == 7
    assert {condition["lastTransitionTime"] for condition in first["status"]["conditions"]} == {NOW}
    assert [decision["metadata"]["name"] for decision in decisions] == [
        f"roll-out-decision-{n}" for n in (1, 2, 3)
    ]
    assert all(decision["apiVersion"] == f"{GROUP}/v1beta1" for decision in decisions)
    # A Placement in a file has no uid, and an owner without one would be refused.
    assert all("ownerReferences" not in decision["metadata"] for decision in decisions)
    canary = decisions[0]["status"]["decisions"]
    assert canary == [
        {
            "clusterName": "apps-sin",
            "reason": "Rank 3 of 7 with 100 points: Balance 100, Steady 0",
            "score": 100,
        }
    ]
    assert place("-f", str(EXAMPLE), "-o", "json", "--placement", "everywhere/roll-out") == 0
    assert json.loads(capsys.readouterr().out) == document


def test_printed_decisions_are_valid_input_of_place(tmp_path: Path, capsys: Capture) -> None:
    assert place("-f", str(EXAMPLE), "-o", "yaml") == 0
    text = capsys.readouterr().out
    (tmp_path / "decided.yaml").write_text(text)
    clusters = [str(EXAMPLE / f"{name}.yaml") for name in ("clusters", "scores", "sets")]
    files = [part for file in (*clusters, str(tmp_path / "decided.yaml")) for part in ("-f", file)]
    assert place(*files, "-o", "json") == 0
    chosen = {
        item["metadata"]["name"]: [decision["clusterName"] for decision in item["status"]["decisions"]]
        for item in json.loads(capsys.readouterr().out)["items"]
        if item["kind"] == "PlacementDecision"
    }
    before = {
        item["metadata"]["name"]: [decision["clusterName"] for decision in item["status"]["decisions"]]
        for item in yaml.safe_load(text)["items"]
        if item["kind"] == "PlacementDecision"
    }
    assert chosen == before


def test_place_keeps_an_owner_uid(tmp_path: Path, capsys: Capture) -> None:
    file = write(tmp_path / "f.json", [*BOUND, cluster("c1"), placement("p1", uid="u1")])
    assert place("-f", file, "-o", "json") == 0
    decision = json.loads(capsys.readouterr().out)["items"][1]
    (owner,) = decision["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Placement", "p1", "u1")


def test_place_is_independent_of_input_order(tmp_path: Path, capsys: Capture) -> None:
    documents = list(generate(clusters=40, seed=5, placements=24))
    answers = set()
    for seed in range(3):
        random.Random(seed).shuffle(documents)
        assert place("-f", write(tmp_path / "f.json", documents), "-o", "json") == 0
        answers.add(capsys.readouterr().out)
    assert len(answers) == 1


def test_place_uses_decisions_of_earlier_placements(tmp_path: Path, capsys: Capture) -> None:
    objects = [*BOUND, cluster("c1"), cluster("c2")]
    objects += [placement(name, {"numberOfClusters": 1}) for name in ("b", "a")]
    assert place("-f", write(tmp_path / "f.json", objects)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["ns1/a", "1", "of", "1", "AllDecisionsScheduled", "c1", "(100)"]
    assert lines[2].split() == ["ns1/b", "1", "of", "1", "AllDecisionsScheduled", "c2", "(100)"]


def test_place_shortens_lists_unless_all_is_given(tmp_path: Path, capsys: Capture) -> None:
    file = write(tmp_path / "f.json", [*BOUND, *(cluster(f"c{n:02}") for n in range(15)), placement("p1")])
    assert place("-f", file) == 0
    assert capsys.readouterr().out.endswith("c03 (100) … and 11 more\n")
    assert place("-f", file, "--all") == 0
    assert capsys.readouterr().out.endswith("c14 (100)\n")
    assert place("-f", file, "--reasons") == 0
    assert capsys.readouterr().out.endswith("  … and 5 more (--all shows them)\n")


def test_place_errors_have_a_remedy(tmp_path: Path, capsys: Capture) -> None:
    objects = [
        *BOUND,
        cluster("c1"),
        placement("few", {"numberOfClusters": 2}),
        placement("odd", {"prioritizerPolicy": {"mode": "Odd"}}),
        placement("off", annotations={f"{GROUP}/experimental-scheduling-disable": "true"}),
    ]
    file = write(tmp_path / "f.json", objects)
    assert place("-f", file) == 0
    table, _, notes = capsys.readouterr().out.partition("\n\n")
    assert [line.split()[1:5] for line in table.splitlines()[1:]] == [
        ["1", "of", "2", "NotAllDecisionsScheduled"],
        ["0", "NoManagedClusterMatched", "-"],
        ["-", "skipped", "-"],
    ]
    assert notes == (
        "ns1/few: Unsatisfied: 1 cluster decisions unscheduled\n"
        "    remedy: see why clusters are rejected: fairway explain -f … placement ns1/few\n"
        "ns1/odd: Misconfigured: incorrect prioritizer policy mode: Odd\n"
        "    remedy: correct spec.prioritizerPolicy\n"
        "ns1/off: skipped: scheduling is disabled by annotation\n"
    )
    assert place("-f", file, "--reasons", "--placement", "off") == 0
    assert capsys.readouterr().out == "ns1/off: skipped, scheduling is disabled by annotation\n"


@pytest.mark.parametrize(("wanted", "code"), [("good", 0), ("few", 1), ("odd", 1), ("off", 0)])
def test_place_strict_exits_1_for_unsatisfied_placements(
    tmp_path: Path, capsys: Capture, wanted: str, code: int
) -> None:
    objects = [
        *BOUND,
        cluster("c1"),
        placement("good", {"numberOfClusters": 1}),
        placement("few", {"numberOfClusters": 2}),
        placement("odd", {"prioritizerPolicy": {"mode": "Odd"}}),
        placement("off", annotations={f"{GROUP}/experimental-scheduling-disable": "true"}),
    ]
    file = write(tmp_path / "f.json", objects)
    assert place("-f", file, "--placement", wanted) == 0
    assert place("-f", file, "--placement", wanted, "--strict") == code


def test_place_without_placement_exits_2(capsys: Capture) -> None:
    assert place("-f", str(EXAMPLE / "clusters.yaml")) == 2
    assert capsys.readouterr() == ("", "fairway: no Placement in the input; name a file with one with -f\n")


def test_place_of_an_unknown_name_exits_2(capsys: Capture) -> None:
    assert place("-f", str(EXAMPLE), "--placement", "ns1/trainning") == 2
    assert capsys.readouterr().err == (
        "fairway: placement ns1/trainning not found; did you mean ns1/training?\n"
    )


def test_place_now_decides_which_scores_are_expired(tmp_path: Path, capsys: Capture) -> None:
    taint = {"key": "t", "effect": "NoSelect", "timeAdded": "2026-01-03T00:00:00Z"}
    toleration = {"key": "t", "operator": "Exists", "tolerationSeconds": 60}
    objects = [
        *BOUND,
        cluster("c1", spec={"hubAcceptsClient": True, "taints": [taint]}),
        placement("p1", {"tolerations": [toleration]}),
    ]
    file = write(tmp_path / "f.json", objects)
    for now, count in (("2026-01-03T00:00:59Z", "1"), ("2026-01-03T00:01:00Z", "0")):
        assert run(["place", "-f", file, "--now", now]) == 0
        assert capsys.readouterr().out.splitlines()[1].split()[1] == count


def test_place_reasons_name_the_decision_group(capsys: Capture) -> None:
    assert place("-f", str(EXAMPLE), "--reasons", "--placement", "everywhere/roll-out") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "  CLUSTER      SCORE  GROUP     WHY"
    assert [line[22:30].rstrip() for line in lines[2:]] == ["1", "1", "0 canary", "1", "2", "2", "2"]


@pytest.mark.parametrize("verb", [["place"], ["explain", "placement", "ns/p"]])
def test_place_names_ignored_placements_of_other_apis(
    tmp_path: Path, capsys: Capture, verb: list[str]
) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "apiVersion: example.com/v1\nkind: Placement\nmetadata: {name: p}\n---\n"
        "apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {name: c1}\n"
    )
    assert run([*verb, "-f", str(file)]) == 2
    assert capsys.readouterr().err == (
        "fairway: no Placement in the input; name a file with one with -f; "
        "ignored objects of other APIs: Placement (1)\n"
    )
