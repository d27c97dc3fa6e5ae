"""An explanation as a document, for -o yaml and json."""

from typing import Any

from fairway.cli.client.world import Recorded
from fairway.engine.trace import HostTrace
from fairway.whatif.explain import ClusterAnswer, Explanation
from kubewire.api.meta import format_time


def document(explanation: Explanation, *, recorded: Recorded | None = None) -> dict[str, Any]:
    """Return all fields that `--help` lists."""
    return {
        "placement": "/".join(explanation.placement),
        "wanted": explanation.wanted,
        "clusters": explanation.clusters,
        "satisfied": explanation.satisfied,
        "reason": explanation.reason,
        "message": explanation.message,
        "leftAlone": explanation.disabled_reason,
        "advice": [
            {"kind": advice.kind, "message": advice.message, "remedy": advice.remedy}
            for advice in explanation.advice
        ],
        "recorded": None if recorded is None else list(recorded.clusters),
        "recordedScores": None if recorded is None else dict(recorded.scores),
        "recordedAt": None if recorded is None or recorded.at is None else format_time(recorded.at),
        "chosen": [_host(host) for host in explanation.chosen],
        "passedOver": [{**_host(host), "reason": host.reason} for host in explanation.passed_over],
        "rejected": [
            {
                "plugin": group.plugin,
                "reason": group.reason,
                "count": len(group.clusters),
                "clusters": list(group.clusters),
            }
            for group in explanation.rejected
        ],
        "cluster": None if explanation.cluster is None else _cluster_document(explanation.cluster),
    }


def _host(host: HostTrace) -> dict[str, Any]:
    return {
        "cluster": host.host,
        "rank": host.rank,
        "total": host.total,
        "contributions": [
            {
                "plugin": contribution.plugin,
                "score": contribution.score,
                "weight": contribution.weight,
                "points": contribution.points,
                "known": contribution.known,
                "note": contribution.note,
            }
            for contribution in host.contributions
        ],
    }


def _cluster_document(answer: ClusterAnswer) -> dict[str, Any]:
    trace, what, comparison = answer.trace, answer.counterfactual, answer.comparison
    body = _host(trace)
    return {
        "name": body.pop("cluster"),
        **body,
        "selected": trace.selected,
        "rejectedBy": trace.rejected_by,
        "reason": trace.reason,
        "checks": [
            {"plugin": check.plugin, "passed": check.passed, "reason": check.reason}
            for check in answer.checks
        ],
        "comparison": None
        if comparison is None
        else {
            "with": comparison.other.host,
            "gap": comparison.gap,
            "contributions": _host(comparison.other)["contributions"],
        },
        "counterfactual": {
            "state": what.state.value,
            "edits": [edit.document() for edit in what.edits],
            "alternatives": [[edit.document() for edit in edits] for edits in what.alternatives],
            "displaced": list(what.displaced),
            "obstacle": what.obstacle,
            "tried": list(what.tried),
            "notes": list(what.notes),
            "runs": what.runs,
            "margin": None
            if what.margin is None
            else {"points": what.margin.points, "runnerUp": what.margin.runner_up},
        },
    }
