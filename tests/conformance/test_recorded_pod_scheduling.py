"""Filters and scores of every recorded pod equal those of kube-scheduler.

``golden/pod-scheduling.jsonl.gz`` has 420 pods over one to seven nodes with pods, and what the plugins of
kube-scheduler (1.37, default arguments) answered: which plugin rejects which node with which code and reasons, and
every score.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairway.whatif.conformance import pod_scheduling
from fairway.whatif.conformance.recording import POD_SCHEDULING, open_recording

RECORDING = open_recording(str(Path(__file__).parents[1] / "golden" / "pod-scheduling.jsonl.gz"))


def test_pod_scheduling_matches_kube_scheduler() -> None:
    results = list(RECORDING.run())
    assert RECORDING.family == POD_SCHEDULING
    assert len(results) == len({result.name for result in results}) == 420
    assert [result for result in results if not result.passed] == []


def _rows() -> list[dict[str, Any]]:
    return [msgspec.json.decode(row) for row in RECORDING.rows]


@pytest.mark.parametrize(
    "plugin", ["TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity", "ImageLocality"]
)
def test_wrong_score_of_a_pod_is_a_difference(plugin: str) -> None:
    row = next(
        row
        for row in _rows()
        if any(plugin in scores for scores in row["expected"].get("scores", {}).values())
    )
    node, scores = next(iter(row["expected"]["scores"].items()))
    scores[plugin] += 1
    (result,) = pod_scheduling.run([row])
    assert [difference.path for difference in result.differences] == [f"scores.{node}.{plugin}"]


def test_wrong_reason_of_a_rejected_node_is_a_difference() -> None:
    row = next(
        row for row in _rows() if any("plugin" in result for result in row["expected"]["filter"].values())
    )
    node, answer = next(
        (name, result) for name, result in row["expected"]["filter"].items() if "plugin" in result
    )
    answer["reasons"][0] = "node(s) looked odd"
    (result,) = pod_scheduling.run([row])
    assert [difference.path for difference in result.differences] == [f"filter.{node}.reasons[0]"]


def test_rejection_of_the_pod_as_a_whole_is_reported_as_pre_filter() -> None:
    row = _rows()[0]
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("n0", "n1")]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    row["case"]["pod"]["spec"]["affinity"] = affinity
    assert pod_scheduling.answer(row["case"]) == {
        "name": row["case"]["name"],
        "preFilter": {
            "code": "UnschedulableAndUnresolvable",
            "plugin": "NodeAffinity",
            "reasons": ["pod affinity terms conflict"],
        },
    }
