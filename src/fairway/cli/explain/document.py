"""An explanation as a document, for -o yaml and json."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairway.engine.trace import HostTrace
    from fairway.whatif.explain import ClusterAnswer, Explanation


def document(found: "Explanation", *, recorded: list[str] | None = None) -> dict[str, Any]:
    """Return all fields that `--help` lists."""
    return {
        "placement": "/".join(found.placement),
        "wanted": found.wanted,
        "clusters": found.clusters,
        "satisfied": found.satisfied,
        "reason": found.reason,
        "message": found.message,
        "leftAlone": found.disabled_reason,
        "advice": [
            {"kind": each.kind, "message": each.message, "remedy": each.remedy} for each in found.advice
        ],
        "recorded": recorded,
        "chosen": [_host(each) for each in found.chosen],
        "passedOver": [{**_host(each), "reason": each.reason} for each in found.passed_over],
        "rejected": [
            {
                "plugin": each.plugin,
                "reason": each.reason,
                "count": len(each.clusters),
                "clusters": list(each.clusters),
            }
            for each in found.rejected
        ],
        "cluster": None if found.cluster is None else _cluster_document(found.cluster),
    }


def _host(host: "HostTrace") -> dict[str, Any]:
    return {
        "cluster": host.host,
        "rank": host.rank,
        "total": host.total,
        "contributions": [
            {
                "plugin": each.plugin,
                "score": each.score,
                "weight": each.weight,
                "points": each.points,
                "known": each.known,
                "note": each.note,
            }
            for each in host.contributions
        ],
    }


def _cluster_document(answer: "ClusterAnswer") -> dict[str, Any]:
    trace, what, comparison = answer.trace, answer.counterfactual, answer.comparison
    body = _host(trace)
    return {
        "name": body.pop("cluster"),
        **body,
        "selected": trace.selected,
        "rejectedBy": trace.rejected_by,
        "reason": trace.reason,
        "checks": [
            {"plugin": each.plugin, "passed": each.passed, "reason": each.reason} for each in answer.checks
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
            "edits": [each.document() for each in what.edits],
            "alternatives": [[each.document() for each in edits] for edits in what.alternatives],
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
