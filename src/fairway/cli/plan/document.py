"""A plan as a document, for YAML and JSON. All moves and clusters are in it."""

from typing import Any

from fairway.engine.trace import HostTrace
from fairway.whatif.fleet import FleetPlan, Move
from fairway.whatif.fleet.changes import Changed
from fairway.whatif.fleet.consequences import Consequence


def document(plan: FleetPlan) -> dict[str, Any]:
    return {
        "changes": [_changed(change) for change in plan.changes],
        "fleet": {"clusters": plan.clusters, "placements": plan.placements},
        "concerned": plan.concerned,
        "moves": [_move(move) for move in plan.moves],
        "blastRadius": {
            "placements": len(plan.moves),
            "namespaces": sorted(plan.namespaces_touched),
            "clusters": len(plan.clusters_touched),
            "gains": plan.gains,
        },
        "notDecided": [
            {"placement": "/".join(skipped.placement), "message": skipped.message} for skipped in plan.skipped
        ],
        "stranded": [_consequence(consequence) for consequence in plan.stranded],
    }


def _changed(change: Changed) -> dict[str, Any]:
    meta = change.after.metadata
    return {
        "kind": change.after.kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "change": change.description,
        "created": change.before is None,
    }


def _move(move: Move) -> dict[str, Any]:
    return {
        "placement": "/".join(move.placement),
        "before": None if move.before is None else list(move.before),
        "after": list(move.after),
        "added": list(move.added),
        "removed": list(move.removed),
        "reasons": [reason(trace) for trace in move.reasons],
        "wanted": move.wanted,
        "satisfied": move.satisfied,
        "status": move.status,
        "due": move.due,
        "consequences": [_consequence(consequence) for consequence in move.consequences],
    }


def reason(trace: HostTrace) -> dict[str, Any]:
    return {
        "cluster": trace.host,
        "selected": trace.selected,
        "rejectedBy": trace.rejected_by,
        "reason": trace.reason,
        "rank": trace.rank,
        "total": trace.total,
        "scores": [
            {"prioritizer": part.plugin, "score": part.score, "weight": part.weight, "known": part.known}
            for part in trace.contributions
        ],
    }


def _consequence(consequence: Consequence) -> dict[str, Any]:
    return {
        "kind": consequence.kind,
        "name": consequence.name,
        "what": consequence.what,
        "clusters": list(consequence.clusters),
    }
