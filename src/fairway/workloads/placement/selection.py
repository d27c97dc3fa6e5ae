"""The clusters that a cycle selected, for the plugins that commit them."""

from dataclasses import dataclass
from typing import Final

from fairway.api.cluster import ManagedCluster
from fairway.engine.outcome import Outcome
from fairway.engine.state import CycleState
from fairway.engine.workload import HostKey
from fairway.workloads.placement.workload import PlacementWorkload

PAGES: Final = "fairway.dev/pages"
"""Key of the cycle state under which a Bind plugin finds the pages to write: a tuple of ``placement.pages.Page``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    workload: PlacementWorkload
    hosts: tuple[HostKey, ...]
    """Best first."""
    state: CycleState
    """What the plugins of the cycle wrote."""


def host_key(cluster: ManagedCluster) -> HostKey:
    return HostKey.of(cluster.metadata)


def selection_of(outcome: Outcome, workload: PlacementWorkload, *, pages: object) -> Selection:
    objects = outcome.snapshot.hosts.objects
    state = outcome.context.state.clone()  # the memory of incremental cycles shares it
    state.write(PAGES, pages)
    return Selection(
        workload=workload,
        hosts=tuple(host_key(objects[row]) for row in outcome.selected_rows.tolist()),
        state=state,
    )
