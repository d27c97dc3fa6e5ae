"""The parts of a pod's spec that restrict or prefer nodes: affinity, tolerations and topology spread constraints.

A list that is absent differs from an empty one where kube-scheduler treats them differently.
"""

from typing import Final

from msgspec import Struct

from fairway.api.node import NO_EXECUTE, NO_SCHEDULE, NodeTaint
from kubewire.api.annotation import Int32, Int64
from kubewire.api.selector import LabelSelector

GT: Final = "Gt"
LT: Final = "Lt"
"""Operators of node selectors and tolerations, besides those of label selectors."""
EXISTS: Final = "Exists"
EQUAL: Final = "Equal"

PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
REPELLING: Final = (NO_SCHEDULE, NO_EXECUTE)
"""Effects of taints that keep a pod off a node."""

DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
HONOR: Final = "Honor"
IGNORE: Final = "Ignore"


class NodeSelectorRequirement(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Matches if all requirements are met; a term without requirements matches no node."""

    matchExpressions: tuple[NodeSelectorRequirement, ...] = ()
    matchFields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Matches if one of the terms does."""

    nodeSelectorTerms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None
    preferredDuringSchedulingIgnoredDuringExecution: tuple[PreferredSchedulingTerm, ...] | None = None


class PodAffinityTerm(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    labelSelector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topologyKey: str = ""
    namespaceSelector: LabelSelector | None = None
    matchLabelKeys: tuple[str, ...] = ()
    mismatchLabelKeys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    weight: Int32 = 0
    podAffinityTerm: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The same fields serve as podAffinity and as podAntiAffinity."""

    requiredDuringSchedulingIgnoredDuringExecution: tuple[PodAffinityTerm, ...] = ()
    preferredDuringSchedulingIgnoredDuringExecution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    nodeAffinity: NodeAffinity | None = None
    podAffinity: PodAffinity | None = None
    podAntiAffinity: PodAffinity | None = None


class TopologySpreadConstraint(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    maxSkew: Int32 = 0
    topologyKey: str = ""
    whenUnsatisfiable: str = ""
    labelSelector: LabelSelector | None = None
    minDomains: Int32 | None = None
    nodeAffinityPolicy: str | None = None
    nodeTaintsPolicy: str | None = None
    matchLabelKeys: tuple[str, ...] = ()


class Toleration(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    tolerationSeconds: Int64 | None = None

    def tolerates(self, taint: NodeTaint) -> bool:
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        if self.operator in ("", EQUAL):
            return self.value == taint.value
        if self.operator in (GT, LT):
            own, taint_value = parse_integer(self.value), parse_integer(taint.value)
            if own is None or taint_value is None:
                return False
            return taint_value > own if self.operator == GT else taint_value < own
        return self.operator == EXISTS


def parse_integer(text: str) -> int | None:
    """Parse as Go's ``strconv.ParseInt`` does, with 64 bits; None if it is not a whole number."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None
