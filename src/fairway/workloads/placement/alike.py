"""Which Placements are alike: they differ in their names only, so that one cycle answers for all.

Plugins that look at the decision of a Placement itself (Balance, Steady, taints that only keep new clusters away, score
debits) say so by reading its own decisions; such cycles are not shared. Neither are those with CEL expressions, whose
work is limited for each Placement, with filters whose results change by time (tolerations that end, scores whose
absence excludes a cluster), or with plugins of others.
"""

from collections.abc import Hashable
from typing import Final

import msgspec

from fairway.engine.choice import BestHosts
from fairway.engine.memo import Memo
from fairway.engine.points import CycleWorkload
from fairway.engine.profile import Profile, plugins_of
from fairway.hosts.clusters import cells
from fairway.workloads.placement.plugins import contract
from fairway.workloads.placement.plugins.predicate import has_expressions
from fairway.workloads.placement.plugins.score_debits import SCORE_DEBITS
from fairway.workloads.placement.plugins.trust import EXPIRED_SCORES, MISSING_SCORE
from fairway.workloads.placement.profile import placement_registry
from fairway.workloads.placement.workload import PlacementWorkload
from kubewire.api.meta import unreadable_within

ANNOTATIONS: Final = (MISSING_SCORE, EXPIRED_SCORES, SCORE_DEBITS, *contract.ANNOTATIONS)
"""Annotations that plugins read."""


class AlikePlacements:
    def __init__(self, profile: Profile) -> None:
        self._profile = profile if _is_built_in(profile) else None

    def signature(self, workload: CycleWorkload, profile: Profile, /) -> Hashable | None:
        if profile is not self._profile or not isinstance(workload, PlacementWorkload):
            return None
        return workload.derive(_signature).value

    def reads_own(self, workload: CycleWorkload, memo: Memo, /) -> bool:
        return (cells.OWN_DECISIONS, workload.namespace, workload.name) in memo.sources.shared


class _Signature:
    __slots__ = ("value",)

    def __init__(self, value: Hashable | None) -> None:
        self.value = value


def _signature(workload: PlacementWorkload) -> _Signature:
    spec, annotations = workload.placement.spec, workload.placement.metadata.annotations
    if (
        unreadable_within(workload.placement, "spec") is not None
        or has_expressions(workload)
        or workload.trust.debits
        or workload.trust.excludes
        or any(toleration.tolerationSeconds is not None for toleration in spec.tolerations)
    ):
        return _Signature(None)
    read = tuple(annotations.get(name) for name in ANNOTATIONS)
    # With the namespace: its bindings decide which cluster sets the Placement may use.
    return _Signature((workload.namespace, msgspec.json.encode(spec), *read))


def _is_built_in(profile: Profile) -> bool:
    registry = placement_registry()
    kinds = {BestHosts, *map(registry.kind, registry.names())}
    plugins = (*plugins_of(profile), *profile.scorers.registered.values())
    return all(type(plugin) in kinds for plugin in plugins)
