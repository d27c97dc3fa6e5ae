"""Schedule recorded pods, and compare which plugin rejects which node, and every score."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from fairway.api.kinds import without_nulls
from fairway.api.node import Node
from fairway.api.pod import Pod
from fairway.engine import cycle
from fairway.engine.outcome import Outcome
from fairway.engine.status import Status
from fairway.fleet import bitmap
from fairway.nodes import NodeFleet
from fairway.plugins.pods import default_profile, pod_workload
from fairway.plugins.pods.default_preemption import DefaultPreemption
from fairway.plugins.pods.node_ready import NodeReady
from fairway.whatif.conformance.differences import Difference, differences
from fairway.whatif.conformance.recording import Result, Row, compared_result

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
    fleet.load([_decode(each, Node) for each in case["nodes"]])
    for namespace in case.get("namespaces") or ():
        fleet.upsert_namespace(namespace["metadata"]["name"], namespace["metadata"].get("labels") or {})
    for each in case.get("pods") or ():
        fleet.upsert_pod(_decode(each, Pod))
    workload = pod_workload(_decode(case["pod"], Pod))
    outcome = cycle.run(fleet.snapshot(), workload, _PROFILE, now=0)
    found: dict[str, Any] = {"name": case["name"]}
    if outcome.status.rejects or outcome.status.aborts:
        return found | {"preFilter": _status(outcome.status)}
    found["filter"] = {
        outcome.snapshot.hosts.names[row]: _filtered(outcome, row)
        for row in bitmap.rows_of(outcome.snapshot.live).tolist()
    }
    if len(outcome.details.rows):
        found["scores"] = _scores(outcome)
    return found


def _filtered(outcome: Outcome, row: int) -> dict[str, Any]:
    if not bitmap.test(outcome.details.eligible, row):
        return {"code": EXCLUDED}
    rejection = cycle.rejection(outcome.context, outcome.plugins, row)
    return {"code": "Success"} if rejection is None else _status(rejection)


def _status(status: Status) -> dict[str, Any]:
    return {"code": status.code.value, "plugin": status.plugin, "reasons": list(status.reasons)}


def _scores(outcome: Outcome) -> dict[str, dict[str, int]]:
    details, names = outcome.details, outcome.snapshot.hosts.names
    found = {
        names[row]: {"total": total}
        for row, total in zip(details.rows.tolist(), details.totals.tolist(), strict=True)
    }
    for scored in details.scored:
        if not scored.skipped:
            for row, score in zip(details.rows.tolist(), scored.scores.tolist(), strict=True):
                found[names[row]][scored.plugin] = score * scored.weight
    return found


def _decode(given: Any, kind: type[Any]) -> Any:
    return msgspec.convert(without_nulls(given), kind)
