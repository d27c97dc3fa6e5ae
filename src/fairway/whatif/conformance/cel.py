"""Run recorded CEL expressions over the recorded clusters.

What must match: whether the expression compiles, the position of the first compile error, the result type, and
for every cluster the value or the presence of an error, and the cost. Error messages need not
match. Where the cost depends on the random iteration order of a map in the reference, the cost of any order
matches.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from fairway.api.cluster import ManagedCluster, cluster_as_json
from fairway.api.kinds import decode
from fairway.whatif.conformance.differences import Difference, same, show
from fairway.whatif.conformance.recording import Result, Row, compared_result
from kubecel import CLUSTER_VARIABLE, CompileError, Program, ScoreSource, cluster_environment

_POSITION: Final = re.compile(r"<input>:-?\d+:-?\d+:")


class _Scores:
    """The recorded AddOnPlacementScores, for `managedCluster.scores("name")`."""

    def __init__(self, documents: Iterable[Row]) -> None:
        self._scores: dict[tuple[str, str], list[tuple[str, int]]] = {}
        for document in documents:
            metadata = document["metadata"]
            items = [(item["name"], item["value"]) for item in document["status"]["scores"]]
            self._scores[metadata["namespace"], metadata["name"]] = items

    def scores(self, cluster: str, name: str, /) -> Sequence[tuple[str, int]] | None:
        return self._scores.get((cluster, name))


def run(rows: Iterable[Row], /) -> Iterator[Result]:
    iterator = iter(rows)
    fleet = next(iterator)
    clusters: list[tuple[str, Mapping[str, Any]]] = []
    for document in fleet["clusters"]:
        cluster = decode(document)
        if isinstance(cluster, ManagedCluster):
            clusters.append((cluster.metadata.name, {CLUSTER_VARIABLE: cluster_as_json(cluster)}))
    scores = _Scores(fleet["scores"])
    for row in iterator:
        yield compared_result(row["expr"], partial(_compare, row, clusters, scores))


def _compare(
    row: Row, clusters: Sequence[tuple[str, Mapping[str, Any]]], scores: ScoreSource
) -> Iterator[Difference]:
    try:
        program = cluster_environment().compile(row["expr"])
    except CompileError as error:
        yield from _compare_refusal(row, str(error))
        return
    if row["compile"] != "ok":
        yield Difference("compile", show(row["message"]), show("ok"))
        return
    if program.result_type != row["type"]:
        yield Difference("type", show(row["type"]), show(program.result_type))
    for (name, variables), expected in zip(clusters, row["results"], strict=True):
        yield from _compare_outcome(program, variables, scores, expected, f"results[{name}]")


def _compare_refusal(row: Row, message: str) -> Iterator[Difference]:
    if row["compile"] == "ok":
        yield Difference("compile", show("ok"), show(message))
        return
    wanted, got = _POSITION.search(row["message"]), _POSITION.search(message)
    if (wanted and wanted[0]) != (got and got[0]):
        yield Difference("message", show(row["message"]), show(message))


def _compare_outcome(
    program: Program, variables: Mapping[str, Any], scores: ScoreSource, expected: Row, path: str
) -> Iterator[Difference]:
    outcome = program.evaluate(variables, context=scores)
    if "error" in expected:
        if outcome.error is None:
            yield Difference(path, f"error: {expected['error']}", show(outcome.value))
    elif outcome.error is not None:
        yield Difference(path, show(expected["value"]), f"error: {outcome.error}")
    elif expected.get("opaque"):
        # Only the text of such a value was recorded, in the reference's notation, so the existence of a value
        # is sufficient.
        pass
    elif not same(expected["value"], outcome.value):
        yield Difference(f"{path}.value", show(expected["value"]), show(outcome.value))
    wanted = expected["cost"]
    if wanted in (None, outcome.cost):
        return
    if wanted not in program.possible_costs(variables, context=scores):
        yield Difference(f"{path}.cost", show(wanted), show(outcome.cost))
