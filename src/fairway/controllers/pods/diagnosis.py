"""Why a pod was not scheduled, in the words of kube-scheduler: ``0/5 nodes are available: 3 Insufficient cpu, …``."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from fairway.engine.cycle import filter_groups
from fairway.engine.outcome import Outcome
from fairway.engine.status import Code
from fairway.hosts import bitmap
from fairway.workloads.pods.workload import excluded_by

NO_NODES: Final = "no nodes available to schedule pods"
AVAILABLE: Final = "0/{nodes} nodes are available"


def fit_error(outcome: Outcome) -> str:
    """Return the message of a cycle that found no node."""
    nodes = bitmap.count(outcome.snapshot.live)
    if not nodes:
        return NO_NODES
    message = AVAILABLE.format(nodes=nodes)
    if outcome.status.rejects:
        message += f": {outcome.status.message}."
    elif reasons := _histogram(outcome):
        counted = sorted(f"{count} {reason}" for reason, count in reasons.items())
        message += f": {', '.join(counted)}."
    relief = outcome.relief
    if relief is not None and relief.code is not Code.SUCCESS and relief.message:
        message += f" {relief.message}"
    return message


def commit_error(reasons: Iterable[str]) -> str:
    """Return the message of a pod that Reserve or Permit rejected on its node."""
    return f"{AVAILABLE.format(nodes=1)}: {', '.join(f'1 {reason}' for reason in reasons)}."


def _histogram(outcome: Outcome) -> Counter[str]:
    """Count the nodes by the reasons of the first plugin that rejects each."""
    details = outcome.details
    counts: Counter[str] = Counter()
    excluded = bitmap.count(outcome.snapshot.live) - bitmap.count(details.eligible)
    plugins = outcome.plugins
    if excluded:
        restricting = (
            calls.plugin.name
            for calls, admitted in zip(plugins.pre_filters, plugins.admitted, strict=True)
            if admitted is not None
        )
        counts[excluded_by(*restricting)] += excluded
    groups = filter_groups(outcome.context, plugins.filters, details.eligible, details.stages)
    for status, rows in groups:
        for reason in status.reasons:
            counts[reason] += len(rows)
    return counts
