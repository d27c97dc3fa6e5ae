"""The decision about one request, in words: the selected host with its scores, or why there is none."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fairway.api.hosted_request import HostingRejection, HostingScore
from fairway.engine.cycle import rejection
from fairway.engine.outcome import Outcome
from fairway.engine.status import Code
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.fleet import bitmap
from fairway.hosting.plugins.hosting_claim import NAME as HOSTING_CLUSTER
from fairway.hosting.plugins.spare_hosts import NAME as SPARE_HOSTS
from fairway.hosting.plugins.spare_hosts import SpareHosts
from fairway.hosting.state import host_key

CLUSTERS_SHOWN: Final = 5
MOST_REJECTIONS: Final = 16
LONGEST_REASON: Final = 1000
NO_HOSTS: Final = "no hosting cluster qualifies: the hub has no ManagedCluster"
NONE_QUALIFIES: Final = "no hosting cluster qualifies ({examined} examined): {reasons}"
REASONS_SHOWN: Final = 3
OF_CLUSTERS: Final = "{count} {reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    key: WorkloadKey
    host: HostKey | None
    """None if no host qualifies."""
    total: int | None = None
    scores: tuple[HostingScore, ...] = ()
    rejections: tuple[HostingRejection, ...] = ()
    """Most frequent first; clusters that host nothing last."""
    misconfigured: bool = False
    message: str = ""
    """Why there is no host; empty if there is one."""


def decision_of(outcome: Outcome, key: WorkloadKey) -> Decision:
    status = outcome.status
    if status.aborts or status.rejects:
        return Decision(
            key=key,
            host=None,
            misconfigured=status.code is Code.MISCONFIGURED,
            message=status.message,
            rejections=(
                HostingRejection(
                    reason=status.message[:LONGEST_REASON],
                    plugin=status.plugin,
                    count=bitmap.count(outcome.snapshot.live),
                ),
            ),
        )
    rejections = tuple(_rejections(outcome))
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
            HostingScore(plugin=each.plugin, score=int(each.scores[at]), weight=each.weight)
            for each in details.scored
        ),
        rejections=rejections,
    )


def row_reasons(outcome: Outcome) -> Iterator[tuple[int, str, str]]:
    """Yield row, plugin and reason of each host that does not qualify."""
    spare = outcome.chooser.plugin if outcome.chooser is not None else None
    for row in bitmap.rows_of(outcome.snapshot.live).tolist():
        status = rejection(outcome.context, outcome.plugins, row)
        if status is not None:
            yield row, status.plugin, "; ".join(status.reasons)
        elif isinstance(spare, SpareHosts) and not len(outcome.selected_rows):
            words = spare.objection(outcome.context, row)
            if words is not None:
                yield row, SPARE_HOSTS, words


def _rejections(outcome: Outcome) -> Iterator[HostingRejection]:
    names = outcome.snapshot.hosts.names
    groups: dict[tuple[str, str], list[str]] = {}
    for row, plugin, reason in row_reasons(outcome):
        groups.setdefault((plugin, reason[:LONGEST_REASON]), []).append(names[row])
    ordered = sorted(groups.items(), key=lambda item: (item[0][0] == HOSTING_CLUSTER, -len(item[1]), item[0]))
    for (plugin, reason), clusters in ordered[:MOST_REJECTIONS]:
        yield HostingRejection(
            reason=reason,
            plugin=plugin,
            count=len(clusters),
            clusters=tuple(sorted(clusters)[:CLUSTERS_SHOWN]),
        )


def _message(outcome: Outcome, rejections: tuple[HostingRejection, ...]) -> str:
    if not rejections:
        return NO_HOSTS
    reasons = "; ".join(
        OF_CLUSTERS.format(count=each.count, reason=each.reason) for each in rejections[:REASONS_SHOWN]
    )
    return NONE_QUALIFIES.format(examined=bitmap.count(outcome.snapshot.live), reasons=reasons)
