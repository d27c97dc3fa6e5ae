"""Schedule recorded pods, and compare which plugin rejects which node, and every score."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from fairway.api.node import Node
from fairway.api.pod import Pod
from fairway.engine import cycle
from fairway.engine.outcome import Outcome
from fairway.engine.status import Status
from fairway.hosts import bitmap
from fairway.hosts.nodes import NodeFleet
from fairway.whatif.conformance.differences import Difference, differences
from fairway.whatif.conformance.recording import Result, Row, compared_result
from fairway.workloads.pods import default_profile, pod_workload
from fairway.workloads.pods.plugins.default_preemption import DefaultPreemption
from fairway.workloads.pods.plugins.node_ready import NodeReady
from kubewire.api.encoding import without_nulls

EXCLUDED: Final = "PreFilterExcluded"

_PROFILE: Final = default_profile(without=frozenset({NodeReady.name, DefaultPreemption.name}))
"""kube-scheduler has no NodeReady, and the recorded cycles end before PostFilter."""


def run(rows: Iterable[Row], /) -> Iterator[Result]:
    for row in rows:
        case, expected = row["case"], row["expected"]
        yield compared_result(str(case.get("name", "")), partial(_compare, case, expected))


def _compare(case: Row, expected: Row) -> Iterator[Difference]:
    return differences(expected, answer(case))


def answer(case: Row) -> dict[str, Any]:
    """Return the result of one case, in the form of the recording."""
    fleet = NodeFleet()
    fleet.load([_decode(document, Node) for document in case["nodes"]])
    for namespace in case.get("namespaces") or ():
        fleet.upsert_namespace(namespace["metadata"]["name"], namespace["metadata"].get("labels") or {})
    for document in case.get("pods") or ():
        fleet.upsert_pod(_decode(document, Pod))
    workload = pod_workload(_decode(case["pod"], Pod))
    outcome = cycle.run(fleet.snapshot(), workload, _PROFILE, now=0)
    result: dict[str, Any] = {"name": case["name"]}
    if outcome.status.rejects or outcome.status.aborts:
        return result | {"preFilter": _status(outcome.status)}
    result["filter"] = {
        outcome.snapshot.hosts.names[row]: _filtered(outcome, row)
        for row in bitmap.rows_of(outcome.snapshot.live).tolist()
    }
    if len(outcome.details.rows):
        result["scores"] = _scores(outcome)
    return result


def _filtered(outcome: Outcome, row: int) -> dict[str, Any]:
    if not bitmap.test(outcome.details.eligible, row):
        return {"code": EXCLUDED}
    rejection = cycle.rejection(outcome.context, outcome.plugins, row)
    return {"code": "Success"} if rejection is None else _status(rejection)


def _status(status: Status) -> dict[str, Any]:
    return {"code": status.code.value, "plugin": status.plugin, "reasons": list(status.reasons)}


def _scores(outcome: Outcome) -> dict[str, dict[str, int]]:
    details, names = outcome.details, outcome.snapshot.hosts.names
    scores_by_node = {
        names[row]: {"total": total}
        for row, total in zip(details.rows.tolist(), details.totals.tolist(), strict=True)
    }
    for scored in details.scored:
        if not scored.skipped:
            for row, score in zip(details.rows.tolist(), scored.scores.tolist(), strict=True):
                scores_by_node[names[row]][scored.plugin] = score * scored.weight
    return scores_by_node


def _decode(document: Any, kind: type[Any]) -> Any:
    return msgspec.convert(without_nulls(document), kind)
