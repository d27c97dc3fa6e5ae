"""The decision about one request, in words: the selected host with its scores, or why there is none."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairway.api.hosted_request import HostingRejection, HostingScore
from fairway.engine import ranking
from fairway.engine.cycle import rejection
from fairway.engine.outcome import Outcome
from fairway.engine.status import Code
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts import bitmap
from fairway.hosts.clusters import clusters_of
from fairway.workloads.hosting.fleet.facts import host_key
from fairway.workloads.hosting.plugins.hosting_claim import NAME as HOSTING_CLUSTER
from fairway.workloads.hosting.plugins.hosting_claim import NOT_HOSTING, hosting_rows
from fairway.workloads.hosting.plugins.largest_host import NAME as LARGEST_HOST
from fairway.workloads.hosting.plugins.spare_hosts import NAME as SPARE_HOSTS
from fairway.workloads.hosting.plugins.spare_hosts import SpareHosts
from fairway.workloads.hosting.plugins.tenant_quota import NAME as TENANT_QUOTA
from fairway.workloads.hosting.requests.conditions import (
    DEMAND_TOO_LARGE,
    MISCONFIGURED,
    QUOTA_EXCEEDED,
    UNSCHEDULABLE,
)

CLUSTERS_SHOWN: Final = 5
MOST_REJECTIONS: Final = 16
LONGEST_REASON: Final = 1000
NO_HOSTS: Final = "no hosting cluster qualifies: the hub has no ManagedCluster"
NONE_QUALIFIES: Final = "no hosting cluster qualifies ({examined} examined): {reasons}"
REASONS_SHOWN: Final = 3
OF_CLUSTERS: Final = "{count} {reason}"
_REASONS: Final = {LARGEST_HOST: DEMAND_TOO_LARGE, TENANT_QUOTA: QUOTA_EXCEEDED}
"""By PreFilter plugin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    key: WorkloadKey
    host: HostKey | None
    """None if no host qualifies."""
    total: int | None = None
    scores: tuple[HostingScore, ...] = ()
    rejections: tuple[HostingRejection, ...] = ()
    """Most frequent first; clusters that host nothing last."""
    reason: str = UNSCHEDULABLE
    """Of the condition, if there is no host."""
    message: str = ""
    """Why there is no host; empty if there is one."""


def decision_of(outcome: Outcome, key: WorkloadKey, *, complete: bool = False) -> Decision:
    """Return the decision. Its rejections fit into a status; with ``complete``, they name every cluster."""
    return replace(outcome.derive(_complete_decision if complete else _decision), key=key)


def _complete_decision(outcome: Outcome) -> Decision:
    return _decision(outcome, complete=True)


def _decision(outcome: Outcome, *, complete: bool = False) -> Decision:
    workload: Any = outcome.context.workload
    status, key = outcome.status, workload.key
    if status.aborts or status.rejects:
        return Decision(
            key=key,
            host=None,
            reason=MISCONFIGURED
            if status.code is Code.MISCONFIGURED
            else _REASONS.get(status.plugin, UNSCHEDULABLE),
            message=status.message,
            rejections=(
                HostingRejection(
                    reason=status.message[:LONGEST_REASON],
                    plugin=status.plugin,
                    count=bitmap.count(outcome.snapshot.live),
                ),
            ),
        )
    rejections = tuple(_rejections(outcome, complete=complete))
    if not len(outcome.selected_rows):
        return Decision(key=key, host=None, rejections=rejections, message=_message(outcome, rejections))
    row = int(outcome.selected_rows[0])
    details = outcome.details
    at = details.rows.tolist().index(row)
    return Decision(
        key=key,
        host=host_key(outcome.snapshot.host(row)),
        total=int(details.totals[at]),
        scores=tuple(
            HostingScore(plugin=scored.plugin, score=int(scored.scores[at]), weight=scored.weight)
            for scored in details.scored
        ),
        rejections=rejections,
    )


def row_reasons(outcome: Outcome) -> Iterator[tuple[int, str, str]]:
    """Yield row, plugin and reason of each hosting cluster that does not qualify."""
    hosting = hosting_rows(clusters_of(outcome.snapshot))
    details = outcome.details
    for row in bitmap.rows_of(hosting & ~details.eligible).tolist():
        status = rejection(outcome.context, outcome.plugins, row)
        if status is not None:
            yield row, status.plugin, "; ".join(status.reasons)
    # The stages of the cycle name the plugin: trying all of them again takes longer than the cycle.
    before = hosting & details.eligible
    for stage, calls in zip(details.stages, outcome.plugins.filters, strict=True):
        rejected = before & ~stage.survivors
        for row in bitmap.rows_of(rejected).tolist() if rejected.any() else ():
            status = calls.plugin.filter(outcome.context, row)
            yield row, status.plugin, "; ".join(status.reasons)
        before = before & stage.survivors
    spare = outcome.chooser.plugin if outcome.chooser is not None else None
    if isinstance(spare, SpareHosts) and not len(outcome.selected_rows):
        for row in details.rows.tolist():
            words = spare.objection(outcome.context, row)
            if words is not None:
                yield row, SPARE_HOSTS, words


def _rejections(outcome: Outcome, *, complete: bool) -> Iterator[HostingRejection]:
    clusters_shown = None if complete else CLUSTERS_SHOWN
    names = outcome.snapshot.hosts.names
    groups: dict[tuple[str, str], list[str]] = {}
    for row, plugin, reason in row_reasons(outcome):
        groups.setdefault((plugin, reason[:LONGEST_REASON]), []).append(names[row])
    others = outcome.snapshot.live & ~hosting_rows(clusters_of(outcome.snapshot))
    number = bitmap.count(others)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    if not complete:
        ordered = ordered[: MOST_REJECTIONS - 1 if number else MOST_REJECTIONS]
    for (plugin, reason), clusters in ordered:
        yield HostingRejection(
            reason=reason,
            plugin=plugin,
            count=len(clusters),
            clusters=tuple(sorted(clusters)[:clusters_shown]),
        )
    if number:
        # They are counted as a set: a fleet may have thousands of them for each hosting cluster.
        rows = bitmap.rows_of(others)
        # By rank, not name by name: all hosting clusters may come before the first one of them.
        ranks = outcome.snapshot.hosts.rank[rows]
        first = ranking.best(rows, np.zeros(len(rows), dtype=np.int64), ranks, wanted=clusters_shown)
        yield HostingRejection(
            reason=NOT_HOSTING,
            plugin=HOSTING_CLUSTER,
            count=number,
            clusters=tuple(names[row] for row in first.tolist()),
        )


def _message(outcome: Outcome, rejections: tuple[HostingRejection, ...]) -> str:
    if not rejections:
        return NO_HOSTS
    reasons = "; ".join(
        OF_CLUSTERS.format(count=rejection.count, reason=rejection.reason)
        for rejection in rejections[:REASONS_SHOWN]
    )
    return NONE_QUALIFIES.format(examined=bitmap.count(outcome.snapshot.live), reasons=reasons)
