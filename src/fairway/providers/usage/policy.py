"""Policy: which nodes and pods count."""

import re
from dataclasses import dataclass
from typing import Final, Literal

from fairway.api.node import CONTROL_PLANE_LABELS, NOT_READY_TAINTS, UNSCHEDULABLE_TAINT, NodeTaint
from fairway.providers.usage.objects import NodeRoom, PodUse

WAITING: Final = ""

ControlPlane = Literal["by-taint", "count", "ignore"]

BAD_TOLERATION: Final = (
    '{given!r} is not a taint: write its key or "key=value", followed by ":NoSchedule" or ":NoExecute" '
    "for a single effect"
)

_DERIVED_TAINTS: Final = (UNSCHEDULABLE_TAINT, *NOT_READY_TAINTS)
"""Taints that a controller adds, with a delay, to cordoned and unready nodes; the node's own fields decide instead."""

_TOLERATION: Final = re.compile(
    r"(?P<key>[A-Za-z0-9][-A-Za-z0-9_./]*)(=(?P<value>[-A-Za-z0-9_.]*))?(:(?P<effect>NoSchedule|NoExecute))?"
)


@dataclass(frozen=True, slots=True)
class Toleration:
    """None matches any value."""

    key: str
    value: str | None = None
    effect: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Toleration":
        """Raises ValueError."""
        match = _TOLERATION.fullmatch(text)
        if match is None:
            raise ValueError(BAD_TOLERATION.format(given=text))
        return cls(match["key"], match["value"], match["effect"])

    def matches(self, taint: NodeTaint) -> bool:
        return (
            self.key == taint.key
            and self.value in (None, taint.value)
            and self.effect in (None, taint.effect)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingPolicy:
    """By default, nodes that accept ordinary pods count."""

    not_ready: bool = False
    cordoned: bool = False
    tainted: bool = False
    control_plane: ControlPlane = "by-taint"
    tolerated: tuple[Toleration, ...] = ()
    terminating: bool = True
    """Whether terminating pods count."""

    def repelled(self, node: NodeRoom) -> frozenset[str] | None:
        """Return the keys of taints that repel ordinary pods; None if the node accepts no pods.

        Nodes with devices are often tainted with the device's name. Pods that request the device tolerate it, by an
        admission plugin, so such a node has room for them only.
        """
        if not (node.ready or self.not_ready) or (node.cordoned and not self.cordoned):
            return None
        if node.control_plane and self.control_plane == "ignore":
            return None
        if self.tainted or not node.repelling:
            return frozenset()
        return frozenset(taint.key for taint in node.repelling if not self._tolerates(taint))

    def _tolerates(self, taint: NodeTaint) -> bool:
        if taint.key in _DERIVED_TAINTS:
            return True
        if taint.key in CONTROL_PLANE_LABELS and self.control_plane == "count":
            return True
        return any(toleration.matches(taint) for toleration in self.tolerated)

    def place(self, pod: PodUse) -> str | None:
        """Return the node whose resources the pod uses, ``WAITING`` if it needs one, None if it uses nothing."""
        if pod.over:
            return None
        if pod.terminating and not (pod.node and self.terminating):
            return None
        return WAITING if not (pod.node or pod.gated) else pod.node or None


UPSTREAM: Final = CountingPolicy(not_ready=True, tainted=True, terminating=False)
"""As OCM's add-on counts: all nodes that are not cordoned, and no terminating pods."""
