"""``managedCluster.scores("name")``: the published scores of a cluster, from a `ScoreSource` of the caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kubecel.containers import LISTS, MAPS, find, length
from kubecel.cost import CREATE_LIST, CREATE_MAP, SELECT
from kubecel.declarations import Function, Library, Overload
from kubecel.errors import NO_SUCH_OVERLOAD, Abort, Failure
from kubecel.types import DYN, STRING, list_of

NO_NAME = "failed to get cluster name"
NOT_FOUND = 'failed to get score: addonplacementscore.cluster.open-cluster-management.io "{}" not found'
NOT_A_CLUSTER = "internal error: the receiver of scores() is not a cluster"


class Withheld(Exception):
    """Raised by a source for scores that exist but are hidden; the message has the reason."""


class ScoreSource(Protocol):
    """The ``context`` of expressions that read scores. None means that the object does not exist."""

    def scores(self, cluster: str, name: str, /) -> Sequence[tuple[str, int]] | None: ...


def scores(context: Any, cluster: object, name: object) -> list[object]:
    if not isinstance(name, str):
        raise Failure(NO_SUCH_OVERLOAD)
    if context is None:
        raise Failure("scoreLister is nil")
    # The reference aborts the evaluation if these types are wrong.
    if not isinstance(cluster, MAPS):
        raise Abort(NOT_A_CLUSTER)
    metadata, present = find(cluster, "metadata")
    if not present:
        raise Failure("failed to get cluster metadata")
    if not isinstance(metadata, MAPS):
        raise Abort(NOT_A_CLUSTER)
    cluster_name, present = find(metadata, "name")
    if not present:
        raise Failure(NO_NAME)
    if not isinstance(cluster_name, str):
        raise Abort(NOT_A_CLUSTER)
    try:
        listed: Sequence[tuple[str, int]] | None = context.scores(cluster_name, name)
    except Withheld as reason:
        raise Failure(f"failed to get score: {reason}") from None
    if listed is None:
        raise Failure(NOT_FOUND.format(name))
    return [{"name": score, "value": value} for score, value in listed]


def _cost(_args: tuple[Any, ...], result: object) -> int:
    count = length(result) if isinstance(result, LISTS) else 0
    return CREATE_LIST + count * (SELECT + CREATE_MAP)


SCORES = Library(
    "open-cluster-management.managedcluster",
    (
        Function(
            "scores", (Overload("cluster_scores", (DYN, STRING), list_of(DYN), member=True),), cost=_cost
        ),
    ),
)
