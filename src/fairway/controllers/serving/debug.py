"""The document of OCM's debug endpoint: clusters that passed each filter, and scores of each prioritizer.

Field names and order are OCM's, because its console reads them.
"""

from typing import Any, Final, Protocol

import numpy as np

from fairway.api.placement import Placement
from fairway.engine.outcome import Outcome, Scored
from kubewire.api.encoding import encode

NO_STATUS: Final = {"numberOfSelectedClusters": 0, "decisionGroups": None, "conditions": None}


class Inspector(Protocol):
    """Finds placements and schedules them without writing."""

    def find(self, namespace: str, name: str) -> Placement | None: ...

    async def inspect(self, placement: Placement) -> Outcome:
        """Schedule the placement now. Without a namespace, bindings and decisions of all namespaces count."""

    def describe_queue(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return where the placement is in the queue, and what would wake it; None if it is unknown."""


def document(placement: Placement, outcome: Outcome) -> dict[str, Any]:
    """Describe an outcome. Of an aborted cycle, only its results so far; empty parts are omitted."""
    details = outcome.details
    names = outcome.snapshot.hosts.names
    # Ranks of rows are in the order of their names.
    order = np.lexsort((outcome.snapshot.hosts.rank[details.rows], -details.totals))
    best = [names[row] for row in details.rows[order].tolist()]
    totals = details.totals[order].tolist()

    stages: list[dict[str, Any]] = []
    passed: list[str] = []
    for stage in details.stages:
        passed.append(stage.plugin)
        stages.append({"name": ",".join(passed), "filteredClusters": outcome.names(stage.survivors)})
    if best:
        stages[-1]["filteredClusters"] = best  # as OCM sorts it

    parts: dict[str, Any] = {
        "filteredPipelineResults": stages,
        "prioritizeResults": [_prioritized(outcome, prioritizer) for prioritizer in details.scored],
        "aggregatedScores": [
            {"clusterName": name, "score": total} for name, total in zip(best, totals, strict=True)
        ],
    }
    return {"placement": _shown(placement)} | {name: part for name, part in parts.items() if part}


def _prioritized(outcome: Outcome, scored: Scored) -> dict[str, Any]:
    names = outcome.snapshot.hosts.names
    rows, scores = outcome.details.rows, scored.scores
    if scored.present is not None:
        has_score = scored.present | (scores != 0)  # a missing score may count, by annotation
        rows, scores = rows[has_score], scores[has_score]
    by_name = {names[row]: score for row, score in zip(rows.tolist(), scores.tolist(), strict=True)}
    return {"name": scored.plugin, "weight": scored.weight, "scores": by_name}


def _shown(placement: Placement) -> dict[str, Any]:
    meta = placement.metadata
    fields = {
        "name": meta.name,
        "namespace": meta.namespace,
        "labels": dict(meta.labels),
        "annotations": dict(meta.annotations),
    }
    return {
        "metadata": {name: value for name, value in fields.items() if value},
        "spec": encode(placement.spec),
        "status": dict(NO_STATUS),
    }
